//! The machines that a cluster expects, from its spec. The file may change while an approver runs, because a cluster may
//! grow, so it is looked at for every decision.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};
use windlass_spec::complete::{CompleteSpec, Machine, machines};

use crate::machine_token::{JudgeError, read_spec};

/// The machines that a cluster expects.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The spec that they follow from.
    pub spec: CompleteSpec,
    machines: Vec<Machine>,
}

impl Expected {
    /// The machines of this spec.
    pub fn of(spec: CompleteSpec) -> Self {
        Expected { machines: machines(&spec), spec }
    }

    /// The machine of this name.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.name.as_str() == name)
    }
}

/// The expected machines as their file has them now.
#[derive(Debug)]
pub(super) struct Roster {
    path: PathBuf,
    last: Mutex<Arc<Expected>>,
}

impl Roster {
    /// Reads the file for the first time, when it must be there.
    pub(super) fn read(path: PathBuf) -> Result<Self, JudgeError> {
        let expected = Expected::of(read_spec(path.clone())?);
        Ok(Roster { path, last: Mutex::new(Arc::new(expected)) })
    }

    /// What the file says now, or said last if it cannot be read.
    pub(super) fn now(&self) -> Arc<Expected> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read_spec(self.path.clone()) {
            Ok(spec) if spec == last.spec => {}
            Ok(spec) => {
                *last = Arc::new(Expected::of(spec));
                info!(machines = last.machines.len(), "spec changed");
            }
            Err(error) => warn!(%error, "spec not read again"),
        }
        Arc::clone(&last)
    }
}
