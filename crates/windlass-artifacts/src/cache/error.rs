//! What can go wrong with the cache, told apart by the one question that matters: is it the disk, or is it trust?

use std::io;
use std::path::PathBuf;

use windlass_steps::host::HostError;

/// A cache that could not be used, or that holds something it should not.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The name or version would not survive as a file name.
    #[error("{text:?} cannot name an artifact: letters, digits and . _ + - / : are allowed")]
    NameArtifact {
        /// As it was given.
        text: String,
    },
    /// The cache has no place for it, or nobody may write there.
    #[error("cannot make the cache directory {}", .path.display())]
    MakeCache {
        /// The directory.
        path: PathBuf,
        /// What was wrong with it.
        source: HostError,
    },
    /// The file could not be hashed, copied or moved into the cache.
    #[error("cannot add {} to the cache", .file.display())]
    AddFile {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file is in the cache, and its record is not.
    #[error("cannot record {artifact} in the cache")]
    RecordEntry {
        /// Kind, name and version.
        artifact: String,
        /// What was wrong with the record's file.
        source: HostError,
    },
    /// Something in the cache could not be looked at.
    #[error("cannot look at {}", .path.display())]
    LookAt {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A lock could not be taken, not even by waiting.
    #[error("cannot take the lock {}", .path.display())]
    TakeLock {
        /// The lock's file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something that is not needed any more would not go.
    #[error("cannot remove {} from the cache", .path.display())]
    RemoveFile {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The content is not what was put there. Nothing was removed.
    #[error("{} is not trusted: {reason}", .path.display())]
    NotTrusted {
        /// The file.
        path: PathBuf,
        /// What it should be and what it is.
        reason: String,
    },
}

impl CacheError {
    /// Whether it is about trust (exit code 9) and not about a disk or a network.
    pub fn is_trust(&self) -> bool {
        matches!(self, CacheError::NotTrusted { .. })
    }

    /// What to do about it; it suits a `next:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            CacheError::NotTrusted { .. } => {
                Some("look who changed it, then run `windlass artifacts prune` and `windlass artifacts fetch`")
            }
            CacheError::MakeCache { .. } | CacheError::TakeLock { .. } => {
                Some("run as a user who may write to the cache, or name another one with `--cache DIR`")
            }
            CacheError::NameArtifact { .. }
            | CacheError::AddFile { .. }
            | CacheError::RecordEntry { .. }
            | CacheError::LookAt { .. }
            | CacheError::RemoveFile { .. } => None,
        }
    }
}
