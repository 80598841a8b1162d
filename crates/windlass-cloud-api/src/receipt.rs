//! What was taken away, and what is left.

use serde::{Deserialize, Serialize};

use crate::Label;

/// Something on the host that belongs to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thing {
    /// What sort of thing: a process, a mount, a loop device.
    pub kind: String,
    /// Which.
    pub what: String,
}

/// Something that should be gone and is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Residue {
    /// What is left.
    pub thing: Thing,
    /// Why it could not be removed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What destroying a cluster found, and what it left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The clusters that were destroyed.
    pub clusters: Vec<Label>,
    /// What was there before.
    pub before: Vec<Thing>,
    /// What is there after; nothing, if all went well.
    pub left: Vec<Residue>,
}

impl Receipt {
    /// Whether nothing is left.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}
