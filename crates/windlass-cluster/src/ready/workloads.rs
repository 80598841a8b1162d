//! Every workload of a cluster: whether each has the pods that it wants. A pod that cannot be made is in no list of pods.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::ReplicationController;
use kube::ResourceExt as _;
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use super::told;
use super::workload::{Expected, daemon_set_rolled_out, deployment_available, replication_controller_ready, stale};

/// The workloads of every namespace.
#[derive(Debug, Clone, Default)]
pub struct Workloads {
    /// Those with a pod on every node that they are for.
    pub daemon_sets: Vec<DaemonSet>,
    /// Those with so many pods.
    pub deployments: Vec<Deployment>,
    /// Those of before there were Deployments.
    pub replication_controllers: Vec<ReplicationController>,
}

impl Workloads {
    fn len(&self) -> usize {
        self.daemon_sets.len() + self.deployments.len() + self.replication_controllers.len()
    }
}

/// Whether every workload has the pods that it wants, ready and of its present form. One that wants none has them all as
/// soon as its controller has seen it.
pub fn every_workload_has_its_pods(workloads: &Workloads) -> Observation {
    let all = workloads.len();
    if all == 0 {
        return Observation::NotYet(reason!("there is no workload"));
    }
    let troubles = workload_troubles(workloads);
    if troubles.is_empty() {
        return Observation::Holds;
    }
    let well = all - troubles.len();
    Observation::NotYet(reason!("{well} of {all} workloads have their pods; {}", told(troubles)))
}

/// Why each workload that lacks pods does, with its kind and name.
pub fn workload_troubles(workloads: &Workloads) -> Vec<String> {
    let sets = workloads.daemon_sets.iter();
    let sets = sets.filter_map(|one| trouble("DaemonSet", one.namespace(), one.name_any(), of_daemon_set(one)));
    let deployments = workloads.deployments.iter();
    let deployments =
        deployments.filter_map(|one| trouble("Deployment", one.namespace(), one.name_any(), of_deployment(one)));
    let controllers = workloads.replication_controllers.iter();
    let controllers = controllers
        .filter_map(|one| trouble("ReplicationController", one.namespace(), one.name_any(), of_controller(one)));
    sets.chain(deployments).chain(controllers).collect()
}

/// A DaemonSet whose nodes are yet to come, or have gone, wants no pod.
fn of_daemon_set(set: &DaemonSet) -> Observation {
    let idle = set.status.as_ref().is_some_and(|status| {
        status.desired_number_scheduled == 0 && !stale(set.metadata.generation, status.observed_generation)
    });
    if idle { Observation::Holds } else { daemon_set_rolled_out(Some(set), Expected::Some) }
}

/// A Deployment that its user has scaled to nothing wants no pod.
fn of_deployment(deployment: &Deployment) -> Observation {
    let wants_none = deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(0);
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    match wants_none && !stale(deployment.metadata.generation, observed) {
        true => Observation::Holds,
        false => deployment_available(Some(deployment)),
    }
}

fn of_controller(controller: &ReplicationController) -> Observation {
    let wants_none = controller.spec.as_ref().and_then(|spec| spec.replicas) == Some(0);
    let observed = controller.status.as_ref().and_then(|status| status.observed_generation);
    match wants_none && !stale(controller.metadata.generation, observed) {
        true => Observation::Holds,
        false => replication_controller_ready(Some(controller)),
    }
}

fn trouble(kind: &str, namespace: Option<String>, name: String, seen: Observation) -> Option<String> {
    let namespace = namespace.as_deref().unwrap_or("default");
    match seen {
        Observation::Holds => None,
        Observation::NotYet(why) | Observation::Never(why) => Some(format!("{kind} {namespace}/{name}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{object, shown};
    use super::*;

    fn meta(name: &str) -> Value {
        json!({"name": name, "namespace": "n", "generation": 1})
    }

    fn daemon_set(desired: i32, ready: i32) -> DaemonSet {
        object(json!({"metadata": meta("set"), "status": {"observedGeneration": 1, "numberMisscheduled": 0,
            "desiredNumberScheduled": desired, "currentNumberScheduled": ready, "updatedNumberScheduled": ready,
            "numberReady": ready, "numberAvailable": ready}}))
    }

    fn deployment(want: i32, status: &Value) -> Deployment {
        object(json!({"metadata": meta("page"), "spec": {"replicas": want, "selector": {}, "template": {}},
            "status": status}))
    }

    fn controller(want: i32, status: &Value) -> ReplicationController {
        object(json!({"metadata": meta("old"), "spec": {"replicas": want}, "status": status}))
    }

    fn full(count: i32) -> Value {
        json!({"observedGeneration": 1, "replicas": count, "updatedReplicas": count, "readyReplicas": count,
            "availableReplicas": count})
    }

    fn sets(daemon_sets: Vec<DaemonSet>) -> Workloads {
        Workloads { daemon_sets, ..Workloads::default() }
    }

    fn deployments(deployments: Vec<Deployment>) -> Workloads {
        Workloads { deployments, ..Workloads::default() }
    }

    fn controllers(replication_controllers: Vec<ReplicationController>) -> Workloads {
        Workloads { replication_controllers, ..Workloads::default() }
    }

    #[test]
    fn no_workload_is_no_workload_with_its_pods() {
        assert_eq!(shown(&every_workload_has_its_pods(&Workloads::default())), "not yet: there is no workload");
    }

    #[test]
    fn a_workload_whose_pods_are_not_there_is_told_and_one_that_wants_none_is_not() {
        let refused = json!({"observedGeneration": 1, "conditions":
            [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no quota"}]});
        let rolling = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3,
            "availableReplicas": 3});
        let unseen = json!({"observedGeneration": 0});
        let mut new_set = daemon_set(0, 0);
        new_set.status = None;
        let cases = [
            (sets(vec![daemon_set(3, 3)]), None),
            (sets(vec![daemon_set(0, 0)]), None),
            (sets(vec![new_set]), Some("DaemonSet n/set: its controller has not seen it yet")),
            (sets(vec![daemon_set(3, 0)]), Some("DaemonSet n/set: 0 of 3 pods are scheduled")),
            (deployments(vec![deployment(2, &full(2))]), None),
            (deployments(vec![deployment(0, &full(0))]), None),
            (deployments(vec![deployment(0, &unseen)]), Some("Deployment n/page: its controller has not seen it yet")),
            (deployments(vec![deployment(3, &rolling)]), Some("Deployment n/page: 1 of 3 pods are updated")),
            (
                deployments(vec![deployment(2, &refused)]),
                Some("Deployment n/page: its pods cannot be made: FailedCreate: no quota"),
            ),
            (controllers(vec![controller(2, &full(2))]), None),
            (controllers(vec![controller(0, &full(0))]), None),
            (
                controllers(vec![controller(0, &Value::Null)]),
                Some("ReplicationController n/old: its controller has not seen it yet"),
            ),
            (controllers(vec![controller(2, &full(0))]), Some("ReplicationController n/old: 0 of 2 pods are made")),
        ];
        for (workloads, trouble) in cases {
            let troubles = workload_troubles(&workloads);
            assert_eq!(troubles.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(trouble));
            let want = match trouble {
                None => "holds".to_owned(),
                Some(why) => format!("not yet: 0 of 1 workloads have their pods; {why}"),
            };
            assert_eq!(shown(&every_workload_has_its_pods(&workloads)), want);
        }
    }

    #[test]
    fn one_workload_without_its_pods_spoils_the_rest() {
        let workloads = Workloads {
            daemon_sets: vec![daemon_set(3, 3)],
            deployments: vec![deployment(1, &full(1)), deployment(2, &full(1))],
            replication_controllers: vec![controller(1, &full(1))],
        };
        let want = "not yet: 3 of 4 workloads have their pods; Deployment n/page: 1 of 2 pods are updated";
        assert_eq!(shown(&every_workload_has_its_pods(&workloads)), want);
    }
}
