//! The one who lets machines reboot, one at a time (`windlass-node reboot-coordinator`). A Lease says which of several is
//! the one. It is woken by watches and decides on a fresh list, because what it saw a moment ago may be of before its
//! own last change.

mod lease;
mod plan;

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};
use windlass_cluster::access::{Access, AccessError};
use windlass_cluster::failure::ApiFailure;
use windlass_steps::interrupt::Interrupt;

use super::protocol::{Changed, NodeChange, NodeState};
use super::wake::Waker;
use crate::exit::{Exit, Failure};
use crate::follow::{ask, follow};
use lease::Lease;
pub use plan::{Observed, PodState, Program, Required, Stage, plan};

const NAMESPACE: &str = "kube-system";
/// Nothing is looked at sooner than this after the last look.
const PACE: Duration = Duration::from_millis(250);

/// Why nobody coordinates.
#[derive(Debug, Error)]
pub enum CoordinatorError {
    /// There are no usable credentials for the API.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Coordinates until SIGTERM or SIGINT.
pub async fn run(required: Required) -> Result<(), Failure> {
    coordinate(required).await.map_err(|error| {
        let next = match &error {
            CoordinatorError::ReachApi { .. } => "run it in a pod with a service account",
            CoordinatorError::HandleSignals { .. } => "start it again",
        };
        Failure::of(Exit::TryAgain, &error, next)
    })
}

async fn coordinate(required: Required) -> Result<(), CoordinatorError> {
    let interrupt = Interrupt::on_signals().map_err(|source| CoordinatorError::HandleSignals { source })?;
    let client = Access::InCluster.client().await.map_err(|source| CoordinatorError::ReachApi { source })?;
    Coordinator::new(client, required, &own_name()).serve(&interrupt).await;
    Ok(())
}

/// The pod's name, which the kubelet makes its host name; a process number tells two of one name apart.
fn own_name() -> String {
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    format!("{}_{}", host.unwrap_or_else(|_| "reboot-coordinator".to_owned()), std::process::id())
}

/// A coordinator.
pub struct Coordinator {
    nodes: Api<Node>,
    pods: Api<Pod>,
    required: Required,
    lease: Lease,
    waker: Waker,
}

impl Coordinator {
    /// One that calls itself so.
    pub fn new(client: Client, required: Required, identity: &str) -> Self {
        Coordinator {
            nodes: Api::all(client.clone()),
            pods: Api::namespaced(client.clone(), NAMESPACE),
            required,
            lease: Lease::new(client, NAMESPACE, identity),
            waker: Waker::default(),
        }
    }

    /// Coordinates until interrupted, and then lets another one at once.
    pub async fn serve(mut self, interrupt: &Interrupt) {
        info!(before = ?self.required.before, after = ?self.required.after, "reboot coordinator started");
        let (nodes, pods, waker) = (self.nodes.clone(), self.pods.clone(), self.waker.clone());
        let (all, control_plane) = (ListParams::default(), control_plane());
        tokio::select! {
            _never = follow(&nodes, &all, &waker) => {}
            _never = follow(&pods, &control_plane, &waker) => {}
            _never = self.coordinate() => {}
            () = interrupt.raised() => {}
        }
        if let Err(failure) = self.lease.release().await {
            warn!(reason = %failure, "lease not released, it will run out");
        }
        info!("reboot coordinator ended");
    }

    async fn coordinate(&mut self) -> Infallible {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_known = false;
        let mut last = String::new();
        loop {
            pace.tick().await;
            is_known &= self.lease.keep().await;
            if self.lease.is_held() && !is_known {
                match self.round().await {
                    Ok(Changed::Made) => is_known = true,
                    Ok(Changed::Overtaken) => continue,
                    Err(failure) if failure.to_string() == last => {}
                    Err(failure) => {
                        warn!(reason = %failure, "cluster not coordinated, trying again");
                        last = failure.to_string();
                    }
                }
            }
            if timeout(self.lease.due(), self.waker.woken()).await.is_ok() {
                is_known = false;
            }
        }
    }

    /// Looks once and does what is to be done.
    async fn round(&self) -> Result<Changed, ApiFailure> {
        let (all, control_plane) = (ListParams::default(), control_plane());
        let (nodes, pods) = tokio::join!(ask(self.nodes.list(&all)), ask(self.pods.list(&control_plane)));
        let observed = Observed {
            nodes: nodes?.items.iter().map(NodeState::of).collect(),
            pods: pods?.items.iter().filter_map(PodState::of).collect(),
        };
        for change in plan(&self.required, &observed) {
            // Whoever cannot renew for long has a successor, who may have decided otherwise.
            if !self.lease.is_held() || change.apply(&self.nodes).await? == Changed::Overtaken {
                return Ok(Changed::Overtaken);
            }
            told(&change);
        }
        Ok(Changed::Made)
    }
}

fn told(change: &NodeChange) {
    info!(node = change.node(), change = %change.patch(), "node changed");
}

fn control_plane() -> ListParams {
    ListParams::default().labels("k8s-app in (etcd,kube-apiserver)")
}

#[cfg(test)]
mod tests;
