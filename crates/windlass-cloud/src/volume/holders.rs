//! Who uses a block device just now, anywhere on the host: mounted in some mount namespace, or open in some process.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

use crate::mounts;
use crate::process::{is_gone, stat_of};

/// A process that keeps a device busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number; for a mount, of one process that sees the mount.
    pub pid: i32,
    /// Its short name.
    pub name: String,
    /// In which way.
    pub how: Use,
}

/// How a device is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Mounted here, in the process's own view.
    Mounted(PathBuf),
    /// Open as a file.
    Open,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, how } = self;
        match how {
            Use::Mounted(target) => write!(f, "a mount on {} seen by {name} ({pid})", target.display()),
            Use::Open => write!(f, "{name} ({pid})"),
        }
    }
}

/// Everyone who holds the device with these numbers (`7:3`), as far as we may look: processes that end meanwhile and
/// those that even root may not look into, as in some containers, are passed over.
pub fn of(numbers: &str) -> io::Result<Vec<Holder>> {
    let mut seen = HashSet::new();
    let mut holders = Vec::new();
    for pid in pids()? {
        let uses = uses_of(pid, numbers, &mut seen);
        let uses = uses.or_else(|error| if is_closed(&error) { Ok(Vec::new()) } else { Err(error) })?;
        holders.extend(uses.into_iter().map(|how| Holder { pid, name: name_of(pid), how }));
    }
    Ok(holders)
}

fn is_closed(error: &io::Error) -> bool {
    is_gone(error) || error.kind() == io::ErrorKind::PermissionDenied
}

fn uses_of(pid: i32, numbers: &str, seen: &mut HashSet<PathBuf>) -> io::Result<Vec<Use>> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let mut uses = Vec::new();
    if seen.insert(fs::read_link(proc.join("ns/mnt"))?) {
        let here = mounts::of(&proc.join("mountinfo")).or_else(no_namespace)?;
        uses.extend(here.into_iter().filter(|one| one.device == numbers).map(|one| Use::Mounted(one.target)));
    }
    if has_open(&proc, numbers)? {
        uses.push(Use::Open);
    }
    Ok(uses)
}

/// A process on its way out has no mount namespace any more.
fn no_namespace(error: io::Error) -> io::Result<Vec<mounts::Mount>> {
    if error.raw_os_error() == Some(nix::errno::Errno::EINVAL as i32) { Ok(Vec::new()) } else { Err(error) }
}

fn has_open(proc: &Path, numbers: &str) -> io::Result<bool> {
    for entry in fs::read_dir(proc.join("fd"))? {
        let path = entry?.path();
        // The name first: asking for more could hang on a file system that does not answer.
        let is_device = fs::read_link(&path).is_ok_and(|target| target.starts_with("/dev"));
        if is_device && fs::metadata(&path).is_ok_and(|file| is_block(&file, numbers)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_block(file: &fs::Metadata, numbers: &str) -> bool {
    file.file_type().is_block_device() && format!("{}:{}", major(file.rdev()), minor(file.rdev())) == numbers
}

fn name_of(pid: i32) -> String {
    stat_of(pid).ok().flatten().map(|stat| stat.name).unwrap_or_default()
}

/// The numbers of all processes.
pub(crate) fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    pids.sort_unstable();
    Ok(pids)
}
