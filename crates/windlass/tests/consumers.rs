//! What `prepare` makes, judged by the programs that will read it: Ignition, OpenSSL and systemd.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};

use windlass_steps::host::{Mode, Output, cmd, make_dir, run_blocking, write_file};

const SPECS: &[&str] = &[
    include_str!("../../windlass-install/tests/golden/minimal/spec.yaml"),
    include_str!("../../windlass-install/tests/golden/volumes/spec.yaml"),
    include_str!("../../windlass-install/tests/golden/groups/spec.yaml"),
];

struct Prepared {
    _temp: tempfile::TempDir,
    dir: PathBuf,
}

fn prepared(spec: &str) -> Prepared {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("c");
    let command =
        cmd(env!("CARGO_BIN_EXE_windlass")).arg("prepare").arg("--dir").arg(&dir).args(["--spec", "-"]).stdin(spec);
    run_blocking(command).unwrap();
    Prepared { _temp: temp, dir }
}

fn find(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, ending, found);
        } else if path.display().to_string().ends_with(ending) {
            found.push(path);
        }
    }
}

fn all(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    find(dir, ending, &mut found);
    found.sort();
    found
}

fn run(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Output {
    run_blocking(cmd(program).args(arguments).accept(1).accept(2)).unwrap()
}

fn ignition_validate() -> PathBuf {
    let places = ["/usr/bin/ignition-validate", "/usr/sbin/ignition-validate", "/usr/libexec/ignition-validate"];
    let found = places.iter().map(PathBuf::from).find(|p| p.exists());
    found.expect("ignition-validate is there after `windlass host setup`")
}

#[test]
fn ignition_accepts_every_config_and_rejects_a_broken_one() {
    let validate = ignition_validate();
    for spec in SPECS {
        let place = prepared(spec);
        let configs = all(&place.dir, ".ign");
        assert!(configs.len() >= 3, "{configs:?}");
        for config in &configs {
            let output = run(&validate, &[config.to_str().unwrap()]);
            assert_eq!(output.code, 0, "{}: {} {}", config.display(), output.stderr, output.text().unwrap());
        }
        let broken = place.dir.join("broken.ign");
        let text = fs::read_to_string(&configs[0]).unwrap().replace("3.3.0", "9.9.9");
        write_file(&broken, text, Mode::PRIVATE_FILE).unwrap();
        assert_ne!(run(&validate, &[broken.to_str().unwrap()]).code, 0);
    }
}

#[test]
fn openssl_verifies_every_certificate_against_its_authority_and_no_other() {
    let place = prepared(SPECS[0]);
    let pki = place.dir.join("assets/pki");
    let list =
        cmd(env!("CARGO_BIN_EXE_windlass")).arg("certs").arg("list").arg("--dir").arg(&place.dir).args(["-o", "json"]);
    let list: serde_json::Value = serde_json::from_slice(&run_blocking(list).unwrap().stdout).unwrap();
    let certificates = list["certificates"].as_array().unwrap();
    assert_eq!(certificates.len(), all(&pki, ".crt").len());
    let path = |name: &str| pki.join(format!("{name}.crt")).display().to_string();
    for certificate in certificates {
        let (name, signer) = (certificate["name"].as_str().unwrap(), certificate["signer"].as_str().unwrap());
        let good = run("openssl", &["verify", "-x509_strict", "-CAfile", &path(signer), &path(name)]);
        assert_eq!(good.code, 0, "{name}: {}", good.stderr);
        let other = if signer == "etcd-ca" { "ca" } else { "etcd-ca" };
        let bad = run("openssl", &["verify", "-CAfile", &path(other), &path(name)]);
        assert_ne!(bad.code, 0, "{name} must not be trusted by {other}");
        let key = run("openssl", &["pkey", "-in", &pki.join(format!("{name}.key")).display().to_string(), "-pubout"]);
        let public = run("openssl", &["x509", "-in", &path(name), "-noout", "-pubkey"]);
        assert_eq!(key.stdout, public.stdout, "{name}: the key is not the certificate's");
    }
}

/// A root with the programs that units start, so that systemd looks at our units and not at this host.
fn unit_root(units: &[(String, String)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let system = root.path().join("etc/systemd/system");
    make_dir(&system, Mode::PUBLIC_DIR).unwrap();
    for (name, text) in units {
        write_file(system.join(name), text, Mode::PUBLIC).unwrap();
        for line in text.lines() {
            let command = line.strip_prefix("Exec").and_then(|l| l.split_once('=')).map(|(_, command)| command);
            let program = command.and_then(|c| c.split_whitespace().next()).filter(|p| p.starts_with('/'));
            if let Some(program) = program {
                let path = root.path().join(program.trim_start_matches('/'));
                make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
                write_file(path, "#!/bin/sh\n", Mode::EXECUTABLE).unwrap();
            }
        }
    }
    let lib = root.path().join("usr/lib/systemd/system");
    make_dir(&lib, Mode::PUBLIC_DIR).unwrap();
    for standard in
        ["multi-user", "network-online", "network", "network-pre", "basic", "sysinit", "shutdown", "local-fs", "paths"]
    {
        write_file(lib.join(format!("{standard}.target")), format!("[Unit]\nDescription={standard}\n"), Mode::PUBLIC)
            .unwrap();
    }
    write_file(lib.join("systemd-sysext.service"), "[Service]\nExecStart=/bin/touch x\n", Mode::PUBLIC).unwrap();
    root
}

fn verify(units: &[(String, String)]) -> Output {
    let root = unit_root(units);
    let names: Vec<&str> = units.iter().map(|(name, _)| name.as_str()).collect();
    let root_flag = format!("--root={}", root.path().display());
    run("systemd-analyze", &[&["verify", "--man=no", "--recursive-errors=yes", &root_flag], &names[..]].concat())
}

#[test]
fn systemd_accepts_every_unit_and_rejects_a_broken_one() {
    for spec in SPECS {
        let place = prepared(spec);
        for config in all(&place.dir.join("assets"), ".ign") {
            let value: serde_json::Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
            let entries = value["systemd"]["units"].as_array().cloned().unwrap_or_default();
            if entries.is_empty() {
                continue;
            }
            let field = |unit: &serde_json::Value, key: &str| unit[key].as_str().unwrap().to_owned();
            // One without contents is the machine's own, and only enabled.
            let own = entries.iter().filter(|unit| !unit["contents"].is_null());
            let mut units: Vec<_> = own.map(|u| (field(u, "name"), field(u, "contents"))).collect();
            // A group's units order themselves around those of the role.
            for (name, text) in [
                ("kubelet.service", "[Service]\nExecStart=/bin/touch x\n"),
                ("containerd.service", "[Service]\nExecStart=/bin/touch x\n"),
            ] {
                if units.iter().all(|(n, _)| n != name) {
                    units.push((name.to_owned(), text.to_owned()));
                }
            }
            let output = verify(&units);
            assert!(output.code == 0 && output.stderr.is_empty(), "{}: {}", config.display(), output.stderr);
        }
    }
    let broken = [("broken.service".to_owned(), "[Service]\nExecStart=/bin/touch x\nRestartt=always\n".to_owned())];
    let output = verify(&broken);
    assert!(output.stderr.contains("Restartt"), "{}", output.stderr);
}
