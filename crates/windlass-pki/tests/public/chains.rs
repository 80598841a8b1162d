//! Every chain in front of the real `openssl`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use windlass_pki::table::{AUTHORITIES, LEAVES, MACHINE_LEAVES};
use windlass_pki::{Authority, Certificate, KeySource as _, MachineIdentity, Pki, SeededKeys, Usages};
use windlass_spec::MachineName;

use crate::support::{NOW, files, pki, spec};

/// Runs `openssl` with some input; its output, or what it said instead.
#[expect(clippy::disallowed_methods, reason = "a test of this crate's output, below the crate that runs commands")]
pub fn openssl(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
    let mut command = Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("openssl is installed");
    // Commands that do not read their input may be gone by now.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    let output = child.wait_with_output().expect("it was started");
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The set as files in a directory of its own.
#[expect(clippy::disallowed_methods, reason = "files for openssl, in a directory that goes away")]
fn written(pki: &Pki) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("pki")).unwrap();
    for (path, bytes) in files(pki) {
        std::fs::write(dir.path().join(path), bytes).unwrap();
    }
    dir
}

fn verify(dir: &Path, authority: Authority, purpose: &str, certificate: &Certificate) -> Result<Vec<u8>, String> {
    let root = dir.join(format!("pki/{}.crt", authority.row().name));
    let time = NOW.unix_timestamp().to_string();
    let arguments =
        ["verify", "-x509_strict", "-purpose", purpose, "-attime", &time, "-CAfile", root.to_str().unwrap()];
    openssl(&arguments, certificate.to_pem().as_bytes())
}

/// A leaf verifies for its purposes under its own authority, and for nothing else under nobody else.
fn assert_chain(dir: &Path, name: &str, certificate: &Certificate, signer: Authority, usages: Usages) {
    let (server, client) = match usages {
        Usages::Server => (true, false),
        Usages::Client => (false, true),
        Usages::Both => (true, true),
    };
    for (purpose, may) in [("sslserver", server), ("sslclient", client)] {
        let answer = verify(dir, signer, purpose, certificate);
        assert_eq!(answer.is_ok(), may, "{name} as {purpose}: {answer:?}");
        for other in AUTHORITIES.iter().filter(|row| row.authority != signer) {
            assert!(verify(dir, other.authority, purpose, certificate).is_err(), "{name} under {}", other.name);
        }
    }
}

#[test]
fn every_chain_verifies_for_its_purposes_and_for_no_other() {
    let pki = pki();
    let dir = written(pki);
    for row in &LEAVES {
        assert_chain(dir.path(), row.name, pki.certificate(row.leaf), row.signer, row.usages);
    }
}

#[test]
fn every_chain_of_a_machine_verifies_for_its_purposes_and_for_no_other() {
    let (pki, mut keys) = (pki(), SeededKeys::new("machine"));
    let dir = written(pki);
    let name = MachineName::parse("master-0").unwrap();
    let machine = MachineIdentity { name, address: [10, 0, 0, 10].into(), etcd_index: Some(0) };
    for row in &MACHINE_LEAVES {
        let template = row.leaf.template(&spec("demo.test"), &machine).unwrap();
        let signer = pki.signer(row.signer).unwrap();
        let certificate = signer.sign(&template, keys.key(row.name).public(), keys.serial(row.name), NOW).unwrap();
        assert_chain(dir.path(), row.name, &certificate, row.signer, row.usages);
    }
}

#[test]
fn openssl_reads_every_key_and_finds_the_public_half_in_its_neighbour() {
    let files = files(pki());
    for (path, pem) in files.iter().filter(|(path, _)| path.ends_with(".key")) {
        assert!(pem.starts_with(b"-----BEGIN PRIVATE KEY-----\n"), "{path}");
        openssl(&["pkey", "-check", "-noout"], pem).unwrap_or_else(|error| panic!("{path}: {error}"));
        let public = openssl(&["pkey", "-pubout"], pem).unwrap();
        let neighbour = match files.get(&path.replace(".key", ".crt")) {
            Some(certificate) => openssl(&["x509", "-noout", "-pubkey"], certificate).unwrap(),
            None => files[&path.replace(".key", ".pub")].clone(),
        };
        assert_eq!(public, neighbour, "{path}");
    }
}

#[test]
fn an_authority_is_marked_as_one_and_a_leaf_as_none() {
    let show = |certificate: &Certificate| {
        let text = openssl(&["x509", "-noout", "-text"], certificate.to_pem().as_bytes()).unwrap();
        String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for row in &AUTHORITIES {
        let text = show(pki().certificate(row.authority));
        for part in [
            &format!("Subject: O = demo, CN = {}", row.common_name),
            "X509v3 Basic Constraints: critical CA:TRUE, pathlen:0",
            "X509v3 Key Usage: critical Digital Signature, Certificate Sign, CRL Sign",
            "X509v3 Subject Key Identifier:",
            "Signature Algorithm: ecdsa-with-SHA256",
            "NIST CURVE: P-256",
        ] {
            assert!(text.contains(part), "{} lacks {part}: {text}", row.name);
        }
    }
    for row in &LEAVES {
        let text = show(pki().certificate(row.leaf));
        for part in [
            "X509v3 Basic Constraints: critical CA:FALSE",
            "X509v3 Key Usage: critical Digital Signature X509v3",
            "X509v3 Subject Key Identifier:",
            "X509v3 Authority Key Identifier:",
        ] {
            assert!(text.contains(part), "{} lacks {part}: {text}", row.name);
        }
    }
}
