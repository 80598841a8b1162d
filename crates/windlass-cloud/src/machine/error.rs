//! What can go wrong with a machine.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_steps::host::HostError;

/// A failed attempt at one machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// A file, directory or mount could not be changed or read.
    #[error("cannot {attempt} {}", .path.display())]
    Change {
        /// As in "cannot make".
        attempt: &'static str,
        /// The subject.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file or a command of the host failed.
    #[error("cannot {attempt}")]
    UseHost {
        /// As in "cannot enter the machine".
        attempt: &'static str,
        /// Which command or file, and why.
        #[source]
        source: Box<HostError>,
    },
    /// What a runner or the daemon wrote down cannot be understood.
    #[error("cannot understand {}", .path.display())]
    Understand {
        /// The file.
        path: PathBuf,
        /// Where it stops being what it should be.
        source: serde_json::Error,
    },
    /// The digest of an image is not one.
    #[error("cannot unpack the image {name}: {digest} is not a digest")]
    NameImage {
        /// The image.
        name: String,
        /// As given.
        digest: String,
    },
    /// No control groups are mounted.
    #[error("cannot find any control groups on this host")]
    FindGroups,
    /// Processes did not die of SIGKILL in time.
    #[error("cannot end the processes of {machine}: {reason}")]
    EndProcesses {
        /// Which machine.
        machine: String,
        /// How many are left, and which.
        reason: String,
    },
    /// The runner ended before it had a hold of the machine.
    #[error("cannot start {machine}: its runner said {said:?}")]
    Start {
        /// Which machine.
        machine: String,
        /// What it wrote to stderr.
        said: String,
    },
    /// There is no process number 1 to enter or to signal.
    #[error("{machine} has not booted")]
    NotBooted {
        /// Which machine.
        machine: String,
    },
    /// Another runner holds the machine.
    #[error("{machine} is run by another runner")]
    Held {
        /// Which machine.
        machine: String,
    },
    /// Ignition said no.
    #[error("Ignition failed: {reason}")]
    Ignite {
        /// The last line of its log.
        reason: String,
    },
}

/// For `map_err`: names the attempt and the path of a failed system call.
pub(crate) fn change<E: Into<io::Error>>(attempt: &'static str, path: &Path) -> impl FnOnce(E) -> MachineError {
    let path = path.to_owned();
    move |source| MachineError::Change { attempt, path, source: source.into() }
}

/// For `map_err`: names what a command or a file was for.
pub(crate) fn host(attempt: &'static str) -> impl FnOnce(HostError) -> MachineError {
    move |source| MachineError::UseHost { attempt, source: Box::new(source) }
}
