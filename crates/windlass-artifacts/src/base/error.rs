//! What can go wrong while a base is made.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use windlass_steps::host::HostError;
use windlass_steps::wait::Unmet;

/// A failed attempt at making, packing or unpacking a base.
#[derive(Debug, Error)]
pub enum BaseError {
    /// Owners, mounts and chroots are only for root.
    #[error("cannot make a machine base without being root")]
    BeRoot,
    /// The host's apt configuration names no Debian archive.
    #[error("cannot find a Debian archive with {suite} in {}", .directory.display())]
    FindMirror {
        /// The release that was looked for.
        suite: String,
        /// Where apt's configuration was read.
        directory: PathBuf,
    },
    /// debootstrap failed.
    #[error("cannot install Debian's packages{}{said}", if said.is_empty() { "" } else { ": " })]
    InstallPackages {
        /// Its warnings and errors.
        said: String,
        /// How it ended.
        source: HostError,
    },
    /// A command of the host failed.
    #[error("cannot {attempt}")]
    RunTool {
        /// What it was to do.
        attempt: &'static str,
        /// How it failed.
        source: HostError,
    },
    /// A file or directory of the tree could not be read, changed or removed.
    #[error("cannot {attempt} {}", .path.display())]
    ChangeTree {
        /// What was tried.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The tree has something in it that a packed tree cannot hold.
    #[error("cannot pack {}: it is neither a file, a directory nor a symbolic link", .path.display())]
    PackSpecial {
        /// The device, socket or pipe.
        path: PathBuf,
    },
    /// containerd did not come up.
    #[error("cannot start containerd: {unmet}")]
    StartRuntime {
        /// What did not hold.
        unmet: Unmet,
    },
    /// containerd ended while images were being imported.
    #[error("cannot import images: containerd ended early")]
    KeepRuntime {
        /// How it ended, if it was a failure.
        source: Option<HostError>,
    },
}

impl BaseError {
    /// What the user could do about it, where that is plain.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::BeRoot => Some("run it as root, or with sudo".to_owned()),
            Self::FindMirror { .. } => Some("name a Debian mirror".to_owned()),
            Self::InstallPackages { source, .. } | Self::RunTool { source, .. } => source.hint(),
            Self::ChangeTree { .. } | Self::PackSpecial { .. } | Self::StartRuntime { .. } => None,
            Self::KeepRuntime { source } => source.as_ref().and_then(HostError::hint),
        }
    }
}

/// Shortens the common case.
pub(super) fn change(attempt: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> BaseError + use<> {
    let path = path.to_owned();
    move |source| BaseError::ChangeTree { attempt, path, source }
}
