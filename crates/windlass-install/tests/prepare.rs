//! `prepare` and the cluster directory: keys live on, edits survive, nothing is half made.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::datetime;
use windlass_assets::AssetDir;
use windlass_assets::asset::AssetError;
use windlass_assets::ignition::{FileEntry, contents_of};
use windlass_install::plan::Plan;
use windlass_install::prepare::{PrepareError, Prepared, load, make, prepare};
use windlass_pki::{RandomKeys, SeededKeys};
use windlass_steps::host::{Mode, write_file};

const SPEC: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
const NOW: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
const SIGNING_KEY: &str = "assets/addons/signing-key.asc";
const PUBLIC_KEY: &str = "assets/addons/public-key.asc";
const MANIFEST: &str = "assets/manifests/control-plane/kube-apiserver.yaml";

struct Place {
    _temp: tempfile::TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("cluster");
        Place { _temp: temp, dir }
    }

    fn prepare(&self, spec: &str) -> Result<Prepared, PrepareError> {
        prepare(self.dir.clone(), spec.as_bytes(), &mut RandomKeys::from_os().unwrap(), NOW)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap()
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path}");
        write_file(self.dir.join(path), text.replace(from, to), Mode::PRIVATE_FILE).unwrap();
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        walk(&self.dir, &mut |path| {
            if path.is_file() {
                let name = path.strip_prefix(&self.dir).unwrap().display().to_string();
                found.push((name, fs::read(path).unwrap()));
            }
        });
        found.sort();
        found
    }
}

fn walk(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), visit);
        }
    }
}

fn overwritten(result: Result<Prepared, PrepareError>) -> Vec<String> {
    match result {
        Err(PrepareError::PrepareAssets { source: AssetError::Overwrite { paths } }) => paths,
        other => panic!("{other:?}"),
    }
}

#[test]
fn preparing_again_changes_nothing() {
    let place = Place::new();
    let first = place.prepare(SPEC).unwrap();
    assert!(first.written.len() > 50, "{}", first.written.len());
    let before = place.files();
    let second = place.prepare(SPEC).unwrap();
    assert_eq!((second.written, second.removed, second.kept), (vec![], vec![], vec![]));
    assert_eq!(second.infra_id, first.infra_id);
    assert!(before == place.files());
}

#[test]
fn the_same_seed_gives_the_same_files_and_chance_gives_others() {
    let run = |keys: Option<&str>| {
        let place = Place::new();
        match keys {
            Some(seed) => prepare(place.dir.clone(), SPEC.as_bytes(), &mut SeededKeys::new(seed), NOW).unwrap(),
            None => place.prepare(SPEC).unwrap(),
        };
        place.files()
    };
    assert!(run(Some("a")) == run(Some("a")));
    assert!(run(Some("a")) != run(Some("b")));
    let (one, other) = (run(None), run(None));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for ((name, a), (_, b)) in one.iter().zip(&other) {
        let of_keys = [
            "assets/pki/",
            "assets/addons/",
            "assets/kubeconfig/",
            "auth/",
            "assets.lock",
            "metadata.json",
            ".ign",
            "bootstrap-assets",
        ];
        let may_differ = of_keys.iter().any(|part| name.contains(part));
        assert!(a == b || may_differ, "{name} differs without need");
    }
}

#[test]
fn every_file_is_private_and_none_is_a_link() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    walk(&place.dir, &mut |path| {
        let meta = fs::symlink_metadata(path).unwrap();
        let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
        assert!(!meta.is_symlink(), "{}", path.display());
        assert_eq!(meta.permissions().mode() & 0o7777, wanted, "{}", path.display());
    });
}

#[test]
fn an_edited_manifest_survives_and_reaches_the_machines() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    place.edit(MANIFEST, "type: RollingUpdate", "type: RollingUpdate # mine");
    let edited = place.read(MANIFEST);
    let before = place.read("assets/bootstrap-assets.json");
    let again = place.prepare(SPEC).unwrap();
    assert_eq!(again.kept, [MANIFEST]);
    assert_eq!(again.written, ["assets/bootstrap-assets.json"]);
    assert_eq!(place.read(MANIFEST), edited);
    assert_ne!(place.read("assets/bootstrap-assets.json"), before);
    assert!(place.read("assets/bootstrap-assets.json").contains("# mine"));
    let dir = AssetDir::open(&place.dir).unwrap();
    assert_eq!(Plan::of(&dir).unwrap().edited, [MANIFEST]);
    let assets = load(&dir).unwrap();
    assert!(assets.manifests.files().any(|(_, text)| text.contains("# mine")));
}

#[test]
fn an_edited_config_of_a_role_is_what_the_bootstrap_machine_serves() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    place.edit("assets/master.ign", "\"ignition\"", " \"ignition\"");
    let before = place.read("assets/bootstrap.ign");
    let again = place.prepare(SPEC).unwrap();
    assert_eq!(again.kept, ["assets/master.ign"]);
    assert_eq!(again.written, ["assets/bootstrap.ign"]);
    assert_ne!(place.read("assets/bootstrap.ign"), before);
    assert_eq!(place.prepare(SPEC).unwrap().written, Vec::<String>::new(), "once is enough");
}

#[test]
fn an_edited_document_of_assets_is_used_as_it_is() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    place.edit("assets/bootstrap-assets.json", "type: RollingUpdate", "type: RollingUpdate # mine");
    let again = place.prepare(SPEC).unwrap();
    assert_eq!((again.kept, again.written), (vec!["assets/bootstrap-assets.json".to_owned()], vec![]));
    let assets = load(&AssetDir::open(&place.dir).unwrap()).unwrap();
    let text = place.read("assets/bootstrap-assets.json");
    assert_eq!(assets.bootstrap_assets.text(), Some(text.as_str()));
    assert_eq!(assets.bootstrap_assets.digest(), Some(windlass_assets::lock::digest(text.as_bytes())));
}

/// The contents and mode of a file of an Ignition config.
fn entry(config: &str, path: &str) -> (String, u32) {
    let config: serde_json::Value = serde_json::from_str(config).unwrap();
    let files = config["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path} is not there"));
    let file: windlass_assets::ignition::FileEntry = serde_json::from_value(file.clone()).unwrap();
    let contents = windlass_assets::ignition::contents_of(&file).unwrap_or(file.contents.source.into_bytes());
    (String::from_utf8(contents).unwrap(), file.mode)
}

fn paths(config: &str) -> Vec<String> {
    let config: serde_json::Value = serde_json::from_str(config).unwrap();
    let files = config["storage"]["files"].as_array().unwrap();
    files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

/// Whoever reads the first boot's config has the masters' keys anyway, but what only bootkube needs comes later.
#[test]
fn what_bootkube_needs_is_in_the_document_and_no_longer_in_the_config() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let config = paths(&place.read("assets/bootstrap.ign"));
    let document = place.read("assets/bootstrap-assets.json");
    let document = windlass_assets::bootstrap_assets::Document::parse(document.as_bytes()).unwrap();
    let delivered: Vec<String> = document.files().map(|file| file.path()).collect();
    for path in [
        "/opt/windlass/bootkube/bootstrap/bootstrap-kube-apiserver.yaml",
        "/opt/windlass/bootkube/manifests/kube-apiserver.yaml",
        "/opt/windlass/addons/manifests/coredns.yaml",
        "/etc/kubernetes/admin.kubeconfig",
        "/etc/kubernetes/pki/ca.key",
        "/etc/kubernetes/pki/sa.key",
        "/etc/kubernetes/pki/apiserver.key",
    ] {
        assert!(delivered.contains(&path.to_owned()), "{path}: {delivered:?}");
        assert!(!config.contains(&path.to_owned()), "{path}");
    }
    for path in ["/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/etcd-ca.key", "/opt/windlass/cluster.json"] {
        assert!(config.contains(&path.to_owned()), "{path} is needed before");
    }
    let both: Vec<_> = delivered.iter().filter(|path| config.contains(path)).collect();
    assert!(both.is_empty(), "{both:?}");
}

#[test]
fn a_pulling_machine_is_told_where_and_what_and_has_no_way_in() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let pointer = place.read("assets/bootstrap-pointer.ign");
    let filled = pointer.replace(windlass_assets::ignition::BOOTSTRAP_ASSETS, "d2hlcmUgYW5kIHdoYXQ=");
    let (origin, mode) = entry(&filled, "/etc/windlass/bootstrap-assets");
    assert_eq!((origin.as_str(), mode), ("where and what", 0o600));
    let config = place.read("assets/bootstrap.ign");
    assert!(config.contains("bootstrap-assets.service") && !config.contains("\"ssh.service\""));
    assert!(paths(&config).iter().all(|path| !path.contains("ssh")), "{:?}", paths(&config));
    assert!(!place.dir.join("assets/ssh").exists());
}

#[test]
fn a_pushed_machine_has_one_way_in_and_its_keys_live_on() {
    let place = Place::new();
    let spec = format!("{SPEC}spec:\n  bootstrapAssets: push\n");
    place.prepare(&spec).unwrap();
    let config = place.read("assets/bootstrap.ign");
    let (host, mode) = entry(&config, "/etc/ssh/windlass_host_key");
    assert_eq!((host.as_str(), mode), (place.read("assets/ssh/bootstrap_host_key").as_str(), 0o600));
    let client = windlass_pki::SshKey::parse(&place.read("assets/ssh/client_key")).unwrap();
    let (allowed, mode) = entry(&config, "/root/.ssh/authorized_keys");
    assert_eq!((allowed, mode), (format!("restrict {}\n", client.public_line()), 0o600));
    let (sshd, _) = entry(&config, "/etc/ssh/sshd_config.d/10-windlass.conf");
    for line in ["PermitRootLogin prohibit-password", "PasswordAuthentication no", "AuthenticationMethods publickey"] {
        assert!(sshd.lines().any(|l| l == line), "{line}");
    }
    let enabled = serde_json::json!({ "name": "ssh.service", "enabled": true });
    let units = serde_json::from_str::<serde_json::Value>(&config).unwrap()["systemd"]["units"].clone();
    assert!(units.as_array().unwrap().contains(&enabled), "{units}");
    assert!(!config.contains("bootstrap-assets.service"));
    let pointer = place.read("assets/bootstrap-pointer.ign");
    assert!(!pointer.contains("bootstrap-assets"), "{pointer}");
    for other in ["assets/master.ign", "assets/worker.ign"] {
        assert!(!place.read(other).contains("ssh"), "only the bootstrap machine is pushed to");
    }
    let keys = |place: &Place| [place.read("assets/ssh/bootstrap_host_key"), place.read("assets/ssh/client_key")];
    let before = keys(&place);
    assert_eq!(place.prepare(&spec).unwrap().written, Vec::<String>::new());
    assert_eq!(keys(&place), before);
    let pulled = place.prepare(SPEC).unwrap();
    assert!(pulled.removed.contains(&"assets/ssh/client_key".to_owned()), "{:?}", pulled.removed);
}

#[test]
fn a_change_that_would_overwrite_an_edit_is_refused_and_nothing_changes() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    place.edit(MANIFEST, "type: RollingUpdate", "type: RollingUpdate # mine");
    let before = place.files();
    let other = format!("{SPEC}spec:\n  network: {{serviceCIDR: 10.50.0.0/16}}\n");
    assert_eq!(overwritten(place.prepare(&other)), [MANIFEST]);
    let volumes = format!("{SPEC}spec:\n  topology: volumes\n");
    assert_eq!(overwritten(place.prepare(&volumes)), [MANIFEST], "it would have to be removed");
    assert!(before == place.files());
}

#[test]
fn a_file_that_windlass_did_not_write_is_never_overwritten() {
    let place = Place::new();
    fs::create_dir_all(place.dir.join("assets")).unwrap();
    write_file(place.dir.join("assets/master.ign"), "mine", Mode::PRIVATE_FILE).unwrap();
    assert_eq!(overwritten(place.prepare(SPEC)), ["assets/master.ign"]);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn another_spec_changes_what_follows_from_it_and_keeps_every_key() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let is_key = |name: &str| name.ends_with(".key") || name.starts_with("assets/addons/");
    let keys = |place: &Place| place.files().into_iter().filter(|(n, _)| is_key(n)).collect::<Vec<_>>();
    let (before, ca) = (keys(&place), place.read("assets/pki/ca.crt"));
    let changed = place.prepare(&format!("{SPEC}spec:\n  domain: other.test\n")).unwrap();
    assert!(changed.written.contains(&"assets/pki/apiserver.crt".to_owned()), "{:?}", changed.written);
    assert!(keys(&place) == before);
    assert_eq!(place.read("assets/pki/ca.crt"), ca);
}

#[test]
fn files_that_no_longer_belong_to_the_cluster_go() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let changed = place.prepare(&format!("{SPEC}spec:\n  topology: volumes\n")).unwrap();
    assert!(changed.removed.contains(&"assets/bootstrap.ign".to_owned()), "{:?}", changed.removed);
    assert!(!place.dir.join("assets/bootstrap.ign").exists());
    assert!(place.dir.join("assets/manifests/master/kube-apiserver.yaml").exists());
}

#[test]
fn a_bad_spec_leaves_nothing_behind() {
    let place = Place::new();
    assert!(matches!(place.prepare("kind: Pod\n"), Err(PrepareError::RejectSpec { .. })));
    assert!(!place.dir.exists());
}

#[test]
fn a_launched_directory_is_not_prepared_again() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let started = |step: &str| {
        let event =
            format!(r#"{{"time":"2026-11-16T12:00:00.000Z","cluster":"demo","step":"{step}","kind":"started"}}"#);
        write_file(place.dir.join("journal.jsonl"), format!("{event}\n"), Mode::PRIVATE_FILE).unwrap();
    };
    started("preflight");
    place.prepare(SPEC).expect("a preflight alone has made nothing");
    started("create-network");
    assert!(matches!(place.prepare(SPEC), Err(PrepareError::Launched { .. })));
}

#[test]
fn a_lost_key_is_named_and_not_replaced_in_silence() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    for key in ["assets/pki/ca.key", SIGNING_KEY] {
        let path = place.dir.join(key);
        let lost = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let text = format!("{:?}", place.prepare(SPEC).unwrap_err());
        assert!(text.contains(key.rsplit('/').next().unwrap()), "{text}");
        assert!(!path.exists());
        write_file(&path, lost, Mode::PRIVATE_FILE).unwrap();
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_refused() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let target = place.dir.join("elsewhere");
    write_file(&target, "precious", Mode::PRIVATE_FILE).unwrap();
    let path = place.dir.join("assets/worker.ign");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let error = place.prepare(SPEC).unwrap_err();
    assert!(format!("{error:?}").contains("worker.ign"), "{error:?}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

/// Every secret of the directory, and every place that people and programs look at.
#[test]
fn no_secret_is_in_the_plan_or_in_debug_output() {
    let place = Place::new();
    place.prepare(&format!("{SPEC}spec:\n  bootstrapAssets: push\n  instanceGroups:\n  - {{name: m, role: master}}\n  - name: w\n    role: worker\n    fileAssets: [{{path: /opt/token, content: canary-7f3a}}]\n")).unwrap();
    let dir = AssetDir::open(&place.dir).unwrap();
    let plan = Plan::of(&dir).unwrap();
    let assets = load(&dir).unwrap();
    let shown = [
        plan.to_string(),
        serde_json::to_string(&plan).unwrap(),
        format!("{:?} {:?} {:?} {:?}", assets.pki, assets.kubeconfigs, assets.addon_keys, assets.ignition),
        format!("{:?} {:?}", assets.ssh, assets.bootstrap_assets),
        format!("{plan:?}"),
    ]
    .join("\n");
    let mut secrets = vec!["PRIVATE KEY".to_owned(), "canary-7f3a".to_owned()];
    for (name, contents) in place.files() {
        if name.ends_with(".key") || name.contains("signing-key") || name.starts_with("assets/ssh/") {
            let text = String::from_utf8(contents).unwrap();
            secrets.extend(text.lines().filter(|l| !l.starts_with("-----") && l.len() > 20).map(str::to_owned));
        }
    }
    assert!(secrets.len() > 15);
    for secret in secrets {
        assert!(!shown.contains(&secret), "{secret} is shown");
    }
}

#[test]
fn every_asset_reads_back_as_it_was_written() {
    for spec in
        ["", "spec:\n  topology: volumes\n", "spec:\n  bootstrapAssets: push\n"].map(|more| format!("{SPEC}{more}"))
    {
        let place = Place::new();
        let (_, decided) = windlass_spec::file::read_and_complete(spec.as_bytes()).unwrap();
        let mut draft = AssetDir::open(&place.dir).unwrap().draft();
        let made = make(&mut draft, decided, &mut RandomKeys::from_os().unwrap(), NOW).unwrap();
        draft.commit().unwrap();
        let read = load(&AssetDir::open(&place.dir).unwrap()).unwrap();
        assert_eq!(read.metadata, made.metadata);
        assert_eq!(read.spec, made.spec);
        assert!(read.pki == made.pki && read.kubeconfigs == made.kubeconfigs && read.ignition == made.ignition);
        assert!(read.addon_keys == made.addon_keys);
        assert_eq!(read.manifests, made.manifests);
        assert_eq!(read.configs, made.configs);
        assert_eq!(read.units, made.units);
        assert!(read.ssh == made.ssh && read.bootstrap_assets == made.bootstrap_assets);
    }
}

/// Every file that a config writes, those of the configs that it carries included.
fn written(config: &str) -> Vec<(FileEntry, Vec<u8>)> {
    #[derive(serde::Deserialize)]
    struct Config {
        #[serde(default)]
        storage: Storage,
    }
    #[derive(Default, serde::Deserialize)]
    struct Storage {
        #[serde(default)]
        files: Vec<FileEntry>,
    }
    let config: Config = serde_json::from_str(config).unwrap();
    let mut all = Vec::new();
    for entry in config.storage.files {
        let contents = contents_of(&entry).unwrap_or_default();
        if entry.path.ends_with(".ign") {
            all.extend(written(std::str::from_utf8(&contents).unwrap()));
        }
        all.push((entry, contents));
    }
    all
}

#[test]
fn every_machine_gets_the_public_halves_of_the_buckets_keys_and_none_a_private_one() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    let privates = ["assets/addons/signing-key.asc", "assets/addons/signing-key.minisign"].map(|path| place.read(path));
    for machine in ["bootstrap", "master", "worker"] {
        let files = written(&place.read(&format!("assets/{machine}.ign")));
        for (path, public) in [
            ("/etc/windlass/addon-keys.asc", PUBLIC_KEY),
            ("/etc/windlass/addon-key.minisign", "assets/addons/public-key.minisign"),
        ] {
            let (entry, contents) = files.iter().find(|(entry, _)| entry.path == path).unwrap();
            assert_eq!((entry.mode, contents), (0o644, &place.read(public).into_bytes()), "{machine} {path}");
        }
        for (entry, contents) in &files {
            let text = String::from_utf8_lossy(contents);
            // One line of a key is enough to know it by.
            let is_in = |key: &String| key.lines().any(|line| line.len() > 40 && text.contains(line));
            assert!(!privates.iter().any(is_in), "{machine} {}", entry.path);
        }
    }
}

#[test]
fn a_users_own_signing_key_is_taken_and_what_machines_trust_follows() {
    let (place, other) = (Place::new(), Place::new());
    place.prepare(SPEC).unwrap();
    other.prepare(SPEC).unwrap();
    let worker = place.read("assets/worker.ign");
    write_file(place.dir.join(SIGNING_KEY), other.read(SIGNING_KEY), Mode::PRIVATE_FILE).unwrap();
    let again = place.prepare(SPEC).unwrap();
    assert_eq!(again.kept, Vec::<String>::new());
    assert!(again.written.contains(&PUBLIC_KEY.to_owned()), "{:?}", again.written);
    assert_eq!(place.read(PUBLIC_KEY), other.read(PUBLIC_KEY));
    assert_ne!(place.read("assets/worker.ign"), worker);
    assert_eq!(place.prepare(SPEC).unwrap().written, Vec::<String>::new(), "once is enough");
}

#[test]
fn a_public_key_that_does_not_belong_to_the_private_one_is_refused() {
    let place = Place::new();
    place.prepare(SPEC).unwrap();
    write_file(place.dir.join(PUBLIC_KEY), "mine", Mode::PRIVATE_FILE).unwrap();
    let before = place.files();
    let error = format!("{:?}", place.prepare(SPEC).unwrap_err());
    assert!(error.contains(PUBLIC_KEY) && error.contains("public half"), "{error}");
    assert!(before == place.files());
}
