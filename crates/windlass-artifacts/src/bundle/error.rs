//! Why a bundle was not made or not taken.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::archive::ArchiveError;
use crate::cache::CacheError;
use crate::digest::Digest;
use crate::signature::{KeyError, SignatureError};

/// A failed attempt to make, open or import a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file could not be opened or read.
    #[error("cannot read the bundle {}", .path.display())]
    ReadBundle {
        /// The bundle.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive around the content is damaged, or could not be read.
    #[error("cannot read the bundle's archive")]
    ReadMember {
        /// What is wrong.
        source: ArchiveError,
    },
    /// The list is not signed by anyone trusted.
    #[error("the bundle's list is not trusted")]
    VerifyIndex {
        /// What is wrong with the signatures.
        source: SignatureError,
    },
    /// The list is signed but makes no sense.
    #[error("cannot read the bundle's list: {what}")]
    ParseIndex {
        /// What is wrong with it.
        what: String,
    },
    /// A member that should not be there, or not there.
    #[error("refused the bundle for its member {member:?}: {what}")]
    RefuseMember {
        /// Its name.
        member: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something in the list is not in the bundle.
    #[error("the bundle lacks {name}, which its list has")]
    FindBlob {
        /// Name and version.
        name: String,
    },
    /// The content of a blob is not what the list says.
    #[error("{name} in the bundle does not have the digest {digest}")]
    MatchDigest {
        /// Name and version.
        name: String,
        /// What the list says.
        digest: Digest,
    },
    /// Whoever takes the blobs could not take this one.
    #[error("cannot store {name} from the bundle")]
    StoreBlob {
        /// Name and version.
        name: String,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A file that was to go into a bundle could not be read.
    #[error("cannot read {} to bundle it", .path.display())]
    ReadBlob {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The bundle could not be written.
    #[error("cannot write the bundle")]
    WriteBundle {
        /// What is wrong.
        source: io::Error,
    },
    /// A part of the bundle could not be packed.
    #[error("cannot pack the bundle")]
    PackBundle {
        /// What is wrong.
        source: ArchiveError,
    },
    /// The list could not be signed.
    #[error("cannot sign the bundle")]
    SignBundle {
        /// What is wrong with the keys.
        source: KeyError,
    },
}

impl BundleError {
    /// Whether the bundle, the file that was to go into it, or the one that it was to replace must not be trusted (exit
    /// code 9).
    pub fn is_trust(&self) -> bool {
        match self {
            BundleError::VerifyIndex { .. }
            | BundleError::ParseIndex { .. }
            | BundleError::RefuseMember { .. }
            | BundleError::FindBlob { .. }
            | BundleError::MatchDigest { .. } => true,
            BundleError::ReadMember { source } => source.is_trust(),
            BundleError::StoreBlob { .. } => self.in_cache().is_some_and(CacheError::is_trust),
            BundleError::ReadBundle { .. }
            | BundleError::ReadBlob { .. }
            | BundleError::WriteBundle { .. }
            | BundleError::PackBundle { .. }
            | BundleError::SignBundle { .. } => false,
        }
    }

    /// What to do about it, where the bundle is not to blame; it suits a `next:` line.
    pub fn hint(&self) -> Option<&'static str> {
        self.in_cache().and_then(CacheError::hint)
    }

    /// What the cache said, if that is who takes the blobs.
    fn in_cache(&self) -> Option<&CacheError> {
        match self {
            BundleError::StoreBlob { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}
