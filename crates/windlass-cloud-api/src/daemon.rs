//! Starting the cloud where it does not run. This is here, and not with the command line, because the local platform has
//! to start it too; and since this crate uses nothing of ours, it brings its own process and its own bounded wait.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, interval};

use crate::{Client, ClientError, Status};

/// How long a daemon may take until it answers; with ten thousand things it takes half a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long another daemon, which made ours give way, may take.
const OTHER: Duration = Duration::from_secs(3);
const GLANCE: Duration = Duration::from_millis(20);
const TAIL: u64 = 2048;

/// A daemon of this host: its program and its directories.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// `windlass-cloud`.
    pub program: PathBuf,
    /// What does not outlive the host's reboot; the socket is in it.
    pub run: PathBuf,
    /// What does; the log is in it.
    pub state: PathBuf,
    /// What it starts machines as.
    pub world: World,
}

/// What machines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Machines.
    Real,
    /// Processes that do nothing, for tests.
    Simulated,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// One that ran already.
    Running(Status),
    /// One that was started just now.
    Started(Status),
}

/// Why no daemon answers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// One is there, but it cannot be asked.
    #[error("cannot ask the local cloud how it is")]
    AskDaemon {
        /// Why not.
        source: ClientError,
    },
    /// Its log cannot be written.
    #[error("cannot open {}", .path.display())]
    OpenLog {
        /// The log.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The program cannot be run.
    #[error("cannot run {}", .program.display())]
    RunProgram {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It ended instead of serving.
    #[error("the local cloud ended as it was started; it said:\n{said}")]
    EndAtOnce {
        /// The end of what it said.
        said: String,
    },
    /// It is there and does not answer.
    #[error("the local cloud did not answer within {} s; {} says more", PATIENCE.as_secs(), .log.display())]
    AwaitAnswer {
        /// What it said.
        log: PathBuf,
    },
}

impl Daemon {
    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.run.join("cloud.sock")
    }

    /// Where it says what it does.
    pub fn log(&self) -> PathBuf {
        self.state.join("cloud.log")
    }

    /// A client of this daemon.
    pub fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// How it is; none if none runs.
    pub async fn status(&self) -> Result<Option<Status>, StartError> {
        match self.asked().await {
            // One that leaves drops whoever it has not listened to yet; who asks again finds it gone.
            Err(ClientError::Talk { .. }) => self.asked().await,
            answer => answer,
        }
        .map_err(|source| StartError::AskDaemon { source })
    }

    async fn asked(&self) -> Result<Option<Status>, ClientError> {
        match self.client().status().await {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts it unless it runs, and returns when it answers. It lives on after whoever started it.
    pub async fn start(&self) -> Result<Found, StartError> {
        if let Some(status) = self.status().await? {
            return Ok(Found::Running(status));
        }
        let open = |source| StartError::OpenLog { path: self.log(), source };
        let log = open_log(&self.state, &self.log()).map_err(open)?;
        let before = log.metadata().map_err(open)?.len();
        let child =
            self.spawn(log).map_err(|source| StartError::RunProgram { program: self.program.clone(), source })?;
        self.answered(child, before).await.map(Found::Started)
    }

    /// In a session of its own (which `--detached` sees to) and with nothing of ours open, so that neither our end nor
    /// our terminal's is its end.
    #[expect(clippy::disallowed_methods, reason = "the usual door ends its commands with itself; this one is to stay")]
    fn spawn(&self, log: File) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--detached", "--run"]).arg(std::path::absolute(&self.run)?);
        command.arg("--state").arg(std::path::absolute(&self.state)?);
        if self.world == World::Simulated {
            command.arg("--simulated");
        }
        let same = log.try_clone()?;
        command.current_dir("/").stdin(Stdio::null()).stdout(same).stderr(log).spawn()
    }

    async fn answered(&self, mut child: Child, before: u64) -> Result<Status, StartError> {
        let mut glance = interval(GLANCE);
        let mut until = Instant::now() + PATIENCE;
        let mut ended = false;
        while Instant::now() < until {
            glance.tick().await;
            if let Some(status) = self.status().await? {
                return Ok(status);
            }
            // It gives way to another that was started at the same time and will answer presently.
            if !ended && matches!(child.try_wait(), Ok(Some(_))) {
                ended = true;
                until = Instant::now() + OTHER;
            }
        }
        match ended {
            true => Err(StartError::EndAtOnce { said: tail(&self.log(), before) }),
            false => Err(StartError::AwaitAnswer { log: self.log() }),
        }
    }
}

fn open_log(state: &Path, log: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(log)
}

/// The end of what was said from here on.
fn tail(log: &Path, from: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let from = from.max(file.metadata()?.len().saturating_sub(TAIL));
        file.seek(SeekFrom::Start(from))?;
        let mut said = Vec::new();
        file.read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
    };
    // What it said helps if it can be had; that it ended is the failure all the same.
    read().unwrap_or_else(|error| format!("(its log cannot be read: {error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(program: &str, dir: &Path) -> Daemon {
        Daemon { program: program.into(), run: dir.join("run"), state: dir.join("state"), world: World::Simulated }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = daemon("/nonexistent/windlass-cloud", dir.path()).start().await.unwrap_err();
        assert!(error.to_string().contains("/nonexistent/windlass-cloud"), "{error}");
    }

    #[tokio::test]
    async fn a_program_that_ends_at_once_is_quoted() {
        let dir = tempfile::tempdir().unwrap();
        // `cat` takes the arguments for its own, complains, and ends.
        let error = daemon("/bin/cat", dir.path()).start().await.unwrap_err();
        assert!(matches!(&error, StartError::EndAtOnce { said } if said.contains("--detached")), "{error}");
    }

    #[tokio::test]
    async fn none_that_runs_is_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(daemon("/bin/true", dir.path()).status().await.unwrap(), None);
    }
}
