//! The process that stands for a machine, seen from inside. It has one thread, holds the machine's lock, writes down who
//! it is, and waits for the power button.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{daemon, dup2_stderr, dup2_stdin, dup2_stdout};
use serde::Serialize;
use windlass_steps::clock::{Clock, SystemClock, rfc3339_millis};

use super::SimulatedError;
use crate::process::Identity;

/// Who runs the machine, as a real runner writes it.
pub const RUNNER: &str = "runner.json";
/// How the machine ended, as a real runner writes it; a machine that was killed has none.
pub const EXIT: &str = "exit.json";
const LOCK: &str = "runner.lock";

#[derive(Serialize)]
struct Runner<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    phase: &'static str,
    boots: u32,
}

#[derive(Serialize)]
struct Ended {
    ended: &'static str,
    code: i32,
    time: String,
}

/// Becomes the machine of this run directory and returns when the machine is off. For a process that has one thread.
///
/// The caller sees it return at once, but its pipes stay open until the machine is ours and has written who it is.
pub fn stand_in(run: &Path) -> Result<(), SimulatedError> {
    let run = &std::path::absolute(run).map_err(|source| alone("find", source))?;
    let button = block_button()?;
    let _held = hold(run)?;
    daemon(false, true).map_err(|source| alone("detach from the starter", source.into()))?;
    forget(&run.join(EXIT))?;
    let identity = Identity::own().map_err(|source| SimulatedError::ReachStub { source })?;
    let record = json(&Runner { identity: &identity, phase: "booted", boots: 1 });
    keep(&run.join(RUNNER), &record)?;
    // Whoever started us may be gone; the machine is there all the same, and the next daemon finds it by its record.
    let _ = io::stdout().write_all(record.as_bytes());
    close_pipes().map_err(|source| alone("leave the starter's pipes", source))?;
    button.wait().map_err(|source| alone("wait for a signal", source.into()))?;
    let time = rfc3339_millis(SystemClock::new().now());
    keep(&run.join(EXIT), &json(&Ended { ended: "exited", code: 0, time }))
}

fn block_button() -> Result<SigSet, SimulatedError> {
    let button = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    button.thread_block().map_err(|source| alone("hold signals back", source.into()))?;
    Ok(button)
}

/// One process per machine, whatever the daemon believes. The lock belongs to the open file, so it stays when we fork.
fn hold(run: &Path) -> Result<File, SimulatedError> {
    let path = run.join(LOCK);
    let failed = |source| SimulatedError::ChangeFile { attempt: "lock", path: path.clone(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SimulatedError::HoldMachine { run: run.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn forget(path: &Path) -> Result<(), SimulatedError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(SimulatedError::ChangeFile { attempt: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Whole or not at all, but without a sync, which would be most of the time that a start takes: in a run directory
/// nothing means anything after a power cut of the host.
fn keep(path: &Path, text: &str) -> Result<(), SimulatedError> {
    let part = path.with_extension("json.part");
    let written = File::create(&part).and_then(|mut file| file.write_all(text.as_bytes()));
    let renamed = written.and_then(|()| std::fs::rename(&part, path));
    renamed.map_err(|source| SimulatedError::ChangeFile { attempt: "write", path: path.to_owned(), source })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("text and numbers have a JSON form") + "\n"
}

fn close_pipes() -> io::Result<()> {
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    Ok(dup2_stderr(&nothing)?)
}

fn alone(attempt: &'static str, source: io::Error) -> SimulatedError {
    SimulatedError::StandAlone { attempt, source }
}
