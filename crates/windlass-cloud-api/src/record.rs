//! Records of a cluster's zone.

use serde::{Deserialize, Serialize};

use crate::RecordName;

/// The kinds of records that a zone holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RecordKind {
    /// Addresses.
    A,
    /// Another name.
    CNAME,
    /// Text.
    TXT,
}

/// A name of the zone and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The name, below the domain.
    pub name: RecordName,
    /// What kind of values it has.
    pub kind: RecordKind,
    /// What it stands for.
    pub values: Vec<String>,
    /// How often it was changed, counted over the zone's life.
    pub version: u64,
}

/// What a name is to stand for from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordChange {
    /// What kind of values it has.
    pub kind: RecordKind,
    /// What it stands for; nothing removes it.
    pub values: Vec<String>,
    /// What must be so for the change to be made.
    #[serde(default)]
    pub only_if: Condition,
}

/// What must be so for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// The name has no such record.
    Absent,
    /// The record is of this version.
    Version(u64),
}
