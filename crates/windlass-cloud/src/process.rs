//! Which process is meant, also after a restart of whoever started it. A number alone is reused; together with the time
//! at which the process started and the boot it belongs to it names one process for good, and that is what a runner
//! writes beside its machine.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use windlass_steps::host::{self, HostError};

pub use rustix::process::Signal;

const RECORD_LIMIT: u64 = 4 << 10;

/// One process of one boot of this host. Its JSON form is what `runner.json` begins with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The number, good for showing; to act on the process use a [`Handle`].
    pub pid: i32,
    /// When it started, in clock ticks since the host booted, as `/proc/<pid>/stat` has it.
    pub started: u64,
    /// Which boot of the host that was.
    pub boot_id: String,
}

/// How a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It can run.
    Runs,
    /// It is there but stopped by a signal or a tracer.
    Stopped,
    /// It is there no more, or only waits to be reaped.
    Gone,
}

/// A hold on one living process that stays right when its number is reused.
#[derive(Debug)]
pub struct Handle {
    fd: OwnedFd,
}

/// Why nothing could be said or done about a process. That it is gone is an answer and not an error.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The kernel's file about it could not be read or understood.
    #[error("cannot read {}", .path.display())]
    ReadProc {
        /// The file under `/proc`.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no such process to take the identity of.
    #[error("there is no process {pid}")]
    FindProcess {
        /// As asked for.
        pid: i32,
    },
    /// No descriptor for the process could be had.
    #[error("cannot open a descriptor of process {pid}")]
    OpenProcess {
        /// Which one.
        pid: i32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The signal could not be sent.
    #[error("cannot send {signal:?} to a process")]
    SendSignal {
        /// Which one.
        signal: Signal,
        /// What the kernel said.
        source: io::Error,
    },
    /// The end of the process could not be waited for.
    #[error("cannot wait for the end of a process")]
    AwaitEnd {
        /// What the kernel said.
        source: io::Error,
    },
    /// The record could not be read.
    #[error("cannot find a process in {}", .path.display())]
    ReadRecord {
        /// The record.
        path: PathBuf,
        /// The failed attempt on the file.
        source: HostError,
    },
    /// The record is there but is none.
    #[error("cannot understand {}", .path.display())]
    ParseRecord {
        /// The record.
        path: PathBuf,
        /// Where it stops making sense.
        source: serde_json::Error,
    },
}

impl Identity {
    /// Takes the identity of a process that is there now, reaped or not.
    pub fn of(pid: i32) -> Result<Self, ProcessError> {
        let stat = stat_of(pid)?.ok_or(ProcessError::FindProcess { pid })?;
        Ok(Self { pid, started: stat.started, boot_id: boot_id()? })
    }

    /// Our own.
    pub fn own() -> Result<Self, ProcessError> {
        Self::of(i32::try_from(std::process::id()).expect("the kernel's process numbers are below 2^22"))
    }

    /// Looks whether this very process still is there, and can run.
    pub fn condition(&self) -> Result<Condition, ProcessError> {
        if self.boot_id != boot_id()? {
            return Ok(Condition::Gone);
        }
        let stat = stat_of(self.pid)?.filter(|stat| stat.started == self.started);
        Ok(stat.map_or(Condition::Gone, |stat| stat.condition()))
    }

    /// Whether this very process still is there, be it stopped.
    pub fn is_alive(&self) -> Result<bool, ProcessError> {
        Ok(self.condition()? != Condition::Gone)
    }

    /// A hold on the process; none if it is gone.
    pub fn open(&self) -> Result<Option<Handle>, ProcessError> {
        let Some(pid) = Pid::from_raw(self.pid.max(0)) else { return Ok(None) };
        let fd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(ProcessError::OpenProcess { pid: self.pid, source: error.into() }),
        };
        // Looked at after opening: if the number still means this process now, the descriptor does too.
        Ok(self.is_alive()?.then_some(Handle { fd }))
    }

    /// Waits for the end of the process, which may have been long ago.
    pub async fn ended(&self) -> Result<(), ProcessError> {
        match self.open()? {
            Some(handle) => handle.ended().await,
            None => Ok(()),
        }
    }

    /// Reads a record such as `runner.json`, whatever else it holds; none if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, ProcessError> {
        let bytes = match host::read_file(path, RECORD_LIMIT) {
            Ok(bytes) => bytes,
            Err(HostError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ProcessError::ReadRecord { path: path.to_owned(), source }),
        };
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Some).map_err(|source| ProcessError::ParseRecord { path: path.to_owned(), source })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

impl Handle {
    /// Sends a signal; to a process that has ended meanwhile it is no error.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(ProcessError::SendSignal { signal, source: error.into() }),
        }
    }

    /// Waits until the process has ended; whether someone reaps it makes no difference.
    pub async fn ended(self) -> Result<(), ProcessError> {
        let trouble = |source| ProcessError::AwaitEnd { source };
        #[expect(deprecated, reason = "its successor is unsafe for what an owned descriptor already proves")]
        let watched = AsyncFd::with_interest(self.fd, Interest::READABLE).map_err(trouble)?;
        watched.readable().await.map(drop).map_err(trouble)
    }
}

/// Names this boot of the host.
pub fn boot_id() -> Result<String, ProcessError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|source| ProcessError::ReadProc { path: path.to_owned(), source })?;
    Ok(text.trim_end().to_owned())
}

/// What is used of `/proc/<pid>/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    state: char,
    pub(crate) parent: i32,
    pub(crate) started: u64,
}

impl Stat {
    pub(crate) fn condition(&self) -> Condition {
        match self.state {
            'Z' | 'X' | 'x' => Condition::Gone,
            'T' | 't' => Condition::Stopped,
            _ => Condition::Runs,
        }
    }
}

/// Reads the kernel's line about a process; none if there is no such process.
pub(crate) fn stat_of(pid: i32) -> Result<Option<Stat>, ProcessError> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(source) => return Err(ProcessError::ReadProc { path, source }),
    };
    match parse_stat(&String::from_utf8_lossy(&bytes)) {
        Some(stat) => Ok(Some(stat)),
        None => Err(ProcessError::ReadProc { path, source: io::ErrorKind::InvalidData.into() }),
    }
}

/// A process may end between opening its file and reading it.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

/// The name is in parentheses and may itself hold parentheses, spaces and line breaks, so the last one counts.
fn parse_stat(line: &str) -> Option<Stat> {
    let (head, rest) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 22 of the line; the parent was field 4.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { name: name.to_owned(), state, parent, started })
}

#[cfg(test)]
mod tests;
