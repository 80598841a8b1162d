//! What can go wrong while everything is fetched.

use std::path::PathBuf;

use crate::addon::AddonError;
use crate::base::BaseError;
use crate::cache::CacheError;
use crate::download::DownloadError;
use crate::image::ImageError;
use crate::oci::OciError;
use crate::release::ReleaseError;
use crate::source::SourceError;

/// A fetch that did not finish. What was finished before stays in the cache.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// windlass' own program for machines is not where it should be.
    #[error("cannot find windlass-node at {}", .path.display())]
    FindOwnProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// The cache could not be read or written.
    #[error("cannot use the cache")]
    UseCache {
        /// The cause.
        source: CacheError,
    },
    /// Downloads could not be started at all.
    #[error("cannot start downloads")]
    StartDownloads {
        /// The cause.
        source: DownloadError,
    },
    /// A component was not built.
    #[error("cannot build from source")]
    Build {
        /// The cause.
        #[from]
        source: SourceError,
    },
    /// A component or image was not downloaded.
    #[error("cannot fetch a release")]
    Download {
        /// The cause.
        #[from]
        source: ReleaseError,
    },
    /// Images were not made.
    #[error("cannot make images")]
    MakeImages {
        /// The cause.
        source: ImageError,
    },
    /// Pulled images could not be packed.
    #[error("cannot pack pulled images")]
    PackImages {
        /// The cause.
        source: OciError,
    },
    /// The machine base was not made.
    #[error("cannot make the machine base")]
    MakeBase {
        /// The cause.
        #[from]
        source: BaseError,
    },
    /// A runtime addon was not packed.
    #[error("cannot pack a runtime addon")]
    PackAddon {
        /// The cause.
        source: AddonError,
    },
}

impl FetchError {
    /// Whether something was not what it should be, rather than not there.
    pub fn is_trust(&self) -> bool {
        match self {
            FetchError::UseCache { source } => source.is_trust(),
            FetchError::Build { source } => source.is_trust(),
            FetchError::Download { source } => source.is_trust(),
            FetchError::PackImages { source } => source.is_trust(),
            FetchError::FindOwnProgram { .. }
            | FetchError::StartDownloads { .. }
            | FetchError::MakeImages { .. }
            | FetchError::MakeBase { .. }
            | FetchError::PackAddon { .. } => false,
        }
    }

    /// What the user could do about it, where that is plain.
    pub fn hint(&self) -> Option<String> {
        match self {
            FetchError::FindOwnProgram { .. } => Some("build it: cargo build --release --workspace".to_owned()),
            FetchError::UseCache { source } => source.hint().map(str::to_owned),
            FetchError::Build { source } => source.hint(),
            FetchError::Download { source } => source.hint().map(str::to_owned),
            FetchError::MakeBase { source } => source.hint(),
            FetchError::StartDownloads { .. }
            | FetchError::MakeImages { .. }
            | FetchError::PackImages { .. }
            | FetchError::PackAddon { .. } => None,
        }
    }
}
