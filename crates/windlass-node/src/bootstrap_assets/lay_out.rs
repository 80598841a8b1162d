//! Putting the document's files in their places. A folder that somebody waits for is made aside and appears by one rename,
//! whole and on the disk; the last of them is the one that bootkube waits for. A folder that is there is therefore whole,
//! and left alone: a run that was killed is taken up by the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_assets::bootstrap_assets::{DocumentFile, Folder, Landing};
use windlass_steps::host::{Batch, HostError, Mode, make_dir, sync_dir};

use crate::places::Places;

/// Why a file is not in its place.
#[derive(Debug, Error)]
pub enum LayOutError {
    /// It cannot be written.
    #[error("cannot write them")]
    Write {
        /// Why not.
        source: HostError,
    },
    /// What a killed run left cannot be removed.
    #[error("cannot remove {}", .path.display())]
    Remove {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder cannot be moved to its place.
    #[error("cannot move a folder to {}", .path.display())]
    Move {
        /// The place.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Puts files into these folders, one folder after the other.
pub(super) fn lay_out(places: &Places, folders: &[Folder], files: &[DocumentFile]) -> Result<(), LayOutError> {
    for folder in folders {
        let target = places.at(folder.path());
        let files = files.iter().filter(|file| file.folder == *folder);
        match folder.landing() {
            Landing::Each => write(&target, files)?,
            Landing::Whole if target.exists() => {}
            Landing::Whole => {
                let aside = aside(&target);
                remove(&aside)?;
                write(&aside, files)?;
                appear(&aside, &target)?;
            }
        }
    }
    Ok(())
}

/// Where a folder is made: beside its place, because a rename does not leave a file system.
fn aside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.new"))
}

fn remove(path: &Path) -> Result<(), LayOutError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(LayOutError::Remove { path: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn write<'a>(folder: &Path, files: impl Iterator<Item = &'a DocumentFile>) -> Result<(), LayOutError> {
    let trouble = |source| LayOutError::Write { source };
    make_dir(folder, Mode::PRIVATE_DIR).map_err(trouble)?;
    let mut batch = Batch::default();
    for file in files {
        let mode = Mode::from_bits(file.mode).unwrap_or(Mode::PRIVATE_FILE);
        batch.write(folder.join(&file.name), file.contents.expose(), mode).map_err(trouble)?;
    }
    batch.commit().map_err(trouble)
}

fn appear(aside: &Path, target: &Path) -> Result<(), LayOutError> {
    fs::rename(aside, target).map_err(|source| LayOutError::Move { path: target.to_owned(), source })?;
    sync_dir(target.parent().unwrap_or(target)).map_err(|source| LayOutError::Write { source })
}
