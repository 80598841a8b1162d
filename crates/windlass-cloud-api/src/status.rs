//! The cloud about itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Label;

/// The cloud about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The daemon's process.
    pub pid: u32,
    /// Where its state is.
    pub state: PathBuf,
    /// `real`, or `simulated`.
    pub world: String,
    /// The clusters that it knows.
    pub clusters: Vec<Label>,
    /// Clusters of which things are on this host, but which it does not know.
    pub strays: Vec<Label>,
    /// How many machines run.
    pub running: usize,
    /// What is wrong.
    pub troubles: Vec<String>,
}

/// A line of the cloud's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When, RFC 3339.
    pub time: String,
    /// Whose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Label>,
    /// What of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What happened.
    pub message: String,
}
