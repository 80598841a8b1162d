//! The runner: one detached process per machine. It makes the root and has Ignition fill it before the first boot, boots
//! the machine, boots it again when it asked for that, and writes down how it ended.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{daemon, dup2_stderr, dup2_stdin, dup2_stdout, pipe2};
use windlass_steps::clock::{Clock, SystemClock, rfc3339_millis};
use windlass_steps::host::{CommandSpec, HostError, cmd, run_blocking};
use windlass_steps::report::chain;

use super::boot::{REBOOT, own_pid};
use crate::machine::console::Log;
use crate::machine::{Description, Ended, Identity, MachineError, Part, Phase, Runner, record, root};

const STDIO: &str = "/dev/stdin";

/// Runs the machine to its end.
///
/// The caller sees us return at once. The rest of us holds its pipes until the machine is ours: it reads who we are from
/// stdout, or why not from stderr.
pub(super) fn run(description: &Description) -> Result<(), MachineError> {
    daemon(true, true).map_err(stdio("detach from"))?;
    // What we make in the machine's root is for everyone there, however private the daemon is.
    umask(Mode::from_bits_truncate(0o022));
    let _held = hold(description)?;
    description.groups()?.enter(Part::Runner, own_pid())?;
    let mut runner = Runner { identity: Identity::of(own_pid())?, phase: Phase::Preparing, boots: 0 };
    record::remove(&description.exit())?;
    record::write(&description.runner(), &runner)?;
    let log = Log::open(&description.console())?;
    announce(&runner)?;
    let console = Console::start(log)?;
    let ended = match prepare(description, &mut runner).and_then(|()| boot_until_end(description, &mut runner)) {
        Ok(status) => end_of(status),
        Err(error) => Ended::Failed { reason: chain(&error).join(": "), time: now() },
    };
    // The end is told before anything that could go wrong: it is what the daemon waits for.
    record::write(&description.exit(), &ended)?;
    console.finish()
}

/// One runner per machine, whatever the daemon believes: two would write to one overlay.
fn hold(description: &Description) -> Result<File, MachineError> {
    let path = description.lock();
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let failed = |source| MachineError::Change { attempt: "lock", path: path.clone(), source };
    let file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MachineError::Held { machine: description.machine.clone() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Whoever started us may be gone; the machine is there all the same, and the next daemon finds it by its record.
fn announce(runner: &Runner) -> Result<(), MachineError> {
    let line = serde_json::to_string(runner)
        .map_err(|source| MachineError::Understand { path: Path::new(STDIO).to_owned(), source })?;
    let _ = writeln!(io::stdout(), "{line}");
    Ok(())
}

/// Before the first boot: the root, and what Ignition does to it. Anew until both are done.
fn prepare(description: &Description, runner: &mut Runner) -> Result<(), MachineError> {
    if root::is_complete(description)? {
        return Ok(());
    }
    root::make(description)?;
    if description.ignition.is_some() {
        tell(description, runner, Phase::Igniting)?;
        if run_helper(description, "ignite")?.code() != Some(0) {
            let reason = crate::machine::ignition::reason(description).unwrap_or_default();
            return Err(MachineError::Ignite { reason });
        }
    }
    root::complete(description)
}

fn boot_until_end(description: &Description, runner: &mut Runner) -> Result<ExitStatus, MachineError> {
    let lasting = description.clone();
    // Beside the boot; a machine that ends first does not wait for the disk.
    thread::spawn(move || root::make_lasting(&lasting).unwrap_or_else(|error| say(&error)));
    loop {
        runner.boots += 1;
        tell(description, runner, Phase::Booted)?;
        let status = run_helper(description, "boot")?;
        if status.code() != Some(REBOOT) {
            return Ok(status);
        }
    }
}

fn tell(description: &Description, runner: &mut Runner, phase: Phase) -> Result<(), MachineError> {
    runner.phase = phase;
    record::write(&description.runner(), runner)
}

/// Another guest command, whose output goes where ours goes.
fn run_helper(description: &Description, name: &str) -> Result<ExitStatus, MachineError> {
    let command: CommandSpec = cmd(&description.program).args(["guest", name, "--machine"]).arg(description.file());
    // The network's settings are the machine's own, the others are the host's: only those may be written inside. nspawn
    // would think of that by itself if it made the namespace.
    let command = command.env("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "network");
    match run_blocking(command.inherit()) {
        Ok(output) => Ok(ExitStatus::from_raw(output.code << 8)),
        Err(HostError::RunCommand { status, .. }) => Ok(status),
        Err(source) => Err(MachineError::UseHost { attempt: "run our own program", source: Box::new(source) }),
    }
}

/// On the console: there is no better place, and the machine goes on.
fn say(error: &MachineError) {
    let _ = writeln!(io::stderr(), "windlass-cloud: {}", chain(error).join(": "));
}

fn end_of(status: ExitStatus) -> Ended {
    match status.signal() {
        Some(signal) => Ended::Killed { signal, time: now() },
        None => Ended::Exited { code: status.code().unwrap_or_default(), time: now() },
    }
}

fn now() -> String {
    rfc3339_millis(SystemClock::new().now())
}

/// Our stdout and stderr, and those of everything we start, become a pipe whose other end is the bounded log.
struct Console {
    writer: thread::JoinHandle<Result<(), MachineError>>,
}

impl Console {
    fn start(mut log: Log) -> Result<Self, MachineError> {
        let (reading, writing) = pipe2(OFlag::O_CLOEXEC).map_err(stdio("make a pipe for"))?;
        let nothing = File::open("/dev/null").map_err(stdio("read nothing from"))?;
        dup2_stdin(&nothing).map_err(stdio("replace"))?;
        dup2_stdout(&writing).and_then(|()| dup2_stderr(&writing)).map_err(stdio("replace"))?;
        Ok(Self { writer: thread::spawn(move || log.follow(File::from(reading))) })
    }

    /// Closes our end, and waits until everything is written; whoever still holds the other end is not waited for
    /// longer than it lives.
    fn finish(self) -> Result<(), MachineError> {
        let nothing = File::options().write(true).open("/dev/null").map_err(stdio("write nothing to"))?;
        dup2_stdout(&nothing).and_then(|()| dup2_stderr(&nothing)).map_err(stdio("replace"))?;
        match self.writer.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn stdio<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> MachineError {
    move |source| MachineError::Change { attempt, path: Path::new(STDIO).to_owned(), source: source.into() }
}
