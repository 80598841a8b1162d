//! Machines: what they are to be, and what they are.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::{Label, Tags};

/// What a machine is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineSpec {
    /// What it boots first; later an update may change that.
    pub image: Label,
    /// What it may do through the machine API, and what it tells others.
    #[serde(default)]
    pub role: String,
    /// Its address; the next free one unless given.
    #[serde(default)]
    pub address: Option<Ipv4Addr>,
    /// Bytes of memory; all that there is unless given.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Thousandths of a processor; all that there are unless given.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// What its metadata service answers to whoever asks for user-data. `@token(PURPOSE)@` becomes a signed token.
    #[serde(default)]
    pub user_data: Option<String>,
    /// What is said of it.
    #[serde(default)]
    pub tags: Tags,
}

/// A machine as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// The group that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Label>,
    /// What it is to be.
    pub spec: MachineSpec,
    /// Its number in the cluster, never used twice.
    pub index: u32,
    /// Where it is.
    pub address: Ipv4Addr,
    /// Whether it is to run.
    pub power: Power,
    /// What it is doing.
    pub state: MachineState,
    /// The image that it runs, and the one it will run after its next boot.
    pub image: Label,
    /// What an update has put ready for the next boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Label>,
}

/// Whether a machine is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// It is to run.
    On,
    /// It is not.
    Off,
}

/// What a machine is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "phase")]
pub enum MachineState {
    /// It is being made.
    Making {
        /// What it waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Its first boot fetches and applies its configuration.
    Igniting {
        /// The last line of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Its first process runs.
    Running {
        /// The process that watches it.
        pid: u32,
    },
    /// It was switched off.
    Stopped,
    /// It ended and nobody asked it to.
    Dead {
        /// How.
        reason: String,
    },
}

impl MachineState {
    /// Whether its first process runs.
    pub fn is_running(&self) -> bool {
        matches!(self, MachineState::Running { .. })
    }
}

/// A command to run in a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecRequest {
    /// Program and arguments.
    pub command: Vec<String>,
    /// What it reads.
    #[serde(default)]
    pub stdin: String,
    /// How long it may take, in seconds; a minute unless given.
    #[serde(default)]
    pub timeout: Option<u32>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecAnswer {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// The end of what it complained.
    pub stderr: String,
}

/// The end of what a machine printed on its console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Console {
    /// The text.
    pub text: String,
}
