//! Using a cluster as a user would: a namespace with a pod on every node, a Deployment and a Service for each; every
//! node's pod resolves and reaches them; a log is read, a port forwarded; then all of it is deleted again, also when
//! something was found wrong. What is found are statements that hold, or do not and why.
//!
//! `objects` says what is created, `act` does things in order, `talk` runs programs in pods and speaks to
//! them, `judge` decides what an answer means.

mod act;
mod finding;
mod judge;
mod objects;
mod talk;

use std::cell::RefCell;
use std::hash::{BuildHasher as _, RandomState};

use kube::Client;

use act::{PATIENCE, Trial};
pub use finding::{Finding, Tried, Unverified};

/// What a cluster is expected to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The names of its nodes; a node beyond these is not looked at.
    pub nodes: Vec<String>,
    /// The image of `windlass-node`, which every node has or can pull.
    pub image: String,
    /// The domain of its services, such as `cluster.local`.
    pub cluster_domain: String,
}

/// Tries the cluster and says what it found. Whatever fails is a finding, and what was created is deleted in any case.
///
/// A caller that drops this leaves a namespace behind, which the next trial removes. So two of them at the same
/// time are in each other's way.
pub async fn try_out(client: Client, request: &Wanted) -> Tried {
    try_and_tell(client, request, &mut |_, _| {}).await
}

/// Does the same and tells which statement waits for what, and without a reason that it holds.
pub async fn try_and_tell(client: Client, request: &Wanted, tell: &mut dyn FnMut(&str, Option<&str>)) -> Tried {
    // The name keeps no secret: a number that no other run had is all it takes.
    let namespace = objects::namespace_name(RandomState::new().hash_one("verify"));
    let trial = Trial { client, request, namespace, patience: PATIENCE, tell: RefCell::new(tell) };
    Tried { findings: trial.run().await }
}

#[cfg(test)]
mod tests;
