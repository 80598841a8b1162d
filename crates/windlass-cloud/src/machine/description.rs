//! What a machine is made from, as the daemon decided it, and where its things lie. The daemon writes it to one JSON file
//! and hands that to the guest commands, which know nothing else.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_steps::host::{Mode, read_file, write_file};

use super::cgroup::{Groups, Hierarchies, Limits};
use super::error::{MachineError, host};
use super::slot::Slot;

const LIMIT: u64 = 1 << 20;

/// Everything that the runner has to know about its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The cluster's name.
    pub cluster: String,
    /// The machine's name, also its host name.
    pub machine: String,
    /// The machine's directory, on a real file system; it must not lie below `/run`.
    pub directory: PathBuf,
    /// The machine's directory below `/run`, for what does not outlive the host's boot.
    pub run: PathBuf,
    /// The directory below which namespaces are pinned by mounts; the machine keeps none of them but its own alive.
    pub pins: PathBuf,
    /// The machine's network namespace, pinned.
    pub network: PathBuf,
    /// The nameserver.
    pub gateway: IpAddr,
    /// Where short names are looked up.
    #[serde(default)]
    pub search: Vec<String>,
    /// The tree below the machine's own writes; it never changes while the machine exists.
    pub image: PathBuf,
    /// The OS that it boots at first.
    pub os: Slot,
    /// Trees that its `/var` starts with.
    #[serde(default)]
    pub seeds: Vec<Seed>,
    /// More of the host's files and directories that are visible inside.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// What it may use.
    #[serde(default)]
    pub limits: Limits,
    /// Our own program, which the machine gets as well.
    pub program: PathBuf,
    /// The Ignition binary for the first boot; without user-data there is none.
    #[serde(default)]
    pub ignition: Option<PathBuf>,
}

/// A tree whose files are hard-linked into the machine's `/var`, but for databases (`*.db`), which are copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    /// On the same file system as the machine's directory.
    pub tree: PathBuf,
    /// Below `/var`: `lib/containerd`.
    pub at: PathBuf,
}

/// A file or directory of the host inside the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub from: PathBuf,
    /// In the machine.
    pub at: PathBuf,
    /// Whether the machine may change it.
    pub writable: bool,
}

impl Description {
    /// Reads what [`Description::write`] wrote.
    pub fn read(file: &Path) -> Result<Self, MachineError> {
        let bytes = read_file(file, LIMIT).map_err(host("read the description of a machine"))?;
        serde_json::from_slice(&bytes).map_err(|source| MachineError::Understand { path: file.to_owned(), source })
    }

    /// Writes it into the machine's directory, where the guest commands and an inventory find it.
    pub fn write(&self) -> Result<PathBuf, MachineError> {
        let file = self.file();
        let understand = |source| MachineError::Understand { path: file.clone(), source };
        let bytes = serde_json::to_vec_pretty(self).map_err(understand)?;
        if read_file(&file, LIMIT).is_ok_and(|written| written == bytes) {
            return Ok(file);
        }
        write_file(&file, bytes, Mode::PRIVATE_FILE).map_err(host("write the description of a machine"))?;
        Ok(file)
    }

    /// The machine's control groups on this host.
    pub fn groups(&self) -> Result<Groups, MachineError> {
        Ok(Groups::of(Hierarchies::of_host()?, &self.cluster, &self.machine))
    }

    /// The description itself.
    pub fn file(&self) -> PathBuf {
        self.directory.join("machine.json")
    }

    /// What the machine wrote outside `/var`.
    pub fn upper(&self) -> PathBuf {
        self.directory.join("upper")
    }

    /// The overlay's scratch space.
    pub fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    /// The machine's `/var`.
    pub fn var(&self) -> PathBuf {
        self.directory.join("var")
    }

    /// Where the root is mounted, in namespaces of the runner's only.
    pub fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Where the network namespace is seen once `/run` is hidden.
    pub fn network_copy(&self) -> PathBuf {
        self.directory.join("net")
    }

    /// What the machine said on its console.
    pub fn console(&self) -> PathBuf {
        self.directory.join("console.log")
    }

    /// What Ignition said.
    pub fn ignition_log(&self) -> PathBuf {
        self.directory.join("ignition.log")
    }

    /// There once the root is complete: made, and written to by Ignition.
    pub fn complete(&self) -> PathBuf {
        self.directory.join("complete")
    }

    /// Held by the runner while it lives.
    pub fn lock(&self) -> PathBuf {
        self.directory.join("runner.lock")
    }

    /// Who the runner is.
    pub fn runner(&self) -> PathBuf {
        self.run.join("runner.json")
    }

    /// How the machine ended.
    pub fn exit(&self) -> PathBuf {
        self.run.join("exit.json")
    }
}
