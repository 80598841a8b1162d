//! What machines are made from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Label;

/// A packed tree that machines boot, and what comes with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageSpec {
    /// The packed tree, a file of the host's.
    pub tree: PathBuf,
    /// The file's digest, `sha256:…`, by which it is known.
    pub digest: String,
    /// The version of the operating system in it.
    pub os_version: String,
    /// The program that a first boot runs; without one, user-data is only served.
    #[serde(default)]
    pub ignition: Option<PathBuf>,
    /// Trees that a machine starts with below `/var`.
    #[serde(default)]
    pub seeds: Vec<Seed>,
}

/// A packed tree whose files machines share until they replace them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seed {
    /// The packed tree, a file of the host's.
    pub tree: PathBuf,
    /// The file's digest, `sha256:…`.
    pub digest: String,
    /// Where it goes, below `/var`.
    pub at: PathBuf,
}

/// An image that the cloud knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// What it is called.
    pub name: Label,
    /// What it is made from.
    pub spec: ImageSpec,
}
