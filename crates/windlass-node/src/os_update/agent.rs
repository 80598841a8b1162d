//! The agent of a machine (`windlass-node update-agent`): it has the machine's update engine look for an update now and
//! then, its Node says whether the machine needs a reboot, and when the coordinator lets it, it drains and reboots it. After the boot it says so and, when the coordinator has taken its
//! word back, lets pods in again.

mod drain;
mod engine;
mod machine;
mod plan;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::{info, warn};
use windlass_cluster::access::{Access, AccessError};
use windlass_cluster::failure::ApiFailure;
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::report::chain;

use super::protocol::{Changed, NodeState};
use super::wake::Waker;
use crate::exit::{Exit, Failure};
use crate::follow::{ask, follow, named};
use crate::places::Places;
use crate::update_engine::Status;
use drain::Drain;
use engine::{Asking, listen};
pub use machine::{CountingMachine, Machine, MachineError, SystemdMachine};
pub use plan::{Change, GRACE, Observed, PodId, PodState, is_draining, plan};

/// Nothing is looked at sooner than this after the last look.
const PACE: Duration = Duration::from_millis(250);
/// A refused eviction, or anything else that failed, is tried again after this.
const AGAIN: Duration = Duration::from_secs(5);
/// A machine that is still there so long after it was told to reboot is told again.
const REBOOT_AGAIN: Duration = Duration::from_secs(180);

/// Why the machine has no agent.
#[derive(Debug, Error)]
pub enum AgentError {
    /// Nobody said which Node is the machine's.
    #[error("cannot tell which node this is")]
    NameNode,
    /// There are no usable credentials for the API.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// Nobody knows which boot this is.
    #[error("cannot tell this boot from another")]
    TellBoot {
        /// Why not.
        source: MachineError,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Keeps the machine's Node and reboots the machine when it may, until SIGTERM or SIGINT; an update is looked for as often
/// as this.
pub async fn run(places: &Places, every: Duration) -> Result<(), Failure> {
    keep(places, every).await.map_err(|error| {
        let (exit, next) = match &error {
            AgentError::NameNode => (Exit::Permanent, "set NODE_NAME to the node's name, as the pod's manifest does"),
            AgentError::ReachApi { .. } => (Exit::TryAgain, "run it in a pod with a service account"),
            AgentError::TellBoot { .. } => (Exit::TryAgain, "see that the machine's bus is mounted into the pod"),
            AgentError::HandleSignals { .. } => (Exit::TryAgain, "start it again"),
        };
        Failure::of(exit, &error, next)
    })
}

async fn keep(places: &Places, every: Duration) -> Result<(), AgentError> {
    let node = crate::checkpoint::node_name().ok_or(AgentError::NameNode)?;
    let interrupt = Interrupt::on_signals().map_err(|source| AgentError::HandleSignals { source })?;
    let client = Access::InCluster.client().await.map_err(|source| AgentError::ReachApi { source })?;
    let socket = places.system_bus();
    let engine = watch::Sender::new(None);
    let seen = engine.subscribe();
    let agent = Agent::start(client, &node, SystemdMachine::behind(&socket), Arc::new(SystemClock::new())).await?;
    let mut asking = Asking::from_now(&node, every);
    tokio::select! {
        _never = listen(&socket, &engine, &mut asking) => {}
        _never = agent.serve(seen) => {}
        () = interrupt.raised() => {}
    }
    info!("update agent ended");
    Ok(())
}

/// An agent.
pub struct Agent<M> {
    client: Client,
    nodes: Api<Node>,
    name: String,
    boot: String,
    machine: M,
    drain: Drain,
    clock: Arc<dyn Clock>,
    told_to_reboot: Option<Instant>,
    again: Duration,
}

impl<M: Machine> Agent<M> {
    /// Learns which boot this is.
    pub async fn start(client: Client, node: &str, machine: M, clock: Arc<dyn Clock>) -> Result<Self, AgentError> {
        let boot = machine.boot().await.map_err(|source| AgentError::TellBoot { source })?;
        info!(node, boot, "update agent started");
        let drain = Drain::new(client.clone(), node);
        let nodes = Api::all(client.clone());
        let name = node.to_owned();
        Ok(Agent { client, nodes, name, boot, machine, drain, clock, told_to_reboot: None, again: AGAIN })
    }

    /// Keeps the Node for ever, by what the engine shows.
    pub async fn serve(mut self, engine: watch::Receiver<Option<Status>>) -> Infallible {
        let waker = Waker::default();
        let (nodes, own) = (self.nodes.clone(), named(&self.name));
        let (pods, here): (Api<Pod>, _) = (Api::all(self.client.clone()), drain::on(&self.name));
        let mut heard = engine.clone();
        let hearing = async {
            while heard.changed().await.is_ok() {
                waker.wake();
            }
            std::future::pending().await
        };
        let draining = watch::Sender::new(false);
        // Pods are followed only while they have to go.
        let mut is_draining = draining.subscribe();
        let watching = async {
            loop {
                // The sender lives as long as this does.
                let _ = is_draining.wait_for(|yes| *yes).await;
                tokio::select! {
                    never = follow(&pods, &here, &waker) => break never,
                    _ = is_draining.wait_for(|yes| !*yes) => {}
                }
            }
        };
        tokio::select! {
            never = follow(&nodes, &own, &waker) => never,
            never = hearing => never,
            never = watching => never,
            never = self.look_on(&waker, &engine, &draining) => never,
        }
    }

    async fn look_on(
        &mut self,
        waker: &Waker,
        engine: &watch::Receiver<Option<Status>>,
        draining: &watch::Sender<bool>,
    ) -> Infallible {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = String::new();
        loop {
            pace.tick().await;
            let status = engine.borrow().clone();
            let wait = match self.round(status).await {
                Ok(Round { settled, drains }) => {
                    draining.send_replace(drains);
                    (!settled || drains).then_some(self.again)
                }
                Err(failure) => {
                    let reason = failure.to_string();
                    if reason != last {
                        warn!(reason, "node not kept, trying again");
                        last = reason;
                    }
                    Some(self.again)
                }
            };
            match wait {
                Some(limit) => drop(timeout(limit, waker.woken()).await),
                None => waker.woken().await,
            }
        }
    }

    /// Looks once and does what is to be done.
    async fn round(&mut self, engine: Option<Status>) -> Result<Round, ApiFailure> {
        let node = NodeState::of(&ask(self.nodes.get(&self.name)).await?);
        let drains = is_draining(&node, &self.boot);
        let pods = match drains {
            true => Some(self.drain.look(self.clock.as_ref()).await?),
            false => None,
        };
        let mut settled = true;
        for change in plan(&Observed { node, boot: self.boot.clone(), engine, pods }) {
            match change {
                Change::Node(change) => {
                    // The change of a Node itself wakes; one that came too late is looked at again.
                    match change.apply(&self.nodes).await? {
                        Changed::Made => info!(node = self.name, change = %change.patch(), "node changed"),
                        Changed::Overtaken => settled = false,
                    }
                }
                Change::Evict(pod) => self.drain.evict(&pod).await,
                Change::Reboot => self.reboot().await,
            }
        }
        Ok(Round { settled, drains })
    }

    async fn reboot(&mut self) {
        if self.told_to_reboot.is_some_and(|at| at.elapsed() < REBOOT_AGAIN) {
            return;
        }
        match self.machine.reboot().await {
            Ok(()) => {
                info!(node = self.name, "machine reboots");
                self.told_to_reboot = Some(Instant::now());
            }
            Err(error) => warn!(reason = chain(&error).join(": "), "machine does not reboot, trying again"),
        }
    }
}

/// What one look led to.
struct Round {
    /// Whether everything could be done.
    settled: bool,
    /// Whether pods have to go.
    drains: bool,
}

#[cfg(test)]
mod tests;
