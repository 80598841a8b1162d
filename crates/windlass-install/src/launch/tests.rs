//! The flow on doubles: order, refusals, failures told with step and reason, and going on after each of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use time::OffsetDateTime;
use time::macros::datetime;
use windlass_assets::AssetDir;
use windlass_pki::SeededKeys;
use windlass_platform::fake::Fake;
use windlass_platform::{BOOTSTRAP, Executed, MachineState};
use windlass_steps::clock::ManualClock;
use windlass_steps::event::{Kind, Stream};

use super::*;
use crate::preflight::FakeHost;
use crate::prepare::{load, prepare};
use crate::sight::{FakeSight, UnitState};
use crate::status::{StepState, steps as step_states, unmet};

const NOW: OffsetDateTime = datetime!(2026-01-15 12:00 UTC);
const SPEC: &[u8] =
    b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  platform:\n    local:\n      egress: off\n";

/// A directory prepared from a spec, made once: keys take long.
fn prepared(made: &'static OnceLock<TempDir>, spec: &[u8]) -> PathBuf {
    let made = made.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path().join("c"), spec, &mut SeededKeys::new("launch"), NOW).unwrap();
        dir
    });
    made.path().join("c")
}

struct Scene {
    dir: TempDir,
    assets: Assets,
    platform: Fake,
    sight: FakeSight,
    host: FakeHost,
    missing: Vec<String>,
    now: OffsetDateTime,
}

impl Scene {
    fn new() -> Self {
        static MADE: OnceLock<TempDir> = OnceLock::new();
        Scene::of(&prepared(&MADE, SPEC))
    }

    /// One in which launch pushes the bootstrap machine's assets.
    fn pushing() -> Self {
        static MADE: OnceLock<TempDir> = OnceLock::new();
        Scene::of(&prepared(&MADE, &[SPEC, b"  bootstrapAssets: push\n"].concat()))
    }

    fn of(prepared: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let assets = load(&AssetDir::open(prepared).unwrap()).unwrap();
        for name in ["metadata.json", "assets.lock", "auth/kubeconfig"] {
            let target = dir.path().join(name);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(prepared.join(name), target).unwrap();
        }
        let sight = FakeSight::whole(&assets.spec);
        let (platform, host) = (Fake::default(), FakeHost::good());
        Scene { dir, assets, platform, sight, host, missing: Vec::new(), now: NOW }
    }

    /// One pass through the flow, with the journal that the directory has.
    async fn pass(&self) -> Result<Ready, Stop> {
        let clock = Arc::new(ManualClock::at(self.now));
        let journal = match self.dir.path().join(logbook::JOURNAL).exists() {
            true => logbook::go_on(self.dir.path()).unwrap(),
            false => logbook::begin(self.dir.path()).unwrap(),
        };
        let run = Run::new("demo-00000", clock.clone(), Stream::new().journal(journal));
        let history = logbook::read(self.dir.path()).unwrap().unwrap_or_default();
        let run = match finished_before(&history) {
            Some(last) => run.only(last),
            None => run,
        };
        let authorities = authorities(&self.assets);
        let given = Given {
            assets: &self.assets,
            authorities: &authorities,
            directory: self.dir.path(),
            platform: &self.platform,
            sight: &self.sight,
            host: &self.host,
            missing: &self.missing,
            addons: &[],
            edited: &["manifests/addons/coredns.yaml".to_owned()],
            clock: clock.as_ref(),
        };
        launch(&run, &given).await
    }

    fn finished(&self) -> Vec<String> {
        let history = logbook::read(self.dir.path()).unwrap().unwrap();
        let finished = history.entries.iter().filter(|entry| entry.event.kind == Kind::Finished);
        finished.map(|entry| entry.event.step.to_string()).collect()
    }
}

fn report(ended: Result<Ready, Stop>) -> String {
    ended.unwrap_err().report().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_launch_takes_its_steps_in_order_and_retires_the_bootstrap_machine() {
    let scene = Scene::new();
    let ready = scene.pass().await.unwrap();
    assert_eq!(ready.nodes().len(), 5);
    let names: Vec<String> = steps().iter().map(|info| info.name.to_string()).collect();
    assert_eq!(scene.finished(), names, "the list of steps is the flow");
    assert!(!scene.platform.names().contains(&BOOTSTRAP.to_owned()));
    assert_eq!(scene.platform.names().len(), 5);
    let bucket: Vec<String> = scene.platform.bucket().into_iter().map(|file| file.key).collect();
    let manifests = ["amd64-usr/1/torcx_manifest.json", "amd64-usr/2/torcx_manifest.json"];
    assert!(manifests.iter().all(|manifest| bucket.iter().any(|key| key == manifest)), "{bucket:?}");
    let journal = std::fs::read_to_string(scene.dir.path().join(logbook::JOURNAL)).unwrap();
    assert!(!journal.contains("PRIVATE KEY") && !journal.contains("Bearer"));
    assert!(matches!(logbook::begin(scene.dir.path()), Err(logbook::LogbookError::Launched { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_has_finished_is_looked_at_again() {
    let scene = Scene::new();
    scene.pass().await.unwrap();
    scene.sight.change(|shown| shown.silence = Some("connection refused".to_owned()));
    for _ in 0..2 {
        let text = report(scene.pass().await);
        assert!(text.contains("verify did not finish") && text.contains("the API answers: could not look"), "{text}");
    }
    scene.sight.change(|shown| shown.silence = None);
    assert_eq!(scene.pass().await.unwrap().nodes().len(), 5);
    assert_eq!(scene.platform.calls().iter().filter(|call| **call == "provision").count(), 1, "nothing else is done");
}

#[tokio::test(start_paused = true)]
async fn preflight_tells_everything_at_once_and_may_be_tried_again() {
    let mut scene = Scene::new();
    scene.host.0.root = false;
    scene.host.0.memory_free = Some(1 << 30);
    scene.missing = vec!["base-1 is not in the cache".to_owned()];
    scene.now = NOW - Duration::from_secs(25 * 3600);
    scene.platform.complain("the cloud is in another castle");
    let text = report(scene.pass().await);
    for says in ["another user", "MiB of memory", "base-1 is not", "another castle", "certificates are valid from"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(scene.platform.names().is_empty());
    drop(logbook::begin(scene.dir.path()).expect("a refused preflight has launched nothing"));
    let mended = Scene { platform: Fake::default(), host: FakeHost::good(), missing: Vec::new(), now: NOW, ..scene };
    mended.pass().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_call_to_the_platform_may_fail_and_the_launch_goes_on_from_there() {
    let cases = [
        ("provision", "create-network"),
        ("network_trouble", "create-network"),
        ("create_machines", "start-machines"),
        ("open_api", "start-machines"),
        ("retire_bootstrap", "retire-bootstrap"),
        ("bootstrap_remains", "retire-bootstrap"),
    ];
    for (call, step) in cases {
        let scene = Scene::new();
        scene.platform.fail(call);
        let text = report(scene.pass().await);
        assert!(text.contains(&format!("{step} did not finish")), "{call}: {text}");
        let before = scene.finished();
        scene.platform.mend();
        scene.pass().await.unwrap();
        assert_eq!(scene.finished()[..before.len()], before, "what was done is not done again");
        assert_eq!(scene.finished().len(), steps().len(), "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_step_waits_for_is_told_with_its_machine() {
    type Break = fn(&Scene);
    let cases: [(&str, Break, &str); 8] = [
        (
            "deliver-assets",
            |scene| {
                scene.sight.change(|shown| {
                    let records = shown.records.get_mut(BOOTSTRAP).unwrap();
                    records.remove("bootkube");
                    let assets = records.get_mut("bootstrap-assets").unwrap();
                    (assets.state, assets.stage) = (UnitState::Failed, "get".to_owned());
                    assets.because = vec!["they are not those of this cluster".to_owned()];
                });
            },
            "bootstrap: bootstrap-assets failed at get: they are not those of this cluster",
        ),
        (
            "form-etcd-quorum",
            |scene| {
                scene.sight.change(|shown| {
                    let bootkube = shown.records.get_mut(BOOTSTRAP).unwrap().get_mut("bootkube").unwrap();
                    (bootkube.state, bootkube.stage) = (UnitState::Failed, "await-quorum".to_owned());
                    bootkube.because = vec!["etcd-2 has no disk".to_owned()];
                });
            },
            "bootstrap: bootkube failed at await-quorum: etcd-2 has no disk",
        ),
        (
            "start-control-plane",
            |scene| scene.sight.change(|shown| shown.silence = Some("connection refused".to_owned())),
            "the API answers from this host: could not look: connection refused",
        ),
        (
            "pivot-control-plane",
            |scene| scene.sight.change(|shown| shown.backends.clear()),
            "no master stands behind port 6443",
        ),
        (
            "apply-addons",
            |scene| {
                scene.sight.change(|shown| {
                    shown.records.get_mut(BOOTSTRAP).unwrap().remove("addons");
                });
            },
            "bootstrap: addons has not started",
        ),
        ("join-workers", |scene| scene.sight.change(|shown| drop(shown.nodes.pop())), "4 of 5 nodes are Ready"),
        ("settle-addons", |scene| scene.sight.change(|shown| shown.addons.clear()), "there is no add-on"),
        (
            "settle-addons",
            |scene| {
                scene.sight.change(|shown| {
                    let status = shown.workloads.daemon_sets[0].status.as_mut().unwrap();
                    (status.current_number_scheduled, status.number_ready) = (0, 0);
                });
            },
            "DaemonSet kube-system/kube-proxy: 0 of 5 pods are scheduled",
        ),
    ];
    for (step, spoil, says) in cases {
        let scene = Scene::new();
        spoil(&scene);
        let text = report(scene.pass().await);
        assert!(text.contains(&format!("{step} did not finish")), "{text}");
        assert!(text.contains(says), "{step}: {text}");
        let history = logbook::read(scene.dir.path()).unwrap().unwrap();
        assert!(
            unmet(&history)
                .iter()
                .any(|one| one.step == step && one.reason.contains(says.rsplit(": ").next().unwrap()))
        );
        let states = step_states(&history);
        assert_eq!(states.iter().find(|one| one.name == step).unwrap().state, StepState::Failed);
        assert_eq!(states.last().unwrap().state, StepState::Never);
    }
}

/// A bootstrap machine that rebooted has lost its records, but bootkube has begun, and that needs the assets.
#[tokio::test(start_paused = true)]
async fn assets_are_delivered_once_bootkube_has_begun_with_them() {
    let scene = Scene::new();
    scene.sight.change(|shown| drop(shown.records.get_mut(BOOTSTRAP).unwrap().remove("bootstrap-assets")));
    scene.pass().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_fetched_is_not_pushed_and_what_is_pushed_is_the_same() {
    let scene = Scene::new();
    scene.pass().await.unwrap();
    assert!(!scene.platform.calls().contains(&"exec_over_ssh"));
    let scene = Scene::pushing();
    assert!(scene.assets.ssh.is_some());
    scene.pass().await.unwrap();
    assert_eq!(scene.platform.calls().iter().filter(|call| **call == "exec_over_ssh").count(), 1);
    assert_eq!(scene.platform.pushed(), scene.assets.bootstrap_assets.text().unwrap().as_bytes());
    let journal = std::fs::read_to_string(scene.dir.path().join(logbook::JOURNAL)).unwrap();
    assert!(!journal.contains("PRIVATE KEY") && journal.contains("deliver-assets"));
}

#[tokio::test(start_paused = true)]
async fn a_push_that_fails_is_told_and_done_again() {
    let refused = Executed { code: 78, stdout: String::new(), stderr: "error: cannot take the assets\n".to_owned() };
    let scene = Scene::pushing();
    scene.platform.fail("exec_over_ssh");
    let text = report(scene.pass().await);
    assert!(text.contains("deliver-assets did not finish"), "{text}");
    scene.platform.mend();
    scene.platform.answer("/opt/windlass/bin/windlass-node bootstrap-assets --stdin", refused);
    let text = report(scene.pass().await);
    assert!(text.contains("it ended with code 78") && text.contains("cannot take the assets"), "{text}");
    let mended = Scene { platform: Fake::default(), ..scene };
    // Its machines are those of another platform now, which has to make them first.
    std::fs::remove_file(mended.dir.path().join(logbook::JOURNAL)).unwrap();
    mended.pass().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_push_without_its_keys_says_what_is_missing() {
    let mut scene = Scene::pushing();
    scene.assets.ssh = None;
    let text = report(scene.pass().await);
    assert!(text.contains("assets/ssh"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_master_that_dies_is_named() {
    let scene = Scene::new();
    scene.platform.set("master-1", MachineState::Dead { reason: "killed by signal 9".to_owned() });
    let text = report(scene.pass().await);
    assert!(text.contains("start-machines did not finish"), "{text}");
    assert!(text.contains("master-1 is dead: killed by signal 9"), "{text}");
}

#[test]
fn the_port_that_was_got_is_written_down_and_is_no_edit() {
    let scene = Scene::new();
    port::settle(scene.dir.path(), 7443).unwrap();
    let kubeconfig = std::fs::read_to_string(scene.dir.path().join("auth/kubeconfig")).unwrap();
    assert!(kubeconfig.contains("https://127.0.0.1:7443"), "the kubeconfig leads to the port");
    let metadata = std::fs::read_to_string(scene.dir.path().join("metadata.json")).unwrap();
    assert!(metadata.contains("\"apiPort\": 7443"), "{metadata}");
    let edited = AssetDir::open(scene.dir.path()).unwrap().edited().unwrap();
    assert!(!edited.iter().any(|path| path == "auth/kubeconfig" || path == "metadata.json"), "{edited:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_that_do_not_belong_together_stop_the_launch_before_anything_is_made() {
    let mut scene = Scene::new();
    scene.assets.addon_keys.minisign.public.clear();
    let report = report(scene.pass().await);
    assert!(report.contains("create-network") && report.contains("assets/addons/public-key.minisign"), "{report}");
    assert!(!scene.platform.calls().contains(&"provision"));
}
