//! A daemon and its clusters, all of which go with the test, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::sync::MutexGuard;
use tokio::task::JoinHandle;
use windlass_cloud_api::{
    Channel, Client, ClusterSpec, Egress, ExecAnswer, ExecRequest, ImageSpec, Label, MachineSpec, RecordChange,
    RecordKind, RecordName, Seed, VolumeSpec,
};
use windlass_steps::host::{HostError, Output, cmd, run};

use crate::artifact::Artifact;

/// Longer than anything takes on a host that is busy with something else.
pub const LONG: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub fn label(text: &str) -> Label {
    Label::parse(text).unwrap()
}

/// A number that a drill asks for, given to the harness as if it were the name of a test.
pub fn asked<N: std::str::FromStr>(word: &str) -> Option<N> {
    std::env::args().find_map(|argument| argument.strip_prefix(word)?.parse().ok())
}

/// Looks until there is something, and says why there is not when it takes too long.
pub async fn until<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    let mut tick = tokio::time::interval(POLL);
    loop {
        tick.tick().await;
        match look().await {
            Ok(found) => return found,
            Err(reason) => assert!(started.elapsed() < limit, "not in {limit:?}: {what}: {reason}"),
        }
    }
}

/// Lets time pass, for tests that want to hit a moment.
pub async fn pass(time: Duration) {
    let mut tick = tokio::time::interval(time.max(Duration::from_millis(1)));
    tick.tick().await;
    tick.tick().await;
}

pub struct Cloud {
    pub client: Client,
    pub state: PathBuf,
    pub run: PathBuf,
    daemon: Mutex<Option<JoinHandle<Result<Output, HostError>>>>,
    clusters: Mutex<Vec<Label>>,
    dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Cloud {
    /// A daemon that answers and knows both bases. They are unpacked once for all tests, on the file system of the
    /// state, so that machines can share their files.
    pub async fn start() -> Self {
        let turn = TURN.lock().await;
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = TempDir::with_prefix_in("machines-", tmp).unwrap();
        let (state, run) = (dir.path().join("state"), dir.path().join("run"));
        for made in [&state, &tmp.join("images")] {
            fs::create_dir_all(made).unwrap();
        }
        std::os::unix::fs::symlink(tmp.join("images"), state.join("images")).unwrap();
        let client = Client::new(run.join("cloud.sock"));
        let (daemon, clusters) = (Mutex::default(), Mutex::default());
        let cloud = Self { client, state, run, daemon, clusters, dir, _turn: turn };
        cloud.serve().await;
        cloud
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts a daemon, the first or the next, and answers how long it took to answer.
    pub async fn serve(&self) -> Duration {
        let started = Instant::now();
        self.spawn();
        until("the daemon answers", LONG, async || self.client.status().await.map_err(|error| error.to_string())).await;
        let took = started.elapsed();
        for (name, version) in [("base-1", "1"), ("base-2", "2")] {
            self.client.put_image(&label(name), &image(name, version)).await.unwrap();
        }
        took
    }

    /// Starts a daemon, whether or not it stays.
    pub fn spawn(&self) {
        *self.daemon.lock().unwrap() = Some(tokio::spawn(run(self.command())));
    }

    fn command(&self) -> windlass_steps::host::CommandSpec {
        let log = self.dir.path().join("log");
        // Its log has to outlive it, however it ends.
        let words = ["-c", "log=$1; shift; exec \"$@\" 2>>\"$log\"", "sh"];
        let daemon = cmd("sh").args(words).arg(log).arg(env!("CARGO_BIN_EXE_windlass-cloud"));
        let daemon = daemon.args(["serve", "--log-level", "debug"]);
        daemon.arg("--state").arg(&self.state).arg("--run").arg(&self.run)
    }

    /// Kills the daemon as nothing else does, and returns when it is gone.
    pub async fn kill(&self) {
        let pid = self.client.status().await.unwrap().pid;
        kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
        self.gone().await;
    }

    /// Returns when the daemon has ended by itself.
    pub async fn gone(&self) {
        let daemon = self.daemon.lock().unwrap().take().unwrap();
        let ended = tokio::time::timeout(LONG, daemon).await;
        ended.expect("the daemon ends").unwrap().err();
    }

    pub async fn cluster(&self, name: &str, subnet: &str) -> Cluster<'_> {
        let spec = ClusterSpec {
            domain: format!("{name}.example"),
            subnet: subnet.parse().unwrap(),
            mtu: 1500,
            tags: Default::default(),
            egress: Egress::Off,
            channel: Channel { next: Some(label("base-2")) },
            public: vec!["public".parse().unwrap()],
        };
        self.clusters.lock().unwrap().push(label(name));
        self.client.put_cluster(&label(name), &spec).await.unwrap();
        Cluster { cloud: self, name: label(name) }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Destroys what there is, with a new daemon if there is none, and says what could not be.
    async fn clean_up(&self) -> Vec<String> {
        let mut left = Vec::new();
        let clusters = self.clusters.lock().unwrap().clone();
        for cluster in clusters.iter().filter(|cluster| self.traces(cluster)) {
            if self.client.status().await.is_err() {
                tokio::spawn(run(self.command()));
                until("the daemon answers", LONG, async || self.client.status().await.map_err(|e| e.to_string())).await;
            }
            match self.client.destroy(cluster).await {
                Ok(receipt) => left.extend(receipt.left.iter().map(|residue| format!("{residue:?}"))),
                Err(error) => left.push(format!("{cluster}: {error}")),
            }
        }
        left
    }

    fn traces(&self, cluster: &Label) -> bool {
        [&self.state, &self.run].iter().any(|place| place.join("clusters").join(cluster.as_str()).exists())
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let clean_up = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(self.clean_up())
        };
        let left = std::thread::scope(|scope| scope.spawn(clean_up).join());
        if let Some(daemon) = self.daemon.lock().unwrap().take() {
            // Dropping its future kills the daemon.
            daemon.abort();
        }
        let _ = umount2(&self.run, MntFlags::MNT_DETACH);
        if std::thread::panicking() {
            let log = self.log();
            let is_news = |line: &&str| !line.contains("hickory") && !line.contains("running command");
            let tail: Vec<&str> = log.lines().rev().filter(is_news).take(60).collect();
            eprintln!("what was left: {left:?}; the end of the daemon's log:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        } else {
            assert_eq!(left.unwrap(), Vec::<String>::new());
        }
    }
}

fn image(name: &str, version: &str) -> ImageSpec {
    let (base, preload) = (Artifact::found(name), Artifact::found("preload"));
    ImageSpec {
        tree: base.path,
        digest: base.digest,
        os_version: version.to_owned(),
        ignition: Some(Artifact::found("ignition").path),
        seeds: vec![Seed { tree: preload.path, digest: preload.digest, at: PathBuf::from("/var/lib/containerd") }],
    }
}

/// One cluster of the daemon's.
pub struct Cluster<'a> {
    pub cloud: &'a Cloud,
    pub name: Label,
}

impl Cluster<'_> {
    /// Wants a machine, with a config for Ignition if there is one.
    pub async fn machine(&self, name: &str, user_data: Option<&str>) {
        let spec = MachineSpec {
            image: label("base-1"),
            role: String::new(),
            address: None,
            memory: None,
            cpus: None,
            user_data: user_data.map(str::to_owned),
            tags: Default::default(),
        };
        self.cloud.client.put_machine(&self.name, &label(name), &spec).await.unwrap();
    }

    /// Until systemd says that the system is running.
    pub async fn running(&self, name: &str) {
        until(&format!("{name} is running"), LONG, async || {
            match self.exec(name, &["systemctl", "is-system-running", "--wait"]).await {
                Ok(answer) if answer.stdout.trim() == "running" => Ok(()),
                Ok(answer) => Err(format!("{} {}", answer.stdout, answer.stderr)),
                Err(reason) => Err(reason),
            }
        })
        .await;
    }

    pub async fn exec(&self, name: &str, words: &[&str]) -> Result<ExecAnswer, String> {
        let command = words.iter().map(ToString::to_string).collect();
        let request = ExecRequest { command, stdin: String::new(), timeout: Some(60) };
        self.cloud.client.exec(&self.name, &label(name), &request).await.map_err(|error| error.to_string())
    }

    /// What a script printed that must succeed.
    pub async fn sh(&self, name: &str, script: &str) -> String {
        let answer = self.exec(name, &["bash", "-ec", script]).await.unwrap();
        assert_eq!(answer.code, 0, "{name}: {script}: {} {}", answer.stdout, answer.stderr);
        answer.stdout.trim_end().to_owned()
    }

    /// Whether a script succeeds, and what it said.
    pub async fn tries(&self, name: &str, script: &str) -> Result<String, String> {
        let answer = self.exec(name, &["bash", "-ec", script]).await?;
        match answer.code {
            0 => Ok(answer.stdout.trim_end().to_owned()),
            code => Err(format!("code {code}: {} {}", answer.stdout, answer.stderr)),
        }
    }

    pub async fn record(&self, name: &str, address: &str) {
        let values = vec![address.to_owned()];
        let change = RecordChange { kind: RecordKind::A, values, only_if: Default::default() };
        self.cloud.client.put_record(&self.name, &RecordName::parse(name).unwrap(), &change).await.unwrap();
    }

    pub async fn volume(&self, name: &str) {
        let spec = VolumeSpec { size: 32 << 20, tags: Default::default() };
        self.cloud.client.put_volume(&self.name, &label(name), &spec).await.unwrap();
    }

    pub async fn address(&self, name: &str) -> String {
        self.cloud.client.machine(&self.name, &label(name)).await.unwrap().address.to_string()
    }

    /// Destroys it, and looks at the receipt.
    pub async fn destroy(&self) {
        let receipt = self.cloud.client.destroy(&self.name).await.unwrap();
        assert!(receipt.is_clean(), "{:?}", receipt.left);
    }
}

/// A script that opens a connection by bash alone, asks for a path, and prints the whole answer.
pub fn fetch(address: &str, path: &str) -> String {
    let ask = format!("printf 'GET {path} HTTP/1.0\\r\\nHost: {address}\\r\\n\\r\\n' >&3");
    format!("timeout 5 bash -c \"exec 3<>/dev/tcp/{address}/80; {ask}; cat <&3\"")
}

/// A script that connects by bash alone and prints what comes.
pub fn hear(address: &str, port: u16) -> String {
    format!("timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port}; cat <&3'")
}

/// For Ignition: a file, a unit that counts boots, and a service on port 7000 that says the machine's name.
pub const CONFIG: &str = r#"{
  "ignition": {"version": "3.4.0"},
  "storage": {"files": [{"path": "/etc/written", "mode": 384, "contents": {"source": "data:,hello%0A"}}]},
  "systemd": {"units": [
    {"name": "starts.service", "enabled": true, "contents":
      "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo started >> /var/lib/starts'\n[Install]\nWantedBy=multi-user.target\n"},
    {"name": "says.service", "enabled": true, "contents":
      "[Service]\nExecStart=/usr/bin/socat TCP-LISTEN:7000,reuseaddr,fork SYSTEM:hostname\n[Install]\nWantedBy=multi-user.target\n"}
  ]}
}"#;
