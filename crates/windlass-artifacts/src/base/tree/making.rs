//! A directory on its way to its name. It is locked while its maker lives, so that the next one can tell what a killed
//! run left from what another is still making.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tracing::{debug, warn};

use crate::base::BaseError;
use crate::base::error::change;

/// The directory under its temporary name; dropping it without [`Making::finish`] removes it.
pub(super) struct Making {
    path: PathBuf,
    to: PathBuf,
    lock: Option<File>,
}

impl Making {
    pub(super) fn beside(to: &Path) -> Result<Self, BaseError> {
        let mut stem = OsString::from(".");
        stem.push(to.file_name().unwrap_or_default());
        stem.push(".making-");
        let parent = to.parent().unwrap_or(to);
        sweep(parent, &stem.to_string_lossy());
        for attempt in 0..100 {
            let mut name = stem.clone();
            name.push(format!("{}-{attempt}", std::process::id()));
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    let locked = File::open(&path).and_then(|dir| dir.lock().map(|()| dir));
                    let lock = locked.map_err(change("lock", &path))?;
                    // Another run's sweep may have come between making and locking.
                    if path.exists() {
                        return Ok(Self { path, to: to.to_owned(), lock: Some(lock) });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(change("make", &path)(error)),
            }
        }
        Err(change("make", to)(io::ErrorKind::AlreadyExists.into()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the tree its name. If another run was faster, its tree is as good.
    pub(super) fn finish(mut self) -> Result<(), BaseError> {
        if let Some(lock) = &self.lock {
            // All files at once: there are thousands, and none is needed before the name is there.
            nix::unistd::syncfs(lock).map_err(|errno| change("sync", &self.path)(errno.into()))?;
        }
        match fs::rename(&self.path, &self.to) {
            Ok(()) => self.lock = None,
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(change("rename", &self.path)(error)),
        }
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if self.lock.is_some()
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            warn!(path = %self.path.display(), %error, "half a tree left behind, the next run will take it");
        }
    }
}

fn sweep(parent: &Path, stem: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(stem) {
            continue;
        }
        let removed = File::open(entry.path()).and_then(|file| match file.try_lock() {
            Ok(()) => fs::remove_dir_all(entry.path()),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        });
        if let Err(error) = removed {
            debug!(path = %entry.path().display(), %error, "half a tree of a dead run stays for now");
        }
    }
}
