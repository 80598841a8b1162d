//! A file that appears under its name only when it is complete, for content that is too large for memory. The steps
//! crate's `write_file` does the same for small ones.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use windlass_steps::host::{Mode, sync_dir};

/// Content on its way to its name; dropped before [`FreshFile::commit`] it is gone.
pub(crate) struct FreshFile {
    path: PathBuf,
    temp: PathBuf,
    file: Option<File>,
}

impl FreshFile {
    /// Starts beside the final name, locked and named so that `sweep_temps` takes it if we die.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
        let name = name.to_string_lossy();
        for attempt in 0..1000 {
            let temp = above(path).join(format!(".{name}.tmp-{}-{attempt}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&temp) {
                Ok(file) => {
                    file.lock()?;
                    return Ok(FreshFile { path: path.to_owned(), temp, file: Some(file) });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "every temporary name is taken"))
    }

    /// Gives the content its mode and its name, also for after a power cut.
    pub(crate) fn commit(mut self, mode: Mode) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.set_permissions(Permissions::from_mode(mode.bits()))?;
            file.sync_all()?;
        }
        fs::rename(&self.temp, &self.path)?;
        self.file = None;
        sync_dir(above(&self.path)).map_err(io::Error::other)
    }
}

impl Write for FreshFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "the file is complete")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        if self.file.is_some()
            && let Err(error) = fs::remove_file(&self.temp)
        {
            tracing::warn!(temp = %self.temp.display(), %error, "temporary file left behind, the next sweep will take it");
        }
    }
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
