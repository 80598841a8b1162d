//! The machine's update engine as its client sees it: `com.coreos.update1` on the system bus, as CoreOS had it. [`update`]
//! asks for an update and follows it to its end; [`BusEngine`] speaks D-Bus, and [`ScriptedEngine`] is the double.

mod bus;
mod double;
mod status;

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub use bus::BusEngine;
pub use double::ScriptedEngine;
pub use status::{Operation, Status};

/// The engine's name on the bus.
pub const NAME: &str = "com.coreos.update1";
/// Its object.
pub const PATH: &str = "/com/coreos/update1";
/// What the object can do.
pub const INTERFACE: &str = "com.coreos.update1.Manager";

/// An engine that shows nothing new for this long has stalled. A download tells how far it is, so a slow one has not.
pub const STALL: Duration = Duration::from_secs(120);
/// How long nothing is heard before the engine is asked again, which also shows whether it is still there.
const SILENCE: Duration = Duration::from_secs(5);

/// What an update engine is asked.
#[expect(async_fn_in_trait, reason = "an update is followed by whoever asked for it, never spawned")]
pub trait UpdateEngine {
    /// What it is doing now.
    async fn status(&self) -> Result<Status, EngineError>;

    /// Has it look for an update and stage it. It answers at once and tells by signals how far it is.
    async fn attempt_update(&self) -> Result<(), EngineError>;

    /// The next status that it tells by itself; none if it says nothing for this long. Statuses come in order and none
    /// is left out, also those told before this was called.
    async fn next(&self, within: Duration) -> Result<Option<Status>, EngineError>;
}

/// Why there is no update, and none was refused either.
#[derive(Debug, Error)]
pub enum EngineError {
    /// There is no bus.
    #[error("cannot reach the system bus at {}", path.display())]
    ReachBus {
        /// Its socket.
        path: PathBuf,
        /// Why not.
        source: Box<zbus::Error>,
    },
    /// There is a bus, and nobody there has the engine's name.
    #[error("cannot find an update engine on the system bus")]
    FindEngine {
        /// What the bus said.
        source: Box<zbus::Error>,
    },
    /// The engine did not answer as it should.
    #[error("cannot ask the update engine: {what}")]
    Ask {
        /// The method or signal.
        what: &'static str,
        /// What it said.
        source: Box<zbus::Error>,
    },
    /// The engine itself says that the update failed.
    #[error("the update engine reports that the update failed{}", of_version(version))]
    Update {
        /// The version that was being staged, empty if none was found yet.
        version: String,
    },
    /// The engine does nothing any more.
    #[error("the update engine shows nothing new for {} s, last {operation}{}", lasted.as_secs(), of_version(version))]
    Follow {
        /// What it was doing.
        operation: Operation,
        /// The version that was being staged, empty if none was found yet.
        version: String,
        /// For how long.
        lasted: Duration,
    },
}

impl EngineError {
    /// Whether there is no engine at all, as on a machine without D-Bus; nothing failed then.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::ReachBus { .. } | Self::FindEngine { .. } => true,
            Self::Ask { .. } | Self::Update { .. } | Self::Follow { .. } => false,
        }
    }
}

fn of_version(version: &str) -> String {
    match version {
        "" => String::new(),
        version => format!(" (version {version})"),
    }
}

/// How an update ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing newer.
    UpToDate,
    /// The next boot takes it.
    Staged {
        /// As in `VERSION_ID`.
        version: String,
    },
}

/// Asks for an update and follows it to its end, telling the observer of every status. An update that is staged already
/// is not asked for again.
pub async fn update(engine: &impl UpdateEngine, mut observe: impl FnMut(&Status)) -> Result<Outcome, EngineError> {
    let before = engine.status().await?;
    observe(&before);
    if before.operation == Operation::UpdatedNeedReboot {
        return Ok(Outcome::Staged { version: before.new_version });
    }
    engine.attempt_update().await?;
    let mut follow = Follow { checked: before.last_checked, began: false, last: before, silent: Duration::ZERO };
    loop {
        let told = engine.next(SILENCE).await?;
        // A signal that was missed is made good by asking.
        let status = match told {
            Some(status) => status,
            None => engine.status().await?,
        };
        if follow.takes(&status, SILENCE)? {
            observe(&status);
        }
        if let Some(outcome) = follow.ended()? {
            return Ok(outcome);
        }
    }
}

/// What is known of an attempt that is under way.
struct Follow {
    /// When the engine had last looked, before the attempt.
    checked: i64,
    /// Whether it has done anything since.
    began: bool,
    last: Status,
    silent: Duration,
}

impl Follow {
    /// Whether this status is news; one that is not counts as silence, of which there may be only so much.
    fn takes(&mut self, status: &Status, silence: Duration) -> Result<bool, EngineError> {
        let news = *status != self.last;
        if news {
            self.silent = Duration::ZERO;
            self.last = status.clone();
        } else {
            self.silent += silence;
        }
        self.began |= status.operation != Operation::Idle;
        match self.silent >= STALL {
            false => Ok(news),
            true => {
                let Status { operation, new_version, .. } = self.last.clone();
                Err(EngineError::Follow { operation, version: new_version, lasted: self.silent })
            }
        }
    }

    /// How it ended, if it did. An engine that is idle has looked if it was seen doing something, or if it says so.
    fn ended(&self) -> Result<Option<Outcome>, EngineError> {
        let version = || self.last.new_version.clone();
        match self.last.operation {
            Operation::UpdatedNeedReboot => Ok(Some(Outcome::Staged { version: version() })),
            Operation::ReportingErrorEvent => Err(EngineError::Update { version: version() }),
            Operation::Idle if self.began || self.last.last_checked != self.checked => Ok(Some(Outcome::UpToDate)),
            Operation::Idle
            | Operation::CheckingForUpdate
            | Operation::UpdateAvailable
            | Operation::Downloading
            | Operation::Verifying
            | Operation::Finalizing
            | Operation::Other(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
