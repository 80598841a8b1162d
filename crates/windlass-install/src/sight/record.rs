//! What `windlass-node report` prints: one record for each unit of a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The records of a machine, by unit.
pub type Records = BTreeMap<String, Record>;

/// What a unit says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it still works.
    pub state: UnitState,
    /// What it does now, or did last.
    pub stage: String,
    /// When it began that, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// What it waits for.
    #[serde(default)]
    pub unmet: Vec<UnmetLine>,
    /// Why it failed last, if it did.
    #[serde(default)]
    pub because: Vec<String>,
    /// What else there is to know.
    #[serde(default)]
    pub data: BTreeMap<String, Value>,
}

/// Whether a unit still works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitState {
    /// It works, or serves.
    Running,
    /// It has done what it is for.
    Done,
    /// It gave up; systemd may start it again.
    Failed,
}

/// A criterion that does not hold yet, as a unit tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetLine {
    /// What is to be true.
    pub statement: String,
    /// Why it is not.
    pub reason: String,
}

impl Record {
    /// Where it stands, in one line.
    pub fn words(&self) -> String {
        let Record { stage, .. } = self;
        match self.state {
            UnitState::Done => "has done its work".to_owned(),
            UnitState::Failed if self.because.is_empty() => format!("failed at {stage}"),
            UnitState::Failed => format!("failed at {stage}: {}", self.because.join(": ")),
            UnitState::Running if self.unmet.is_empty() => format!("is at {stage}"),
            UnitState::Running => {
                let lines = self.unmet.iter().map(|unmet| format!("{}: {}", unmet.statement, unmet.reason));
                format!("is at {stage}: {}", lines.collect::<Vec<_>>().join("; "))
            }
        }
    }
}
