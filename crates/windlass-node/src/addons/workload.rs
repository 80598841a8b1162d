//! What add-ons are made of, and whether it has rolled out.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, ReplicationController};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_cluster::ready::{Expected, daemon_set_rolled_out, deployment_available, replication_controller_ready};
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

/// An add-on and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Addon {
    pub name: String,
    pub workloads: Vec<Workload>,
}

/// Something that runs pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workload {
    pub kind: WorkloadKind,
    pub namespace: String,
    pub name: String,
}

/// The kinds of workload that an add-on may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WorkloadKind {
    DaemonSet,
    Deployment,
    /// As add-ons were written before there were Deployments.
    ReplicationController,
}

/// What the API shows at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub daemon_sets: Vec<DaemonSet>,
    pub deployments: Vec<Deployment>,
    pub replication_controllers: Vec<ReplicationController>,
    pub nodes: Vec<Node>,
    /// The `Addon` objects.
    pub objects: Vec<DynamicObject>,
}

impl Snapshot {
    /// An add-on's object.
    pub(super) fn object(&self, name: &str) -> Option<&DynamicObject> {
        self.objects.iter().find(|object| object.name_any() == name)
    }
}

/// The add-ons among these objects.
pub(super) fn addons(objects: &[Value]) -> Result<Vec<Addon>, serde_json::Error> {
    let is_addon = |object: &&Value| object["kind"] == "Addon" && object["apiVersion"] == "windlass.dev/v1alpha1";
    let read = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(Addon { name, workloads: serde_json::from_value(object["spec"]["workloads"].clone())? })
    };
    objects.iter().filter(is_addon).map(read).collect()
}

/// Whether all of an add-on has rolled out.
pub(super) fn judge(addon: &Addon, snapshot: &Snapshot) -> Observation {
    let lost = snapshot.nodes.iter().filter(|node| is_lost(node)).count();
    let mut trouble = Vec::new();
    for workload in &addon.workloads {
        let is_it = |namespace: Option<String>, name: String| {
            namespace.as_deref() == Some(&workload.namespace) && name == workload.name
        };
        let seen = match workload.kind {
            WorkloadKind::DaemonSet => {
                let set = snapshot.daemon_sets.iter().find(|set| is_it(set.namespace(), set.name_any()));
                match set.is_some_and(|set| waits_for_its_label(set, &snapshot.nodes)) {
                    true => Observation::Holds,
                    false => rolled_out(set, lost),
                }
            }
            WorkloadKind::Deployment => {
                deployment_available(snapshot.deployments.iter().find(|one| is_it(one.namespace(), one.name_any())))
            }
            WorkloadKind::ReplicationController => {
                let mut all = snapshot.replication_controllers.iter();
                replication_controller_ready(all.find(|one| is_it(one.namespace(), one.name_any())))
            }
        };
        if let Observation::NotYet(why) | Observation::Never(why) = seen {
            trouble.push(format!("{:?} {}/{}: {why}", workload.kind, workload.namespace, workload.name));
        }
    }
    match (addon.workloads.is_empty(), trouble.is_empty()) {
        (true, _) => Observation::NotYet(reason!("it names no workload")),
        (false, true) => Observation::Holds,
        (false, false) => Observation::NotYet(reason!("{}", trouble.join("; "))),
    }
}

/// Whether a DaemonSet is for nodes with a label that none has for now, as what runs only before a reboot. There are nodes,
/// and its controller has looked at them: absent is not ready.
fn waits_for_its_label(set: &DaemonSet, nodes: &[Node]) -> bool {
    let pod = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let Some(selector) = pod.and_then(|pod| pod.node_selector.as_ref()) else { return false };
    let is_chosen = |node: &Node| {
        let labels = node.labels();
        selector.iter().all(|(name, value)| labels.get(name) == Some(value))
    };
    let seen = set.status.as_ref().is_some_and(|status| {
        let is_current = status.observed_generation.unwrap_or(0) >= set.metadata.generation.unwrap_or(1);
        is_current && status.desired_number_scheduled == 0
    });
    seen && !nodes.is_empty() && !nodes.iter().any(is_chosen)
}

/// A DaemonSet is rolled out on the nodes that are there: those that nobody hears of any more cannot run it.
fn rolled_out(set: Option<&DaemonSet>, lost: usize) -> Observation {
    match daemon_set_rolled_out(set, Expected::Some) {
        Observation::NotYet(_) if set.is_some_and(|set| lacks_only_the_lost(set, lost)) => Observation::Holds,
        seen => seen,
    }
}

fn lacks_only_the_lost(set: &DaemonSet, lost: usize) -> bool {
    let Some(status) = &set.status else { return false };
    let is_current = status.observed_generation.unwrap_or(0) >= set.metadata.generation.unwrap_or(1);
    let running =
        status.number_ready.min(status.updated_number_scheduled.unwrap_or(0)).min(status.number_available.unwrap_or(0));
    let missing = status.desired_number_scheduled.saturating_sub(running);
    is_current && running > 0 && usize::try_from(missing).is_ok_and(|missing| missing <= lost)
}

/// Whether nobody hears of a node any more. One that says itself that it is not ready is not lost.
fn is_lost(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(ready: &str) -> Node {
        serde_json::from_value(json!({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
    }

    fn daemon_set(observed: i64, desired: i32, running: i32) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "kube-proxy", "namespace": "kube-system", "generation": 2},
            "status": {"observedGeneration": observed, "desiredNumberScheduled": desired, "numberMisscheduled": 0,
                       "currentNumberScheduled": desired, "updatedNumberScheduled": running, "numberReady": running,
                       "numberAvailable": running},
        }))
        .unwrap()
    }

    #[test]
    fn a_daemon_set_runs_on_the_nodes_that_are_there() {
        let cases = [
            (Some((2, 5, 5)), 0, true),
            (Some((2, 5, 4)), 0, false),
            (Some((2, 5, 4)), 1, true),
            (Some((2, 5, 3)), 1, false),
            (Some((1, 5, 4)), 1, false),
            (Some((2, 1, 0)), 1, false),
            (Some((2, 0, 0)), 0, false),
            (None, 5, false),
        ];
        for (set, lost, done) in cases {
            let set = set.map(|(observed, desired, running)| daemon_set(observed, desired, running));
            assert_eq!(rolled_out(set.as_ref(), lost) == Observation::Holds, done, "{set:?} {lost}");
        }
    }

    #[test]
    fn a_daemon_set_for_a_label_that_no_node_has_is_done() {
        let selecting = |observed: i64, desired: i32| {
            let mut set = daemon_set(observed, desired, 0);
            let mut spec = json!({"selector": {}, "template": {"spec": {"containers": []}}});
            spec["template"]["spec"]["nodeSelector"] = json!({"before": "true"});
            set.spec = Some(serde_json::from_value(spec).unwrap());
            set
        };
        let labelled = |value: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"before": value}}})).unwrap()
        };
        let cases = [
            ("no node has it", selecting(2, 0), vec![node("True")], true),
            ("no node has its value", selecting(2, 0), vec![labelled("false")], true),
            ("a node has it", selecting(2, 0), vec![node("True"), labelled("true")], false),
            ("a pod is wanted", selecting(2, 1), vec![node("True")], false),
            ("its controller has not looked", selecting(1, 0), vec![node("True")], false),
            ("there is no node", selecting(2, 0), vec![], false),
            ("it is for every node", daemon_set(2, 0, 0), vec![node("True")], false),
        ];
        for (name, set, nodes, done) in cases {
            assert_eq!(waits_for_its_label(&set, &nodes), done, "{name}");
            let workload = json!([{"kind": "DaemonSet", "namespace": "kube-system", "name": "kube-proxy"}]);
            let addon = Addon { name: "hook".to_owned(), workloads: serde_json::from_value(workload).unwrap() };
            let snapshot = Snapshot { daemon_sets: vec![set], nodes, ..Snapshot::default() };
            assert_eq!(judge(&addon, &snapshot) == Observation::Holds, done, "{name}");
        }
    }

    #[test]
    fn a_node_is_lost_when_nobody_hears_of_it() {
        for (ready, lost) in [("True", false), ("False", false), ("Unknown", true)] {
            assert_eq!(is_lost(&node(ready)), lost, "{ready}");
        }
        assert!(!is_lost(&Node::default()));
    }

    #[test]
    fn every_workload_of_an_add_on_counts() {
        let addon = |body: Value| {
            addons(&[json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Addon", "metadata": {"name": "net"}, "spec": {"workloads": body}})]).map(|mut all| all.remove(0))
        };
        let proxy = json!({"kind": "DaemonSet", "namespace": "kube-system", "name": "kube-proxy"});
        let page = json!({"kind": "Deployment", "namespace": "kube-system", "name": "page"});
        let snapshot = Snapshot { daemon_sets: vec![daemon_set(2, 1, 1)], ..Snapshot::default() };
        let both = addon(json!([proxy, page])).unwrap();
        let Observation::NotYet(why) = judge(&both, &snapshot) else { panic!("a missing workload counts") };
        assert_eq!(why.text(), "Deployment kube-system/page: it is not there");
        assert_eq!(judge(&addon(json!([proxy])).unwrap(), &snapshot), Observation::Holds);
        assert_ne!(judge(&addon(json!([])).unwrap(), &snapshot), Observation::Holds);
        let old = addon(json!([{"kind": "ReplicationController", "namespace": "kube-system", "name": "old"}])).unwrap();
        let Observation::NotYet(why) = judge(&old, &snapshot) else { panic!("a missing workload counts") };
        assert_eq!(why.text(), "ReplicationController kube-system/old: it is not there");
        for (ready, done) in [(1, false), (2, true)] {
            let controller = json!({"metadata": {"name": "old", "namespace": "kube-system", "generation": 1},
                "spec": {"replicas": 2}, "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": ready}});
            let replication_controllers = vec![serde_json::from_value(controller).unwrap()];
            let snapshot = Snapshot { replication_controllers, ..Snapshot::default() };
            assert_eq!(judge(&old, &snapshot) == Observation::Holds, done, "{ready} of 2");
        }
        assert!(addon(json!([{"kind": "Job", "namespace": "a", "name": "b"}])).is_err());
        assert_eq!(addons(&[json!({"apiVersion": "other/v1", "kind": "Addon"})]).unwrap(), []);
    }
}
