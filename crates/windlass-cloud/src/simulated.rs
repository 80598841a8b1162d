//! Machines that are not there: for each one a real process that does nothing, so that a thousand of them start within
//! seconds, can be killed, stopped and adopted, and tell of it exactly as a real machine's runner does. Volumes are plain
//! files without a loop device, and a file beside each says which machine has it.

pub mod stub;
mod volume;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_steps::host::{self, HostError, cmd};

use crate::process::{Condition, Identity, ProcessError, Signal};

pub use volume::{hold, holder, let_go};

/// A process that stands for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    identity: Identity,
}

/// Why something could not be done in the simulated world.
#[derive(Debug, Error)]
pub enum SimulatedError {
    /// The process was not started, or said that it cannot go on.
    #[error("cannot start a machine's process in {}", .run.display())]
    StartStub {
        /// The machine's run directory.
        run: PathBuf,
        /// The failed command.
        source: HostError,
    },
    /// It started and said something else than who it is.
    #[error("cannot understand the machine's process in {}", .run.display())]
    KnowStub {
        /// The machine's run directory.
        run: PathBuf,
        /// Where it stops making sense.
        source: serde_json::Error,
    },
    /// The machine's process runs already.
    #[error("the machine of {} runs already", .run.display())]
    HoldMachine {
        /// The machine's run directory.
        run: PathBuf,
    },
    /// A file could not be made, locked, linked or removed.
    #[error("cannot {attempt} {}", .path.display())]
    ChangeFile {
        /// What was tried.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("cannot keep {}", .path.display())]
    KeepFile {
        /// The file.
        path: PathBuf,
        /// The failed attempt.
        source: HostError,
    },
    /// The process could not leave its starter, or not wait for a signal.
    #[error("cannot {attempt}")]
    StandAlone {
        /// What was tried.
        attempt: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The process could not be looked at or signalled.
    #[error("cannot reach the machine's process")]
    ReachStub {
        /// The failed attempt.
        source: ProcessError,
    },
    /// Another machine has the volume.
    #[error("volume {volume} is held by {holder}")]
    HoldVolume {
        /// The volume.
        volume: String,
        /// Who has it.
        holder: String,
    },
}

impl Stub {
    /// Starts one: our own program, detached, with its records in the machine's run directory, which exists.
    pub async fn start(program: &Path, run: &Path) -> Result<Self, SimulatedError> {
        let command = cmd(program).args(["guest", "stub", "--run"]).arg(run);
        let started = host::run(command).await;
        let output = started.map_err(|source| SimulatedError::StartStub { run: run.to_owned(), source })?;
        let identity = serde_json::from_slice(&output.stdout);
        let identity = identity.map_err(|source| SimulatedError::KnowStub { run: run.to_owned(), source })?;
        Ok(Self { identity })
    }

    /// Finds the one that an earlier daemon started, if it still is there.
    pub fn find(run: &Path) -> Result<Option<Self>, SimulatedError> {
        let reach = |source| SimulatedError::ReachStub { source };
        match Identity::read(&run.join(stub::RUNNER)).map_err(reach)? {
            Some(identity) if identity.is_alive().map_err(reach)? => Ok(Some(Self { identity })),
            _ => Ok(None),
        }
    }

    /// Which process it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How it is now.
    pub fn condition(&self) -> Result<Condition, SimulatedError> {
        self.identity.condition().map_err(|source| SimulatedError::ReachStub { source })
    }

    /// Sends it a signal: `TERM` is the power button, `KILL` the power cut, `STOP` a machine that hangs.
    pub fn signal(&self, signal: Signal) -> Result<(), SimulatedError> {
        let reach = |source| SimulatedError::ReachStub { source };
        self.identity.open().map_err(reach)?.map_or(Ok(()), |handle| handle.signal(signal)).map_err(reach)
    }

    /// Waits for its end.
    pub async fn ended(&self) -> Result<(), SimulatedError> {
        self.identity.ended().await.map_err(|source| SimulatedError::ReachStub { source })
    }
}
