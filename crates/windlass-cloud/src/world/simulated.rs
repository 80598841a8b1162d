//! The simulated world: each machine is a real process that does nothing, so that a thousand fit on one box and can be
//! killed one by one. Networks, roots and devices are left out; files, processes and state are as in the real one.

pub mod volume;

use std::path::PathBuf;

use tokio::sync::{OnceCell, Semaphore};
use windlass_steps::host::{Mode, make_dir};

use super::{SeenMachine, Trouble, boot};
use crate::model::MachineRow;
use crate::places::Places;
use crate::plan::{Ended, MachineFacts, Process, Stage};
use crate::process::Signal;
use crate::simulated::{Stub, stub};

/// How many are started at once: more would only wait for a processor.
const STARTS: usize = 16;

/// The simulated world.
pub struct Simulated {
    program: OnceCell<PathBuf>,
    starts: Semaphore,
}

impl Default for Simulated {
    fn default() -> Self {
        Simulated { program: OnceCell::new(), starts: Semaphore::new(STARTS) }
    }
}

impl Simulated {
    pub(super) async fn look(&self, places: &Places, row: &MachineRow) -> SeenMachine {
        let run = places.machine_run(&row.cluster, &row.name);
        let boot = boot::begun(&run);
        let mut facts = MachineFacts { kept: run.exists(), ..MachineFacts::NOTHING };
        let mut leader = None;
        facts.process = match Stub::find(&run) {
            Ok(Some(found)) => {
                let pid = u32::try_from(found.identity().pid).unwrap_or_default();
                leader = Some(pid);
                Process::Running { boot, pid, stage: Stage::Up }
            }
            Ok(None) if run.join(stub::EXIT).exists() => Process::Ended { boot, how: Ended::PoweredOff },
            Ok(None) if run.join(stub::RUNNER).exists() => {
                Process::Ended { boot, how: Ended::Died("it was killed".to_owned()) }
            }
            Ok(None) => Process::Absent,
            Err(error) => {
                tracing::warn!(machine = %row.name, %error, "machine cannot be looked at");
                Process::Absent
            }
        };
        SeenMachine { leader, ..SeenMachine::facts(facts) }
    }

    pub(super) fn plug(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        make_dir(places.machine_run(&row.cluster, &row.name), Mode::PRIVATE_DIR)?;
        Ok(())
    }

    pub(super) async fn boot(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        let run = places.machine_run(&row.cluster, &row.name);
        make_dir(&run, Mode::PRIVATE_DIR)?;
        if Stub::find(&run)?.is_some() {
            return Ok(());
        }
        boot::begin(&run, row.boot, [run.join(stub::EXIT), run.join(stub::RUNNER)])?;
        let program = self.program.get_or_try_init(|| async { std::env::current_exe() }).await?;
        let _turn = self.starts.acquire().await?;
        Stub::start(program, &run).await?;
        Ok(())
    }

    pub(super) async fn ended(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        match Stub::find(&places.machine_run(&row.cluster, &row.name))? {
            Some(found) => Ok(found.ended().await?),
            None => Ok(()),
        }
    }

    pub(super) async fn end(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        let Some(found) = Stub::find(&places.machine_run(&row.cluster, &row.name))? else { return Ok(()) };
        found.signal(Signal::KILL)?;
        Ok(found.ended().await?)
    }

    pub(super) fn remove_machine(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        match std::fs::remove_dir_all(places.machine_run(&row.cluster, &row.name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}
