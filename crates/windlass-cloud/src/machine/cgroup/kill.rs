//! Ending everything in a group: SIGKILL, again until nothing is left, for what forks meanwhile. A frozen process of
//! version 1 dies only when it is thawed; version 2 has a file that kills a whole subtree in one motion, and a mixed host
//! has that too.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::debug;
use windlass_steps::report::chain;

use super::{Groups, Part, Version, below, write};
use crate::machine::error::MachineError;
use crate::machine::settle::until_silent;

/// Processes die of SIGKILL at once, but for those that wait for a disk.
const LIMIT: Duration = Duration::from_secs(20);
/// For groups without processes.
const SOON: Duration = Duration::from_secs(5);

impl Groups {
    /// Kills every process of a part, and returns when none is left.
    pub async fn kill(&self, part: Part) -> Result<(), MachineError> {
        let groups = self.clone();
        let ended = until_silent("no process is left", LIMIT, move || groups.kill_once(part)).await;
        ended.map_err(|reason| MachineError::EndProcesses { machine: self.machine.clone(), reason })
    }

    /// Removes all of them; the kernel may take a moment to let go of a group whose last process has just died.
    pub async fn remove_soon(&self) -> Result<(), MachineError> {
        let groups = self.clone();
        let look = move || groups.remove().err().map(|error| chain(&error).join(": "));
        let gone = until_silent("the control groups are gone", SOON, look).await;
        gone.map_err(|reason| MachineError::EndProcesses { machine: self.machine.clone(), reason })
    }

    /// Kills what is there now; says what was there.
    fn kill_once(&self, part: Part) -> Option<String> {
        let pids = match self.pids(part) {
            Ok(pids) if pids.is_empty() => return None,
            Ok(pids) => pids,
            Err(error) => return Some(error.to_string()),
        };
        for hierarchy in self.hierarchies.iter() {
            let top = self.group(hierarchy, part);
            match &hierarchy.version {
                Version::Two => attempt(&top.join("cgroup.kill"), "1"),
                Version::One(_) if hierarchy.controls("freezer") => {
                    let groups = below(&top).unwrap_or_default();
                    groups.iter().for_each(|group| attempt(&group.join("freezer.state"), "THAWED"));
                }
                Version::One(_) => {}
            }
        }
        for pid in &pids {
            match kill(Pid::from_raw(*pid), Signal::SIGKILL) {
                Ok(()) | Err(nix::Error::ESRCH) => {}
                Err(error) => debug!(pid, %error, "process not killed, trying again"),
            }
        }
        Some(format!("still there: {pids:?}"))
    }
}

/// A group that went away meanwhile, or a kernel without the file: the next round tells.
fn attempt(file: &Path, value: &str) {
    if let Err(error) = write(file, value) {
        debug!(file = %file.display(), %error, "control file not written");
    }
}
