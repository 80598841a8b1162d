//! A machine's root as a list of mounts: decided here, carried out by the guest commands in a mount namespace of their
//! own. The host's table of mounts never changes, and nothing is left when they die.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::description::Description;
use super::error::{MachineError, change};
use super::slot::Slot;

/// What is visible at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A lower tree with what was written over it.
    Overlay {
        /// Never written to.
        lower: PathBuf,
        /// Where writes go.
        upper: PathBuf,
        /// Scratch space beside it.
        work: PathBuf,
    },
    /// Another file or directory, with what is mounted on it.
    Bind(PathBuf),
    /// The same, read-only.
    ReadOnly(PathBuf),
    /// An empty file system in memory.
    Memory,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub at: PathBuf,
    /// What.
    pub what: What,
}

/// The root of a machine and a private `/run`, in the order in which they are mounted.
///
/// systemd-nspawn and Ignition keep state below `/run`; theirs goes with the namespace. The machine's network namespace
/// is pinned below `/run`, and stays visible at another place.
pub fn of(description: &Description, slot: &Slot) -> Vec<Mount> {
    let root = description.root();
    let overlay =
        What::Overlay { lower: description.image.clone(), upper: description.upper(), work: description.work() };
    vec![
        Mount { at: description.network_copy(), what: What::Bind(description.network.clone()) },
        Mount { at: PathBuf::from("/run"), what: What::Memory },
        Mount { at: root.clone(), what: overlay },
        // An OS slot is /usr alone: the lower layer of an overlay that has been written to may not change.
        Mount { at: root.join("usr"), what: What::ReadOnly(slot.tree.join("usr")) },
        // containerd keeps overlays of its own below /var, which cannot lie on one.
        Mount { at: root.join("var"), what: What::Bind(description.var()) },
    ]
}

/// Moves this process, which has one thread, into a mount namespace of its own, and lets go of all pins below `pins`:
/// a copy of a pin would keep another machine's network alive.
pub fn leave_host(pins: &Path, own: &Path) -> Result<(), MachineError> {
    let root = Path::new("/");
    unshare(CloneFlags::CLONE_NEWNS).map_err(change("leave the mounts of", root))?;
    set(None, root, None, MsFlags::MS_REC | MsFlags::MS_SLAVE, None)?;
    let path = Path::new("/proc/self/mountinfo");
    let table = fs::read_to_string(path).map_err(change("read", path))?;
    for pin in pins_below(&table, pins, own) {
        umount2(&pin, MntFlags::MNT_DETACH).map_err(change("let go of", &pin))?;
    }
    Ok(())
}

/// Mounts all of it.
pub fn carry_out(mounts: &[Mount]) -> Result<(), MachineError> {
    mounts.iter().try_for_each(Mount::carry_out)
}

impl Mount {
    fn carry_out(&self) -> Result<(), MachineError> {
        let at = self.at.as_path();
        match &self.what {
            What::Overlay { lower, upper, work } => {
                let options = overlay_options(lower, upper, work);
                set(Some(Path::new("overlay")), at, Some("overlay"), MsFlags::empty(), Some(&options))
            }
            What::Bind(from) => set(Some(from), at, None, MsFlags::MS_BIND | MsFlags::MS_REC, None),
            What::ReadOnly(from) => {
                set(Some(from), at, None, MsFlags::MS_BIND | MsFlags::MS_REC, None)?;
                let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
                set(None, at, None, read_only, None)
            }
            What::Memory => set(Some(Path::new("tmpfs")), at, Some("tmpfs"), MsFlags::MS_NOSUID, Some(b"mode=0755")),
        }
    }
}

/// Makes what [`of`] mounts on, in the machine's directory.
pub(super) fn make_places(description: &Description) -> Result<(), MachineError> {
    let (root, net) = (description.root(), description.network_copy());
    fs::create_dir_all(&root).map_err(change("make", &root))?;
    File::options().create(true).append(true).open(&net).map(drop).map_err(change("make", &net))
}

/// Enters a network namespace by its pin.
pub fn enter_network(pin: &Path) -> Result<(), MachineError> {
    let opened = File::open(pin).map_err(change("open", pin))?;
    nix::sched::setns(&opened, CloneFlags::CLONE_NEWNET).map_err(change("enter", pin))
}

fn set(
    from: Option<&Path>,
    at: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&[u8]>,
) -> Result<(), MachineError> {
    mount(from, at, kind, flags, data).map_err(change("mount", at))
}

/// The kernel takes lower directories apart at colons and options at commas.
fn overlay_options(lower: &Path, upper: &Path, work: &Path) -> Vec<u8> {
    let named = [("lowerdir=", lower), (",upperdir=", upper), (",workdir=", work)];
    named.iter().flat_map(|(name, path)| [name.as_bytes().to_vec(), escaped(path)].concat()).collect()
}

fn escaped(path: &Path) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b':' | b',' | b'\\' => vec![b'\\', *byte],
        other => vec![*other],
    };
    path.as_os_str().as_bytes().iter().flat_map(escape).collect()
}

/// The mount points below a directory but for one, the last mounted first.
fn pins_below(mountinfo: &str, pins: &Path, own: &Path) -> Vec<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| Some(PathBuf::from(line.split_whitespace().nth(4)?)));
    let mut found: Vec<PathBuf> =
        points.filter(|point| point.starts_with(pins) && point != own && point != pins).collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_options_survive_strange_paths() {
        let options = overlay_options(Path::new("/a:b"), Path::new("/c,d"), Path::new("/e\\f"));
        assert_eq!(String::from_utf8(options).unwrap(), r"lowerdir=/a\:b,upperdir=/c\,d,workdir=/e\\f");
    }

    #[test]
    fn only_the_pins_of_others_are_let_go() {
        let table = "\
1 2 0:4 net:[1] /run/windlass/clusters/a/net rw - nsfs nsfs rw
2 2 0:4 net:[2] /run/windlass/clusters/a/machines/m/net rw - nsfs nsfs rw
3 2 0:4 net:[3] /run/windlass/clusters/a/machines/n/net rw - nsfs nsfs rw
4 2 0:5 / /run/windlass2 rw - tmpfs tmpfs rw
5 2 0:5 / /run/windlass rw - tmpfs tmpfs rw";
        let own = Path::new("/run/windlass/clusters/a/machines/m/net");
        let found = pins_below(table, Path::new("/run/windlass"), own);
        let want = ["/run/windlass/clusters/a/machines/n/net", "/run/windlass/clusters/a/net"].map(PathBuf::from);
        assert_eq!(found, want);
    }
}
