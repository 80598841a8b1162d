//! An engine that goes through a script.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{EngineError, Operation, Status, UpdateEngine};

/// A double: it is idle until it is asked for an update, then tells what its script says, and after that nothing more.
#[derive(Debug)]
pub struct ScriptedEngine {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Status,
    script: VecDeque<Told>,
    attempts: usize,
    gone: bool,
}

/// What it does next.
#[derive(Debug)]
enum Told {
    Signal(Status),
    /// The status becomes this one, and nobody is told.
    Silently(Status),
    /// The engine leaves the bus.
    Gone,
}

impl ScriptedEngine {
    /// One that shows this status now.
    pub fn showing(now: Status) -> Self {
        ScriptedEngine { state: Mutex::new(State { now, script: VecDeque::new(), attempts: 0, gone: false }) }
    }

    /// One that has never looked.
    pub fn idle() -> Self {
        Self::showing(status(Operation::Idle, "", 0.0))
    }

    /// Then tells this when it is next listened to.
    #[must_use]
    pub fn tells(self, status: Status) -> Self {
        self.state().script.push_back(Told::Signal(status));
        self
    }

    /// Then becomes this without a signal.
    #[must_use]
    pub fn becomes(self, status: Status) -> Self {
        self.state().script.push_back(Told::Silently(status));
        self
    }

    /// Then leaves the bus.
    #[must_use]
    pub fn leaves(self) -> Self {
        self.state().script.push_back(Told::Gone);
        self
    }

    /// Shows another status from now on, and tells it to whoever listens next.
    pub fn turn(&self, status: Status) {
        self.state().script.push_back(Told::Signal(status));
    }

    /// How often it was asked for an update.
    pub fn attempts(&self) -> usize {
        self.state().attempts
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A status for scripts: what the engine does, for which version, and how far it is.
pub(crate) fn status(operation: Operation, version: &str, progress: f64) -> Status {
    Status { last_checked: 0, progress, operation, new_version: version.to_owned(), new_size: 0 }
}

fn gone() -> EngineError {
    let said = zbus::fdo::Error::ServiceUnknown("no such name".into());
    EngineError::FindEngine { source: Box::new(said.into()) }
}

impl UpdateEngine for ScriptedEngine {
    async fn status(&self) -> Result<Status, EngineError> {
        let state = self.state();
        if state.gone { Err(gone()) } else { Ok(state.now.clone()) }
    }

    async fn attempt_update(&self) -> Result<(), EngineError> {
        self.state().attempts += 1;
        Ok(())
    }

    async fn next(&self, within: Duration) -> Result<Option<Status>, EngineError> {
        let told = {
            let mut state = self.state();
            state.script.pop_front().map(|told| match told {
                Told::Signal(status) => {
                    state.now = status.clone();
                    Some(status)
                }
                Told::Silently(status) => {
                    state.now = status;
                    None
                }
                Told::Gone => {
                    state.gone = true;
                    None
                }
            })
        };
        match told {
            Some(told) => Ok(told),
            None => {
                // The length of the silence, which costs nothing where time is paused.
                let _ = tokio::time::timeout(within, std::future::pending::<()>()).await;
                Ok(None)
            }
        }
    }
}
