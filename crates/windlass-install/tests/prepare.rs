//! `prepare` and the cluster directory: keys live on, edits survive, nothing is half made.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::datetime;
use windlass_assets::AssetDir;
use windlass_assets::asset::AssetError;
use windlass_install::plan::Plan;
use windlass_install::prepare::{PrepareError, Prepared, load, make, prepare};
use windlass_pki::{RandomKeys, SeededKeys};
use windlass_steps::host::{Mode, write_file};

const SPEC: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
const NOW: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
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
        let of_keys = ["assets/pki/", "assets/kubeconfig/", "auth/", "assets.lock", "metadata.json", ".ign"];
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
    let before = place.read("assets/bootstrap.ign");
    let again = place.prepare(SPEC).unwrap();
    assert_eq!(again.kept, [MANIFEST]);
    assert_eq!(again.written, ["assets/bootstrap.ign"]);
    assert_eq!(place.read(MANIFEST), edited);
    assert_ne!(place.read("assets/bootstrap.ign"), before);
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
    let keys = |place: &Place| place.files().into_iter().filter(|(n, _)| n.ends_with(".key")).collect::<Vec<_>>();
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
    fs::remove_file(place.dir.join("assets/pki/ca.key")).unwrap();
    let error = place.prepare(SPEC).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("ca.key"), "{text}");
    assert!(!place.dir.join("assets/pki/ca.key").exists());
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
    place.prepare(&format!("{SPEC}spec:\n  instanceGroups:\n  - {{name: m, role: master}}\n  - name: w\n    role: worker\n    fileAssets: [{{path: /opt/token, content: canary-7f3a}}]\n")).unwrap();
    let dir = AssetDir::open(&place.dir).unwrap();
    let plan = Plan::of(&dir).unwrap();
    let assets = load(&dir).unwrap();
    let shown = [
        plan.to_string(),
        serde_json::to_string(&plan).unwrap(),
        format!("{:?} {:?} {:?}", assets.pki, assets.kubeconfigs, assets.ignition),
        format!("{plan:?}"),
    ]
    .join("\n");
    let mut secrets = vec!["PRIVATE KEY".to_owned(), "canary-7f3a".to_owned()];
    for (name, contents) in place.files() {
        if name.ends_with(".key") {
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
    for spec in [SPEC.to_owned(), format!("{SPEC}spec:\n  topology: volumes\n")] {
        let place = Place::new();
        let (_, decided) = windlass_spec::file::read_and_complete(spec.as_bytes()).unwrap();
        let mut draft = AssetDir::open(&place.dir).unwrap().draft();
        let made = make(&mut draft, decided, &mut RandomKeys::from_os().unwrap(), NOW).unwrap();
        draft.commit().unwrap();
        let read = load(&AssetDir::open(&place.dir).unwrap()).unwrap();
        assert_eq!(read.metadata, made.metadata);
        assert_eq!(read.spec, made.spec);
        assert!(read.pki == made.pki && read.kubeconfigs == made.kubeconfigs && read.ignition == made.ignition);
        assert_eq!(read.manifests, made.manifests);
        assert_eq!(read.configs, made.configs);
        assert_eq!(read.units, made.units);
    }
}
