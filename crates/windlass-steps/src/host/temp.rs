//! The temporary file beside the final one. Its writer holds a lock on it, so that a later run can tell the left-overs of
//! a dead run from the work of a live one; process ids alone are reused, above all in containers.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use tracing::warn;

use super::file::parent;
use super::{HostError, Mode};

/// Leaves room for the suffix in the 255 bytes that a name may have.
const NAME_KEPT: usize = 200;
const ATTEMPTS: u32 = 10_000;

/// Removes the temporary files that dead runs left in this directory, not below it, and says which.
pub fn sweep_temps(dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, HostError> {
    let dir = dir.as_ref();
    let trouble = |path: &Path| {
        let path = path.to_owned();
        move |source| HostError::SweepTemps { path, source }
    };
    let mut removed = Vec::new();
    for entry in fs::read_dir(dir).map_err(trouble(dir))? {
        let entry = entry.map_err(trouble(dir))?;
        let path = entry.path();
        let is_file = entry.file_type().map_err(trouble(&path))?.is_file();
        if is_file && is_temp_name(&entry.file_name()) && remove_if_dead(&path).map_err(trouble(&path))? {
            removed.push(path);
        }
    }
    removed.sort();
    Ok(removed)
}

/// Content on its way to its final name; dropping it before [`Temp::rename`] removes it.
pub(super) struct Temp {
    path: PathBuf,
    temp: PathBuf,
    file: Option<File>,
}

impl Temp {
    /// Writes everything but the name: afterwards only syncing and renaming can fail.
    pub(super) fn write(path: &Path, bytes: &[u8], mode: Mode) -> Result<Self, HostError> {
        let (temp, mut file) = create(path).map_err(|source| HostError::WriteFile { path: path.to_owned(), source })?;
        // The mode last: the content of a file that will be public is still nobody's business before it is complete.
        let written = file.write_all(bytes).and_then(|()| file.set_permissions(mode.permissions()));
        let this = Self { path: path.to_owned(), temp, file: Some(file) };
        match written {
            Ok(()) => Ok(this),
            Err(source) => Err(this.abandon(source)),
        }
    }

    /// Brings the content to the disk; the name must not come first, or a power cut leaves an empty file.
    pub(super) fn sync(self) -> Result<Self, HostError> {
        match self.file.as_ref().map_or(Ok(()), File::sync_all) {
            Ok(()) => Ok(self),
            Err(source) => Err(self.abandon(source)),
        }
    }

    /// Gives the content its name and answers with the directory that is to be synced.
    pub(super) fn rename(mut self) -> Result<PathBuf, HostError> {
        match fs::rename(&self.temp, &self.path) {
            Ok(()) => {
                // Unlocked by hand: a process being forked by another thread may hold the descriptor a moment longer.
                if let Some(Err(error)) = self.file.take().map(|file| file.unlock()) {
                    warn!(path = %self.path.display(), %error, "lock not released, closing the file releases it");
                }
                Ok(parent(&self.path).to_owned())
            }
            Err(source) => Err(self.abandon(source)),
        }
    }

    fn abandon(mut self, source: io::Error) -> HostError {
        self.file = None;
        let (path, temp) = (self.path.clone(), self.temp.clone());
        match fs::remove_file(&temp) {
            Ok(()) => HostError::WriteFile { path, source },
            Err(cleanup) => HostError::LeaveTemp { path, temp, cleanup, source },
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if self.file.is_some()
            && let Err(error) = fs::remove_file(&self.temp)
        {
            warn!(temp = %self.temp.display(), %error, "temporary file left behind, the next sweep will take it");
        }
    }
}

fn create(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    for attempt in 0..ATTEMPTS {
        let temp = parent(path).join(temp_name(name, attempt));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(Mode::PRIVATE_FILE.bits()).custom_flags(no_follow());
        match options.open(&temp) {
            Ok(file) if is_ours(&file)? => return Ok((temp, file)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every temporary name is taken"))
}

/// A sweep may have come between creating and locking: then the lock is taken, or the name is gone.
fn is_ours(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn remove_if_dead(path: &Path) -> io::Result<bool> {
    let opened = OpenOptions::new().read(true).custom_flags(no_follow()).open(path);
    let removed = opened.and_then(|file| match file.try_lock() {
        Ok(()) => fs::remove_file(path).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        other => other,
    }
}

fn temp_name(name: &OsStr, attempt: u32) -> OsString {
    let kept = &name.as_bytes()[..name.len().min(NAME_KEPT)];
    let suffix = format!(".tmp-{}-{attempt}", std::process::id());
    OsString::from_vec([b".", kept, suffix.as_bytes()].concat())
}

fn is_temp_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbers = name.strip_prefix('.').and_then(|rest| rest.rsplit_once(".tmp-"));
    numbers
        .and_then(|(stem, numbers)| Some((stem, numbers.split_once('-')?)))
        .is_some_and(|(stem, (pid, attempt))| !stem.is_empty() && digits(pid) && digits(attempt))
}

fn no_follow() -> i32 {
    OFlag::O_NOFOLLOW.bits()
}

#[cfg(test)]
mod tests {
    use super::super::write_file;
    use super::*;

    #[test]
    fn our_temporary_names_are_recognised_and_no_others() {
        let ours = temp_name(OsStr::new("kubeconfig"), 3);
        let cases = [
            (ours.to_str().unwrap(), true),
            (".a.tmp-1-0", true),
            (".a.tmp-9.tmp-1-0", true),
            ("a.tmp-1-0", false),
            (".tmp-1-0", false),
            (".a.tmp-1", false),
            (".a.tmp-x-0", false),
            (".a.tmp-1-0.yaml", false),
            (".a.tmp-1-", false),
        ];
        for (name, want) in cases {
            assert_eq!(is_temp_name(OsStr::new(name)), want, "{name}");
        }
    }

    #[test]
    fn a_sweep_takes_what_the_dead_left_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let live = Temp::write(&dir.path().join("live"), b"x", Mode::PUBLIC).unwrap();
        let own_pid = format!(".dead.tmp-{}-7", std::process::id());
        for name in [".dead.tmp-1-0", own_pid.as_str(), ".user.tmp-file", "plain"] {
            write_file(dir.path().join(name), "x", Mode::PUBLIC).unwrap();
        }
        let mut gone = vec![dir.path().join(".dead.tmp-1-0"), dir.path().join(own_pid)];
        gone.sort();
        assert_eq!(sweep_temps(dir.path()).unwrap(), gone);
        assert!(live.temp.exists());
        live.rename().unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".user.tmp-file", "live", "plain"]);
        assert!(matches!(sweep_temps(dir.path().join("no")), Err(HostError::SweepTemps { .. })));
    }

    #[test]
    fn a_taken_temporary_name_is_stepped_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let taken = dir.path().join(temp_name(OsStr::new("a"), 0));
        std::os::unix::fs::symlink("/etc/passwd", &taken).unwrap();
        write_file(&path, "x", Mode::PUBLIC).unwrap();
        assert!(taken.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(path).unwrap(), b"x");
    }

    #[test]
    fn a_dropped_temporary_file_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        drop(Temp::write(&dir.path().join("a"), b"x", Mode::PUBLIC).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
