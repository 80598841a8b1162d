use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use clap::Parser as _;
use tokio::net::TcpListener;
use windlass_artifacts::addon::{
    AddonVersion, Board, Extension, OsVersion, Publication, PublishedPackage, Runtime, lay_out_extension,
    pack_extension, publish,
};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::signature::SigningKeys;
use windlass_spec::KubeVersion;
use windlass_steps::clock::Clock as _;
use windlass_steps::host::{ScriptedHost, make_dir, write_file};

use super::*;
use crate::args::{Arguments, Command};
use crate::record::{State, collect};

/// A machine as Ignition left it, its metadata service and its bucket.
pub(super) struct World {
    pub(super) dir: tempfile::TempDir,
    pub(super) server: SocketAddr,
    extensions: BTreeMap<String, (Extension, Digest)>,
}

impl World {
    pub(super) async fn of(role: &str, index: Option<u32>) -> World {
        let tags = index.map(|i| format!(r#""windlass.dev/etcd-index":"{i}""#)).unwrap_or_default();
        let said = format!(
            r#"{{"name":"machine-0","cluster":"demo-abcde","domain":"demo.test","role":"{role}","address":"10.0.0.2","tags":{{{tags}}},"index":0}}"#
        );
        let dir = tempfile::tempdir().unwrap();
        let bucket = dir.path().join("bucket");
        make_dir(&bucket, Mode::PUBLIC_DIR).unwrap();
        let extensions = fill(dir.path(), &bucket);
        let give = move |request: Request| async move {
            let path = request.uri().path().trim_start_matches('/');
            // Who asks for this host by its name gets what he wants; others may be sent to it.
            let by_name = request.headers()[HOST].to_str().is_ok_and(|host| host.starts_with("localhost"));
            match read_file(bucket.join(format!("{path}.moved")), 1 << 10) {
                Ok(to) if !by_name => Ok(Redirect::to(std::str::from_utf8(&to).unwrap()).into_response()),
                _ => read_file(bucket.join(path), 1 << 20)
                    .map(IntoResponse::into_response)
                    .map_err(|_| StatusCode::NOT_FOUND),
            }
        };
        let router = Router::new().route("/v1/identity", get(move || async move { said })).fallback(give);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let world = World { dir, server, extensions };
        world.leave_installer_files();
        world
    }

    fn leave_installer_files(&self) {
        let places = self.places();
        for (name, text) in [
            ("kubelet.env", "KUBELET_VERSION=v1.36.3\nKUBELET_ARGS='--v=2'\n"),
            ("pause-image", "registry.example/pause:3.10\n"),
            ("manifests/etcd.yaml", "index: @ETCD_INDEX@\n"),
            ("runtime-mappings.yaml", &windlass_assets::config::runtime_mappings()),
        ] {
            files::write(places.installer().join(name), text, Mode::PUBLIC).unwrap();
        }
        files::write(places.own_status(), "CapEff:\t0\nCapBnd:\t0\n", Mode::PUBLIC).unwrap();
        files::write(places.os_release(), "ID=debian\nVERSION_ID=\"1\"\n", Mode::PUBLIC).unwrap();
    }

    pub(super) fn places(&self) -> Places {
        Places::below(self.dir.path().join("machine"))
    }

    /// Puts extensions on the machine as it would have been made with them.
    pub(super) fn seed(&self, names: &[&str]) {
        let places = self.places();
        for name in names {
            let (extension, hash) = &self.extensions[*name];
            make_dir(places.extensions(), Mode::PUBLIC_DIR).unwrap();
            lay_out_extension(extension, hash, &places.extensions()).unwrap();
        }
    }

    pub(super) async fn run(&self, commands: &ScriptedHost, words: &[&str]) -> Result<(), BootstrapError> {
        let mut record = Recorder::begin(&self.places(), "bootstrap", "learn-facts");
        prepare(&self.places(), &self.command(words), self.server, commands, &mut record).await
    }

    /// The flags of the node flow, with this world's bucket.
    pub(super) fn command(&self, words: &[&str]) -> args::Bootstrap {
        let url = format!(
            "--torcx-manifest-url=http://{}/{{{{.Board}}}}/{{{{.OSVersion}}}}/torcx_manifest.json",
            self.server
        );
        let words: Vec<&str> = ["windlass-node", "bootstrap", &url].into_iter().chain(words.iter().copied()).collect();
        let Command::Bootstrap(command) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("another command")
        };
        command
    }

    pub(super) fn merged(&self) -> Vec<String> {
        extension::list(&self.places()).unwrap().iter().map(extension::Installed::directory).collect()
    }
}

/// Publishes both versions of everything for both operating systems, signed by keys that the machine trusts.
fn fill(dir: &std::path::Path, bucket: &std::path::Path) -> BTreeMap<String, (Extension, Digest)> {
    let now = SystemClock::new().now();
    let keys = SigningKeys::generate(&mut ChaCha20Rng::seed_from_u64(3), "test", now - time::Duration::HOUR).unwrap();
    let places = Places::below(dir.join("machine"));
    files::write(places.addon_keys(), &keys.openpgp.public_armor().unwrap(), Mode::PUBLIC).unwrap();
    files::write(places.addon_key(), &keys.minisign.public().to_text(), Mode::PUBLIC).unwrap();
    let mut all = BTreeMap::new();
    for number in ["1", "2"] {
        let mut packages = Vec::new();
        for extension in KubeVersion::ALL.iter().flat_map(|version| extensions(dir, *version, number)) {
            let archive = dir.join(extension.directory());
            let packed = pack_extension(&extension, std::fs::File::create(&archive).unwrap()).unwrap();
            let digest = Digest::of_reader(Algorithm::Sha256, std::fs::File::open(&archive).unwrap()).unwrap();
            let (name, version) = (extension.package.clone(), extension.version.clone());
            packages.push(PublishedPackage { name, version, archive, digest });
            all.insert(extension.directory(), (extension, packed.hash));
        }
        let os_version = OsVersion::parse(number).unwrap();
        let expires = now + time::Duration::DAY;
        let publication =
            Publication { board: Board::amd64(), os_version, packages, expires, at_least: 1, keys: &keys, now };
        publish(bucket, &publication).unwrap();
    }
    all
}

fn extensions(dir: &std::path::Path, version: KubeVersion, os: &str) -> [Extension; 2] {
    let program = |name: &str| -> PathBuf {
        let path = dir.join(format!("{name}-{version}"));
        write_file(&path, format!("{name} {version}"), Mode::EXECUTABLE).unwrap();
        path
    };
    let os = OsVersion::parse(os).unwrap();
    let runtime = Runtime {
        containerd: program("containerd"),
        shim: program("shim"),
        ctr: program("ctr"),
        runc: program("runc"),
    };
    let number = AddonVersion::parse(version.companions().containerd).unwrap();
    [Extension::containerd(number, os.clone(), &runtime), Extension::kubelet(&version, os, program("kubelet")).unwrap()]
}

const NEW: [&str; 2] = ["containerd-2.2.9-os1", "kubelet-1.36.3-os1"];
const OLD: [&str; 2] = ["containerd-1.7.35-os1", "kubelet-1.35.4-os1"];

fn quiet() -> ScriptedHost {
    ScriptedHost::default()
}

fn text(path: PathBuf) -> String {
    String::from_utf8(read_file(path, 1 << 20).unwrap()).unwrap()
}

#[tokio::test]
async fn a_master_is_prepared_as_often_as_it_is_asked_for() {
    let world = World::of("master", Some(2)).await;
    world.seed(&NEW);
    let places = world.places();
    for _ in 0..2 {
        let host = quiet();
        world.run(&host, &[]).await.unwrap();
        assert_eq!(Facts::read(&places).unwrap().etcd_index, Some(2));
        assert_eq!(text(places.manifests().join("etcd.yaml")), "index: 2\n");
        assert!(text(places.containerd()).contains("sandbox = \"registry.example/pause:3.10\"\n"));
        let gate = text(places.kubelet_env());
        assert!(gate.contains("--node-ip=10.0.0.2 --hostname-override=machine-0"), "{gate}");
        assert!(gate.contains("KUBELET_VERSION=v1.36.3\n"), "{gate}");
        assert_eq!(host.ran(), Vec::<String>::new(), "what came with the machine is what it is to have");
        assert_eq!(world.merged(), NEW);
    }
}

#[tokio::test]
async fn a_machine_without_addons_gets_them_without_another_boot() {
    let world = World::of("bootstrap", None).await;
    let host = quiet().answer("systemd-sysext refresh", "");
    world.run(&host, &[]).await.unwrap();
    assert_eq!(host.ran(), ["systemd-sysext refresh"]);
    assert_eq!(world.merged(), NEW);
    assert!(world.places().kubelet_env().exists() && !world.places().reboot_due().exists());
    assert!(!world.places().manifests().exists(), "the bootstrap machine gets no static pods");
    assert_eq!(text(world.places().addons_seen()), r#"{"amd64-usr/1":1}"#);
}

/// The run after it finds all extensions in place and nothing to change.
#[tokio::test]
async fn a_merge_that_had_failed_was_forgotten_and_the_gate_opened_with_nothing_merged() {
    let world = World::of("bootstrap", None).await;
    let error = world.run(&quiet(), &[]).await.unwrap_err();
    assert!(matches!(error, BootstrapError::MergeAddons { .. }), "{error}");
    assert_eq!(world.merged(), NEW);
    assert!(!world.places().kubelet_env().exists());
    for ran in [&["systemd-sysext refresh"][..], &[]] {
        let host = quiet().answer("systemd-sysext refresh", "");
        world.run(&host, &[]).await.unwrap();
        assert_eq!(host.ran(), ran);
        assert!(world.places().kubelet_env().exists());
    }
}

/// What is below a folder, and what is in it.
fn tree(folder: &std::path::Path) -> BTreeMap<String, Vec<u8>> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.flat_map(|name| files_at(folder, &name));
    names.map(|name| (name.clone(), read_file(folder.join(name), 1 << 20).unwrap())).collect()
}

#[tokio::test]
async fn a_dry_run_decides_and_says_what_it_would_do_and_changes_nothing() {
    let cases: [(&[&str], &[&str]); 3] = [
        (&[], &["would fetch containerd-2.2.9-os1", "would fetch kubelet-1.36.3-os1", "would not boot again"]),
        (&NEW, &["would not boot again"]),
        (
            &OLD,
            &[
                "would fetch containerd-2.2.9-os1",
                "would fetch kubelet-1.36.3-os1",
                "would remove containerd-1.7.35-os1",
                "would remove kubelet-1.35.4-os1",
                "would boot to go from containerd 1.7.35 to 2.2.9",
            ],
        ),
    ];
    for (there, done) in cases {
        let world = World::of("bootstrap", None).await;
        world.seed(there);
        let machine = world.dir.path().join("machine");
        let before = tree(&machine);
        let said = would(&world.places(), &world.command(&["--dry-run"]), world.server).await.unwrap();
        assert_eq!(said.done, done);
        assert!(said.to_string().contains("chose   container runtime: containerd 2.2.9, "), "{said}");
        assert_eq!(tree(&machine), before, "{there:?}");
    }
}

/// A boot that cannot be asked for is how this test gets the flow back.
#[tokio::test]
async fn another_runtime_is_there_before_the_gate_opens_and_needs_a_boot_of_its_own() {
    let world = World::of("master", Some(0)).await;
    world.seed(&OLD);
    let places = world.places();
    for _ in 0..2 {
        let host = quiet();
        let error = world.run(&host, &[]).await.unwrap_err();
        assert!(matches!(error, BootstrapError::Reboot { .. }), "{error}");
        assert_eq!(error.failure().exit, Exit::TryAgain);
        assert_eq!(host.ran(), ["systemctl --no-block reboot"], "a repeated run still knows that a boot is due");
        assert_eq!(text(places.reboot_due()), "to go from containerd 1.7.35 to 2.2.9");
        assert_eq!(world.merged(), NEW);
        assert!(text(places.kubelet_env()).contains("KUBELET_VERSION=v1.36.3\n"));
        assert!(text(places.containerd()).starts_with("version = 3\n"), "for the runtime that comes");
    }
    let explained = Explanation::read(&places).unwrap().to_string();
    assert!(explained.contains("did     booted to go from containerd 1.7.35 to 2.2.9"), "{explained}");
}

/// Power goes after the update engine has staged another system and before anything else has happened: the next boot is one
/// into that system, for which the machine has no addons yet.
#[tokio::test]
async fn data_of_another_runtime_was_kept_after_a_power_cut_in_the_middle_of_an_update() {
    let world = World::of("master", Some(0)).await;
    world.seed(&OLD);
    let (places, manifest) = (world.places(), world.dir.path().join("bucket/amd64-usr/1/torcx_manifest.json"));
    std::fs::remove_file(manifest).unwrap();
    world.run(&quiet(), &[]).await.unwrap_err();
    files::write(places.os_release(), "ID=debian\nVERSION_ID=\"2\"\n", Mode::PUBLIC).unwrap();
    world.run(&quiet().answer("systemd-sysext refresh", ""), &[]).await.unwrap();
    assert_eq!(world.merged(), ["containerd-2.2.9-os2", "kubelet-1.36.3-os2"]);
    assert_eq!(text(places.runtime_data_note()), "1.7.35", "the new runtime is not to find that data");
}

#[tokio::test]
async fn a_forced_version_brings_its_own_runtime_and_nothing_is_set_up_where_that_is_not_wanted() {
    let world = World::of("bootstrap", None).await;
    world.run(&quiet().answer("systemd-sysext refresh", ""), &["--force-kube-version=v1.35.4"]).await.unwrap();
    assert_eq!(world.merged(), OLD);
    assert!(text(world.places().containerd()).starts_with("version = 2\n"));
    let world = World::of("bootstrap", None).await;
    let host = quiet().answer("containerd --version", "containerd x v2.2.9 r");
    world.run(&host, &["--torcx-skip-setup"]).await.unwrap();
    assert_eq!((world.merged(), host.ran().len()), (Vec::new(), 1));
    assert!(world.places().kubelet_env().exists());
}

#[tokio::test]
async fn the_gate_stays_closed_when_something_fails() {
    type Break = fn(&World);
    let cases: [(&str, Break, Exit); 6] = [
        (
            "is missing",
            |w| std::fs::remove_file(w.dir.path().join("bucket/amd64-usr/1/torcx_manifest.json.asc")).unwrap(),
            Exit::Permanent,
        ),
        (
            "it is not there",
            |w| std::fs::remove_file(w.dir.path().join("bucket/amd64-usr/1/torcx_manifest.json")).unwrap(),
            Exit::TryAgain,
        ),
        (
            "is not there",
            |w| std::fs::remove_dir_all(w.dir.path().join("bucket/amd64-usr/1/packages")).unwrap(),
            Exit::TryAgain,
        ),
        (
            "no key is trusted",
            |w| {
                std::fs::remove_file(w.places().addon_keys()).unwrap();
                std::fs::remove_file(w.places().addon_key()).unwrap();
            },
            Exit::Permanent,
        ),
        (
            "this is a rollback",
            |w| files::write(w.places().addons_seen(), r#"{"amd64-usr/1":9}"#, Mode::PUBLIC).unwrap(),
            Exit::Permanent,
        ),
        ("were seen before", |w| files::write(w.places().addons_seen(), "{", Mode::PUBLIC).unwrap(), Exit::TryAgain),
    ];
    for (word, spoil, exit) in cases {
        let world = World::of("bootstrap", None).await;
        spoil(&world);
        let error = world.run(&quiet().answer("systemd-sysext refresh", ""), &[]).await.unwrap_err();
        let told = chain(&error).join(": ");
        assert!(told.contains(word), "{word}: {told}");
        assert_eq!(error.failure().exit, exit, "{told}");
        assert!(!world.places().kubelet_env().exists(), "{word}");
    }
}

/// A file, or those below a folder, by their paths from here.
fn files_at(from: &std::path::Path, name: &str) -> Vec<String> {
    let path = from.join(name);
    if path.is_file() {
        return vec![name.to_owned()];
    }
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.flat_map(|entry| files_at(from, &format!("{name}/{entry}"))).collect()
}

/// The origin that the user named is all that a node asks: another one may be a host that only the node reaches.
#[tokio::test]
async fn a_redirect_undid_that_all_comes_from_one_origin() {
    for (moved, exit) in [
        ("torcx_manifest.json", Exit::TryAgain),
        ("torcx_manifest.json.asc", Exit::TryAgain),
        ("torcx_manifest.json.minisig", Exit::TryAgain),
        ("packages", Exit::Permanent),
    ] {
        let world = World::of("bootstrap", None).await;
        let folder = world.dir.path().join("bucket/amd64-usr/1");
        let names = files_at(&folder, moved);
        for name in &names {
            let to = format!("http://localhost:{}/amd64-usr/1/{name}", world.server.port());
            write_file(folder.join(format!("{name}.moved")), to, Mode::PUBLIC).unwrap();
        }
        let error = world.run(&quiet().answer("systemd-sysext refresh", ""), &[]).await.unwrap_err();
        let told = chain(&error).join(": ");
        assert!(told.contains("to another server, http://localhost"), "{moved}: {told}");
        assert_eq!(error.failure().exit, exit, "{told}");
        assert!(!world.places().kubelet_env().exists(), "{moved}");
        for name in &names {
            let there = format!("/amd64-usr/1/{name}.there");
            write_file(folder.join(format!("{name}.moved")), there, Mode::PUBLIC).unwrap();
            std::fs::copy(folder.join(name), folder.join(format!("{name}.there"))).unwrap();
        }
        world.run(&quiet().answer("systemd-sysext refresh", ""), &[]).await.unwrap();
    }
}

/// A run that fails later has seen the manifest all the same: an older one must not be taken by the next.
#[tokio::test]
async fn what_was_seen_was_kept_only_once_it_was_staged() {
    let world = World::of("bootstrap", None).await;
    std::fs::remove_dir_all(world.dir.path().join("bucket/amd64-usr/1/packages")).unwrap();
    let error = world.run(&quiet(), &[]).await.unwrap_err();
    assert!(matches!(error, BootstrapError::StageAddons { .. }), "{error}");
    assert_eq!(text(world.places().addons_seen()), r#"{"amd64-usr/1":1}"#);
}

#[tokio::test]
async fn a_master_without_a_number_or_flags_that_make_no_sense_are_for_good() {
    let world = World::of("master", None).await;
    let error = world.run(&quiet(), &[]).await.unwrap_err();
    assert_eq!(error.failure().exit, Exit::Permanent);
    let world = World::of("bootstrap", None).await;
    let error = world.run(&quiet(), &["--force-kube-version=new"]).await.unwrap_err();
    assert_eq!(error.failure().exit, Exit::Permanent);
    assert!(!world.places().kubelet_env().exists());
}

#[tokio::test]
async fn the_record_tells_the_stage() {
    let world = World::of("bootstrap", None).await;
    world.seed(&NEW);
    world.run(&quiet(), &[]).await.unwrap();
    let record = &collect(&world.places())["bootstrap"];
    assert_eq!((record.state, record.stage.as_str()), (State::Running, "open-gate"));
    assert_eq!((&record.data["machine"], &record.data["runtime"]), (&"machine-0".into(), &"2.2.9".into()));
}
