//! Kernel settings that belong to the host and that software inside a machine wants to set, as it would on a machine of
//! its own. Each machine gets a private copy of them, laid over the real ones: it may write what it likes and reads it back,
//! and the host stays as it was.

use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use windlass_steps::host::{Mode, make_dir, write_file};

use crate::machine::MachineError;

/// Where the copies are; gone with the machine's `/run`.
const COPIES: &str = "/run/windlass-cloud-settings";
const REAL: &str = "/proc/sys";

/// What node software sets at its start. Settings of the network are the machine's own already.
const SETTINGS: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Lays a copy over each setting that the kernel has.
pub(super) fn own_settings() -> Result<(), MachineError> {
    for setting in SETTINGS {
        let (real, copy) = (Path::new(REAL).join(setting), Path::new(COPIES).join(setting));
        let Ok(value) = fs::read(&real) else { continue };
        let folder = copy.parent().unwrap_or(&copy);
        let written = make_dir(folder, Mode::PUBLIC_DIR).and_then(|_| write_file(&copy, value, Mode::PUBLIC));
        written
            .map_err(|source| MachineError::UseHost { attempt: "copy a kernel setting", source: Box::new(source) })?;
        let bound = mount(Some(&copy), &real, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        bound.map_err(|source| MachineError::Change {
            attempt: "lay a copy over",
            path: real.clone(),
            source: source.into(),
        })?;
    }
    Ok(())
}
