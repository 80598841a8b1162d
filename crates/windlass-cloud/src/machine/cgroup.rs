//! A machine's control groups: `windlass/<cluster>/<machine>/{runner,machine}` in the one hierarchy of version 2, or in
//! every hierarchy of version 1. systemd-nspawn starts in `machine`, so that the cgroup namespace makes it the machine's
//! root; two machines would otherwise share the groups that their software makes. The runner lives beside it, so that a
//! machine can be killed as a whole without its runner.

mod hierarchy;
mod kill;
mod leader;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::hierarchy::{Hierarchies, Hierarchy, Version};
use super::error::{MachineError, change};

/// The top of all of ours.
const TOP: &str = "windlass";
/// What a share of a processor is measured in.
const PERIOD: u64 = 100_000;
/// At making groups whose parents go away.
const ATTEMPTS: usize = 10;

/// What a machine may use; nothing means no limit but the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millicpus: Option<u64>,
}

/// What a machine uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory now.
    pub memory: Option<u64>,
    /// Processor time since its groups were made.
    pub cpu: Option<Duration>,
}

/// One of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The runner.
    Runner,
    /// Everything that runs inside, and systemd-nspawn itself.
    Machine,
}

impl Part {
    const ALL: [Part; 2] = [Part::Runner, Part::Machine];

    fn name(self) -> &'static str {
        match self {
            Part::Runner => "runner",
            Part::Machine => "machine",
        }
    }
}

/// The control groups of one machine; they need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    hierarchies: Hierarchies,
    machine: String,
    /// Relative to the top of a hierarchy.
    path: PathBuf,
}

impl Groups {
    /// Where the groups of this machine are.
    pub fn of(hierarchies: Hierarchies, cluster: &str, machine: &str) -> Self {
        Self { hierarchies, machine: machine.to_owned(), path: Path::new(TOP).join(cluster).join(machine) }
    }

    /// Makes them, with these limits on the machine's part; those that exist stay.
    pub fn make(&self, limits: &Limits) -> Result<(), MachineError> {
        let gone_meanwhile = |made: &Result<(), MachineError>| matches!(made, Err(MachineError::Change { source, .. }) if source.kind() == io::ErrorKind::NotFound);
        // The last machine of another cluster may take an empty parent away between two of our steps.
        let mut made = self.make_once();
        for _ in 1..ATTEMPTS {
            if !gone_meanwhile(&made) {
                break;
            }
            made = self.make_once();
        }
        made.and_then(|()| self.limit(limits))
    }

    fn make_once(&self) -> Result<(), MachineError> {
        for hierarchy in self.hierarchies.iter() {
            // From the top down: a group offers its children only what its parent offers it.
            let mut group = hierarchy.top.clone();
            for name in &self.path {
                hierarchy.offer_to_children(&group)?;
                group.push(name);
                hierarchy.make(&group)?;
            }
            hierarchy.offer_to_children(&group)?;
            for part in Part::ALL {
                hierarchy.make(&group.join(part.name()))?;
            }
        }
        Ok(())
    }

    /// Sets the limits of the machine's part, also while it runs.
    pub fn limit(&self, limits: &Limits) -> Result<(), MachineError> {
        for hierarchy in self.hierarchies.iter() {
            for (file, value) in limits.files(hierarchy) {
                write(&self.group(hierarchy, Part::Machine).join(file), &value)?;
            }
        }
        Ok(())
    }

    /// Moves a process into a part, with all its threads.
    pub fn enter(&self, part: Part, pid: i32) -> Result<(), MachineError> {
        self.hierarchies
            .iter()
            .try_for_each(|hierarchy| write(&self.group(hierarchy, part).join("cgroup.procs"), &pid.to_string()))
    }

    /// The processes of a part and of all groups below it.
    pub fn pids(&self, part: Part) -> Result<BTreeSet<i32>, MachineError> {
        let mut found = BTreeSet::new();
        for hierarchy in self.hierarchies.iter() {
            for group in below(&self.group(hierarchy, part))? {
                found.extend(read_pids(&group)?);
            }
        }
        Ok(found)
    }

    /// The process that is number 1 inside the machine, by the host's number.
    pub fn leader(&self) -> Result<Option<i32>, MachineError> {
        leader::known_or(&self.path, || Ok(self.pids(Part::Machine)?.into_iter().find(|pid| leader::is_first(*pid))))
    }

    /// What the machine's part uses; nothing of what this host does not count.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for hierarchy in self.hierarchies.iter() {
            let group = self.group(hierarchy, Part::Machine);
            let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
            let memory = number("memory.current").or_else(|| number("memory.usage_in_bytes"));
            let cpu = number("cpuacct.usage").map(Duration::from_nanos).or_else(|| {
                let text = fs::read_to_string(group.join("cpu.stat")).ok()?;
                let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                micros.parse().ok().map(Duration::from_micros)
            });
            usage = Usage { memory: usage.memory.or(memory), cpu: usage.cpu.or(cpu) };
        }
        usage
    }

    /// Removes what a boot left below the machine's part: the next one finds it as new.
    pub fn sweep(&self) -> Result<(), MachineError> {
        for hierarchy in self.hierarchies.iter() {
            below(&self.group(hierarchy, Part::Machine))?
                .iter()
                .skip(1)
                .rev()
                .try_for_each(|group| remove_dir(group))?;
        }
        Ok(())
    }

    /// Removes them; there may be no process left in them. What is not there is gone.
    pub fn remove(&self) -> Result<(), MachineError> {
        leader::forget(&self.path);
        for hierarchy in self.hierarchies.iter() {
            below(&hierarchy.top.join(&self.path))?.iter().rev().try_for_each(|group| remove_dir(group))?;
        }
        Ok(())
    }

    /// Removes the cluster's group and ours above it where they are empty; groups that are in use stay.
    pub fn remove_parents(&self) {
        for hierarchy in self.hierarchies.iter() {
            for parent in self.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
                if fs::remove_dir(hierarchy.top.join(parent)).is_err() {
                    break;
                }
            }
        }
    }

    /// Whether any of them exists, in any hierarchy.
    pub fn exist(&self) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.top.join(&self.path).exists())
    }

    fn group(&self, hierarchy: &Hierarchy, part: Part) -> PathBuf {
        hierarchy.top.join(&self.path).join(part.name())
    }
}

impl Limits {
    /// The files of this hierarchy that they are written to, with their contents.
    fn files(&self, hierarchy: &Hierarchy) -> Vec<(&'static str, String)> {
        let quota = self.millicpus.map(|millis| (millis * PERIOD / 1000).max(1000));
        let (memory, cpu) = (hierarchy.controls("memory"), hierarchy.controls("cpu"));
        let bytes = |none: &str| self.memory.map_or(none.to_owned(), |bytes| bytes.to_string());
        let time = |none: &str| quota.map_or(none.to_owned(), |quota| quota.to_string());
        let files = match &hierarchy.version {
            Version::Two => {
                [(memory, "memory.max", bytes("max")), (cpu, "cpu.max", format!("{} {PERIOD}", time("max")))].to_vec()
            }
            Version::One(_) => [
                (memory, "memory.limit_in_bytes", bytes("-1")),
                (cpu, "cpu.cfs_period_us", PERIOD.to_string()),
                (cpu, "cpu.cfs_quota_us", time("-1")),
            ]
            .to_vec(),
        };
        files.into_iter().filter(|(here, _, _)| *here).map(|(_, file, value)| (file, value)).collect()
    }
}

/// A group and all below it, parents first; nothing if it is not there.
fn below(group: &Path) -> Result<Vec<PathBuf>, MachineError> {
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(change("list", group)(error)),
    };
    let mut found = vec![group.to_owned()];
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(change("list", group)(error)),
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path())?);
        }
    }
    Ok(found)
}

/// A machine removes its own groups while we look at them.
fn read_pids(group: &Path) -> Result<Vec<i32>, MachineError> {
    let file = group.join("cgroup.procs");
    match fs::read_to_string(&file) {
        Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        // A threaded group of version 2; its processes are listed further up.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EOPNOTSUPP as i32) => Ok(Vec::new()),
        Err(error) => Err(change("read", &file)(error)),
    }
}

fn remove_dir(group: &Path) -> Result<(), MachineError> {
    match fs::remove_dir(group) {
        Err(error) if !is_gone(&error) => Err(change("remove", group)(error)),
        _ => Ok(()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
}

/// Control files are written to as they are: there is nothing to rename.
fn write(file: &Path, value: &str) -> Result<(), MachineError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.and_then(|mut opened| opened.write_all(value.as_bytes())).map_err(change("write to", file))
}

#[cfg(test)]
mod tests;
