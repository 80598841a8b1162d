//! What of the cloud is on this host, found from the world alone: processes, mounts, pinned namespaces, loop devices,
//! control groups and directories say by their place whose they are, so that a damaged state file hides nothing.
//! [`Inventory::take`] looks, [`remove`] takes it all away and hands out a [`Receipt`], [`snapshot`] compares the whole
//! host before and after.

mod cgroups;
mod look;
mod receipt;
mod removal;
pub mod snapshot;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::process::{Identity, ProcessError};
use crate::volume::VolumeError;

pub use receipt::{Left, Receipt, Removed};
pub use removal::remove;

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Where {
    /// What outlives the host's reboot; clusters are below its `clusters`.
    pub state: PathBuf,
    /// What does not; clusters are below its `clusters`.
    pub run: PathBuf,
    /// The control group, in every hierarchy, that has one below it for each cluster.
    pub cgroup_parent: String,
}

/// Everything that was found, in an order in which it can be taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    place: Where,
    /// Only of this cluster.
    scope: Option<String>,
    items: Vec<Item>,
    /// What was there but made no sense, such as a damaged `runner.json`.
    notes: Vec<String>,
}

/// One thing on the host. Whatever belongs to no single cluster has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Item {
    /// Whose it is.
    pub cluster: Option<String>,
    /// What it is.
    pub thing: Thing,
}

/// What there can be; the order is the order of removal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Thing {
    /// A process in one of the control groups, or a runner.
    Process {
        /// Which one.
        identity: Identity,
        /// Its command line, or its name.
        command: String,
    },
    /// A file system mounted below one of the directories.
    Mount {
        /// Where.
        target: PathBuf,
        /// Its type.
        fs: String,
    },
    /// A namespace that is kept alive by a file.
    Pin {
        /// The file.
        target: PathBuf,
        /// `net:[4026532261]` or the like.
        namespace: String,
    },
    /// A loop device of a file below the state directory, which may have been deleted.
    Loop {
        /// The device.
        device: PathBuf,
        /// The file.
        file: PathBuf,
    },
    /// A control group in one hierarchy.
    Cgroup {
        /// Its directory.
        path: PathBuf,
    },
    /// Files.
    Directory {
        /// The topmost directory of them.
        path: PathBuf,
        /// What it holds.
        holds: Holds,
    },
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// A machine.
    Machine,
    /// A cluster's volumes.
    Volumes,
    /// All the rest of a cluster.
    Cluster,
}

/// How many there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Processes.
    pub processes: usize,
    /// Mounts other than pins.
    pub mounts: usize,
    /// Pinned namespaces.
    pub pins: usize,
    /// Loop devices.
    pub loops: usize,
    /// Control groups, each hierarchy counted.
    pub cgroups: usize,
    /// Directories.
    pub directories: usize,
}

/// Why nobody could look. What could not be looked at must not pass for empty.
#[derive(Debug, Error)]
pub enum InventoryError {
    /// A file or directory could not be read.
    #[error("cannot look at {}", .path.display())]
    Look {
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The loop devices could not be listed.
    #[error("cannot take stock of the loop devices")]
    Loops {
        /// The failed attempt.
        source: VolumeError,
    },
    /// A process could not be looked at.
    #[error("cannot take stock of the processes")]
    Processes {
        /// The failed attempt.
        source: ProcessError,
    },
}

impl Inventory {
    /// Looks at the host now.
    pub fn take(place: &Where) -> Result<Self, InventoryError> {
        look::take(place)
    }

    /// The part that belongs to this cluster.
    pub fn of(&self, cluster: &str) -> Self {
        let is_its = |item: &&Item| item.cluster.as_deref() == Some(cluster);
        let items = self.items.iter().filter(is_its).cloned().collect();
        Self { scope: Some(cluster.to_owned()), items, place: self.place.clone(), notes: self.notes.clone() }
    }

    /// The clusters of which there is anything, by name.
    pub fn clusters(&self) -> Vec<String> {
        let mut names: Vec<String> = self.items.iter().filter_map(|item| item.cluster.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Everything, in the order of removal.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// What was there but made no sense.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many there are of each kind.
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        for item in &self.items {
            *match item.thing {
                Thing::Process { .. } => &mut count.processes,
                Thing::Mount { .. } => &mut count.mounts,
                Thing::Pin { .. } => &mut count.pins,
                Thing::Loop { .. } => &mut count.loops,
                Thing::Cgroup { .. } => &mut count.cgroups,
                Thing::Directory { .. } => &mut count.directories,
            } += 1;
        }
        count
    }

    /// The same look again, at the same part.
    fn again(&self) -> Result<Self, InventoryError> {
        let all = Self::take(&self.place)?;
        Ok(match &self.scope {
            Some(cluster) => all.of(cluster),
            None => all,
        })
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { identity, command } => write!(f, "{identity} ({command})"),
            Self::Mount { target, fs } => write!(f, "{fs} mounted on {}", target.display()),
            Self::Pin { target, namespace } => write!(f, "namespace {namespace} pinned by {}", target.display()),
            Self::Loop { device, file } => write!(f, "{} of {}", device.display(), file.display()),
            Self::Cgroup { path } => write!(f, "control group {}", path.display()),
            Self::Directory { path, .. } => write!(f, "directory {}", path.display()),
        }
    }
}

impl Where {
    /// The cluster that a path belongs to by its place, if it is strictly below one of the directories of clusters.
    fn cluster_of(&self, path: &Path) -> Option<String> {
        let roots = [self.state.join("clusters"), self.run.join("clusters")];
        let below = roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
        Some(below.components().next()?.as_os_str().to_string_lossy().into_owned())
    }

    /// Whether it is strictly below the state or the run directory.
    fn holds(&self, path: &Path) -> bool {
        [&self.state, &self.run].into_iter().any(|dir| path.starts_with(dir) && path != dir)
    }
}

#[cfg(test)]
mod tests;
