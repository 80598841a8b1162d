//! What a platform shows: machines, what stands behind the balancer, and what came of a request.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What exists once the network has been asked for. The journal keeps it, and nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provisioned {
    /// The gateway of the machines' network, which also answers for names.
    pub gateway: Ipv4Addr,
    /// Where `api.<domain>` points.
    pub balancer: Ipv4Addr,
    /// The public key that machines' tokens are checked with, hex.
    pub token_key: String,
}

/// A machine as the platform sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenMachine {
    /// Its name.
    pub name: String,
    /// What it is for: `bootstrap`, `master` or `worker`.
    pub role: String,
    /// Where it is.
    pub address: Ipv4Addr,
    /// What it is doing.
    #[serde(flatten)]
    pub state: MachineState,
}

/// What a machine is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum MachineState {
    /// It is being made.
    Making {
        /// What it waits for.
        reason: Option<String>,
    },
    /// Its first boot fetches and applies its configuration.
    Igniting {
        /// How far that has come.
        reason: Option<String>,
    },
    /// It runs.
    Running,
    /// It was switched off.
    Off,
    /// It ended and nobody asked it to.
    Dead {
        /// How.
        reason: String,
    },
}

impl fmt::Display for MachineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, reason) = match self {
            MachineState::Making { reason } => ("is being made", reason.as_deref()),
            MachineState::Igniting { reason } => ("is in its first boot", reason.as_deref()),
            MachineState::Running => ("runs", None),
            MachineState::Off => ("is off", None),
            MachineState::Dead { reason } => ("is dead", Some(reason.as_str())),
        };
        match reason {
            Some(reason) => write!(f, "{word}: {reason}"),
            None => f.write_str(word),
        }
    }
}

/// What the balancer thinks of one machine on one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// The machine.
    pub machine: String,
    /// The port.
    pub port: u16,
    /// Why it gets no connections; nothing if it does.
    pub trouble: Option<String>,
}

/// A command for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Program and arguments; no shell reads them.
    pub words: Vec<String>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// How long it may take.
    pub limit: Duration,
}

impl Task {
    /// A command that reads nothing and takes no longer than this.
    pub fn new<W: Into<String>>(words: impl IntoIterator<Item = W>, limit: Duration) -> Self {
        Task { words: words.into_iter().map(Into::into).collect(), stdin: Vec::new(), limit }
    }

    /// The same, but it reads these bytes.
    pub fn reading(self, stdin: impl Into<Vec<u8>>) -> Self {
        Task { stdin: stdin.into(), ..self }
    }
}

/// What came of a command on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// The end of what it complained.
    pub stderr: String,
}

/// What was removed with the bootstrap machine, and what was found after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retirement {
    /// The digest of the config that was deleted; nothing if it was gone already.
    pub config_digest: Option<String>,
    /// The digest of the assets that were deleted; nothing if they were gone already, or never there.
    #[serde(default)]
    pub assets_digest: Option<String>,
}

/// What destroying a cluster found, and what it left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// What was there before.
    pub before: Vec<String>,
    /// How many of each sort were there before.
    pub counts: BTreeMap<String, usize>,
    /// What is there after, each with why; nothing, if all went well.
    pub left: Vec<String>,
}
