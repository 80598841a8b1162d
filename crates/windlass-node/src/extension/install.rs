//! Putting staged extensions in place, by renames alone. A power cut in between leaves whole extensions, of which the next
//! run puts the missing ones in place.

use std::fs;
use std::io;
use std::path::PathBuf;

use thiserror::Error;
use windlass_steps::host::{HostError, Mode, make_dir, sync_dir};

use super::stage::Staged;
use crate::places::Places;

/// Why extensions are not in place.
#[derive(Debug, Error)]
pub enum InstallError {
    /// Their folder cannot be made or written through.
    #[error("cannot use the folder of system extensions")]
    UseFolder {
        /// Why not.
        source: HostError,
    },
    /// One cannot be moved.
    #[error("cannot move {} to {}", from.display(), to.display())]
    Move {
        /// Where it is.
        from: PathBuf,
        /// Where it belongs.
        to: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// One that was moved away cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// Where it is.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Puts new extensions in place and takes old ones away. An old one is moved out first and removed last: it may be merged
/// now, and its programs may run.
pub fn install(places: &Places, staged: &[Staged], remove: &[String]) -> Result<(), InstallError> {
    let (folder, aside) = (places.extensions(), places.addon_work().join("old"));
    for path in [&folder, &aside] {
        make_dir(path, Mode::PUBLIC_DIR).map_err(|source| InstallError::UseFolder { source })?;
    }
    let mut old: Vec<PathBuf> = Vec::new();
    let mut away = |name: &str| {
        let (from, to) = (folder.join(name), aside.join(name));
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(InstallError::Move { from, to, source }),
            Ok(()) => {
                old.push(to);
                Ok(())
            }
        }
    };
    for Staged { directory, path } in staged {
        away(directory)?;
        let to = folder.join(directory);
        let moved = fs::rename(path, &to);
        moved.map_err(|source| InstallError::Move { from: path.clone(), to, source })?;
    }
    remove.iter().try_for_each(|name| away(name))?;
    sync_dir(&folder).map_err(|source| InstallError::UseFolder { source })?;
    for path in old {
        fs::remove_dir_all(&path).map_err(|source| InstallError::Remove { path, source })?;
    }
    Ok(())
}
