//! Room for work in progress. Each temporary directory is locked by its owner, so that what a killed run left can be told
//! from the work of a live one; process ids alone are reused.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use tracing::{debug, warn};
use windlass_steps::host::{self, Mode};

use super::lock::TEMPS;
use super::{Cache, CacheError};

/// Downloads that may be taken up again; they outlive the run that started them.
const PARTIAL: &str = "partial";
const ATTEMPTS: u32 = 10_000;

/// A directory below the cache's `tmp/`; it goes when this is dropped.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
    /// Locked for as long as the directory is in use.
    _lock: File,
}

impl TempDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            warn!(path = %self.path.display(), %error, "temporary directory left behind, a later run will take it");
        }
    }
}

impl Cache {
    /// A new directory for work, on the same file system as the cache; what dead runs left goes first.
    pub fn temp_dir(&self, name: &str) -> Result<TempDir, CacheError> {
        let tmp = self.make("tmp")?;
        if let Err(error) = self.sweep() {
            debug!(%error, "left-overs of dead runs stay for now");
        }
        let _creating = self.shared(TEMPS)?;
        for attempt in 0..ATTEMPTS {
            let path = tmp.join(format!("{}-{}-{attempt}", plain(name), std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let lock = open_dir(&path).and_then(|dir| dir.try_lock().map_err(io::Error::from).map(|()| dir));
                    let lock = lock.map_err(|source| CacheError::TakeLock { path: path.clone(), source })?;
                    return Ok(TempDir { path, _lock: lock });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(CacheError::LookAt { path, source }),
            }
        }
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "every temporary name is taken");
        Err(CacheError::LookAt { path: tmp, source })
    }

    /// The directory of downloads that may be taken up again.
    pub(crate) fn partial_dir(&self) -> Result<PathBuf, CacheError> {
        self.make("tmp/partial")
    }

    /// Removes what dead runs left in `tmp/`, but for downloads that may be taken up again, and says what. While
    /// somebody makes a temporary directory it does nothing: that one sweeps too.
    pub(super) fn sweep(&self) -> Result<Vec<PathBuf>, CacheError> {
        let tmp = self.root().join("tmp");
        let Some(_sweeping) = self.try_exclusive(TEMPS)? else { return Ok(Vec::new()) };
        let mut removed = Vec::new();
        for path in super::children(&tmp)? {
            if path.file_name().is_some_and(|name| name != PARTIAL) && remove_if_dead(&path)? {
                removed.push(path);
            }
        }
        Ok(removed)
    }

    /// Removes the downloads that nobody is at work on, and says which.
    pub(super) fn sweep_partials(&self) -> Result<Vec<PathBuf>, CacheError> {
        let mut removed = Vec::new();
        for path in super::children(&self.root().join("tmp").join(PARTIAL))? {
            if remove_if_dead(&path)? {
                removed.push(path);
            }
        }
        Ok(removed)
    }

    /// Makes a directory of the cache.
    pub(super) fn make(&self, below: &str) -> Result<PathBuf, CacheError> {
        let path = self.root().join(below);
        host::make_dir(&path, Mode::PUBLIC_DIR)
            .map_err(|source| CacheError::MakeCache { path: path.clone(), source })?;
        Ok(path)
    }
}

fn remove_if_dead(path: &Path) -> Result<bool, CacheError> {
    let removed = open_any(path).and_then(|file| match file.try_lock() {
        Ok(()) if file.metadata()?.is_dir() => fs::remove_dir_all(path).map(|()| true),
        Ok(()) => fs::remove_file(path).map(|()| true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) => Err(error),
    });
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // A compiler that outlived its killed windlass still writes there; it will be gone the next time.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        other => other.map_err(|source| CacheError::RemoveFile { path: path.to_owned(), source }),
    }
}

fn open_dir(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY).bits()).open(path)
}

fn open_any(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits()).open(path)
}

fn plain(name: &str) -> String {
    name.chars().take(60).map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_directory_goes_with_its_owner_and_a_dead_one_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let live = cache.temp_dir("build etcd").unwrap();
        let dead = dir.path().join("tmp/build-1-0");
        fs::create_dir_all(dead.join("deep/er")).unwrap();
        let partial = cache.partial_dir().unwrap().join("a.part");
        host::write_file(&partial, "half", Mode::PUBLIC).unwrap();
        let second = cache.temp_dir("build etcd").unwrap();
        assert_ne!(second.path(), live.path());
        assert!(live.path().exists() && !dead.exists() && partial.exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
        assert_eq!(cache.sweep_partials().unwrap(), [partial]);
    }
}
