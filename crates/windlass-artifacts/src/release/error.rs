//! Why a release could not be taken from a mirror or a registry.

use std::io;
use std::path::PathBuf;

use oci_client::errors::OciDistributionError;

use crate::archive::ArchiveError;
use crate::cache::CacheError;
use crate::download::DownloadError;

/// A release that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The mirror's address is not one to take programs from.
    #[error("{text:?} cannot be a mirror: {reason}")]
    NameMirror {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The text does not name a registry.
    #[error("{text:?} cannot be a registry: {reason}")]
    NameRegistry {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody publishes it.
    #[error("{release} is not published as a release; it is built from source")]
    NotPublished {
        /// Which one.
        release: String,
    },
    /// The mirror did not give one of its files.
    #[error("cannot get {release} from the mirror")]
    Download {
        /// Which one.
        release: String,
        /// What was wrong.
        source: Box<DownloadError>,
    },
    /// Its archive is not one to unpack.
    #[error("cannot unpack {file} of {release}")]
    Unpack {
        /// Which one.
        release: String,
        /// The archive, as the mirror names it.
        file: String,
        /// What was wrong.
        source: Box<ArchiveError>,
    },
    /// Its archive lacks a program.
    #[error("{release} is not what was expected: {file} has no regular file {member}")]
    FindMember {
        /// Which one.
        release: String,
        /// The archive, as the mirror names it.
        file: String,
        /// What was looked for inside.
        member: String,
    },
    /// The cache could not be used for it.
    #[error("cannot keep {release} in the cache")]
    UseCache {
        /// Which one.
        release: String,
        /// What was wrong.
        source: Box<CacheError>,
    },
    /// The text does not name an image.
    #[error("{text:?} does not name an image: {reason}")]
    NameImage {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The registry does not even let anybody in.
    #[error("cannot log in to pull {image}")]
    LogIn {
        /// Which one.
        image: String,
        /// What was wrong.
        source: Box<OciDistributionError>,
    },
    /// The registry did not give the image.
    #[error("cannot pull {image}")]
    Pull {
        /// Which one.
        image: String,
        /// What was wrong.
        source: Box<DownloadError>,
    },
    /// The registry stopped talking.
    #[error("pulling {image} stalled: nothing came for {} s", .seconds)]
    Stalled {
        /// Which one.
        image: String,
        /// How long.
        seconds: f32,
    },
    /// The registry gave something else.
    #[error("{image} is not trusted: {reason}")]
    DistrustImage {
        /// Which one.
        image: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What came could not be kept.
    #[error("cannot write {}", .path.display())]
    KeepBlob {
        /// The file for it.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ReleaseError {
    /// Whether it is about trust (exit code 9) and not about a network or a disk.
    pub fn is_trust(&self) -> bool {
        match self {
            ReleaseError::Download { source, .. } | ReleaseError::Pull { source, .. } => source.is_trust(),
            ReleaseError::Unpack { source, .. } => source.is_trust(),
            ReleaseError::UseCache { source, .. } => source.is_trust(),
            ReleaseError::FindMember { .. } | ReleaseError::DistrustImage { .. } => true,
            ReleaseError::NameMirror { .. }
            | ReleaseError::NameRegistry { .. }
            | ReleaseError::NotPublished { .. }
            | ReleaseError::NameImage { .. }
            | ReleaseError::LogIn { .. }
            | ReleaseError::Stalled { .. }
            | ReleaseError::KeepBlob { .. } => false,
        }
    }

    /// Whether mirror or registry is fine and does not have it, so that `auto` may build or make it.
    pub fn is_absent(&self) -> bool {
        match self {
            ReleaseError::Download { source, .. } | ReleaseError::Pull { source, .. } => source.is_absent(),
            ReleaseError::NotPublished { .. } => true,
            _ => false,
        }
    }

    /// What to do about it; it suits a `next:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReleaseError::Download { source, .. } => source.hint(),
            ReleaseError::UseCache { source, .. } => source.hint(),
            ReleaseError::NotPublished { .. } => Some("fetch with `--source source` or `--source auto`"),
            _ => None,
        }
    }
}
