//! The layer 4 balancer: every connection to a listener is carried to one of a few targets, and only to one that answers
//! its health check. A target that fails or is taken away gets no new connection; those it has drain. With no healthy
//! target a connection is held for a while instead of being refused.
//!
//! [`Balancer::serve`] runs on the runtime that it is spawned on, one task per connection and one per target, so that a
//! runtime whose threads are in a cluster's network namespace reaches that cluster's targets.

mod carry;
mod check;
mod health;
mod pool;
mod pump;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use time::OffsetDateTime;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};
use windlass_steps::clock::Clock;

pub use check::{Check, CheckError, HttpsCheck};
pub use health::{Health, Outcome, Transition};
use pool::{Pool, Slot};

/// How long to let the kernel recover after it refused a connection for want of descriptors or memory.
const BREATH: Duration = Duration::from_millis(100);

/// What may change while the balancer runs.
#[derive(Clone, Debug)]
pub struct BalancerConfig {
    /// Where connections go; an empty list holds them all.
    pub targets: Vec<Target>,
    /// How to tell that a target is healthy.
    pub check: Check,
}

/// One place to carry connections to. Its name and its address together are its identity: a target that keeps its name
/// and gets another address is another target.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The machine's name.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.address)
    }
}

/// The bounds of one balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait in the listener's queue. Each takes two descriptors.
    pub connections: usize,
    /// How long a connection is held while no target can be reached.
    pub hold: Duration,
    /// How long one target may take to accept a connection before the next one is tried.
    pub connect: Duration,
    /// How long the connections of a target that was taken away may go on.
    pub drain: Duration,
    /// The time between the starts of two checks of one target.
    pub interval: Duration,
    /// From this age on an unanswered check makes other targets preferred.
    pub overdue: Duration,
    /// An unanswered check of this age has failed.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            hold: Duration::from_secs(10),
            connect: Duration::from_secs(1),
            drain: Duration::from_secs(30),
            interval: Duration::from_millis(200),
            overdue: Duration::from_millis(150),
            timeout: Duration::from_millis(390),
        }
    }
}

/// What is known of one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Which one.
    pub target: Target,
    /// Whether it gets connections.
    pub state: TargetState,
    /// Since when it is in this state.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// What the last check that failed said; none if the last one passed.
    pub last_error: Option<String>,
    /// Connections that it has now.
    pub open: usize,
}

/// Whether a target gets connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// It passed its last check.
    Up,
    /// It failed once or is slow to answer: it gets connections only if no other target is up.
    Doubted,
    /// It failed, or was never checked: no new connections, the old ones live on.
    Down,
    /// It was taken away: no new connections, the old ones live on for a limited time.
    Draining,
}

/// Why a balancer did not start.
#[derive(Debug, Error)]
pub enum BalancerError {
    /// The listener does not take the options that its connections inherit.
    #[error("cannot prepare the listener of the balancer")]
    PrepareListener {
        /// What the kernel said.
        source: io::Error,
    },
}

/// A handle to one balancer; clones share it.
#[derive(Clone)]
pub struct Balancer {
    pool: Arc<Pool>,
    limits: Limits,
}

impl Balancer {
    /// Knows no target until it serves.
    pub fn new(limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self { pool: Arc::new(Pool::new(clock)), limits }
    }

    /// The state of every target now, those that drain included.
    pub fn targets(&self) -> Vec<TargetStatus> {
        self.pool.statuses()
    }

    /// Is notified whenever a target changes its state.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.pool.changes()
    }

    /// Carries connections until every sender of the configuration is gone; then it closes the listener, and returns when
    /// the last connection has drained. Dropping the future ends everything at once.
    pub async fn serve(
        self,
        listener: TcpListener,
        mut config: watch::Receiver<BalancerConfig>,
    ) -> Result<(), BalancerError> {
        prepare(&listener).map_err(|source| BalancerError::PrepareListener { source })?;
        let (mut connections, mut targets) = (JoinSet::new(), JoinSet::new());
        self.adopt(&mut config, &mut targets);
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < self.limits.connections => match accepted {
                    Ok((client, _)) => drop(connections.spawn(self.clone().carry(client))),
                    Err(error) => breathe(&error, &mut connections).await,
                },
                Some(_) = connections.join_next() => {}
                Some(_) = targets.join_next() => {}
                changed = config.changed() => match changed {
                    Ok(()) => self.adopt(&mut config, &mut targets),
                    Err(_) => break,
                },
            }
        }
        drop(listener);
        self.pool.replace(&[]);
        while targets.join_next().await.is_some() {}
        // No target is left, so that whoever is held would wait for nothing.
        connections.abort_all();
        while connections.join_next().await.is_some() {}
        Ok(())
    }

    /// Takes the targets of the configuration; new ones are tended from here on, missing ones begin to drain.
    fn adopt(&self, config: &mut watch::Receiver<BalancerConfig>, tasks: &mut JoinSet<()>) {
        let targets = config.borrow_and_update().targets.clone();
        for slot in self.pool.replace(&targets) {
            info!(target = %slot.target, "target added");
            tasks.spawn(self.clone().tend(slot, config.clone()));
        }
    }

    /// One target from its arrival to its last connection.
    async fn tend(self, slot: Arc<Slot>, config: watch::Receiver<BalancerConfig>) {
        let mut life = slot.life();
        tokio::select! {
            () = life.until_draining() => {}
            () = self.check_on(&slot, &config) => {}
        }
        info!(target = %slot.target, open = slot.open(), "target taken away");
        if tokio::time::timeout(self.limits.drain, slot.until_idle()).await.is_err() {
            warn!(target = %slot.target, open = slot.open(), "connections ended, the target's drain limit is over");
        }
        slot.end();
        slot.until_idle().await;
        self.pool.forget(&slot);
    }

    /// Checks the target again and again, at once when a connection to it has failed.
    async fn check_on(&self, slot: &Arc<Slot>, config: &watch::Receiver<BalancerConfig>) {
        let mut ticks = tokio::time::interval(self.limits.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = slot.until_suspected() => ticks.reset(),
            }
            let check = config.borrow().check.clone();
            let look = check.look(slot.target.address);
            tokio::pin!(look);
            let early = tokio::time::timeout(self.limits.overdue, &mut look).await;
            let result = match early {
                Ok(result) => result,
                Err(_) => {
                    self.pool.observe(slot, Outcome::Overdue, Some("the check has no answer yet".into()));
                    let rest = self.limits.timeout.saturating_sub(self.limits.overdue);
                    let late = tokio::time::timeout(rest, &mut look).await;
                    late.unwrap_or(Err(CheckError::Answer { limit: self.limits.timeout }))
                }
            };
            match result {
                Ok(()) => self.pool.observe(slot, Outcome::Passed, None),
                Err(error) => {
                    let text = windlass_steps::report::chain(&error).join(": ");
                    self.pool.observe(slot, Outcome::Failed, Some(text));
                }
            }
        }
    }

    async fn carry(self, client: TcpStream) {
        carry::carry(client, &self.pool, &self.limits).await;
    }
}

/// Connections inherit these from their listener, which saves as many calls for each of them.
fn prepare(listener: &TcpListener) -> io::Result<()> {
    setsockopt(listener, sockopt::TcpNoDelay, &true)?;
    keep_alive(listener)
}

/// A peer that vanished without a word is noticed after 25 seconds of silence, so that it does not hold its connection
/// forever.
fn keep_alive(socket: &impl std::os::fd::AsFd) -> io::Result<()> {
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    setsockopt(socket, sockopt::TcpKeepIdle, &10)?;
    setsockopt(socket, sockopt::TcpKeepInterval, &5)?;
    setsockopt(socket, sockopt::TcpKeepCount, &3)?;
    Ok(())
}

async fn breathe(error: &io::Error, connections: &mut JoinSet<()>) {
    // The client went away while it was in the queue, which is nobody's fault.
    if error.kind() == io::ErrorKind::ConnectionAborted {
        return;
    }
    warn!(%error, open = connections.len(), "cannot accept a connection");
    let _either = tokio::time::timeout(BREATH, async {
        if connections.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    })
    .await;
}

#[cfg(test)]
mod tests;
