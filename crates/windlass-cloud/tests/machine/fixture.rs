//! One machine of a test: its directory, its pinned network namespace and its metadata service, all of which go with it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use windlass_cloud::machine::{Command, Description, Image, Lifecycle, Limits, Off, On, Phase, Seed, Slot, image};
use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::host::{Mode, cmd, make_dir, run_blocking, write_file};
use windlass_steps::wait::Wait;

use crate::artifact::Artifact;
use crate::host::left_of;
use crate::metadata::Metadata;

/// Inside: what the update engine signalled.
const SIGNALS: &str = "/run/signals";

/// What the metadata service has for the machine.
#[derive(Clone, Copy)]
pub enum User {
    None,
    Data(&'static str),
    /// Once it is told to.
    Later(&'static str),
}

pub struct Fixture {
    pub description: Description,
    pub metadata: Metadata,
    pin: PathBuf,
    dir: TempDir,
}

impl Fixture {
    pub async fn new(name: &str, user: User, limits: Limits) -> Self {
        let artifacts = Artifacts::found();
        let dir = TempDir::with_prefix_in("machine-test-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (directory, run) = (dir.path().join("machine"), dir.path().join("run"));
        make_dir(&run, Mode::PRIVATE_DIR).unwrap();
        let pin = run.join("net");
        pin_network(&pin);
        let slot = |image: &Image, version: &str| Slot { version: version.to_owned(), tree: image.tree.clone() };
        let (data, at_once) = match user {
            User::None => ("", true),
            User::Data(data) => (data, true),
            User::Later(data) => (data, false),
        };
        let metadata = Metadata::serve(&pin, data, at_once, directory.clone(), slot(&artifacts.second, "2"));
        let description = Description {
            cluster: format!("{name}-test"),
            machine: name.to_owned(),
            directory,
            run: run.clone(),
            pins: run,
            network: pin.clone(),
            gateway: "10.99.0.1".parse().unwrap(),
            search: Vec::new(),
            image: artifacts.first.tree.clone(),
            os: slot(&artifacts.first, "1"),
            seeds: vec![Seed { tree: artifacts.preload.tree.clone(), at: PathBuf::from("lib/containerd") }],
            binds: Vec::new(),
            limits,
            program: PathBuf::from(env!("CARGO_BIN_EXE_windlass-cloud")),
            ignition: (!matches!(user, User::None)).then(|| artifacts.ignition.clone()),
        };
        Self { description, metadata, pin, dir }
    }

    pub async fn start(&self) -> On {
        match Lifecycle::of(&self.description).unwrap() {
            Lifecycle::Off(off) => off.start().await.unwrap(),
            Lifecycle::On(_) => panic!("it runs already"),
        }
    }

    /// Removes the machine, and looks for what is left of it.
    pub async fn remove(self, off: Off) {
        off.remove().await.unwrap();
        let (dir, description) = (self.dir.path().to_owned(), self.description.clone());
        drop(self);
        assert_eq!(left_of(&dir, &description.machine, &description.cluster), Vec::<String>::new());
    }

    /// Until systemd says that the system is running.
    pub async fn until_running(&self, on: &On) {
        let look = || async {
            // It waits by itself as soon as it can be asked.
            let asked = on.exec(Command::new(["systemctl", "is-system-running", "--wait"])).await;
            Ok(match asked {
                Ok(done) => match String::from_utf8_lossy(&done.stdout).trim() {
                    "running" => Observation::Holds,
                    "degraded" => Observation::Never(Reason::new(failed_units(on).await)),
                    word => Observation::NotYet(Reason::new(format!("{word} {}", done.stderr)).at(0)),
                },
                Err(error) => Observation::NotYet(Reason::new(error.to_string()).at(0)),
            })
        };
        self.until(Criterion::new("the machine is running", look)).await;
    }

    pub async fn until_booted(&self, on: &On, boots: u32) {
        let look = || async {
            let runner = on.runner().unwrap();
            Ok(match runner.boots >= boots {
                true => Observation::Holds,
                false => Observation::NotYet(Reason::new("not booted again")),
            })
        };
        self.until(Criterion::new("the machine boots again", look)).await;
    }

    pub async fn until_phase(&self, on: &On, phase: Phase) {
        let look = || async {
            let now = on.runner().unwrap().phase;
            Ok(if now == phase { Observation::Holds } else { Observation::NotYet(Reason::new(format!("{now:?}"))) })
        };
        self.until(Criterion::new("the runner has come so far", look)).await;
    }

    pub async fn until_ignition_says(&self, on: &On, word: &str) -> String {
        let says = || on.ignition_reason().filter(|reason| reason.contains(word));
        let look = || async {
            Ok(match says() {
                Some(_) => Observation::Holds,
                None => Observation::NotYet(Reason::new(format!("{:?}", on.ignition_reason())).at(0)),
            })
        };
        self.until(Criterion::new("Ignition says why it waits", look)).await;
        on.ignition_reason().unwrap_or_default()
    }

    /// Lets so much time pass.
    pub async fn pass(&self, time: Duration) {
        let started = std::time::Instant::now();
        let look = || async move {
            Ok(match started.elapsed() >= time {
                true => Observation::Holds,
                false => Observation::NotYet(Reason::new("not yet")),
            })
        };
        self.until(Criterion::new("the time has passed", look)).await;
    }

    async fn until(&self, criterion: Criterion<'_>) {
        let wait = Wait::stalled_for(Duration::from_secs(90)).poll_every(Duration::from_millis(20));
        let wait = wait.look_limit(Duration::from_secs(60));
        let met = wait.until(&[criterion], |_| Ok::<(), std::convert::Infallible>(())).await;
        if met.is_err() {
            let console = windlass_cloud::machine::console::tail(&self.description.console(), 4000).unwrap();
            panic!("{met:?}; console: {}", String::from_utf8_lossy(&console));
        }
    }

    pub fn kill_runner(&self, on: &On) {
        kill(Pid::from_raw(on.runner().unwrap().identity.pid), Signal::SIGKILL).unwrap();
    }

    pub async fn shows_its_memory_limit(&self, on: &On, bytes: u64) {
        let seen = on.exec(Command::new(["cat", "/sys/fs/cgroup/memory/memory.limit_in_bytes"])).await.unwrap();
        if seen.code == 0 {
            assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), bytes.to_string());
            return;
        }
        let file = Path::new("/sys/fs/cgroup/windlass").join(&self.description.cluster).join(&self.description.machine);
        let text = std::fs::read_to_string(file.join("machine/memory.max")).unwrap();
        assert_eq!(text.trim(), bytes.to_string());
    }

    /// Asks the update engine over D-Bus, as node software does, until it says that a reboot is needed.
    pub async fn updates_through_the_bus(&self, on: &On) {
        let call = |method: &str| {
            let manager = ["com.coreos.update1", "/com/coreos/update1", "com.coreos.update1.Manager"];
            Command::new([["busctl", "--json=short", "call"].as_slice(), &manager, &[method]].concat())
        };
        let status = on.exec(call("GetStatus")).await.unwrap();
        assert_eq!(status.code, 0, "{}", status.stderr);
        let idle: Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(idle["data"][2], "UPDATE_STATUS_IDLE", "{idle}");
        self.hears_signals(on).await;
        assert_eq!(on.exec(call("AttemptUpdate")).await.unwrap().code, 0);
        let look = || async {
            let status = on.exec(call("GetStatus")).await?;
            let now: Value = serde_json::from_slice(&status.stdout)?;
            Ok(match now["data"][2] == "UPDATE_STATUS_UPDATED_NEED_REBOOT" && now["data"][3] == "2" {
                true => Observation::Holds,
                false => Observation::NotYet(Reason::new(now.to_string())),
            })
        };
        self.until(Criterion::new("the update is staged", look)).await;
        for operation in ["CHECKING_FOR_UPDATE", "UPDATE_AVAILABLE", "DOWNLOADING", "VERIFYING", "UPDATED_NEED_REBOOT"]
        {
            self.until_heard(on, operation).await;
        }
    }

    async fn hears_signals(&self, on: &On) {
        let monitor = "setsid busctl --json=short --match=\"type='signal',member='StatusUpdate'\" monitor";
        let script = format!("{monitor} >{SIGNALS} 2>&1 </dev/null &");
        assert_eq!(on.exec(Command::new(["sh", "-c", &script])).await.unwrap().code, 0);
        self.until_heard(on, "Monitoring").await;
    }

    async fn until_heard(&self, on: &On, word: &str) {
        let look = || async {
            let found = on.exec(Command::new(["grep", "-q", word, SIGNALS])).await?;
            Ok(if found.code == 0 { Observation::Holds } else { Observation::NotYet(Reason::new(word)) })
        };
        self.until(Criterion::new("the bus has said this", look)).await;
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let description = self.description.clone();
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                if let Lifecycle::On(on) = Lifecycle::of(&description)? {
                    on.power_cut().await?;
                }
                if let Lifecycle::Off(off) = Lifecycle::of(&description)? {
                    off.remove().await?;
                }
                description.groups()?.remove_parents();
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            })
        });
        let cleaned = cleaning.join();
        let _ = umount2(&self.pin, MntFlags::MNT_DETACH);
        if !std::thread::panicking() {
            cleaned.unwrap().unwrap();
        }
    }
}

async fn failed_units(on: &On) -> String {
    let units = on.exec(Command::new(["systemctl", "list-units", "--failed", "--plain", "--no-legend"])).await;
    format!("{units:?}")
}

fn pin_network(pin: &Path) {
    write_file(pin, "", Mode::PUBLIC).unwrap();
    run_blocking(cmd("unshare").arg(format!("--net={}", pin.display())).args(["ip", "link", "set", "lo", "up"]))
        .unwrap();
    let inside = cmd("nsenter").arg(format!("--net={}", pin.display()));
    run_blocking(inside.args(["ip", "address", "add", "169.254.169.254/32", "dev", "lo"])).unwrap();
}

/// What `windlass artifacts fetch` got, unpacked once for all tests.
pub struct Artifacts {
    pub first: Image,
    pub second: Image,
    pub preload: Image,
    pub ignition: PathBuf,
}

impl Artifacts {
    pub fn found() -> &'static Self {
        static FOUND: OnceLock<Artifacts> = OnceLock::new();
        FOUND.get_or_init(|| {
            let images = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images");
            let unpacked = |name: &str| {
                let artifact = Artifact::found(name);
                image::unpack(&images, name, &artifact.digest, &artifact.path).unwrap()
            };
            let ignition = Artifact::found("ignition").path;
            Self { first: unpacked("base-1"), second: unpacked("base-2"), preload: unpacked("preload"), ignition }
        })
    }
}
