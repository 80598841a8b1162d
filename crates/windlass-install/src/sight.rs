//! What launch sees of the cluster that comes into being: what the units of its machines say, what stands behind the
//! balancer, and what the API shows. [`Watcher`] is the real one; [`FakeSight`] shows what it is told to.

mod double;
mod record;
mod watcher;

pub use double::FakeSight;
pub use record::{Attempt, Ending, Record, Records, StageLine, UnitState, UnmetLine};
pub use watcher::Watcher;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use windlass_cluster::ready::Workloads;
use windlass_platform::Backend;
use windlass_steps::criterion::LookError;

use crate::trial::{Tried, Wanted};

/// How long whoever asks for a whole picture waits for one part of it.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// A look that ends: an API server without etcd holds a request for a minute, and its client has no limit of its own.
pub(crate) async fn in_time<T>(look: impl Future<Output = Result<T, LookError>>) -> Result<T, LookError> {
    match tokio::time::timeout(LOOK_LIMIT, look).await {
        Ok(seen) => seen,
        Err(_) => Err(format!("no answer within {} s", LOOK_LIMIT.as_secs()).into()),
    }
}

/// Looks at a cluster from this host.
#[expect(async_fn_in_trait, reason = "looks are awaited by the flow that asks, never spawned")]
pub trait Sight {
    /// What the units of a machine say about themselves.
    async fn records(&self, machine: &str) -> Result<Records, LookError>;
    /// What is wrong with a machine that its units do not say.
    async fn health(&self, machine: &str) -> Result<Vec<UnmetLine>, LookError>;
    /// What the balancer thinks of each machine behind it.
    async fn backends(&self) -> Result<Vec<Backend>, LookError>;
    /// The API's own word that it is ready, asked as a user asks.
    async fn api_ready(&self) -> Result<(), LookError>;
    /// Every node.
    async fn nodes(&self) -> Result<Vec<Node>, LookError>;
    /// Every pod.
    async fn pods(&self) -> Result<Vec<Pod>, LookError>;
    /// Every workload.
    async fn workloads(&self) -> Result<Workloads, LookError>;
    /// Every add-on.
    async fn addons(&self) -> Result<Vec<DynamicObject>, LookError>;
    /// What comes of using the cluster as a user would; this is the one look that makes something, and removes it again.
    async fn try_out(&self, expected: &Wanted) -> Result<Tried, LookError>;
}
