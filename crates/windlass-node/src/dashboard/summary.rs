//! All that the page shows, as data; `/api/v1/summary` is this.

use serde::Serialize;

use super::table::Section;
use super::view::{AddonRow, EventRow, NodeRow, PodRow, WorkloadRow};

/// The cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// When it was read, RFC 3339 in UTC.
    pub time: String,
    /// What the API says about itself.
    pub api: Api,
    /// The nodes.
    pub nodes: Section<NodeRow>,
    /// The add-ons.
    pub addons: Section<AddonRow>,
    /// What keeps pods running, by kind.
    pub workloads: Workloads,
    /// The pods that are not ready.
    pub pods: Section<PodRow>,
    /// The newest events.
    pub events: Section<EventRow>,
}

/// The API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Api {
    /// It answers.
    Answers {
        /// Its version.
        version: String,
    },
    /// It does not, or not to us.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What keeps pods running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workloads {
    /// `apps/v1` `Deployment`.
    pub deployments: Section<WorkloadRow>,
    /// `apps/v1` `DaemonSet`.
    pub daemon_sets: Section<WorkloadRow>,
    /// `apps/v1` `StatefulSet`.
    pub stateful_sets: Section<WorkloadRow>,
    /// `v1` `ReplicationController`.
    pub replication_controllers: Section<WorkloadRow>,
}

impl Workloads {
    /// Each kind with its section, in the order of the page.
    pub fn kinds(&self) -> [(&'static str, &Section<WorkloadRow>); 4] {
        [
            ("Deployments", &self.deployments),
            ("Daemon sets", &self.daemon_sets),
            ("Stateful sets", &self.stateful_sets),
            ("Replication controllers", &self.replication_controllers),
        ]
    }
}
