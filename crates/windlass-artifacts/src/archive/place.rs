//! Where members go. A directory is entered component by component from one descriptor, never through a link, and
//! files are only ever new: even if a rule had a hole, the kernel would not follow it out.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{geteuid, linkat, symlinkat};

use super::ArchiveError;

/// A place for members whose paths have been judged.
pub(super) trait Place {
    fn directory(&mut self, path: &str) -> io::Result<()>;
    fn symlink(&mut self, path: &str, target: &str) -> io::Result<()>;
    fn hard_link(&mut self, path: &str, target: &str) -> io::Result<()>;
    fn begin_file(&mut self, path: &str) -> io::Result<()>;
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn end_file(&mut self, mode: u32) -> io::Result<()>;
}

/// For looking only.
pub(super) struct Nowhere;

impl Place for Nowhere {
    fn directory(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn symlink(&mut self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn hard_link(&mut self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn begin_file(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn end_file(&mut self, _: u32) -> io::Result<()> {
        Ok(())
    }
}

/// An empty directory of ours, which fills.
pub(super) struct Directory {
    path: PathBuf,
    root: OwnedFd,
    open: Option<File>,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let failed = |source| ArchiveError::UseDestination { path: path.to_owned(), source };
        let root =
            openat(nix::fcntl::AT_FDCWD, path, directory_flags(), Mode::empty()).map_err(|e| failed(e.into()))?;
        let root = File::from(root);
        let owner = root.metadata().map_err(failed)?.uid();
        if owner != geteuid().as_raw() {
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to someone else")));
        }
        if fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(failed(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "it is not empty")));
        }
        Ok(Directory { path: path.to_owned(), root: root.into(), open: None })
    }

    /// Removes everything in it; it was empty, so everything is what we placed.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.open = None;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// The directory above the last component, made where it is missing, and that component.
    fn enter<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut directory = self.root.try_clone()?;
        for component in above.split('/').filter(|component| !component.is_empty()) {
            make(&directory, component)?;
            directory = openat(&directory, component, directory_flags(), Mode::empty())?;
        }
        Ok((directory, name))
    }
}

impl Place for Directory {
    fn directory(&mut self, path: &str) -> io::Result<()> {
        let (above, name) = self.enter(path)?;
        make(&above, name)
    }

    fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        let (above, name) = self.enter(path)?;
        Ok(symlinkat(target, &above, name)?)
    }

    fn hard_link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let (from, old) = self.enter(target)?;
        let (to, new) = self.enter(path)?;
        Ok(linkat(&from, old, &to, new, AtFlags::empty())?)
    }

    fn begin_file(&mut self, path: &str) -> io::Result<()> {
        let (above, name) = self.enter(path)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&above, name, flags, Mode::from_bits_truncate(0o600))?;
        self.open = Some(File::from(file));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.open {
            Some(file) => file.write_all(bytes),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no file was begun")),
        }
    }

    fn end_file(&mut self, mode: u32) -> io::Result<()> {
        match self.open.take() {
            Some(file) => file.set_permissions(fs::Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

fn make(above: &OwnedFd, name: &str) -> io::Result<()> {
    match mkdirat(above, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) => {
            // The umask may have taken bits away.
            let made = openat(above, name, directory_flags(), Mode::empty())?;
            File::from(made).set_permissions(fs::Permissions::from_mode(0o755))
        }
        Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
