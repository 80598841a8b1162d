//! Running a command: feed it, collect what it says, and leave none of it behind. An asynchronous command has its own
//! process group, which dies with it when the time is up or the caller stops waiting.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tracing::{debug, warn};

use super::command::{End, Streams};
use super::follow::{Ear, Kept, Tail, Whole, replay};
use super::{CommandSpec, Follower, HostError, Output, Stream};

/// How long what a command has said may take to arrive once it has ended; it is in the pipes by then.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Whoever runs commands: the real [`Host`], or a [`ScriptedHost`] in a test.
pub trait Commands: Sync {
    /// Runs the command to its end; an exit code that was not accepted is an error.
    fn run(&self, spec: CommandSpec) -> impl Future<Output = Result<Output, HostError>> + Send;

    /// The same, with each line told when it is complete. A double, whose commands take no time, tells them at the end.
    fn follow(
        &self,
        spec: CommandSpec,
        follower: Follower<'_>,
    ) -> impl Future<Output = Result<Output, HostError>> + Send {
        async move { self.run(spec).await.map(|output| replay(output, follower)) }
    }
}

/// The machine we run on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Commands for Host {
    async fn run(&self, spec: CommandSpec) -> Result<Output, HostError> {
        run(spec).await
    }

    async fn follow(&self, spec: CommandSpec, follower: Follower<'_>) -> Result<Output, HostError> {
        execute(spec, Group::Own, Some(follower)).await
    }
}

/// Runs the command on this machine. Dropping the future kills the command's whole process group.
pub async fn run(spec: CommandSpec) -> Result<Output, HostError> {
    execute(spec, Group::Own, None).await
}

/// Runs the command and blocks until it ends; works with or without an async runtime around it.
///
/// Without a timeout the command stays in our process group, so that Ctrl-C at the terminal reaches it as well.
pub fn run_blocking(spec: CommandSpec) -> Result<Output, HostError> {
    let group = if spec.timeout.is_some() { Group::Own } else { Group::Ours };
    let work = move || {
        let command = spec.line();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| HostError::StartCommand { command, source })?;
        runtime.block_on(execute(spec, group, None))
    };
    // A thread of its own, because a runtime may not be started inside another one.
    match std::thread::scope(|scope| scope.spawn(work).join()) {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Own,
    Ours,
}

async fn execute(spec: CommandSpec, group: Group, follower: Option<Follower<'_>>) -> Result<Output, HostError> {
    let command = spec.line();
    debug!(command, "running command");
    let mut child = start(&spec, &command, group)?;
    let mut leash = Leash::on(&child, group);
    let mut stdout = Ear::new(Stream::Out, follower, Whole::up_to(spec.stdout_limit));
    let mut stderr = Ear::new(Stream::Err, follower, Tail::default());
    let exchange = exchange(&mut child, &spec, &command, &mut stdout, &mut stderr);
    let ended = match spec.timeout {
        None => Ok(exchange.await),
        Some(limit) => tokio::time::timeout(limit, exchange).await.map_err(|_| limit),
    };
    let status = match ended {
        Ok(status) => status?,
        Err(limit) => {
            leash.kill();
            reap(&mut child, &command).await?;
            // A question that nobody answered has no line break.
            stderr.end();
            return Err(HostError::AwaitCommand { command, limit, stderr: stderr.kept.text() });
        }
    };
    leash.release();
    // Where somebody still holds the output, its last line has no end.
    stdout.end();
    stderr.end();
    let (stdout, stderr) = (stdout.kept.bytes, stderr.kept.text());
    match status.code() {
        Some(code) if spec.accepted.contains(&code) => Ok(Output { command, code, stdout, stderr }),
        _ => Err(HostError::RunCommand { command, status, stderr }),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the door that the ban points to")]
fn start(spec: &CommandSpec, line: &str, group: Group) -> Result<Child, HostError> {
    let mut command = tokio::process::Command::new(&spec.program);
    let output = || match spec.streams {
        Streams::Captured => Stdio::piped(),
        Streams::Inherited => Stdio::inherit(),
    };
    command.args(&spec.args).envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.stdin(if spec.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(output()).stderr(output()).kill_on_drop(true);
    if let Some(dir) = &spec.dir {
        command.current_dir(dir);
    }
    if group == Group::Own {
        command.process_group(0);
    }
    command.spawn().map_err(|source| match missing(spec, &source) {
        true => HostError::FindProgram { program: spec.program.to_string_lossy().into_owned() },
        false => HostError::StartCommand { command: line.to_owned(), source },
    })
}

// A missing working directory and a missing interpreter give the same error number as a missing program.
fn missing(spec: &CommandSpec, source: &io::Error) -> bool {
    source.kind() == io::ErrorKind::NotFound
        && spec.dir.as_ref().is_none_or(|dir| dir.is_dir())
        && !std::path::Path::new(&spec.program).exists()
}

async fn exchange(
    child: &mut Child,
    spec: &CommandSpec,
    command: &str,
    stdout: &mut Ear<'_, Whole>,
    stderr: &mut Ear<'_, Tail>,
) -> Result<ExitStatus, HostError> {
    let trouble = |source| HostError::TalkToCommand { command: command.to_owned(), source };
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        let Some(mut pipe) = stdin else { return Ok(()) };
        match pipe.write_all(&spec.stdin).await {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(trouble(error)),
            _ => Ok(()),
        }
    };
    let collect = async {
        let Some(pipe) = out else { return Ok(()) };
        stdout.listen(pipe).await.map_err(trouble)?;
        match stdout.kept.is_over() {
            true => Err(HostError::HoldOutput { command: command.to_owned(), limit: spec.stdout_limit }),
            false => Ok(()),
        }
    };
    let complain = async {
        match err {
            Some(pipe) => stderr.listen(pipe).await.map_err(trouble),
            None => Ok(()),
        }
    };
    let talk = async { tokio::try_join!(feed, collect, complain).map(drop) };
    let end = async { child.wait().await.map_err(trouble) };
    match spec.end {
        End::OfOutput => tokio::try_join!(talk, end).map(|((), status)| status),
        End::OfProcess => {
            let (mut talk, mut end) = (pin!(talk), pin!(end));
            let status = tokio::select! {
                talked = &mut talk => {
                    talked?;
                    return end.await;
                }
                status = &mut end => status?,
            };
            tokio::time::timeout(LAST_WORDS, talk).await.unwrap_or(Ok(())).map(|()| status)
        }
    }
}

async fn reap(child: &mut Child, command: &str) -> Result<(), HostError> {
    let trouble = |source| HostError::TalkToCommand { command: command.to_owned(), source };
    child.start_kill().or_else(gone).map_err(trouble)?;
    child.wait().await.map(drop).map_err(trouble)
}

fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
}

/// Kills the process group when dropped before it is released.
struct Leash(Option<Pid>);

impl Leash {
    fn on(child: &Child, group: Group) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Self(leader.filter(|_| group == Group::Own))
    }

    fn kill(&mut self) {
        let Some(group) = self.0.take() else { return };
        match killpg(group, Signal::SIGKILL) {
            Ok(()) | Err(nix::Error::ESRCH) => {}
            Err(error) => warn!(%group, %error, "process group not killed, its leader still will be"),
        }
    }

    fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A double for tests: it answers command lines from a script and remembers what was asked.
#[derive(Debug, Default)]
pub struct ScriptedHost {
    answers: Vec<(String, Scripted)>,
    ran: Mutex<Vec<String>>,
}

#[derive(Debug)]
enum Scripted {
    Prints(String),
    Fails { code: u8, stderr: String },
}

impl ScriptedHost {
    /// Adds a line to the script: this command line prints this text and succeeds, as often as it is run.
    pub fn answer(mut self, line: impl Into<String>, stdout: impl Into<String>) -> Self {
        self.answers.push((line.into(), Scripted::Prints(stdout.into())));
        self
    }

    /// Adds a line to the script: this command line complains and ends with this code, as often as it is run.
    pub fn fail(mut self, line: impl Into<String>, code: u8, stderr: impl Into<String>) -> Self {
        self.answers.push((line.into(), Scripted::Fails { code, stderr: stderr.into() }));
        self
    }

    /// The command lines that were run so far, in order, also those the script does not know.
    pub fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Commands for ScriptedHost {
    /// A line that is not in the script is a program that is not installed.
    async fn run(&self, spec: CommandSpec) -> Result<Output, HostError> {
        let command = spec.line();
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(command.clone());
        match self.answers.iter().find(|(line, _)| *line == command) {
            Some((_, Scripted::Prints(stdout))) => {
                Ok(Output { command, code: 0, stdout: stdout.clone().into_bytes(), stderr: String::new() })
            }
            Some((_, Scripted::Fails { code, stderr })) => {
                let (code, stderr) = (i32::from(*code), stderr.clone());
                match spec.accepted.contains(&code) {
                    true => Ok(Output { command, code, stdout: Vec::new(), stderr }),
                    // As `wait` tells it: the code stands above the signal.
                    false => Err(HostError::RunCommand { command, status: ExitStatus::from_raw(code << 8), stderr }),
                }
            }
            None => Err(HostError::FindProgram { program: spec.program.to_string_lossy().into_owned() }),
        }
    }
}

#[cfg(test)]
mod tests;
