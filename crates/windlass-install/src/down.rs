//! The `down` flow: everything that carries the cluster's tag goes, also after any failure, and a receipt says what was
//! there and what is left.

use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;
use windlass_platform::{Platform, PlatformError, Receipt};

use crate::logbook::{self, Held, LogbookError};

/// What `down` did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// What was there and what is left.
    #[serde(flatten)]
    pub receipt: Receipt,
    /// Where the journal is kept, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
}

/// Why `down` did not get to its end.
#[derive(Debug, Error)]
pub enum DownError {
    /// The platform did not remove everything.
    #[error("the cluster was not removed")]
    Destroy {
        /// Why not.
        source: PlatformError,
    },
    /// Something is left.
    #[error("something of the cluster is left")]
    Residue {
        /// What was there and what is left.
        receipt: Receipt,
    },
    /// The journal cannot be put aside.
    #[error("the cluster directory cannot be freed")]
    Journal {
        /// Why not.
        source: LogbookError,
    },
}

/// Removes the cluster, and frees its directory, if there is one, for another launch.
///
/// Whoever calls this holds the directory's journal, if there is one, so that nobody launches there meanwhile.
pub async fn down(
    platform: &impl Platform,
    directory: Option<&Path>,
    held: Option<Held>,
) -> Result<Removed, DownError> {
    let journal = |source| DownError::Journal { source };
    let receipt = platform.destroy().await.map_err(|source| DownError::Destroy { source })?;
    if !receipt.left.is_empty() {
        return Err(DownError::Residue { receipt });
    }
    let aside = match (directory, held) {
        (Some(directory), Some(held)) => Some(logbook::put_aside(directory, held).map_err(journal)?),
        (None, _) | (_, None) => None,
    };
    Ok(Removed { receipt, journal: aside })
}
