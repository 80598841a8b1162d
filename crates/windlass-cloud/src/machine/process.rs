//! A machine's life as the daemon sees it. A machine is found, not remembered: [`Lifecycle::of`] looks at what its runner
//! wrote down and whether that very process is alive. Off, it can be started; on, it can be entered, stopped, rebooted and
//! have its power cut; each change takes the state it is possible in and returns the next.

mod exec;
mod watch;

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use windlass_steps::clock::{Clock, SystemClock, rfc3339_millis};
use windlass_steps::host::{HostError, Mode, cmd, make_dir, run};

pub use self::exec::{Command, Executed};
use self::watch::Watch;
use super::cgroup::{Groups, Part, Usage};
use super::description::Description;
use super::error::{MachineError, change, host};
use super::record::{self, Ended, Phase, Runner};
use super::{console, ignition};

/// How long a runner may take to say who it is.
const START: Duration = Duration::from_secs(30);
/// SIGRTMIN+4 and SIGRTMIN+5 as glibc counts, which systemd as number 1 takes for "power off" and "reboot".
const POWER_OFF: &str = "-38";
const REBOOT: &str = "-39";

/// What is true of a machine now.
#[derive(Debug)]
pub enum Lifecycle {
    /// No runner is alive.
    Off(Off),
    /// A runner is alive.
    On(On),
}

/// A machine that does not run.
#[derive(Debug)]
pub struct Off {
    description: Description,
    groups: Groups,
    /// How it ended, if it ever ran since the host booted.
    pub ended: Option<Ended>,
}

/// A machine with a runner. Copies of it are the same machine.
#[derive(Clone, Debug)]
pub struct On {
    description: Description,
    groups: Groups,
    runner: Runner,
    watch: Watch,
}

impl Lifecycle {
    /// Looks at the machine as it is, whoever started it.
    pub fn of(description: &Description) -> Result<Self, MachineError> {
        let groups = description.groups()?;
        let description = description.clone();
        let runner: Option<Runner> = record::read(&description.runner())?;
        if let Some((runner, watch)) = runner.and_then(|runner| Some((runner.clone(), Watch::on(&runner.identity)?))) {
            return Ok(Self::On(On { description, groups, runner, watch }));
        }
        let said = record::read(&description.exit())?;
        let ended = said.or_else(|| description.runner().exists().then_some(Ended::Lost));
        Ok(Self::Off(Off { description, groups, ended }))
    }
}

impl Off {
    /// Starts the machine, and returns when a runner has it; it boots, or waits for its Ignition config, on its own.
    pub async fn start(self) -> Result<On, MachineError> {
        self.clear().await?;
        let Self { description, groups, .. } = self;
        for dir in [&description.directory, &description.run] {
            make_dir(dir, Mode::PRIVATE_DIR).map_err(host("make the directory of a machine"))?;
        }
        let file = description.write()?;
        groups.make(&description.limits)?;
        record::remove(&description.exit())?;
        let command = cmd(&description.program).args(["guest", "run", "--machine"]).arg(file).timeout(START);
        let output = run(command).await.map_err(host("start the runner of a machine"))?;
        let started = serde_json::from_slice::<Runner>(&output.stdout).ok();
        let machine = description.machine.clone();
        let Some(runner) = started else {
            return Err(MachineError::Start { machine, said: output.stderr.trim().to_owned() });
        };
        match Watch::on(&runner.identity) {
            Some(watch) => Ok(On { description, groups, runner, watch }),
            None => Err(MachineError::Start { machine, said: "nothing, and ended".to_owned() }),
        }
    }

    /// Removes everything that the machine has on this host: groups, directory, run files.
    pub async fn remove(self) -> Result<(), MachineError> {
        self.clear().await?;
        self.groups.remove_soon().await?;
        record::remove(&self.description.exit())?;
        record::remove(&self.description.runner())?;
        let dir = &self.description.directory;
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(change("remove", dir)(error)),
            _ => Ok(()),
        }
    }

    /// A runner that was killed may have left its machine's processes.
    async fn clear(&self) -> Result<(), MachineError> {
        self.groups.kill(Part::Machine).await?;
        self.groups.kill(Part::Runner).await
    }
}

impl On {
    /// What the machine uses.
    pub fn usage(&self) -> Usage {
        self.groups.usage()
    }

    /// How far the runner has come, as it wrote last.
    pub fn runner(&self) -> Result<Runner, MachineError> {
        Ok(record::read(&self.description.runner())?.unwrap_or_else(|| self.runner.clone()))
    }

    /// While Ignition is at work: what it said last.
    pub fn ignition_reason(&self) -> Option<String> {
        let phase = self.runner().map(|runner| runner.phase);
        matches!(phase, Ok(Phase::Igniting)).then(|| ignition::reason(&self.description)).flatten()
    }

    /// The last bytes that the machine said on its console.
    pub fn console(&self, bytes: u64) -> Result<Vec<u8>, MachineError> {
        console::tail(&self.description.console(), bytes)
    }

    /// Returns when the machine has ended.
    pub async fn ended(&self) -> Result<Off, MachineError> {
        self.watch.ended().await?;
        match Lifecycle::of(&self.description)? {
            Lifecycle::Off(off) => Ok(off),
            // Somebody started it again meanwhile; the end that was asked for is over all the same.
            Lifecycle::On(_) => {
                let Self { description, groups, .. } = self.clone();
                Ok(Off { description, groups, ended: None })
            }
        }
    }

    /// Asks the machine to power itself off, and cuts its power if it has not by then.
    pub async fn stop(self, limit: Duration) -> Result<Off, MachineError> {
        if self.signal(POWER_OFF).await.is_ok()
            && let Ok(ended) = tokio::time::timeout(limit, self.ended()).await
        {
            return ended;
        }
        self.power_cut().await
    }

    /// Ends the machine as a power failure would: nothing inside is told, nothing is written.
    pub async fn power_cut(self) -> Result<Off, MachineError> {
        self.groups.kill(Part::Machine).await?;
        self.groups.kill(Part::Runner).await?;
        // The runner may have begun another boot before it died.
        self.groups.kill(Part::Machine).await?;
        self.watch.ended().await?;
        if !self.description.exit().exists() {
            let time = rfc3339_millis(SystemClock::new().now());
            record::write(&self.description.exit(), &Ended::Killed { signal: Signal::SIGKILL as i32, time })?;
        }
        self.ended().await
    }

    /// Asks the machine to reboot, which keeps its runner.
    pub async fn reboot(&self) -> Result<(), MachineError> {
        self.signal(REBOOT).await
    }

    /// The host's number of the process that is number 1 inside.
    pub fn leader(&self) -> Result<i32, MachineError> {
        let leader = self.groups.leader()?;
        leader.ok_or_else(|| MachineError::NotBooted { machine: self.description.machine.clone() })
    }

    async fn signal(&self, signal: &str) -> Result<(), MachineError> {
        let leader = self.leader()?;
        let sent = run(cmd("kill").arg(signal).arg(leader.to_string())).await;
        sent.map(drop).map_err(|source: HostError| host("signal the machine")(source))
    }
}
