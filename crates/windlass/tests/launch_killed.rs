//! `windlass launch` killed at every boundary of its journal, on the simulated cloud: `resume` finishes, nothing is there
//! twice, and `down` leaves nothing.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// How many seconds preflight may take.
const PREFLIGHT: f64 = 3.0;

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
        self.real(words).arg("--simulated")
    }

    /// On this host as it is, where nothing can be made for want of artifacts.
    fn real(&self, words: &[&str]) -> windlass_steps::host::CommandSpec {
        let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
        let command = cmd(program).args(words).arg("--dir").arg(self.cluster());
        let command = command.arg("--cache").arg(self.dir.path().join("cache"));
        let command = command.arg("--cloud-run").arg(self.dir.path().join("run"));
        command.arg("--cloud-state").arg(self.dir.path().join("state")).current_dir(self.dir.path())
    }

    fn windlass(&self, words: &[&str]) -> Output {
        ended(self.command(words))
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

/// Runs a command that may end with any of our codes.
fn ended(command: windlass_steps::host::CommandSpec) -> Output {
    run_blocking((1..10).fold(command, |command, code| command.accept(code))).unwrap()
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
            let mut finished = finished(&ground.cluster());
            if event == "verify/finished" {
                assert_eq!(finished.pop().as_deref(), Some("verify"), "what had finished is looked at again");
            }
            assert_eq!(finished, STEPS, "{event}: every step is finished once");
            assert!(preflight(&ground.cluster()).iter().all(|took| *took <= PREFLIGHT), "{event}");
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
fn without_artifacts_everything_that_is_missing_is_told_at_once_and_nothing_is_made() {
    let ground = Ground::new();
    let before = entries(ground.dir.path());
    for _ in 0..2 {
        let began = Instant::now();
        let refused = ended(ground.real(&["launch"]));
        let took = began.elapsed();
        assert_eq!(refused.code, 4, "{}", refused.stderr);
        assert!(took < Duration::from_secs(3), "{took:?}");
        let looked = preflight(&ground.cluster());
        assert!(!looked.is_empty() && looked.iter().all(|took| *took <= PREFLIGHT), "{looked:?}");
        let missing =
            ["base-1", "base-2", "preload", "extensions", "ignition", "kubectl", "addon containerd", "addon kubelet"];
        for what in missing {
            assert!(refused.stderr.contains(&format!("because: {what} ")), "{what}: {}", refused.stderr);
        }
        assert_eq!(entries(ground.dir.path()), before, "no cache, no cloud");
    }
    let launched = ground.windlass(&["launch"]);
    assert_eq!(launched.code, 0, "a launch that was refused may be repeated: {}", launched.stderr);
    ground.down();
}

/// What the platform has to say is one more line: a cloud that could not be woken ended the launch with code 5 before.
#[test]
fn a_cloud_that_cannot_be_woken_hid_what_else_stood_in_the_way() {
    let ground = Ground::new();
    let config = "assets/config/kubelet-worker.yaml";
    let (path, machine) = (ground.cluster().join(config), ground.cluster().join("assets/worker.ign"));
    let (good, before) = (fs::read_to_string(&path).unwrap(), fs::read(&machine).unwrap());
    let edited = good.replace("cgroupDriver: cgroupfs", "cgroupDriver: systemd");
    write_file(&path, &edited, Mode::PRIVATE_FILE).unwrap();
    let traces = ground.dir.path().join("state/clusters").join(ground.infra_id());
    let log = ground.dir.path().join("state/cloud.log");
    [&traces, &log].iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
    let refused = ground.windlass(&["launch"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    let driver = format!("because: {config}: cgroupDriver: \"systemd\" is not the cgroup driver");
    for words in [driver.as_str(), "cloud.log"] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    [&traces, &log].iter().for_each(|dir| fs::remove_dir(dir).unwrap());
    assert_ne!(fs::read(&machine).unwrap(), before, "the edit has got into what the machine gets");
    write_file(&path, good, Mode::PRIVATE_FILE).unwrap();
    let launched = ground.windlass(&["launch"]);
    assert_eq!(launched.code, 0, "{}", launched.stderr);
    assert_eq!(fs::read(&machine).unwrap(), before, "an edit that was undone has gone from it");
    ground.down();
}

#[test]
fn an_edit_after_a_refused_preflight_reaches_the_machines_by_resume() {
    let ground = Ground::new();
    assert_eq!(ended(ground.real(&["launch"])).code, 4);
    let manifest = "assets/manifests/addons/coredns.yaml";
    let (path, config) = (ground.cluster().join(manifest), ground.cluster().join("assets/bootstrap-assets.json"));
    let before = fs::read(&config).unwrap();
    write_file(&path, fs::read_to_string(&path).unwrap() + "# mine\n", Mode::PRIVATE_FILE).unwrap();
    let resumed = ground.windlass(&["resume"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stderr.contains(&format!("edited since prepare, and used as they are: {manifest}")));
    let made = fs::read(&config).unwrap();
    assert_ne!(made, before, "the document that carries it is made again");
    write_file(&path, fs::read_to_string(&path).unwrap() + "# later\n", Mode::PRIVATE_FILE).unwrap();
    assert_eq!(ground.windlass(&["resume"]).code, 0);
    assert_eq!(fs::read(&config).unwrap(), made, "what was launched is not made again");
    ground.down();
}

#[test]
fn artifacts_that_went_after_preflight_are_named_by_resume() {
    let ground = Ground::new();
    ground.killed_at("create-network/started");
    let refused = ended(ground.real(&["resume"]));
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    for what in ["base-1", "extensions", "kubectl"] {
        assert!(refused.stderr.contains(&format!("because: {what} ")), "{what}: {}", refused.stderr);
    }
    assert_eq!(ground.windlass(&["resume"]).code, 0);
    ground.down();
}

#[test]
fn damaged_files_stand_in_the_way_of_a_launch_and_are_no_refusal() {
    let ground = Ground::new();
    let damage = |name: &str, text: &str| {
        let path = ground.cluster().join(name);
        let good = fs::read(&path).unwrap_or_default();
        write_file(&path, text, Mode::PRIVATE_FILE).unwrap();
        (path, good)
    };
    let cases = [
        ("assets/manifests/control-plane/kube-scheduler.yaml", "kind: [Deployment\n", 4),
        ("assets/pki/ca.crt", "no certificate\n", 4),
        ("metadata.json", "{", 4),
        ("journal.jsonl", "{\n{}\n", 1),
    ];
    for (name, text, code) in cases {
        let (path, good) = damage(name, text);
        let ended = ground.windlass(&["launch"]);
        assert_eq!(ended.code, code, "{name}: {}", ended.stderr);
        if code == 1 {
            assert_eq!(ground.windlass(&["resume"]).code, code, "{name}");
        }
        write_file(&path, good, Mode::PRIVATE_FILE).unwrap();
    }
    let spoilt = [damage("assets/pki/ca.crt", "no certificate\n"), damage("assets/bootstrap-assets.json", "{")];
    let ended = ground.windlass(&["launch"]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    for (path, good) in spoilt {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(ended.stderr.contains(name), "{name}: {}", ended.stderr);
        write_file(&path, good, Mode::PRIVATE_FILE).unwrap();
    }
    fs::rename(ground.cluster().join("assets/pki/ca.crt"), ground.dir.path().join("ca.crt")).unwrap();
    let ended = ground.windlass(&["launch"]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
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

/// The names of what is in a directory.
fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The steps that the journal has as finished, in order.
fn finished(cluster: &Path) -> Vec<String> {
    let finished = journal(cluster).into_iter().filter(|event| event["kind"] == "finished");
    finished.map(|event| event["step"].as_str().unwrap().to_owned()).collect()
}

/// How many seconds each preflight took that has ended, well or not.
fn preflight(cluster: &Path) -> Vec<f64> {
    let looked = journal(cluster).into_iter().filter(|event| event["step"] == "preflight");
    looked.filter_map(|event| event["took"].as_f64()).collect()
}

fn journal(cluster: &Path) -> Vec<Value> {
    let journal = fs::read_to_string(cluster.join("journal.jsonl")).unwrap();
    journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
