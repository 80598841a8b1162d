//! Volumes: files that become disks of machines. A volume is `<name>.img`, sparse unless its space was reserved, and
//! `<name>.json`, which describes it and vouches for it: an image without a description is a volume half made or half
//! deleted, and none. The functions here take a directory of volumes and know nothing of who wants what; they are not to
//! run twice at a time for the same volume.
//!
//! [`loops`] makes a disk of the file, [`present`] brings it into a machine. What must happen before it may move from one
//! machine to another is decided by [`crate::plan::volume()`].

mod file;
pub mod holders;
pub mod loops;
pub mod present;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_steps::host::HostError;
use windlass_steps::wait::Unmet;

pub use file::{create, delete, describe, grow, image, list, snapshot};

/// What a volume says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// A DNS label, unique in its cluster.
    pub name: String,
    /// Whose it is.
    pub cluster: String,
    /// In bytes.
    pub size: u64,
    /// By which it is found.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Whether its bytes are there already.
    pub space: Space,
    /// The volume that it was copied from, if it is a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_of: Option<String>,
}

/// When the host's disk gives up its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// As the machine writes. A host whose disk fills up then fails the machine's writes.
    Sparse,
    /// At once, so that a lack of it shows here and not in the machine.
    Reserved,
}

/// Why something could not be done with a volume.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The host's disk has not enough room; whatever was there is as it was.
    #[error("no room for {bytes} bytes of volume {volume} on the disk that holds {}", .dir.display())]
    FindRoom {
        /// Which one.
        volume: String,
        /// How many are wanted in all.
        bytes: u64,
        /// The directory of volumes.
        dir: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is one of that name.
    #[error("there already is a volume {volume}")]
    TakeName {
        /// The name.
        volume: String,
    },
    /// There is none of that name.
    #[error("there is no volume {volume}")]
    FindVolume {
        /// The name.
        volume: String,
    },
    /// Its description is there but damaged.
    #[error("cannot understand {}", .path.display())]
    ParseVolume {
        /// The description.
        path: PathBuf,
        /// Where it stops making sense.
        source: serde_json::Error,
    },
    /// A volume never gets smaller: what is beyond the new end would be lost.
    #[error("cannot shrink volume {volume} from {now} to {wanted} bytes")]
    Shrink {
        /// Which one.
        volume: String,
        /// Its size.
        now: u64,
        /// The size asked for.
        wanted: u64,
    },
    /// It is attached, so that a copy would be torn and a removal would pull the disk from under a machine.
    #[error("volume {volume} is in use as {}", .device.display())]
    InUse {
        /// Which one.
        volume: String,
        /// Its loop device.
        device: PathBuf,
    },
    /// A file of it could not be made, changed or removed.
    #[error("cannot {attempt} {}", .path.display())]
    ChangeFile {
        /// What was tried: "make", "extend" …
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A command or a file operation of the host failed.
    #[error("cannot {attempt} volume {volume}")]
    AskHost {
        /// What was tried: "copy", "describe" …
        attempt: &'static str,
        /// Which one.
        volume: String,
        /// The failed command or file.
        source: HostError,
    },
    /// The kernel's list of loop devices could not be read.
    #[error("cannot look for loop devices")]
    ListLoops {
        /// What the kernel said.
        source: io::Error,
    },
    /// The loop device could not be made, resized or let go.
    #[error("cannot {attempt} the loop device of {}", .file.display())]
    ChangeLoop {
        /// What was tried: "make", "resize", "release".
        attempt: &'static str,
        /// The backing file.
        file: PathBuf,
        /// The failed command.
        source: HostError,
    },
    /// The file is still on a loop device that goes away as soon as its last user lets go.
    #[error("{} is still being released from {}", .file.display(), .device.display())]
    AwaitRelease {
        /// The backing file.
        file: PathBuf,
        /// The old device.
        device: PathBuf,
    },
    /// The loop device did not go away.
    #[error("{} is not released: {unmet}", .file.display())]
    Release {
        /// The backing file.
        file: PathBuf,
        /// Who holds it.
        unmet: Unmet,
    },
    /// The disk could not be made visible, or be taken away, in a machine.
    #[error("cannot {attempt} {path} in the machine of process {leader}")]
    Present {
        /// What was tried.
        attempt: &'static str,
        /// The path inside the machine.
        path: String,
        /// A process of the machine.
        leader: i32,
        /// What the kernel said.
        source: io::Error,
    },
}

impl VolumeError {
    /// A full disk is told apart from every other trouble, because only it can be cured by making room.
    fn of_write(volume: &Volume, dir: &Path, attempt: &'static str, path: &Path, source: io::Error) -> Self {
        match is_full(&source) {
            true => {
                let (name, dir) = (volume.name.clone(), dir.to_owned());
                Self::FindRoom { volume: name, bytes: volume.size, dir, source }
            }
            false => Self::ChangeFile { attempt, path: path.to_owned(), source },
        }
    }

    fn of_host(volume: &Volume, dir: &Path, attempt: &'static str, source: HostError) -> Self {
        match source {
            HostError::WriteFile { source, .. } if is_full(&source) => {
                let (name, dir) = (volume.name.clone(), dir.to_owned());
                Self::FindRoom { volume: name, bytes: volume.size, dir, source }
            }
            HostError::RunCommand { ref stderr, .. } if stderr.contains("No space left on device") => {
                let (name, dir) = (volume.name.clone(), dir.to_owned());
                let source = io::Error::new(io::ErrorKind::StorageFull, source);
                Self::FindRoom { volume: name, bytes: volume.size, dir, source }
            }
            source => Self::AskHost { attempt, volume: volume.name.clone(), source },
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
