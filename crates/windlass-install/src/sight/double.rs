//! A double that shows a cluster as it is told to be, at first one that has come up whole.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_cluster::ready::Workloads;
use windlass_platform::{BOOTSTRAP, Backend};
use windlass_spec::CompleteSpec;
use windlass_spec::complete::machines;
use windlass_spec::file::Role;
use windlass_steps::criterion::LookError;

use super::{Record, Records, Sight, UnitState, UnmetLine};
use crate::trial::{Finding, Tried, Wanted};

/// Shows what it is told to.
#[derive(Debug)]
pub struct FakeSight {
    shown: Mutex<Shown>,
}

/// What is shown; tests change it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The records of each machine; one that is not here cannot be asked.
    pub records: BTreeMap<String, Records>,
    /// What is wrong with each machine.
    pub health: BTreeMap<String, Vec<UnmetLine>>,
    /// What stands behind the balancer.
    pub backends: Vec<Backend>,
    /// Every node.
    pub nodes: Vec<Node>,
    /// Every pod.
    pub pods: Vec<Pod>,
    /// Every workload.
    pub workloads: Workloads,
    /// Every add-on.
    pub addons: Vec<DynamicObject>,
    /// Why the API does not answer, if it does not.
    pub silence: Option<String>,
    /// Whether whoever asks anything waits for ever.
    pub hangs: bool,
}

impl FakeSight {
    /// A cluster of this spec that has come up whole.
    pub fn whole(spec: &CompleteSpec) -> Self {
        let machines = machines(spec);
        let masters = machines.iter().filter(|machine| machine.role == Role::Master);
        let up = |name: &str| [6443, 22623].map(|port| Backend { machine: name.to_owned(), port, trouble: None });
        let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        let shown = Shown {
            records: [(BOOTSTRAP.to_owned(), finished())].into(),
            health: BTreeMap::new(),
            backends: masters.flat_map(|machine| up(machine.name.as_str())).collect(),
            nodes: names.iter().map(|name| ready_node(name)).collect(),
            pods: names.iter().map(|name| ready_pod(name)).collect(),
            workloads: Workloads { daemon_sets: vec![full_daemon_set(names.len())], ..Workloads::default() },
            addons: vec![done_addon("network")],
            silence: None,
            hangs: false,
        };
        FakeSight { shown: Mutex::new(shown) }
    }

    /// Changes what is shown.
    pub fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.lock());
    }

    /// Lets a question through, or holds it for ever.
    async fn heard(&self) {
        let hangs = self.lock().hangs;
        if hangs {
            std::future::pending::<()>().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self) -> Result<MutexGuard<'_, Shown>, LookError> {
        let shown = self.lock();
        match &shown.silence {
            Some(reason) => Err(reason.clone().into()),
            None => Ok(shown),
        }
    }
}

/// The records of a bootstrap machine that has done everything.
fn finished() -> Records {
    let units = ["bootstrap", "bootstrap-assets", "machine-config-server", "etcd-signer", "bootkube", "addons"];
    let record = |unit: &str| (unit.to_owned(), Record::at(UnitState::Done, "done"));
    units.map(record).into()
}

fn ready_node(name: &str) -> Node {
    of(json!({ "metadata": { "name": name }, "status": { "conditions": [ready()] } }))
}

fn ready_pod(node: &str) -> Pod {
    of(json!({
        "metadata": { "name": format!("kube-proxy-{node}"), "namespace": "kube-system" },
        "spec": { "nodeName": node, "containers": [] },
        "status": { "phase": "Running", "conditions": [ready()] },
    }))
}

/// One with a pod on each of so many nodes.
fn full_daemon_set(nodes: usize) -> DaemonSet {
    of(json!({
        "metadata": { "name": "kube-proxy", "namespace": "kube-system", "generation": 1 },
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes,
            "numberMisscheduled": 0, "updatedNumberScheduled": nodes, "numberReady": nodes, "numberAvailable": nodes,
        },
    }))
}

fn done_addon(name: &str) -> DynamicObject {
    let condition = json!({ "type": "Done", "status": "True" });
    of(json!({ "metadata": { "name": name }, "status": { "conditions": [condition] } }))
}

fn ready() -> Value {
    json!({ "type": "Ready", "status": "True" })
}

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the double's objects have the form of the API's")
}

impl Sight for FakeSight {
    async fn records(&self, machine: &str) -> Result<Records, LookError> {
        self.heard().await;
        let found = self.lock().records.get(machine).cloned();
        found.ok_or_else(|| format!("{machine} cannot be asked").into())
    }

    async fn health(&self, machine: &str) -> Result<Vec<UnmetLine>, LookError> {
        self.heard().await;
        Ok(self.lock().health.get(machine).cloned().unwrap_or_default())
    }

    async fn backends(&self) -> Result<Vec<Backend>, LookError> {
        self.heard().await;
        Ok(self.lock().backends.clone())
    }

    async fn api_ready(&self) -> Result<(), LookError> {
        self.heard().await;
        self.api().map(drop)
    }

    async fn nodes(&self) -> Result<Vec<Node>, LookError> {
        self.heard().await;
        self.api().map(|shown| shown.nodes.clone())
    }

    async fn pods(&self) -> Result<Vec<Pod>, LookError> {
        self.heard().await;
        self.api().map(|shown| shown.pods.clone())
    }

    async fn workloads(&self) -> Result<Workloads, LookError> {
        self.heard().await;
        self.api().map(|shown| shown.workloads.clone())
    }

    async fn addons(&self) -> Result<Vec<DynamicObject>, LookError> {
        self.heard().await;
        self.api().map(|shown| shown.addons.clone())
    }

    async fn try_out(&self, expected: &Wanted) -> Result<Tried, LookError> {
        self.heard().await;
        let finding = |node: &String| {
            let statement = format!("{node} reaches a service");
            Finding { statement, reason: self.lock().silence.clone(), took: Duration::ZERO }
        };
        Ok(Tried { findings: expected.nodes.iter().map(finding).collect() })
    }
}
