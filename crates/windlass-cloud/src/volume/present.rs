//! Bringing a disk into a machine: a block node in the machine's `/dev`, and a link by the volume's name under
//! `/dev/disk/windlass`. Whoever is root in the machine may have put anything there, so every directory is opened step by
//! step below the machine's root, no link is followed, and nothing outside can be reached.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat, mknodat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use super::VolumeError;

/// Where a machine finds its volumes by name.
pub const LINKS: &str = "/dev/disk/windlass";

/// The stable name of a volume inside its machine.
pub fn link(volume: &str) -> PathBuf {
    Path::new(LINKS).join(volume)
}

/// Makes the device visible in the machine that this process belongs to, and answers with its stable name there.
/// Repeating it is harmless; a node of the same name for another device is replaced.
pub fn present(leader: i32, volume: &str, device: &Path) -> Result<PathBuf, VolumeError> {
    let inside = Inside { leader };
    let numbers = inside.tried("look at", device, block_numbers(device))?;
    let node = node(volume);
    let root = inside.root()?;
    let dev = inside.tried("open", "/dev", foreign(below(&root, "dev")))?;
    inside.tried("make", &node, make_node(&dev, &node, numbers))?;
    let disk = inside.tried("make", "/dev/disk", make_below(&dev, "disk"))?;
    let links = inside.tried("make", LINKS, make_below(&disk, "windlass"))?;
    inside.tried("link", link(volume), make_link(&links, volume, &format!("../../{node}")))?;
    Ok(link(volume))
}

/// Takes the names out of the machine again. What is gone already, the machine included, is no error.
pub fn withdraw(leader: i32, volume: &str) -> Result<(), VolumeError> {
    let inside = Inside { leader };
    let root = match inside.root() {
        Err(VolumeError::Present { source, .. }) if is_absent(&source) => return Ok(()),
        root => root?,
    };
    inside.tried("open", "/dev", foreign(below(&root, "dev")))?;
    for (dir, name) in [("dev/disk/windlass", volume), ("dev", node(volume).as_str())] {
        let removed = below(&root, dir).and_then(|dir| Ok(unlinkat(&dir, name, UnlinkatFlags::NoRemoveDir)?));
        let removed = removed.or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) });
        inside.tried("remove", format!("/{dir}/{name}"), removed)?;
    }
    Ok(())
}

fn node(volume: &str) -> String {
    format!("windlass-{volume}")
}

fn is_absent(error: &io::Error) -> bool {
    crate::process::is_gone(error)
}

struct Inside {
    leader: i32,
}

impl Inside {
    fn root(&self) -> Result<OwnedFd, VolumeError> {
        let path = format!("/proc/{}/root", self.leader);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        self.tried("open", "/", open(path.as_str(), flags, Mode::empty()).map_err(io::Error::from))
    }

    fn tried<T>(&self, attempt: &'static str, path: impl AsRef<Path>, result: io::Result<T>) -> Result<T, VolumeError> {
        let path = path.as_ref().display().to_string();
        result.map_err(|source| VolumeError::Present { attempt, path, leader: self.leader, source })
    }
}

fn block_numbers(device: &Path) -> io::Result<u64> {
    let file = fs::metadata(device)?;
    match file.file_type().is_block_device() {
        true => Ok(file.rdev()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device")),
    }
}

/// A directory below this one, reached without any link; mount points on the way are the machine's own and fine.
fn below(dir: &impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    Ok(openat2(dir, path, OpenHow::new().flags(flags).resolve(resolve))?)
}

/// A process that is not in its own root yet shows us the host's `/dev`, where nothing of ours belongs.
fn foreign(dev: io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let dev = dev?;
    let (theirs, ours) = (fstat(&dev)?, fs::metadata("/dev")?);
    match (theirs.st_dev, theirs.st_ino) == (ours.dev(), ours.ino()) {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is the host's own")),
        false => Ok(dev),
    }
}

fn make_below(dir: &impl AsFd, name: &str) -> io::Result<OwnedFd> {
    match mkdirat(dir, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) | Err(Errno::EEXIST) => below(dir, name),
        Err(error) => Err(error.into()),
    }
}

fn make_node(dev: &impl AsFd, name: &str, numbers: u64) -> io::Result<()> {
    match fstatat(dev, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(there) if is_node(there.st_mode) && there.st_rdev == numbers => return Ok(()),
        Ok(_) => unlinkat(dev, name, UnlinkatFlags::NoRemoveDir)?,
        Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(mknodat(dev, name, SFlag::S_IFBLK, Mode::from_bits_truncate(0o660), numbers)?)
}

fn is_node(mode: u32) -> bool {
    mode & SFlag::S_IFMT.bits() == SFlag::S_IFBLK.bits()
}

fn make_link(dir: &impl AsFd, name: &str, target: &str) -> io::Result<()> {
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(symlinkat(target, dir, name)?)
}
