//! The pre-reboot hook: when the coordinator is about to let this machine reboot, the addons for its next OS are staged,
//! and the Node says so. Until it does the reboot is held. What staging is, is the caller's: [`StageNext`].

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use windlass_cluster::access::{Access, AccessError};
use windlass_cluster::failure::ApiFailure;
use windlass_steps::interrupt::Interrupt;
use windlass_steps::report::chain;

use super::protocol::{ADDONS_STAGED, BEFORE_REBOOT, Changed, NodeChange, NodeState};
use super::wake::Waker;
use crate::bootstrap::NextOs;
use crate::checkpoint::node_name;
use crate::exit::{Exit, Failure};
use crate::follow::{ask, follow, named};
use crate::places::Places;

const PACE: Duration = Duration::from_millis(250);
/// A failure, which may be somebody else's, is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);

/// Why the hook ended.
#[derive(Debug, Error)]
pub enum HookError {
    /// Nobody says which node this is.
    #[error("cannot tell which node this is: NODE_NAME is not set")]
    NameNode,
    /// There is no way to the API.
    #[error("cannot reach the API")]
    ReachApi {
        /// Why not.
        source: AccessError,
    },
    /// The hook could not be told to end.
    #[error("cannot listen for signals")]
    HandleSignals {
        /// Why not.
        source: std::io::Error,
    },
}

/// Stages the addons of this machine's next OS whenever the coordinator asks, until SIGTERM or SIGINT.
pub async fn run(places: &Places, manifests: Option<&str>) -> Result<(), Failure> {
    serve(places, manifests).await.map_err(|error| {
        let (exit, next) = match &error {
            HookError::NameNode => (Exit::Permanent, "set NODE_NAME to the node's name, as the pod's manifest does"),
            HookError::ReachApi { .. } => (Exit::TryAgain, "run it in a pod with a service account"),
            HookError::HandleSignals { .. } => (Exit::TryAgain, "start it again"),
        };
        Failure::of(exit, &error, next)
    })
}

async fn serve(places: &Places, manifests: Option<&str>) -> Result<(), HookError> {
    let node = node_name().ok_or(HookError::NameNode)?;
    let interrupt = Interrupt::on_signals().map_err(|source| HookError::HandleSignals { source })?;
    let client = Access::InCluster.client().await.map_err(|source| HookError::ReachApi { source })?;
    let hook = Hook::new(client.clone(), &node, NextOs { places, client, manifests });
    tokio::select! {
        never = hook.serve() => match never {},
        () = interrupt.raised() => Ok(()),
    }
}

/// Why nothing is staged.
pub type StageError = Box<dyn std::error::Error + Send + Sync>;

/// The next OS has what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The version of the OS that the next boot takes.
    pub os: String,
}

/// Whoever prepares a machine for its next OS.
#[expect(async_fn_in_trait, reason = "the hook awaits its stage, nobody spawns it")]
pub trait StageNext {
    /// Stages the addons for the OS that the next boot takes; may be repeated.
    async fn stage_for_next_os(&self) -> Result<Staged, StageError>;
}

/// What the hook does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Stages.
    Stage,
    /// Takes back what was said before another reboot.
    Clear(NodeChange),
}

/// What is to be done now.
pub fn plan(node: &NodeState) -> Option<Change> {
    match (node.shows(BEFORE_REBOOT), node.says(ADDONS_STAGED)) {
        (true, true) => None,
        (true, false) => Some(Change::Stage),
        (false, _) => NodeChange::of(node).forget([ADDONS_STAGED]).needed().map(Change::Clear),
    }
}

/// The hook of a machine.
pub struct Hook<S> {
    nodes: Api<Node>,
    name: String,
    stage: S,
    again: Duration,
}

impl<S: StageNext> Hook<S> {
    /// The hook of this Node's machine.
    pub fn new(client: Client, node: &str, stage: S) -> Self {
        Hook { nodes: Api::all(client), name: node.to_owned(), stage, again: AGAIN }
    }

    /// Stages whenever the coordinator asks, for ever.
    pub async fn serve(&self) -> Infallible {
        let waker = Waker::default();
        let own = named(&self.name);
        tokio::select! {
            never = follow(&self.nodes, &own, &waker) => never,
            never = self.look_on(&waker) => never,
        }
    }

    async fn look_on(&self, waker: &Waker) -> Infallible {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            match self.round().await {
                Ok(true) => waker.woken().await,
                // Whatever happens to the Node meanwhile, a failure is not tried again at once.
                Ok(false) => pace.reset_after(self.again),
                Err(failure) => {
                    warn!(reason = %failure, "node not looked at, trying again");
                    pace.reset_after(self.again);
                }
            }
        }
    }

    /// Looks once, does what is to be done, and says whether it could be.
    async fn round(&self) -> Result<bool, ApiFailure> {
        let node = NodeState::of(&ask(self.nodes.get(&self.name)).await?);
        match plan(&node) {
            None => Ok(true),
            Some(Change::Clear(change)) => Ok(change.apply(&self.nodes).await? == Changed::Made),
            Some(Change::Stage) => self.stage().await,
        }
    }

    async fn stage(&self) -> Result<bool, ApiFailure> {
        let (says, staged) = match self.stage.stage_for_next_os().await {
            Ok(staged) => {
                info!(os = staged.os, "addons for the next OS staged");
                ("true".to_owned(), true)
            }
            Err(error) => {
                let reason = chain(error.as_ref()).join(": ");
                warn!(reason, "addons for the next OS not staged");
                // Anything but yes holds the reboot; the coordinator shows it to people.
                (format!("failed: {reason}"), false)
            }
        };
        // Staging takes a while: a Node that is not asked any more is told nothing.
        let now = NodeState::of(&ask(self.nodes.get(&self.name)).await?);
        if !now.shows(BEFORE_REBOOT) {
            return Ok(true);
        }
        match NodeChange::of(&now).annotate(ADDONS_STAGED, &says).needed() {
            Some(change) => Ok(change.apply(&self.nodes).await? == Changed::Made && staged),
            None => Ok(staged),
        }
    }
}

#[cfg(test)]
mod tests;
