//! A daemon of the test's own, which can be killed and started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_cloud_api::{Client, ClusterSpec, ImageSpec, Label, MachineSpec};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn label(text: &str) -> Label {
    Label::parse(text).unwrap()
}

/// A daemon over the simulated world, in directories that go away with it.
pub struct Daemon {
    dir: TempDir,
    child: Option<Child>,
    pub client: Client,
}

impl Daemon {
    /// Starts one, with nothing in it.
    pub async fn start() -> Self {
        Daemon::start_in(tempfile::tempdir().unwrap()).await
    }

    /// Starts one in this directory.
    pub async fn start_in(dir: TempDir) -> Self {
        let client = Client::new(dir.path().join("run/cloud.sock"));
        let mut daemon = Daemon { dir, child: None, client };
        daemon.again().await;
        daemon
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// Starts the program in these directories and waits until it answers; says how long that took.
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon is killed while it works, which the one door does not offer"
    )]
    pub async fn again(&mut self) -> Duration {
        let started = Instant::now();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-cloud"));
        command.args(["serve", "--simulated", "--state"]).arg(self.state()).arg("--run").arg(self.run());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        soon("the daemon answers", async || self.client.status().await.is_ok()).await;
        started.elapsed()
    }

    /// Takes the process away as a power cut would.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until it has left by itself.
    pub async fn left(&mut self) {
        let mut child = self.child.take().unwrap();
        soon("the daemon leaves", async || child.try_wait().unwrap().is_some()).await;
    }

    /// The processes that stand for machines of these directories.
    pub fn stubs(&self) -> Vec<PathBuf> {
        let wanted = self.run().to_string_lossy().into_owned();
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = processes.filter_map(|process| stub(&process, &wanted)).collect();
        found.sort();
        found
    }

    /// A cluster with room for thousands, and an image to make machines from.
    pub async fn cluster(&self, name: &str) -> Label {
        let tree = self.dir.path().join("tree");
        std::fs::File::create(&tree).unwrap();
        let image =
            ImageSpec { tree, digest: "sha256:00".into(), os_version: "1".into(), ignition: None, seeds: Vec::new() };
        self.client.put_image(&label("base"), &image).await.unwrap();
        let spec = ClusterSpec {
            domain: format!("{name}.example"),
            subnet: "10.64.0.0/14".parse().unwrap(),
            mtu: 1500,
            tags: [("owner".to_owned(), name.to_owned())].into(),
            egress: windlass_cloud_api::Egress::Off,
            channel: windlass_cloud_api::Channel::default(),
            public: Vec::new(),
        };
        self.client.put_cluster(&label(name), &spec).await.unwrap();
        label(name)
    }
}

/// Nothing of a test stays behind, also if it fails: what stands for machines is killed with the daemon.
impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for run in self.stubs() {
            if let Ok(Some(identity)) = windlass_cloud::process::Identity::read(&run.join("runner.json"))
                && let Ok(Some(handle)) = identity.open()
            {
                let _ = handle.signal(windlass_cloud::process::Signal::KILL);
            }
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the daemon said, newest first: {tail:#?}");
        }
    }
}

/// The run directory of the machine that a process stands for.
fn stub(process: &Path, wanted: &str) -> Option<PathBuf> {
    let line = std::fs::read(process.join("cmdline")).ok()?;
    let words: Vec<String> = line.split(|byte| *byte == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    let run = words.iter().position(|word| word == "--run").and_then(|at| words.get(at + 1))?;
    (words.get(2).is_some_and(|word| word == "stub") && run.starts_with(wanted)).then(|| PathBuf::from(run))
}

pub fn machine() -> MachineSpec {
    MachineSpec {
        image: label("base"),
        role: String::new(),
        address: None,
        memory: None,
        cpus: None,
        user_data: None,
        tags: windlass_cloud_api::Tags::new(),
    }
}

/// Looks until it is so, and fails if it is not in time.
pub async fn soon(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    let mut glance = tokio::time::interval(Duration::from_millis(10));
    while !look().await {
        assert!(started.elapsed() < PATIENCE, "not in time: {what}");
        glance.tick().await;
    }
}
