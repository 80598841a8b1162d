//! Groups: a number of machines that are alike.

use serde::{Deserialize, Serialize};

use crate::{Label, MachineSpec};

/// What a group is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupSpec {
    /// How many machines.
    pub count: u32,
    /// What each is to be; an address makes no sense here.
    pub template: MachineSpec,
}

/// A group as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// What it is called.
    pub name: Label,
    /// What it is to be.
    pub spec: GroupSpec,
    /// How often its template was changed.
    pub generation: u64,
    /// Its machines.
    pub members: Vec<Label>,
    /// How many of them run as the template says.
    pub current: u32,
}
