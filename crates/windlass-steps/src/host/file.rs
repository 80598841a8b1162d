//! Files and directories: written beside their final name and renamed into place, with the mode that was asked for
//! whatever the umask, and read with a limit.

use std::fmt;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use super::HostError;
use super::temp::Temp;

/// The permission bits of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u32);

impl Mode {
    /// 0600: keys, tokens, kubeconfigs and every asset.
    pub const PRIVATE_FILE: Self = Self(0o600);
    /// 0700: directories with private files in them.
    pub const PRIVATE_DIR: Self = Self(0o700);
    /// 0644: files for everyone to read.
    pub const PUBLIC: Self = Self(0o644);
    /// 0755: programs.
    pub const EXECUTABLE: Self = Self(0o755);
    /// 0755: directories for everyone to enter.
    pub const PUBLIC_DIR: Self = Self(0o755);

    /// Any other mode, such as one from a spec; nothing if there are bits that are not permissions.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits <= 0o7777 { Some(Self(bits)) } else { None }
    }

    /// As `chmod` takes them.
    pub const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn permissions(self) -> Permissions {
        Permissions::from_mode(self.0)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// Whether [`make_dir`] had anything to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The directory is new and has the mode that was asked for.
    New,
    /// It was there, and its mode was left alone: it may be `/tmp`.
    Existed,
}

/// Replaces the file in one motion: readers see the old content or the new, also after a power cut.
///
/// A symbolic link at `path` is replaced, not followed. When it fails, what was there is still there. It costs two
/// syncs; for many files at once see [`Batch`](super::Batch).
pub fn write_file(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>, mode: Mode) -> Result<(), HostError> {
    let temp = Temp::write(path.as_ref(), bytes.as_ref(), mode)?;
    let temp = temp.sync()?;
    let dir = temp.rename()?;
    sync_dir(dir)
}

/// Reads the whole file if it has at most `limit` bytes.
pub fn read_file(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, HostError> {
    let path = path.as_ref();
    let trouble = |source| HostError::ReadFile { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(trouble)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(trouble)?;
    if bytes.len() as u64 > limit {
        return Err(HostError::HoldFile { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Makes the directory, and those above it, with exactly this mode; a directory that exists is left as it is.
pub fn make_dir(path: impl AsRef<Path>, mode: Mode) -> Result<Made, HostError> {
    let path = path.as_ref();
    let create = || DirBuilder::new().mode(mode.bits()).create(path);
    let trouble = |source| HostError::MakeDir { path: path.to_owned(), source };
    let above = parent(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && above != path => {
            make_dir(above, mode)?;
            create().or_else(|error| existing(path, error)).map_err(trouble)?;
        }
        Err(error) => {
            existing(path, error).map_err(trouble)?;
            return Ok(Made::Existed);
        }
        Ok(()) => {}
    }
    set_mode(path, mode)?;
    sync_dir(above)?;
    Ok(Made::New)
}

/// Changes the mode of a file or directory that exists.
pub fn set_mode(path: impl AsRef<Path>, mode: Mode) -> Result<(), HostError> {
    let path = path.as_ref();
    fs::set_permissions(path, mode.permissions()).map_err(|source| HostError::SetMode { path: path.to_owned(), source })
}

/// Makes the names in a directory survive a power cut.
pub fn sync_dir(path: impl AsRef<Path>) -> Result<(), HostError> {
    let path = path.as_ref();
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(|source| HostError::SyncDir { path: path.to_owned(), source })
}

/// The directory that holds the name; the working directory for a bare name.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        Some(dir) => dir,
        None => path,
    }
}

fn existing(path: &Path, error: io::Error) -> io::Result<()> {
    let is_dir = error.kind() == io::ErrorKind::AlreadyExists && path.is_dir();
    if is_dir { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_written_file_reads_back_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for content in ["one", "", "three"] {
            write_file(&path, content, Mode::PRIVATE_FILE).unwrap();
            assert_eq!(read_file(&path, 5).unwrap(), content.as_bytes());
        }
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let occupied = dir.path().join("occupied");
        make_dir(occupied.join("below"), Mode::PRIVATE_DIR).unwrap();
        let error = write_file(&occupied, "x", Mode::PUBLIC).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}", occupied.display()));
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(names(dir.path()), ["occupied"]);
        assert_eq!(names(&occupied), ["below"]);
    }

    #[test]
    fn paths_that_cannot_be_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cases = [dir.path().join("no/such/dir"), dir.path().join(".."), "/".into(), "".into()];
        for path in cases {
            assert!(write_file(&path, "x", Mode::PUBLIC).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn a_name_of_the_longest_length_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        write_file(dir.path().join("n".repeat(255)), "x", Mode::PUBLIC).unwrap();
    }

    #[test]
    fn a_symbolic_link_is_replaced_and_its_target_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        write_file(&target, "precious", Mode::PUBLIC).unwrap();
        symlink(&target, &link).unwrap();
        write_file(&link, "new", Mode::PRIVATE_FILE).unwrap();
        assert_eq!(read_file(&target, 100).unwrap(), b"precious");
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o644);
        assert!(link.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_file(&path, "12345", Mode::PUBLIC).unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        assert!(matches!(read_file(&path, 4), Err(HostError::HoldFile { limit: 4, .. })));
        assert!(matches!(read_file("/dev/zero", 1000), Err(HostError::HoldFile { .. })));
        assert!(matches!(read_file(dir.path(), 1000), Err(HostError::ReadFile { .. })));
        assert!(matches!(read_file(dir.path().join("no"), 1), Err(HostError::ReadFile { .. })));
    }

    #[test]
    fn an_existing_directory_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        assert_eq!(make_dir(&deep, Mode::PUBLIC_DIR).unwrap(), Made::New);
        assert_eq!(make_dir(&deep, Mode::PRIVATE_DIR).unwrap(), Made::Existed);
        assert_eq!(deep.metadata().unwrap().mode() & 0o777, 0o755);
        set_mode(&deep, Mode::PRIVATE_DIR).unwrap();
        assert_eq!(deep.metadata().unwrap().mode() & 0o777, 0o700);
        let file = dir.path().join("file");
        write_file(&file, "", Mode::PUBLIC).unwrap();
        for path in [file.clone(), file.join("below")] {
            assert!(matches!(make_dir(path, Mode::PUBLIC_DIR), Err(HostError::MakeDir { .. })));
        }
    }

    #[test]
    fn modes_are_permissions_only() {
        assert_eq!(Mode::from_bits(0o640).unwrap().to_string(), "0640");
        assert_eq!(Mode::from_bits(0o10000), None);
    }
}
