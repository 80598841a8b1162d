//! `windlass cloud` against a daemon over the simulated world: what people see, and how a cloud that does not run comes up.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use windlass_cloud_api::{Channel, Client, ClusterSpec, Daemon, Egress, ImageSpec, Label, MachineSpec, Tags, World};
use windlass_steps::host::{Output, cmd, run_blocking};

/// A cloud of the test's own: whatever runs of it ends with it.
struct Ground {
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Ground {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Ground { dir: tempfile::tempdir().unwrap(), runtime }
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn daemon(&self) -> Daemon {
        let program = Path::new(env!("CARGO_BIN_EXE_windlass")).with_file_name("windlass-cloud");
        assert!(program.is_file(), "`cargo build -p windlass-cloud` puts it beside windlass");
        Daemon { program, run: self.run(), state: self.dir.path().join("state"), world: World::Simulated }
    }

    fn client(&self) -> Client {
        self.daemon().client()
    }

    fn windlass(&self, words: &[&str]) -> Output {
        let mut command = cmd(env!("CARGO_BIN_EXE_windlass")).arg("cloud").arg("--cloud-run").arg(self.run());
        command = command.arg("--cloud-state").arg(self.dir.path().join("state")).arg("--cloud-simulated").args(words);
        for code in 1..10 {
            command = command.accept(code);
        }
        run_blocking(command.current_dir(self.dir.path())).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.windlass(&[words, &["-o", "json"]].concat());
        assert_eq!(output.code, 0, "{words:?}: {}", output.stderr);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A daemon with a cluster of these machines.
    fn cluster(&self, name: &str, machines: &[&str]) {
        let tree = self.dir.path().join("tree");
        fs::File::create(&tree).unwrap();
        let image =
            ImageSpec { tree, digest: "sha256:00".into(), os_version: "1".into(), ignition: None, seeds: vec![] };
        let spec = ClusterSpec {
            domain: format!("{name}.example"),
            subnet: "10.64.0.0/16".parse().unwrap(),
            mtu: 1500,
            tags: Tags::new(),
            egress: Egress::Off,
            channel: Channel::default(),
            public: Vec::new(),
        };
        self.runtime.block_on(async {
            self.daemon().start().await.unwrap();
            let client = self.client();
            client.put_image(&label("base"), &image).await.unwrap();
            client.put_cluster(&label(name), &spec).await.unwrap();
            for machine in machines {
                client.put_machine(&label(name), &label(machine), &plain()).await.unwrap();
                // Starting one that is on its way waits for it no longer than it takes; rebooting waits until it runs.
                client.reboot(&label(name), &label(machine)).await.unwrap();
            }
        });
    }

    /// kill -9, as a power cut of the host would.
    fn kill(&self) {
        let status = self.runtime.block_on(self.client().status()).unwrap();
        run_blocking(cmd("kill").args(["-9", &status.pid.to_string()])).unwrap();
    }

    fn states(&self, cluster: &str) -> Vec<(String, bool)> {
        let machines = self.runtime.block_on(self.client().machines(&label(cluster))).unwrap();
        machines.iter().map(|machine| (machine.name.to_string(), machine.state.is_running())).collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let destroyed: Result<(), String> = self.runtime.block_on(async {
            let daemon = self.daemon();
            if !self.dir.path().join("state/cloud.redb").exists() {
                return Ok(());
            }
            daemon.start().await.map_err(|error| error.to_string())?;
            for cluster in daemon.client().clusters().await.map_err(|error| error.to_string())? {
                daemon.client().destroy(&cluster.name).await.map_err(|error| error.to_string())?;
            }
            // The last destruction ends it; without a cluster it is asked to go.
            let _ = daemon.client().leave().await;
            Ok(())
        });
        assert!(std::thread::panicking() || destroyed == Ok(()), "{destroyed:?}");
    }
}

fn label(text: &str) -> Label {
    Label::parse(text).unwrap()
}

fn plain() -> MachineSpec {
    MachineSpec {
        image: label("base"),
        role: String::new(),
        address: None,
        memory: None,
        cpus: None,
        user_data: None,
        tags: Tags::new(),
    }
}

#[test]
fn a_cloud_that_does_not_run_is_an_answer_and_is_left_alone() {
    let ground = Ground::new();
    let status = ground.windlass(&["status"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    assert!(status.text().unwrap().starts_with("the local cloud does not run"), "{:?}", status.text());
    assert_eq!(ground.json(&["status"])["running"], false);
    assert_eq!(ground.json(&["machine", "list"]), serde_json::json!([]));
    let logs = ground.windlass(&["logs"]);
    assert_eq!(logs.code, 1);
    assert!(logs.stderr.contains("\nnext: ") && logs.stderr.contains("cloud.log"), "{}", logs.stderr);
    assert!(fs::read_dir(ground.dir.path()).unwrap().next().is_none(), "looking leaves nothing behind");
}

#[test]
fn machines_are_listed_switched_and_told_about() {
    let ground = Ground::new();
    ground.cluster("demo", &["one", "two"]);
    let status = ground.json(&["status"]);
    assert_eq!((&status["clusters"][0]["name"], &status["clusters"][0]["running"]), (&"demo".into(), &2.into()));
    assert!(ground.windlass(&["status"]).text().unwrap().contains("2 of 2 machines run"));
    let cut = ground.windlass(&["machine", "power-cut", "one"]);
    assert_eq!(cut.code, 0, "{}", cut.stderr);
    assert_eq!(ground.states("demo"), [("one".to_owned(), false), ("two".to_owned(), true)]);
    assert!(cut.text().unwrap().contains(" off"), "{:?}", cut.text());
    let stopped = ground.json(&["machine", "stop", "--all", "--cluster", "demo"]);
    assert_eq!(stopped.as_array().unwrap().len(), 2);
    assert_eq!(ground.states("demo"), [("one".to_owned(), false), ("two".to_owned(), false)]);
    assert_eq!(ground.windlass(&["machine", "reboot", "--all"]).code, 0);
    assert_eq!(ground.states("demo"), [("one".to_owned(), true), ("two".to_owned(), true)]);
    let logs = ground.windlass(&["logs", "--cluster", "demo"]);
    assert!(logs.text().unwrap().contains("demo one machine wanted"), "{:?}", logs.text());
    assert_eq!(ground.json(&["logs", "--cluster", "other"]), serde_json::json!([]));
    assert_eq!(ground.windlass(&["logs", "--machine", "one"]).code, 0);
}

#[test]
fn what_cannot_be_done_is_said_with_a_code_and_what_to_do_next() {
    let ground = Ground::new();
    ground.cluster("demo", &["one"]);
    ground.cluster("other", &["one"]);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["machine", "stop", "three"], 2, "there is no machine three"),
        (&["machine", "stop", "one"], 2, "demo, other"),
        (&["machine", "power-cut", "--all"], 2, "--all of which cluster?"),
        (&["machine", "list", "--cluster", "none"], 2, "there is no cluster none"),
        (&["machine", "stop"], 2, "Usage"),
        (&["machine", "stop", "../a"], 2, "is no name"),
        (&["machine", "exec", "one", "--cluster", "demo", "--", "true"], 1, "a simulated machine runs nothing"),
    ];
    for (words, code, says) in cases {
        let output = ground.windlass(words);
        assert_eq!(output.code, *code, "{words:?}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{words:?}: {}", output.stderr);
        let by_us =
            output.stderr.starts_with("error: ") && !output.stderr.contains("Usage") && !says.contains("no name");
        assert!(!by_us || output.stderr.contains("\nnext: "), "{words:?}: {}", output.stderr);
    }
    assert_eq!(ground.states("demo"), [("one".to_owned(), true)]);
}

#[test]
fn all_machines_are_those_of_every_cluster_when_they_are_stopped_or_started() {
    let ground = Ground::new();
    ground.cluster("demo", &["one"]);
    ground.cluster("other", &["one"]);
    let clusters = |answer: Value| -> Vec<String> {
        answer.as_array().unwrap().iter().map(|machine| machine["cluster"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(clusters(ground.json(&["machine", "stop", "--all"])), ["demo", "other"]);
    assert_eq!([ground.states("demo"), ground.states("other")].concat(), vec![("one".to_owned(), false); 2]);
    assert_eq!(clusters(ground.json(&["machine", "start", "--all"])), ["demo", "other"]);
}

#[test]
fn starting_machines_brings_a_dead_cloud_back_and_leaves_what_runs_alone() {
    let ground = Ground::new();
    ground.cluster("demo", &["one", "two"]);
    ground.windlass(&["machine", "stop", "two"]);
    let before = ground.json(&["machine", "list"]);
    ground.kill();
    assert_eq!(ground.json(&["status"])["running"], false);
    let started = ground.windlass(&["machine", "start", "--all"]);
    assert_eq!(started.code, 0, "{}", started.stderr);
    ground.windlass(&["machine", "reboot", "two"]);
    assert_eq!(ground.states("demo"), [("one".to_owned(), true), ("two".to_owned(), true)]);
    let after = ground.json(&["machine", "list"]);
    assert_eq!(before[0]["state"], after[0]["state"], "a machine that ran goes on in its process");
    let pid = ground.json(&["status"])["cloud"]["pid"].to_string();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, pid, "the daemon leads a session of its own");
}

#[test]
fn a_cloud_that_was_started_for_nothing_leaves_again() {
    let ground = Ground::new();
    let started = ground.windlass(&["machine", "start", "--all"]);
    assert_eq!(started.code, 2, "{}", started.stderr);
    assert!(started.stderr.contains("there is no machine to start"), "{}", started.stderr);
    assert!(ground.dir.path().join("state/cloud.log").exists());
}
