//! Network namespaces that outlive every process: the namespace is bind-mounted on a file of ours and found again by
//! that path alone. A socket belongs to the namespace of the thread that made it, so work inside a namespace is done
//! on threads that entered it, and no thread ever comes back.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs, statfs};
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};
use windlass_steps::host::{CommandSpec, HostError, Mode, cmd, make_dir};

const NONE: Option<&str> = None;

/// An open network namespace that is pinned at a path. Clones share the open file.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
    path: PathBuf,
}

/// What could not be done with a namespace.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// There is no directory to pin a namespace in.
    #[error("cannot make room for network namespaces in {}", .path.display())]
    MakeRoom {
        /// The directory.
        path: PathBuf,
        /// Why the directory is not there.
        source: HostError,
    },
    /// No new namespace was made, or it could not be mounted on its file.
    #[error("cannot pin a network namespace at {}", .path.display())]
    Pin {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file could not be opened.
    #[error("cannot open the network namespace {}", .path.display())]
    Open {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is a file, but nothing is mounted on it: the host was restarted, or the pinning was interrupted.
    #[error("{} is a plain file and no namespace", .path.display())]
    NotPinned {
        /// The pin.
        path: PathBuf,
    },
    /// The pin is still there.
    #[error("cannot remove the network namespace {}", .path.display())]
    Unpin {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// No thread could be started in the namespace.
    #[error("cannot enter the network namespace {}", .path.display())]
    Enter {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The directory could not be cut off from, or given back to, the mounts around it.
    #[error("cannot change how mounts below {} spread", .path.display())]
    Spread {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Namespace {
    /// Makes a namespace and pins it at this path; one that is pinned there already is opened as it is, and a plain
    /// file left by an interrupted attempt is replaced.
    pub fn pin(path: &Path) -> Result<Self, NamespaceError> {
        if is_pinned(path) {
            return Self::open(path);
        }
        if let Some(dir) = path.parent() {
            make_room(dir)?;
        }
        mount_new(path).map_err(|source| NamespaceError::Pin { path: path.to_owned(), source })?;
        Self::open(path)
    }

    /// Opens a namespace that is pinned.
    pub fn open(path: &Path) -> Result<Self, NamespaceError> {
        let trouble = |source| NamespaceError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(trouble)?;
        let kind = fstatfs(&file).map_err(|errno| trouble(errno.into()))?.filesystem_type();
        match kind == NSFS_MAGIC {
            true => Ok(Self { file: Arc::new(file), path: path.to_owned() }),
            false => Err(NamespaceError::NotPinned { path: path.to_owned() }),
        }
    }

    /// Lets go of the namespace and removes the file; does nothing if there is none. The kernel takes the namespace
    /// and its links away as soon as no process and no open file holds it.
    pub fn unpin(path: &Path) -> Result<(), NamespaceError> {
        let trouble = |source| NamespaceError::Unpin { path: path.to_owned(), source };
        while is_pinned(path) {
            umount2(path, MntFlags::MNT_DETACH).map_err(|errno| trouble(errno.into()))?;
        }
        // Removing the file also ends the copies of the mount that other mount namespaces inherited.
        remove(path).map_err(trouble)
    }

    /// Where it is pinned.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a closure on a fresh thread inside the namespace and waits for it.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        let thread = || self.enter().map(|()| work());
        aside(thread).map_err(|source| NamespaceError::Enter { path: self.path.clone(), source })
    }

    /// A runtime whose every thread is inside the namespace, for sockets that connect from there.
    ///
    /// Only what is spawned on it runs inside: `block_on` works on the calling thread. From async code end it with
    /// `shutdown_background`.
    pub fn runtime(&self, name: &str, threads: usize) -> Result<Runtime, NamespaceError> {
        let trouble = |source| NamespaceError::Enter { path: self.path.clone(), source };
        self.inside(|| ())?;
        let namespace = self.clone();
        Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(name)
            .enable_all()
            .on_thread_start(move || {
                namespace.enter().expect("a thread entered this open namespace when the runtime was made");
            })
            .build()
            .map_err(trouble)
    }

    /// A command that is run inside the namespace.
    pub fn command(&self, program: &str) -> CommandSpec {
        let mut net = OsString::from("--net=");
        net.push(&self.path);
        cmd("nsenter").arg(net).arg(program)
    }

    fn enter(&self) -> io::Result<()> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether a namespace is mounted on the file at this path.
pub fn is_pinned(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == NSFS_MAGIC)
}

/// Keeps mounts below the directory to this mount namespace, by binding the directory on itself where the mount it
/// lies in is shared; does nothing where pins would not spread anyway. Call it once for the run directory.
pub fn keep_private(dir: &Path) -> Result<(), NamespaceError> {
    let trouble = |source: Errno| NamespaceError::Spread { path: dir.to_owned(), source: source.into() };
    make_room(dir)?;
    if mount_of(dir)?.is_none_or(|found| !found.line.shared) {
        return Ok(());
    }
    mount(Some(dir), dir, NONE, MsFlags::MS_BIND, NONE).map_err(trouble)?;
    mount(NONE, dir, NONE, MsFlags::MS_PRIVATE, NONE).map_err(trouble)
}

/// Takes back what [`keep_private`] did, once nothing is mounted below the directory; does nothing otherwise.
pub fn end_private(dir: &Path) -> Result<(), NamespaceError> {
    let trouble = |source: Errno| NamespaceError::Spread { path: dir.to_owned(), source: source.into() };
    if !dir.exists() {
        return Ok(());
    }
    let bound = mount_of(dir)?.is_some_and(|found| found.is_top && found.line.root != Path::new("/"));
    if !bound {
        return Ok(());
    }
    match umount2(dir, MntFlags::empty()) {
        Err(Errno::EBUSY) => Ok(()),
        result => result.map_err(trouble),
    }
}

fn make_room(dir: &Path) -> Result<(), NamespaceError> {
    make_dir(dir, Mode::PRIVATE_DIR)
        .map(drop)
        .map_err(|source| NamespaceError::MakeRoom { path: dir.to_owned(), source })
}

fn mount_new(path: &Path) -> io::Result<()> {
    remove(path)?;
    OpenOptions::new().write(true).create_new(true).open(path)?;
    let thread = || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        mount(Some("/proc/thread-self/ns/net"), path, NONE, MsFlags::MS_BIND, NONE)?;
        Ok(())
    };
    aside(thread)
}

// On a thread that ends with it, because a thread that has changed its namespace is of no other use.
fn aside<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// One line of the mount table.
#[derive(Debug, PartialEq, Eq)]
struct MountLine {
    root: PathBuf,
    point: PathBuf,
    shared: bool,
}

/// The mount that a directory lies in, and whether the directory is the top of it.
struct MountOf {
    line: MountLine,
    is_top: bool,
}

fn mount_of(dir: &Path) -> Result<Option<MountOf>, NamespaceError> {
    let trouble = |source| NamespaceError::Spread { path: dir.to_owned(), source };
    let dir = dir.canonicalize().map_err(trouble)?;
    let table = fs::read_to_string("/proc/thread-self/mountinfo").map_err(trouble)?;
    let with_top = |line: MountLine| MountOf { is_top: line.point == dir, line };
    Ok(innermost(&table, &dir).map(with_top))
}

/// The mount that a path lies in: the longest mount point above it, and of two on the same point the later one.
fn innermost(table: &str, path: &Path) -> Option<MountLine> {
    let mounts = table.lines().filter_map(mount_line).filter(|line| path.starts_with(&line.point));
    mounts.max_by_key(|line| line.point.components().count())
}

// Fields: id parent major:minor root point options [tags...] - type source options.
fn mount_line(line: &str) -> Option<MountLine> {
    let (fields, _) = line.split_once(" - ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let [_, _, _, root, point, _, tags @ ..] = fields.as_slice() else { return None };
    let shared = tags.iter().any(|tag| tag.starts_with("shared:"));
    Some(MountLine { root: unescaped(root), point: unescaped(point), shared })
}

fn unescaped(field: &str) -> PathBuf {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /run rw,nosuid shared:5 master:2 - tmpfs tmpfs rw
24 23 0:21 /wind\\040lass /run/wind\\040lass rw - tmpfs tmpfs rw
25 22 0:30 / /sys rw - sysfs sysfs rw
";

    #[test]
    fn the_innermost_mount_of_a_path_is_found_with_its_propagation() {
        let cases = [("/etc", "/", true), ("/run/x", "/run", true), ("/run/wind lass/a", "/run/wind lass", false)];
        for (path, point, shared) in cases {
            let found = innermost(TABLE, Path::new(path)).unwrap();
            assert_eq!((found.point.as_path(), found.shared), (Path::new(point), shared), "{path}");
        }
        let bound = innermost(TABLE, Path::new("/run/wind lass")).unwrap();
        assert_eq!(bound.root, Path::new("/wind lass"));
    }

    #[test]
    fn a_plain_file_is_no_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net");
        File::create(&path).unwrap();
        assert!(!is_pinned(&path));
        assert!(matches!(Namespace::open(&path), Err(NamespaceError::NotPinned { .. })));
        assert!(matches!(Namespace::open(&dir.path().join("none")), Err(NamespaceError::Open { .. })));
    }

    #[test]
    fn unpinning_what_was_never_pinned_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        Namespace::unpin(&dir.path().join("none")).unwrap();
    }
}
