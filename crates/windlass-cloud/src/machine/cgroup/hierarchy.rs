//! The hierarchies that this host has mounted, as data, and what making a group means in each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::write;
use crate::machine::error::{MachineError, change};

/// What machines use, where the host has it.
const WANTED: [&str; 6] = ["cpuset", "cpu", "io", "memory", "hugetlb", "pids"];

/// All hierarchies that are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchies(Vec<Hierarchy>);

/// One tree of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub top: PathBuf,
    /// How it behaves.
    pub version: Version,
}

/// The kernel's two kinds of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// With these controllers, or with a name only (`name=systemd`).
    One(Vec<String>),
    /// With all controllers; on a host that mixes both kinds, with none.
    Two,
}

impl Hierarchies {
    /// Those of this host, found once: the list of mounts is long where many machines run, and every look at a machine
    /// asks for them.
    pub fn of_host() -> Result<Self, MachineError> {
        static FOUND: OnceLock<Hierarchies> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(found.clone());
        }
        let path = Path::new("/proc/self/mountinfo");
        let found = Self::parse(&fs::read_to_string(path).map_err(change("read", path))?);
        if found.0.is_empty() { Err(MachineError::FindGroups) } else { Ok(FOUND.get_or_init(|| found).clone()) }
    }

    /// Reads them from the kernel's list of mounts; a hierarchy that is mounted twice counts once.
    pub fn parse(mountinfo: &str) -> Self {
        let mut found: Vec<Hierarchy> = Vec::new();
        for hierarchy in mountinfo.lines().filter_map(Hierarchy::parse) {
            if !found.iter().any(|known| known.version == hierarchy.version || known.top == hierarchy.top) {
                found.push(hierarchy);
            }
        }
        Self(found)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Hierarchy> {
        self.0.iter()
    }
}

impl Hierarchy {
    fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = file_system.split_whitespace();
        let kind = fields.next()?;
        let options = fields.nth(1).unwrap_or_default();
        let top = PathBuf::from(mount.split_whitespace().nth(4)?);
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" => {
                let generic = ["rw", "ro", "xattr", "noprefix", "clone_children"];
                let controllers = options.split(',').filter(|word| !generic.contains(word));
                Version::One(
                    controllers.filter(|word| !word.starts_with("release_agent=")).map(str::to_owned).collect(),
                )
            }
            _ => return None,
        };
        Some(Self { top, version })
    }

    /// Whether this controller is to be had here; on a mixed host it is in one of the hierarchies.
    pub(super) fn controls(&self, name: &str) -> bool {
        match &self.version {
            Version::One(controllers) => controllers.iter().any(|own| own == name),
            Version::Two => self.offered(&self.top).is_ok_and(|names| names.iter().any(|own| own == name)),
        }
    }

    /// Makes one group below one that is there.
    pub(super) fn make(&self, group: &Path) -> Result<(), MachineError> {
        match fs::create_dir(group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(change("make", group)(error)),
            _ => {}
        }
        match &self.version {
            Version::One(_) if self.controls("cpuset") => fill_cpuset(group),
            Version::One(_) | Version::Two => Ok(()),
        }
    }

    /// Version 2: lets children have the controllers that this group has.
    pub(super) fn offer_to_children(&self, group: &Path) -> Result<(), MachineError> {
        if self.version != Version::Two {
            return Ok(());
        }
        let names = self.offered(group)?;
        if names.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = names.iter().map(|name| format!("+{name}")).collect();
        write(&group.join("cgroup.subtree_control"), &words.join(" "))
    }

    /// The controllers that a group of version 2 has, of those that machines use.
    fn offered(&self, group: &Path) -> Result<Vec<String>, MachineError> {
        let file = group.join("cgroup.controllers");
        let text = fs::read_to_string(&file).map_err(change("read", &file))?;
        Ok(text.split_whitespace().filter(|name| WANTED.contains(name)).map(str::to_owned).collect())
    }
}

/// A new group of version 1 has neither processors nor memory, and no process can enter it.
fn fill_cpuset(group: &Path) -> Result<(), MachineError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = group.join(file);
        let text = fs::read_to_string(&own).map_err(change("read", &own))?;
        if text.trim().is_empty() {
            let above = group.parent().unwrap_or(group).join(file);
            let inherited = fs::read_to_string(&above).map_err(change("read", &above))?;
            write(&own, inherited.trim())?;
        }
    }
    Ok(())
}
