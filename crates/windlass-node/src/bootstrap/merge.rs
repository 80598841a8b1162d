//! Having systemd merge the extensions anew, when they have changed under a boot. That it is due is noted before anything
//! changes: a run that was cut off, or whose merge failed, leaves extensions in place that no later plan would merge. The
//! note is in `/run`, because the next boot merges by itself.

use std::fs;
use std::io;

use thiserror::Error;
use windlass_steps::host::{Commands, HostError, Mode, cmd, make_dir, write_file};

use crate::places::Places;

/// Why extensions that are in place are not effective.
#[derive(Debug, Error)]
pub enum MergeError {
    /// It cannot be noted that they have to be merged.
    #[error("cannot note that the extensions are to be merged")]
    Note {
        /// Why not.
        source: HostError,
    },
    /// The note does not go away.
    #[error("cannot remove the note that the extensions are to be merged")]
    Forget {
        /// What the kernel said.
        source: io::Error,
    },
    /// systemd does not merge them.
    #[error("cannot have systemd merge the extensions")]
    Refresh {
        /// Why not.
        source: HostError,
    },
}

/// Notes that the extensions have to be merged.
pub(super) fn note(places: &Places) -> Result<(), MergeError> {
    let path = places.merge_due();
    let made = make_dir(path.parent().unwrap_or(&path), Mode::PUBLIC_DIR);
    made.and_then(|_| write_file(&path, "", Mode::PUBLIC)).map_err(|source| MergeError::Note { source })
}

/// Whether that was noted in this boot and has not been done.
pub(super) fn is_due(places: &Places) -> bool {
    places.merge_due().exists()
}

/// Merges the extensions if that is due.
pub(super) async fn catch_up(places: &Places, commands: &impl Commands) -> Result<(), MergeError> {
    if !is_due(places) {
        return Ok(());
    }
    let merged = commands.run(cmd("systemd-sysext").arg("refresh")).await;
    merged.map_err(|source| MergeError::Refresh { source })?;
    fs::remove_file(places.merge_due()).map_err(|source| MergeError::Forget { source })
}
