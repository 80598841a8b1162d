//! What can go wrong with an image archive.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A failed attempt at making or reading an image archive.
#[derive(Debug, Error)]
pub enum OciError {
    /// A file could not be read, or not be written into its layer.
    #[error("cannot add {} to an image layer", .path.display())]
    AddFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of a layer was not the same when it was read for the second time.
    #[error("cannot write an image layer: one of its files changed meanwhile ({first} became {second})")]
    WriteLayer {
        /// The layer's digest when it was sealed.
        first: String,
        /// Its digest when it was written.
        second: String,
    },
    /// The archive was not written; what was there before is still there.
    #[error("cannot write the image archive {}", .file.display())]
    WriteArchive {
        /// The archive.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive could not be read.
    #[error("cannot read the image archive {}", .file.display())]
    ReadArchive {
        /// The archive.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive was read and is not what it claims to be.
    #[error("the image archive {} is not to be trusted: {reason}", .file.display())]
    TrustArchive {
        /// The archive.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl OciError {
    /// Whether this is about trust (exit code 9) and not about the disk.
    pub fn is_trust(&self) -> bool {
        match self {
            Self::TrustArchive { .. } => true,
            Self::AddFile { .. } | Self::WriteLayer { .. } | Self::WriteArchive { .. } | Self::ReadArchive { .. } => {
                false
            }
        }
    }
}
