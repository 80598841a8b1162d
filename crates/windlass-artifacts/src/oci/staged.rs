//! A large file on its way to its name: written beside it, and locked meanwhile, under the kind of name that
//! `windlass_steps::host::sweep_temps` removes when its writer is dead.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracing::warn;
use windlass_steps::host::{Mode, set_mode, sync_dir};

/// Names tried before giving up; each one taken is another writer's.
const ATTEMPTS: u32 = 1000;

/// The file under its temporary name; dropping it without [`Staged::finish`] removes it.
pub(crate) struct Staged {
    path: PathBuf,
    temp: PathBuf,
    file: Option<File>,
}

impl Staged {
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
        for attempt in 0..ATTEMPTS {
            let mut temp = OsString::from(".");
            temp.push(name);
            temp.push(format!(".tmp-{}-{attempt}", std::process::id()));
            let temp = path.with_file_name(temp);
            match OpenOptions::new().read(true).write(true).create_new(true).open(&temp) {
                Ok(file) => {
                    file.lock()?;
                    // A sweep may have come between creating and locking.
                    if file.metadata()?.nlink() > 0 {
                        return Ok(Self { path: path.to_owned(), temp, file: Some(file) });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "every temporary name is taken"))
    }

    /// Where to write.
    pub(crate) fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Gives the file its name, for everyone to read, and makes both last.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file()?.sync_all()?;
        set_mode(&self.temp, Mode::PUBLIC).map_err(io::Error::other)?;
        fs::rename(&self.temp, &self.path)?;
        self.file = None;
        let dir = match self.path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        sync_dir(dir).map_err(io::Error::other)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.file.is_some()
            && let Err(error) = fs::remove_file(&self.temp)
        {
            warn!(temp = %self.temp.display(), %error, "temporary file left behind, the next sweep will take it");
        }
    }
}
