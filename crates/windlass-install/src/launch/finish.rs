//! The last steps: every machine is a node, every add-on is done, and the cluster is used as a user would.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_cluster::ready;
use windlass_platform::{MachineState, Order, Platform};
use windlass_steps::criterion::Criterion;
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::resources::settled;
use super::retire::Retired;
use crate::sight::Sight;
use crate::verify;

/// Waits until every machine is a node that is Ready.
pub struct JoinWorkers<'a, P, S> {
    /// That the cluster stands on its own.
    pub retired: &'a Retired,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// Every machine is a node.
#[derive(Debug, Serialize, Deserialize)]
pub struct Joined {
    nodes: Vec<String>,
}

impl<P: Platform, S: Sight> Step for JoinWorkers<'_, P, S> {
    const NAME: StepName = StepName::new("join-workers");
    const SUMMARY: &'static str = "wait until every machine is a node that is Ready";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = Joined;

    async fn run(&self) -> Result<Joined, StepError> {
        Ok(Joined { nodes: self.order.machines().iter().map(|machine| machine.name.to_string()).collect() })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Joined) -> Vec<Criterion<'a>> {
        let machines = Criterion::new("every machine runs", || async {
            let machines = self.platform.machines().await?;
            let idle = machines.iter().filter(|machine| machine.state != MachineState::Running);
            let idle = idle.map(|machine| format!("{} {}", machine.name, machine.state)).collect();
            Ok(settled(machines.len(), idle, "machines run"))
        });
        let nodes = Criterion::new("every node is Ready", || async {
            Ok(ready::nodes_ready(&self.sight.nodes().await?, &done.nodes))
        });
        vec![machines, nodes]
    }
}

/// Waits until every add-on is done, every pod is ready and every workload has its pods.
pub struct SettleAddons<'a, S> {
    /// The nodes that they run on.
    pub joined: &'a Joined,
    /// What is seen of them.
    pub sight: &'a S,
}

/// Every add-on is done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settled {}

impl<S: Sight> Step for SettleAddons<'_, S> {
    const NAME: StepName = StepName::new("settle-addons");
    const SUMMARY: &'static str = "wait until every add-on is done, every pod is ready and every workload has its pods";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = Settled;

    async fn run(&self) -> Result<Settled, StepError> {
        Ok(Settled {})
    }

    fn exit_criteria<'a>(&'a self, _: &'a Settled) -> Vec<Criterion<'a>> {
        vec![verify::addons(self.sight), verify::pods(self.sight), verify::workloads(self.sight)]
    }
}

/// Uses the cluster as a user would.
pub struct VerifyCluster<'a, S> {
    /// That everything is in place.
    pub settled: &'a Settled,
    /// What was asked for.
    pub order: Order<'a>,
    /// What is seen of the cluster.
    pub sight: &'a S,
}

/// The cluster is ready for its user.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    nodes: Vec<String>,
}

impl Ready {
    /// The machines that are nodes.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }
}

impl<S: Sight> Step for VerifyCluster<'_, S> {
    const NAME: StepName = StepName::new("verify");
    const SUMMARY: &'static str = "use the cluster as a user would";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = Ready;

    async fn run(&self) -> Result<Ready, StepError> {
        let expected = verify::expected(self.order.spec);
        let tried = self.sight.try_out(&expected).await.attempt("use the cluster as a user would")?;
        tried.into_result().attempt("use the cluster as a user would")?;
        Ok(Ready { nodes: expected.nodes })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Ready) -> Vec<Criterion<'a>> {
        verify::criteria(self.sight, &done.nodes)
    }
}
