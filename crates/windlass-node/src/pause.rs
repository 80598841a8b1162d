//! The process that holds a pod's sandbox. It keeps the sandbox's namespaces alive, takes in the pod's orphans when the
//! pod shares one process namespace, and ends when told to.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use thiserror::Error;

/// Why a sandbox could not be held.
#[derive(Debug, Error)]
pub enum PauseError {
    /// The kernel refused to hold signals back.
    #[error("cannot hold signals back")]
    BlockSignals {
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel refused to hand a signal over.
    #[error("cannot wait for a signal")]
    WaitForSignal {
        /// What the kernel said.
        source: Errno,
    },
}

/// Reaps children until SIGTERM or SIGINT.
///
/// The first process of a namespace never gets a signal whose action is the default one, unless it is blocked: blocked
/// signals are queued (`sig_ignored` in the kernel's `signal.c`), and waiting for them needs no handler.
pub fn run() -> Result<(), PauseError> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD]);
    signals.thread_block().map_err(|source| PauseError::BlockSignals { source })?;
    loop {
        // Before the wait: a child may have ended before its signal was blocked, and several share one signal.
        reap();
        match signals.wait() {
            Ok(Signal::SIGTERM | Signal::SIGINT) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(source) => return Err(PauseError::WaitForSignal { source }),
        }
    }
}

/// Takes in every child that has ended.
fn reap() {
    // An error means that there is no child, which is the usual case.
    while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
}
