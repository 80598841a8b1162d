//! What becomes of Nodes: a master's gets its label, which a kubelet may not set itself, and the tokens of a machine whose
//! Node is there have done their work: it has its config and its certificates. The config token is burnt here too because the
//! machine's own acknowledgement may never have been heard: between the two machine-config servers there is none.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tracing::info;
use windlass_cluster::failure::ApiFailure;
use windlass_spec::complete::Machine;
use windlass_spec::file::Role;

use super::burnt::{Burnt, State};
use super::expected::Roster;
use crate::follow::{Reader, Seen, ask, follow};
use crate::machine_token::Purpose;

/// What says that a Node is a master's.
pub(super) const LABEL: &str = "node-role.kubernetes.io/control-plane";

/// Keeps the Nodes of expected machines.
pub(super) struct Keeper {
    nodes: Api<Node>,
    roster: Arc<Roster>,
    burnt: Arc<Burnt>,
}

impl Keeper {
    pub(super) fn new(client: Client, roster: Arc<Roster>, burnt: Arc<Burnt>) -> Self {
        Keeper { nodes: Api::all(client), roster, burnt }
    }

    /// Follows all Nodes.
    pub(super) async fn follow(&self) -> Infallible {
        follow(&self.nodes, &ListParams::default(), self).await
    }

    async fn keep(&self, node: &Node) -> Result<(), ApiFailure> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let expected = self.roster.now();
        let Some(machine) = expected.machine(name) else { return Ok(()) };
        if lacks_label(machine, node) {
            let label = json!({ "metadata": { "labels": { LABEL: "" } } });
            ask(self.nodes.patch(name, &PatchParams::default(), &Patch::Merge(&label))).await?;
            info!(machine = name, "master labelled");
        }
        for purpose in [Purpose::Join, Purpose::Config] {
            match self.burnt.state(purpose, &machine.name) {
                State::Burnt => {}
                // Also when the list is not known yet: a token is better burnt twice than not at all.
                State::Good | State::Unknown => self.burnt.burn(purpose, &machine.name).await?,
            }
        }
        Ok(())
    }
}

impl Reader<Node> for Keeper {
    async fn read(&self, seen: Seen<Node>) -> Result<(), ApiFailure> {
        let nodes = match seen {
            Seen::All(nodes) => nodes,
            Seen::One(node) => vec![node],
            Seen::Gone => Vec::new(),
        };
        // One that fails does not hold the others up.
        let mut told = Ok(());
        for node in nodes {
            told = self.keep(&node).await.and(told);
        }
        told
    }
}

fn lacks_label(machine: &Machine, node: &Node) -> bool {
    let labelled = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL));
    machine.role == Role::Master && !labelled
}
