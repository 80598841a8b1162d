//! Commands on a machine over SSH, for launches that push: one connection, to a host whose key is known, with a key of our
//! own. There is no list of known hosts, no agent and no password.

mod connection;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;
use windlass_assets::SshKeys;
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::reason;
use windlass_steps::wait::{Wait, WaitError};

use crate::seen::{Executed, Task};

pub use connection::Session;

/// The port of sshd.
pub const PORT: u16 = 22;
/// How long sshd may take to answer: it starts while the machine boots.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Why a command was not run, or not to its end.
#[derive(Debug, Error)]
pub enum SshError {
    /// A key of the cluster directory is none for SSH.
    #[error("cannot use the SSH keys of the cluster directory")]
    TakeKeys {
        /// What is wrong with them; it never quotes them.
        source: russh::keys::ssh_key::Error,
    },
    /// Nobody takes the connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Whoever took it does not speak SSH, or stopped.
    #[error("cannot talk SSH with {address}")]
    Talk {
        /// With whom.
        address: SocketAddr,
        /// What happened.
        source: russh::Error,
    },
    /// It is not the machine that it should be.
    #[error("{address} does not have the host key that this machine was given: it may be another")]
    KnowHost {
        /// Who answers.
        address: SocketAddr,
    },
    /// The machine does not know us.
    #[error("{address} does not let the client key of the cluster directory in")]
    LetIn {
        /// Who answers.
        address: SocketAddr,
    },
    /// The command took too long.
    #[error("{command} did not end within {limit:?}")]
    Await {
        /// The command line.
        command: String,
        /// The patience.
        limit: Duration,
    },
    /// The command ended, and nobody says how.
    #[error("{command} ended without an exit code")]
    End {
        /// The command line.
        command: String,
    },
}

impl SshError {
    /// Whether the same again may succeed: a machine that boots is not there at first, and then another is not it.
    fn may_pass(&self) -> bool {
        match self {
            SshError::Connect { .. } | SshError::Talk { .. } => true,
            SshError::TakeKeys { .. }
            | SshError::KnowHost { .. }
            | SshError::LetIn { .. }
            | SshError::Await { .. }
            | SshError::End { .. } => false,
        }
    }
}

/// Runs a command as soon as sshd answers.
pub async fn run(address: SocketAddr, keys: &SshKeys, task: &Task) -> Result<Executed, SshError> {
    let session = open(address, keys, PATIENCE).await?;
    let command = quoted(&task.words);
    let ran = timeout(task.limit, session.run(&command, &task.stdin)).await;
    session.close().await;
    ran.unwrap_or(Err(SshError::Await { command, limit: task.limit }))
}

/// A session, once there is one; an error that will not pass ends the wait.
async fn open(address: SocketAddr, keys: &SshKeys, patience: Duration) -> Result<Session, SshError> {
    let latest = RefCell::new(Err(SshError::Connect { address, source: io::ErrorKind::TimedOut.into() }));
    let look = || async {
        let opened = Session::open(address, keys).await;
        let seen = match &opened {
            Ok(_) => Observation::Holds,
            Err(error) if error.may_pass() => Observation::NotYet(reason!("{error}")),
            Err(error) => Observation::Never(reason!("{error}")),
        };
        drop(latest.replace(opened));
        Ok::<_, LookError>(seen)
    };
    let criteria = [Criterion::new("sshd answers", look)];
    let wait = Wait::stalled_for(patience).poll_every(POLL);
    match wait.until(&criteria, |_| Ok::<(), std::convert::Infallible>(())).await {
        Ok(()) | Err(WaitError::Unmet(_)) => {}
        Err(WaitError::Observe(never)) => match never {},
    }
    drop(criteria);
    latest.into_inner()
}

/// The words as a shell takes them apart again: sshd hands every command to one.
fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
