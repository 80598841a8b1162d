//! Static copies of the control plane's pods (`windlass-node checkpoint`, on every master), so that the control plane
//! returns by itself after a power cut of all machines: then there is no API to tell the kubelets what to run, and a
//! static pod is all that they start.
//!
//! Every half second it looks at what the runtime runs, at the copies on the disk, and at what the API said last, decides
//! (`plan`), and does it. Its own copy always runs, beside its pod; whoever of the two has the lock works.

mod api;
mod copy;
mod files;
mod memory;
mod plan;
mod program;
mod ready;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use windlass_cluster::access::{Access, AccessError};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::report::chain;

use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::tasks::{Tasks, TasksError};

use api::Answer;
use files::{Copies, FilesError, Lock};
use memory::Memory;
use program::Program;
use ready::Readiness;

pub use copy::{CopyError, copy_of};

/// How often to look. The numbers of looks in [`plan`] count on it.
const LOOK: Duration = Duration::from_millis(500);

/// Why there is no checkpointer.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The variable is not set.
    #[error("cannot tell which node this is: NODE_NAME is not set")]
    NameNode,
    /// There are no credentials.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody can ask whether it is ready.
    #[error("cannot answer on {address}")]
    Serve {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder of copies is not to be had.
    #[error("cannot use the folders of copies")]
    UseCopies {
        /// Why not.
        source: FilesError,
    },
    /// The runtime's books are not to be had.
    #[error("cannot use the runtime's books")]
    UseTasks {
        /// Why not.
        source: TasksError,
    },
}

/// Keeps copies until told to end.
pub async fn run(places: &Places) -> Result<(), Failure> {
    keep(places).await.map_err(|error| {
        let (exit, next) = match &error {
            CheckpointError::NameNode => {
                (Exit::Permanent, "set NODE_NAME to the node's name, as the pod's manifest does")
            }
            CheckpointError::ReachApi { .. } => (Exit::TryAgain, "see /etc/kubernetes/checkpointer.kubeconfig"),
            CheckpointError::HandleSignals { .. } => (Exit::TryAgain, "start it again"),
            CheckpointError::Serve { .. } => (Exit::TryAgain, "see who else listens there"),
            CheckpointError::UseCopies { .. } | CheckpointError::UseTasks { .. } => {
                (Exit::TryAgain, "see that the machine's folders are mounted into the pod")
            }
        };
        Failure::of(exit, &error, next)
    })
}

/// The node that a pod runs on. The kubelet says so in the environment; the command line is one for all machines.
pub(crate) fn node_name() -> Option<String> {
    std::env::var_os("NODE_NAME").and_then(|name| name.into_string().ok()).filter(|name| !name.is_empty())
}

async fn keep(places: &Places) -> Result<(), CheckpointError> {
    let node = node_name().ok_or(CheckpointError::NameNode)?;
    let interrupt = Interrupt::on_signals().map_err(|source| CheckpointError::HandleSignals { source })?;
    let access = Access::Kubeconfig(places.kubeconfig("checkpointer"));
    let client = access.client().await.map_err(|source| CheckpointError::ReachApi { source })?;
    let address = SocketAddr::from(ready::ADDRESS);
    let serve = |source| CheckpointError::Serve { address, source };
    let listener = ready::listen(address).map_err(serve)?;
    let (answers, answer) = watch::channel(Answer::Silence);
    let readiness = watch::Sender::new(Readiness::NotAsked);
    let mut checkpointer = Checkpointer::new(places)?;
    info!(node, "checkpointer started");
    tokio::select! {
        served = ready::serve(listener, readiness.subscribe()) => served.map_err(serve),
        () = api::ask_on(&client, &node, || copied(places), answers) => Ok(()),
        ended = checkpointer.look_on(answer, &readiness) => ended,
        () = interrupt.raised() => Ok(()),
    }
}

/// The programs that have copies here; none if they cannot be read, which only leaves a question unasked.
fn copied(places: &Places) -> BTreeSet<Program> {
    let copies = Copies::read(places).unwrap_or_default();
    copies.waiting.into_keys().chain(copies.active.into_keys()).collect()
}

struct Checkpointer<'a> {
    places: &'a Places,
    lock: Lock,
    tasks: Tasks,
    memory: Memory,
}

impl<'a> Checkpointer<'a> {
    fn new(places: &'a Places) -> Result<Self, CheckpointError> {
        let lock = Lock::open(places).map_err(|source| CheckpointError::UseCopies { source })?;
        Ok(Checkpointer { places, lock, tasks: Tasks::default(), memory: Memory::default() })
    }

    async fn look_on(
        &mut self,
        answers: watch::Receiver<Answer>,
        readiness: &watch::Sender<Readiness>,
    ) -> Result<(), CheckpointError> {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let answer = answers.borrow().clone();
            let copies = self.look(&answer)?;
            if let Some(now) = ready::judge(&answer, &copies) {
                readiness.send_replace(now);
            }
        }
    }

    /// Looks once, does what is to be done, and says which copies there were before.
    fn look(&mut self, answer: &Answer) -> Result<Copies, CheckpointError> {
        self.tasks.look(&self.places.tasks()).map_err(|source| CheckpointError::UseTasks { source })?;
        let copies = |source| CheckpointError::UseCopies { source };
        let is_ours = self.lock.take(self.places).map_err(copies)?;
        let now = Copies::read(self.places).map_err(copies)?;
        let seen = self.memory.add(answer, &self.tasks, &now);
        if is_ours {
            for change in plan::plan(&seen) {
                if let Err(error) = files::apply(self.places, &change) {
                    // The next look plans the same again.
                    warn!(because = chain(&error).join(": "), "copy not changed");
                }
            }
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests;
