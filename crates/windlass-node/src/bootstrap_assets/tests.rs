//! Fetching and laying out: what was promised and nothing else, whole or not at all, and again after any kill.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use windlass_assets::bootstrap_assets::{DocumentFile, Origin};
use windlass_assets::lock::digest;
use windlass_spec::Secret;
use windlass_steps::host::{Mode, make_dir, read_file, write_file};

use super::*;
use crate::record::{State, collect};

fn document() -> Document {
    Document {
        bootkube: vec![
            DocumentFile::private(Folder::Keys, "sa.key", "key"),
            DocumentFile::private(Folder::Kubeconfigs, "admin.kubeconfig", "admin"),
            DocumentFile::private(Folder::Bootstrap, "kube-apiserver.yaml", "temporary"),
            DocumentFile::private(Folder::ControlPlane, "kube-apiserver.yaml", "self-hosted"),
            DocumentFile::private(Folder::ControlPlane, "kube-scheduler.yaml", "scheduler"),
        ],
        addons: vec![DocumentFile::private(Folder::Addons, "coredns.yaml", "dns")],
    }
}

struct Machine {
    _dir: tempfile::TempDir,
    places: Places,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        Machine { _dir: dir, places }
    }

    fn take(&self, bytes: &[u8]) -> Result<(), BootstrapAssetsError> {
        put(&self.places, bytes, &mut Recorder::begin(&self.places, UNIT, "get"))
    }

    fn pointer(&self, url: &str, digest: &str) {
        make_dir(self.places.at("/etc/windlass"), Mode::PRIVATE_DIR).unwrap();
        let origin = Origin { url: Secret::new(url.to_owned()), digest: digest.to_owned() };
        write_file(self.places.bootstrap_assets(), origin.to_text().expose(), Mode::PRIVATE_FILE).unwrap();
    }

    async fn pull(&self) -> Result<(), Failure> {
        run(&self.places, &args::BootstrapAssets { stdin: false }).await
    }

    /// Every file of the document is there with its contents and mode, and nothing else is in the folders that appear whole.
    fn is_whole(&self) {
        for file in document().files() {
            let path = self.places.at(&file.path());
            assert_eq!(read_file(&path, 1000).unwrap(), file.contents.expose().as_bytes(), "{}", path.display());
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600, "{}", path.display());
        }
        for (folder, count) in [(Folder::Bootstrap, 1), (Folder::ControlPlane, 2), (Folder::Addons, 1)] {
            assert_eq!(fs::read_dir(self.places.at(folder.path())).unwrap().count(), count, "{folder:?}");
        }
        let beside: Vec<_> = fs::read_dir(self.places.at("/opt/windlass/bootkube")).unwrap().flatten().collect();
        assert_eq!(beside.len(), 2, "nothing is left beside: {beside:?}");
    }
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test]
async fn what_is_fetched_is_put_in_its_places_and_may_be_again() {
    let text = document().to_text();
    let router = Router::new().route("/o/bootstrap-assets.json", {
        let text = text.clone();
        get(move |query: axum::extract::RawQuery| async move {
            assert_eq!(query.0.as_deref(), Some("expires=1&signature=x"), "the signature is sent");
            text
        })
    });
    let store = serve(router).await;
    let machine = Machine::new();
    machine.pointer(&format!("{store}/o/bootstrap-assets.json?expires=1&signature=x"), &digest(text.as_bytes()));
    for _ in 0..2 {
        machine.pull().await.unwrap();
        machine.is_whole();
        let record = &collect(&machine.places)[UNIT];
        assert_eq!((record.state, record.stage.as_str()), (State::Done, "put-addons"));
    }
}

#[tokio::test]
async fn another_document_than_was_promised_is_refused() {
    let hostile = document().to_text().replace("self-hosted", "mine");
    let store = serve(Router::new().route("/o", get(move || async move { hostile }))).await;
    let machine = Machine::new();
    machine.pointer(&format!("{store}/o"), &digest(document().to_text().as_bytes()));
    let failure = machine.pull().await.unwrap_err();
    assert_eq!(failure.exit, Exit::Permanent);
    assert!(failure.report.to_string().contains("they are not those of this cluster"), "{}", failure.report);
    assert!(!machine.places.control_plane_manifests().exists());
    assert_eq!(collect(&machine.places)[UNIT].state, State::Failed);
}

#[tokio::test]
async fn a_store_that_refuses_and_a_document_without_end_are_told_without_the_url() {
    let big = || async { vec![b' '; DOCUMENT_LIMIT + 1] };
    let refuses = || async { StatusCode::FORBIDDEN };
    let store = serve(Router::new().route("/big", get(big)).route("/no", get(refuses))).await;
    for (path, says) in [("big", "cannot talk to 127.0.0.1"), ("no", "it answers 403")] {
        let machine = Machine::new();
        machine.pointer(&format!("{store}/{path}?signature=canary"), "sha256:00");
        let mut record = Recorder::begin(&machine.places, UNIT, "get");
        let source = fetch::fetch(&machine.places, &mut record, Duration::from_millis(200)).await.unwrap_err();
        let failure = failure(&BootstrapAssetsError::Fetch { source });
        let told = format!("{} {:?}", failure.report, collect(&machine.places));
        assert_eq!(failure.exit, Exit::TryAgain);
        assert!(told.contains(says) && !told.contains("canary"), "{told}");
    }
}

#[tokio::test]
async fn a_machine_that_was_not_told_where_they_are_says_so() {
    let machine = Machine::new();
    assert_eq!(machine.pull().await.unwrap_err().exit, Exit::Permanent);
    for url in ["", "file:///etc/passwd", "https://objects.test/o", "objects.test/o"] {
        machine.pointer(url, "sha256:00");
        let failure = machine.pull().await.unwrap_err();
        assert_eq!(failure.exit, Exit::Permanent, "{url}");
        assert!(failure.report.to_string().contains("holds no URL"), "{url}: {}", failure.report);
    }
}

#[test]
fn a_hostile_document_writes_nothing() {
    let machine = Machine::new();
    let text = document().to_text();
    let away = text
        .replace("/opt/windlass/bootkube/manifests/kube-scheduler.yaml", "/opt/windlass/bootkube/manifests/../../x");
    let outside = text.replace("/etc/kubernetes/pki/sa.key", "/etc/shadow");
    let twice = text.replace("kube-scheduler.yaml", "kube-apiserver.yaml");
    for hostile in [away, outside, twice, " ".repeat(DOCUMENT_LIMIT + 1), "{}".to_owned(), String::new()] {
        let refused = machine.take(hostile.as_bytes());
        assert!(matches!(refused, Err(BootstrapAssetsError::Understand { .. })), "{refused:?}");
        assert!(!machine.places.at("/opt").exists() && !machine.places.at("/etc").exists());
    }
}

#[test]
fn no_more_is_read_than_a_document_may_have() {
    let endless = io::repeat(b' ');
    assert_eq!(receive(endless).unwrap().len(), DOCUMENT_LIMIT + 1);
    assert_eq!(receive(&b"x"[..]).unwrap(), b"x");
}

/// What a kill leaves at each moment: the folder aside is half made, or whole but not yet in its place.
#[test]
fn a_run_that_was_killed_between_the_renames_is_taken_up() {
    let folders = [Folder::Bootstrap, Folder::ControlPlane, Folder::Addons];
    for done in 0..=folders.len() {
        let machine = Machine::new();
        machine.take(document().to_text().as_bytes()).unwrap();
        for folder in &folders[done..] {
            fs::remove_dir_all(machine.places.at(folder.path())).unwrap();
        }
        if let Some(next) = folders.get(done) {
            let (parent, name) = next.path().rsplit_once('/').unwrap();
            let aside = machine.places.at(&format!("{parent}/.{name}.new"));
            make_dir(&aside, Mode::PRIVATE_DIR).unwrap();
            write_file(aside.join("stale.yaml"), "half", Mode::PRIVATE_FILE).unwrap();
        }
        machine.take(document().to_text().as_bytes()).unwrap();
        machine.is_whole();
    }
}

/// Every state that a path unit can see has whole folders, and `manifests` never without `bootstrap` and the keys.
#[test]
fn a_folder_that_cannot_be_made_keeps_those_after_it_away() {
    let machine = Machine::new();
    make_dir(machine.places.at("/opt/windlass/bootkube"), Mode::PRIVATE_DIR).unwrap();
    // A file in the place of the folder that is made aside stands for a disk that fails.
    write_file(machine.places.at("/opt/windlass/bootkube/.manifests.new"), "", Mode::PRIVATE_FILE).unwrap();
    let failed = machine.take(document().to_text().as_bytes());
    assert!(matches!(failed, Err(BootstrapAssetsError::LayOut { source: LayOutError::Remove { .. } })), "{failed:?}");
    assert!(machine.places.bootstrap_manifests().exists());
    assert!(machine.places.pki("sa.key").exists());
    assert!(!machine.places.control_plane_manifests().exists());
    assert!(!machine.places.addon_manifests().exists(), "the add-ons' come after bootkube's");
}
