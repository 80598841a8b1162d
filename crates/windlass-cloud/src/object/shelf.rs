//! The shelf: large files that the stores of several clusters have. Each is taken once from where it lies on the host and
//! hashed on the way; from then on a store gets it by a link, which costs nothing. As unpacked images do, it stays when a
//! cluster goes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use thiserror::Error;
use windlass_steps::host::{HostError, Mode, make_dir, set_mode, sync_dir};

use super::ObjectDigest;

/// A file on the shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelved {
    /// Where.
    pub path: PathBuf,
    /// What it is.
    pub digest: ObjectDigest,
    /// How many bytes it has.
    pub size: u64,
}

/// Why a file was not taken.
#[derive(Debug, Error)]
pub enum ShelfError {
    /// There is no such file, or it is something else.
    #[error("cannot open {} as a plain file", .path.display())]
    OpenFile {
        /// The path that was given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file is not what was promised.
    #[error("{} should be {wanted} and is {found}", .path.display())]
    TrustFile {
        /// The path that was given.
        path: PathBuf,
        /// What it should be.
        wanted: ObjectDigest,
        /// What it is.
        found: ObjectDigest,
    },
    /// The copy could not be made.
    #[error("cannot copy {}", .path.display())]
    CopyFile {
        /// The path that was given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The shelf itself could not be made or kept.
    #[error("cannot keep files of this host")]
    KeepShelf {
        /// What the host said.
        source: HostError,
    },
}

/// Takes a file of this host, which must have this digest, unless it was taken before. It appears whole or not at all, also
/// when two do it at once.
pub fn take(shelf: &Path, path: &Path, digest: ObjectDigest) -> Result<Shelved, ShelfError> {
    let source = open(path).map_err(|source| ShelfError::OpenFile { path: path.to_owned(), source })?;
    let failed = |source| ShelfError::CopyFile { path: path.to_owned(), source };
    let size = source.metadata().map_err(failed)?.len();
    make_dir(shelf, Mode::PRIVATE_DIR).map_err(|source| ShelfError::KeepShelf { source })?;
    let shelved = Shelved { path: shelf.join(digest.hex()), digest, size };
    let _held = hold(shelf).map_err(failed)?;
    if is_there(&shelved) {
        return Ok(shelved);
    }
    // One name for all: what a killed daemon left is overwritten, whatever is taken next.
    let taking = shelf.join(".taking");
    let taken = copy(source, &taking).map_err(failed).and_then(|found| match found == shelved.digest {
        true => keep(&taking, &shelved),
        false => Err(ShelfError::TrustFile { path: path.to_owned(), wanted: shelved.digest.clone(), found }),
    });
    if taken.is_err() {
        remove(&taking).map_err(failed)?;
    }
    taken.map(|()| shelved)
}

/// Its name says what it is; a file that a failing disk has cut short is taken again.
fn is_there(shelved: &Shelved) -> bool {
    fs::symlink_metadata(&shelved.path).is_ok_and(|file| file.is_file() && file.len() == shelved.size)
}

/// Neither a link nor a pipe that somebody put there.
fn open(path: &Path) -> io::Result<File> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an absolute path is wanted"));
    }
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file")),
    }
}

/// Copies within the kernel, on some file systems without moving a byte, and hashes the copy: that is what will be kept.
fn copy(mut source: File, taking: &Path) -> io::Result<ObjectDigest> {
    remove(taking)?;
    let mut target = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(taking)?;
    io::copy(&mut source, &mut target)?;
    let digest = ObjectDigest::of_reader(File::open(taking)?)?;
    target.sync_all()?;
    Ok(digest)
}

fn keep(taking: &Path, shelved: &Shelved) -> Result<(), ShelfError> {
    let keep = |source| ShelfError::KeepShelf { source };
    set_mode(taking, Mode::PRIVATE_FILE).map_err(keep)?;
    fs::rename(taking, &shelved.path)
        .map_err(|source| keep(HostError::WriteFile { path: shelved.path.clone(), source }))?;
    sync_dir(shelved.path.parent().unwrap_or(&shelved.path)).map_err(keep)
}

fn hold(shelf: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(shelf.join(".lock"))?;
    file.lock()?;
    Ok(file)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use windlass_steps::host::write_file;

    use super::*;

    fn names(shelf: &Path) -> Vec<String> {
        let Ok(entries) = fs::read_dir(shelf) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_taken_once_and_is_then_the_shelfs_own() {
        let dir = tempfile::tempdir().unwrap();
        let (shelf, file) = (dir.path().join("shelf"), dir.path().join("file"));
        write_file(&file, "content", Mode::PUBLIC).unwrap();
        let digest = ObjectDigest::of(b"content");
        let first = take(&shelf, &file, digest.clone()).unwrap();
        assert_eq!((first.size, names(&shelf)), (7, vec![digest.hex().to_owned()]));
        let inode = |shelved: &Shelved| fs::metadata(&shelved.path).unwrap().ino();
        let taken = inode(&first);
        let again = take(&shelf, &file, digest.clone()).unwrap();
        assert_eq!((again.clone(), inode(&again)), (first.clone(), taken));
        // Whatever becomes of the source.
        write_file(&file, "changed", Mode::PUBLIC).unwrap();
        assert_eq!(fs::read(&first.path).unwrap(), b"content");
        assert_eq!(fs::metadata(&first.path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_cut_short_or_half_taken_is_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let (shelf, file) = (dir.path().join("shelf"), dir.path().join("file"));
        write_file(&file, "content", Mode::PUBLIC).unwrap();
        let digest = ObjectDigest::of(b"content");
        let first = take(&shelf, &file, digest.clone()).unwrap();
        OpenOptions::new().write(true).open(&first.path).unwrap().set_len(3).unwrap();
        write_file(shelf.join(".taking"), "cont", Mode::PUBLIC).unwrap();
        let again = take(&shelf, &file, digest.clone()).unwrap();
        assert_eq!(fs::read(&again.path).unwrap(), b"content");
        assert_eq!(names(&shelf), [digest.hex()]);
    }

    #[test]
    fn what_is_not_the_promised_plain_file_is_refused_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (shelf, file, link) = (dir.path().join("shelf"), dir.path().join("file"), dir.path().join("link"));
        write_file(&file, "content", Mode::PUBLIC).unwrap();
        symlink(&file, &link).unwrap();
        let digest = ObjectDigest::of(b"content");
        let other = ObjectDigest::of(b"other");
        let refusal = |path: &Path, digest: &ObjectDigest| take(&shelf, path, digest.clone()).unwrap_err();
        assert!(matches!(refusal(&file, &other), ShelfError::TrustFile { .. }));
        for path in [&link, dir.path(), &dir.path().join("none"), Path::new("file"), Path::new("/dev/null")] {
            let error = refusal(path, &digest);
            assert!(matches!(error, ShelfError::OpenFile { .. }), "{}: {error:?}", path.display());
        }
        assert_eq!(names(&shelf), Vec::<String>::new());
    }
}
