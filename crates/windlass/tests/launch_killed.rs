//! `windlass launch` killed at every boundary of its journal, on the simulated cloud: `resume` finishes, nothing is there
//! twice, and `down` leaves nothing.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use windlass_cloud_api::{Daemon, World};
use windlass_steps::host::{HostError, Mode, Output, cmd, run_blocking, write_file};

const SPEC: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  platform:\n    local:\n      egress: off\n";
const STEPS: [&str; 13] = [
    "preflight",
    "create-network",
    "start-machines",
    "deliver-assets",
    "serve-machine-config",
    "form-etcd-quorum",
    "start-control-plane",
    "pivot-control-plane",
    "apply-addons",
    "retire-bootstrap",
    "join-workers",
    "settle-addons",
    "verify",
];

/// A cloud and a cluster directory of the test's own; whatever runs of it ends with it.
struct Ground {
    dir: TempDir,
}

impl Ground {
    /// With a prepared cluster directory.
    fn new() -> Self {
        let ground = Ground { dir: tempfile::tempdir().unwrap() };
        let prepare = cmd(env!("CARGO_BIN_EXE_windlass")).arg("prepare").arg("--dir").arg(ground.cluster());
        run_blocking(prepare.args(["--spec", "-", "--seed", "killed"]).stdin(SPEC)).unwrap();
        ground
    }

    fn cluster(&self) -> PathBuf {
        self.dir.path().join("c")
    }

    fn command(&self, words: &[&str]) -> windlass_steps::host::CommandSpec {
        let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
        assert!(program.with_file_name("windlass-cloud").is_file(), "`cargo build -p windlass-cloud` puts it there");
        let command = cmd(program).args(words).arg("--dir").arg(self.cluster()).arg("--simulated");
        let command = command.arg("--cloud-run").arg(self.dir.path().join("run"));
        command.arg("--cloud-state").arg(self.dir.path().join("state")).current_dir(self.dir.path())
    }

    fn windlass(&self, words: &[&str]) -> Output {
        let command = (1..10).fold(self.command(words), |command, code| command.accept(code));
        run_blocking(command).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.windlass(&[words, &["-o", "json"]].concat());
        assert_eq!(output.code, 0, "{words:?}: {}", output.stderr);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Launches and is killed when the journal has the event.
    fn killed_at(&self, event: &str) {
        let ended = run_blocking(self.command(&["launch", "--killed-at", event]));
        let Err(HostError::RunCommand { status, .. }) = ended else { panic!("{event}: it was not killed: {ended:?}") };
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{event}");
    }

    fn infra_id(&self) -> String {
        let metadata: Value = serde_json::from_slice(&fs::read(self.cluster().join("metadata.json")).unwrap()).unwrap();
        metadata["infraID"].as_str().unwrap().to_owned()
    }

    fn authority(&self) -> Vec<u8> {
        fs::read(self.cluster().join("assets/pki/ca.crt")).unwrap()
    }

    fn machines(&self) -> Vec<String> {
        let status = self.json(&["status"]);
        let machines = status["machines"].as_array().unwrap();
        machines.iter().map(|machine| machine["name"].as_str().unwrap().to_owned()).collect()
    }

    fn down(&self) {
        let removed = self.json(&["down", "--yes"]);
        assert_eq!(removed["left"], serde_json::json!([]));
        let clusters = self.dir.path().join("state/clusters");
        let left: Vec<_> = fs::read_dir(clusters).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // A daemon that a failed test left goes with its cluster; one that went already has nothing to remove.
        let program = Path::new(env!("CARGO_BIN_EXE_windlass")).with_file_name("windlass-cloud");
        let (run, state) = (self.dir.path().join("run"), self.dir.path().join("state"));
        let daemon = Daemon { program, run, state, world: World::Simulated };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for cluster in daemon.client().clusters().await.unwrap_or_default() {
                let _ = daemon.client().destroy(&cluster.name).await;
            }
            let _ = daemon.client().leave().await;
        });
    }
}

#[test]
fn resume_finishes_a_launch_that_was_killed_at_any_boundary() {
    for step in STEPS {
        for kind in ["started", "finished"] {
            let ground = Ground::new();
            let (id, ca) = (ground.infra_id(), ground.authority());
            let event = format!("{step}/{kind}");
            ground.killed_at(&event);
            let resumed = ground.windlass(&["resume"]);
            assert_eq!(resumed.code, 0, "{event}: {}", resumed.stderr);
            assert_eq!((ground.infra_id(), ground.authority()), (id, ca), "{event}");
            let machines = ground.machines();
            assert_eq!(machines, ["master-0", "master-1", "master-2", "worker-0", "worker-1"], "{event}");
            assert_eq!(finished(&ground.cluster()), STEPS, "{event}: every step is finished once");
            assert_eq!(ground.windlass(&["launch"]).code, 8, "{event}");
            ground.down();
            let left = ground.windlass(&["down", "--yes"]);
            assert_eq!((left.code, left.text().unwrap()), (0, "there is nothing to remove"), "{event}");
        }
    }
}

#[test]
fn an_edit_since_prepare_reaches_the_machines() {
    let ground = Ground::new();
    let manifest = "assets/manifests/addons/coredns.yaml";
    let (path, config) = (ground.cluster().join(manifest), ground.cluster().join("assets/bootstrap-assets.json"));
    let (ca, before) = (ground.authority(), fs::read(&config).unwrap());
    write_file(&path, fs::read_to_string(&path).unwrap() + "# mine\n", Mode::PRIVATE_FILE).unwrap();
    let launched = ground.windlass(&["launch"]);
    assert_eq!(launched.code, 0, "{}", launched.stderr);
    assert!(launched.stderr.contains(&format!("edited since prepare, and used as they are: {manifest}")));
    assert_ne!(fs::read(&config).unwrap(), before, "the document that carries it is made again");
    assert!(fs::read_to_string(&path).unwrap().ends_with("# mine\n"));
    assert_eq!(ground.authority(), ca);
    ground.down();
}

#[test]
fn a_second_launch_is_refused_and_changes_nothing() {
    let ground = Ground::new();
    let first = ground.windlass(&["launch"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.text().unwrap().contains("demo-") && first.text().unwrap().contains("windlass down"), "{first:?}");
    let before = fs::read(ground.cluster().join("journal.jsonl")).unwrap();
    for command in ["launch", "up"] {
        let second = ground.windlass(&[command]);
        assert_eq!(second.code, 8, "{command}: {}", second.stderr);
        assert!(second.stderr.contains("windlass resume") && second.stderr.contains("windlass down"));
    }
    assert_eq!(fs::read(ground.cluster().join("journal.jsonl")).unwrap(), before);
    assert_eq!(ground.windlass(&["down"]).code, 2, "without a terminal it wants --yes");
    ground.down();
    assert!(ground.cluster().join("journal-1.jsonl").exists() && ground.cluster().join("cluster.yaml").exists());
    let other = ground.windlass(&["up", "--num-nodes", "7"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("--num-nodes says 7, the spec says 2"), "{}", other.stderr);
    let again = ground.windlass(&["up", "--num-nodes", "2"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let id = ground.infra_id();
    let by_id = ground.windlass(&["down", "--yes", "--infra-id", &id]);
    assert_eq!(by_id.code, 0, "{}", by_id.stderr);
    assert!(ground.cluster().join("journal.jsonl").exists(), "the directory is left alone");
    ground.down();
}

#[test]
fn a_cluster_can_be_removed_when_its_directory_is_damaged() {
    let ground = Ground::new();
    assert_eq!(ground.windlass(&["launch"]).code, 0);
    let journal = ground.cluster().join("journal.jsonl");
    let damaged = fs::read_to_string(&journal).unwrap().replacen("\"kind\"", "\"kin", 1);
    write_file(&journal, damaged, Mode::PRIVATE_FILE).unwrap();
    fs::remove_file(ground.cluster().join("assets.lock")).unwrap();
    let removed = ground.windlass(&["down", "--yes"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert!(!removed.text().unwrap().contains("nothing to remove"), "{removed:?}");
    assert!(ground.cluster().join("journal-1.jsonl").exists() && !journal.exists());
}

#[test]
fn what_was_never_launched_cannot_be_resumed_and_is_no_trouble_to_remove() {
    let ground = Ground::new();
    let resumed = ground.windlass(&["resume"]);
    assert_eq!(resumed.code, 2, "{}", resumed.stderr);
    assert_eq!(ground.windlass(&["down"]).code, 0);
    let status = ground.json(&["status"]);
    assert!(status["steps"].as_array().unwrap().iter().all(|step| step["state"] == "never"), "{status}");
    assert_eq!(ground.windlass(&["down", "--infra-id", "nobody-00000"]).code, 0);
}

/// The steps that the journal has as finished, in order.
fn finished(cluster: &Path) -> Vec<String> {
    let journal = fs::read_to_string(cluster.join("journal.jsonl")).unwrap();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let finished = events.filter(|event| event["kind"] == "finished");
    finished.map(|event| event["step"].as_str().unwrap().to_owned()).collect()
}
