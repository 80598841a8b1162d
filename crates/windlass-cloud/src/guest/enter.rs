//! Running a command inside a machine: all namespaces of its first process, and then a child there, because whoever enters
//! a process namespace is not in it, only its children are. We wait for the child's end and for nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::sched::{CloneFlags, setns};

use crate::machine::MachineError;

/// The mount namespace last: behind it the host's `/proc` cannot be seen.
const NAMESPACES: [(&str, CloneFlags); 6] = [
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("net", CloneFlags::CLONE_NEWNET),
    ("pid", CloneFlags::CLONE_NEWPID),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// Runs it with our own streams; a signal that ended it is 128 and more, as a shell says it. For a process with one thread.
#[expect(
    clippy::disallowed_methods,
    reason = "the one door starts a thread, which a process between namespaces may not"
)]
pub(super) fn enter(leader: i32, words: &[OsString]) -> Result<ExitCode, MachineError> {
    let place = |name: &str| PathBuf::from(format!("/proc/{leader}/ns/{name}"));
    let failed = |attempt, path: PathBuf| {
        move |source: std::io::Error| MachineError::Change { attempt, path: path.clone(), source }
    };
    let open = |(name, kind): (&str, CloneFlags)| {
        File::open(place(name)).map(|file| (name.to_owned(), file, kind)).map_err(failed("open", place(name)))
    };
    let namespaces = NAMESPACES.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    for (name, file, kind) in namespaces {
        setns(file, kind).map_err(|errno| failed("enter", place(&name))(errno.into()))?;
    }
    std::env::set_current_dir("/").map_err(failed("enter", PathBuf::from("/")))?;
    let Some((program, arguments)) = words.split_first() else { return Ok(ExitCode::SUCCESS) };
    let run = failed("run", PathBuf::from(program));
    let status = std::process::Command::new(program).args(arguments).status().map_err(run)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
