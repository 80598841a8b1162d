use windlass_artifacts::addon::ManifestUrl;
use windlass_artifacts::download::Url;
use windlass_steps::host::{Mode, make_dir};

use super::super::tests::World;
use super::*;
use crate::choice::{Missing, Unanswered, UpdateTrouble};

/// A machine without an API, on which OS version 2 is staged.
struct Staging<'a>(Machine<'a>);

impl Sources for Staging<'_> {
    async fn api_version(&self) -> Result<String, Unanswered> {
        self.0.api_version().await
    }

    async fn api_mappings(&self) -> Result<Vec<u8>, Unanswered> {
        self.0.api_mappings().await
    }

    fn installer_env(&self) -> Result<String, Unanswered> {
        self.0.installer_env()
    }

    fn installer_mappings(&self) -> Result<Vec<u8>, Unanswered> {
        self.0.installer_mappings()
    }

    fn os_release(&self) -> Result<Vec<u8>, Unanswered> {
        self.0.os_release()
    }

    async fn next_os(&self, _upgrade: UpgradeOs) -> Result<Option<String>, UpdateTrouble> {
        Ok(Some("2".to_owned()))
    }

    async fn document(&self, url: &Url) -> Result<Vec<u8>, Missing> {
        self.0.document(url).await
    }
}

async fn stage_in(world: &World) -> Result<Staged, BootstrapError> {
    let places = world.places();
    files::write(places.kubelet_env(), "KUBELET_VERSION=v1.36.3\n", Mode::PUBLIC).unwrap();
    let template = format!("http://{}/{{{{.Board}}}}/{{{{.OSVersion}}}}/torcx_manifest.json", world.server);
    let knobs = Knobs {
        upgrade_os: UpgradeOs::Staged,
        addons: Addons::Set,
        verification: Verification::Required,
        version: Some(Forced { version: own_version(&places)?, why: WHY }),
        had: Vec::new(),
        manifests: ManifestUrl::parse(&template).unwrap(),
    };
    let mut observe = |_: Change<'_>| Ok(());
    let machine = Machine::asking(&places, Err(Unanswered::new("there is none")), &mut observe).unwrap();
    let downloader = machine.downloader().clone();
    stage_from(&places, &knobs, &Staging(machine), &downloader).await
}

#[tokio::test]
async fn why_a_machine_runs_what_it_runs_was_told_of_its_first_operating_system_only() {
    let world = World::of("worker", None).await;
    world.seed(&["containerd-2.2.9-os1", "kubelet-1.36.3-os1"]);
    let mut first = Explanation::default();
    first.did("opened the gate");
    first.write(&world.places()).unwrap();
    for _ in 0..2 {
        assert_eq!(stage_in(&world).await.unwrap().os, "2");
    }
    let told = Explanation::read(&world.places()).unwrap().to_string();
    let (before, after) = told.split_once("staged for OS version 2:\n").unwrap();
    assert_eq!(before, "did     opened the gate\n");
    for line in [
        "chose   Kubernetes: v1.36.3, this node's kubelet has it\n",
        "chose   container runtime: containerd 2.2.9, ",
        "did     changed no addon: what is wanted is there\n",
    ] {
        assert!(after.contains(line), "{line}: {after}");
    }
    assert!(!after.contains("staged for"), "what was staged twice is told once: {after}");
    let want = ["containerd-2.2.9-os1", "containerd-2.2.9-os2", "kubelet-1.36.3-os1", "kubelet-1.36.3-os2"];
    assert_eq!(world.merged(), want);
}

/// Two hundred megabytes with each update, until the disk is full.
#[tokio::test]
async fn addons_of_every_operating_system_that_a_machine_ever_had_stayed_on_it() {
    let world = World::of("worker", None).await;
    world.seed(&["containerd-2.2.9-os1", "kubelet-1.36.3-os1"]);
    for past in ["containerd-1.7.35-os0", "kubelet-1.36.3-os0", "users-own-1-os0"] {
        make_dir(world.places().extensions().join(past), Mode::PUBLIC_DIR).unwrap();
    }
    stage_in(&world).await.unwrap();
    let want = ["containerd-2.2.9-os1", "containerd-2.2.9-os2", "kubelet-1.36.3-os1", "kubelet-1.36.3-os2"];
    assert_eq!(world.merged(), want);
    assert!(world.places().extensions().join("users-own-1-os0").exists(), "what is the user's stays");
}

#[tokio::test]
async fn what_the_hook_had_seen_was_kept_only_once_it_was_staged() {
    let world = World::of("worker", None).await;
    std::fs::remove_dir_all(world.dir.path().join("bucket/amd64-usr/2/packages")).unwrap();
    let error = stage_in(&world).await.unwrap_err();
    assert!(matches!(error, BootstrapError::StageAddons { .. }), "{error}");
    let seen = windlass_steps::host::read_file(world.places().addons_seen(), 100).unwrap();
    assert_eq!(seen, br#"{"amd64-usr/1":1,"amd64-usr/2":1}"#);
    assert_eq!(Explanation::read(&world.places()), None, "nothing was staged");
}
