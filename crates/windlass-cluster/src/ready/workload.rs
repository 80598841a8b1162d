//! Workloads: what their controllers have seen, made and found ready.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::ReplicationController;
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use super::said;

/// How many pods there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// As many as the controller wants, and at least one.
    Some,
    /// So many, whatever the controller wants for now.
    Exactly(u32),
}

/// Whether a DaemonSet runs its present form everywhere.
pub fn daemon_set_rolled_out(set: Option<&DaemonSet>, expected: Expected) -> Observation {
    let Some(set) = set else { return absent() };
    let Some(status) = &set.status else { return unseen() };
    if stale(set.metadata.generation, status.observed_generation) {
        return unseen();
    }
    let desired = status.desired_number_scheduled;
    match expected {
        Expected::Some if desired <= 0 => return Observation::NotYet(reason!("it wants no pod anywhere yet")),
        Expected::Exactly(want) if i64::from(want) != i64::from(desired) => {
            return Observation::NotYet(reason!("it wants {desired} pods, {want} are expected"));
        }
        Expected::Exactly(0) => return Observation::NotYet(reason!("no pod is expected")),
        Expected::Some | Expected::Exactly(_) => {}
    }
    let updated = if is_updated_by_hand(set) { Some(desired) } else { status.updated_number_scheduled };
    counted(&[
        ("scheduled", Some(status.current_number_scheduled), desired),
        ("updated", updated, desired),
        ("ready", Some(status.number_ready), desired),
        ("available", status.number_available, desired),
    ])
}

/// Whether a Deployment has all its pods, of its present form and available.
pub fn deployment_available(deployment: Option<&Deployment>) -> Observation {
    let Some(deployment) = deployment else { return absent() };
    let Some(status) = &deployment.status else { return unseen() };
    if stale(deployment.metadata.generation, status.observed_generation) {
        return unseen();
    }
    let want = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    if want <= 0 {
        return Observation::NotYet(reason!("it wants no pod"));
    }
    let mut conditions = status.conditions.iter().flatten();
    if let Some(failed) = conditions.find(|c| c.type_ == "ReplicaFailure" && c.status == "True") {
        return not_made(failed.reason.as_deref(), failed.message.as_deref());
    }
    match counted(&[
        ("updated", status.updated_replicas, want),
        ("ready", status.ready_replicas, want),
        ("available", status.available_replicas, want),
    ]) {
        Observation::Holds if status.replicas.unwrap_or(0) > want => {
            Observation::NotYet(reason!("pods of an earlier form are still there"))
        }
        seen => seen,
    }
}

/// Whether a ReplicationController has all its pods, ready.
pub fn replication_controller_ready(controller: Option<&ReplicationController>) -> Observation {
    let Some(controller) = controller else { return absent() };
    let Some(status) = &controller.status else { return unseen() };
    if stale(controller.metadata.generation, status.observed_generation) {
        return unseen();
    }
    let want = controller.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    if want <= 0 {
        return Observation::NotYet(reason!("it wants no pod"));
    }
    let mut conditions = status.conditions.iter().flatten();
    if let Some(failed) = conditions.find(|c| c.type_ == "ReplicaFailure" && c.status == "True") {
        return not_made(failed.reason.as_deref(), failed.message.as_deref());
    }
    counted(&[("made", Some(status.replicas), want), ("ready", status.ready_replicas, want)])
}

fn absent() -> Observation {
    Observation::NotYet(reason!("it is not there"))
}

fn unseen() -> Observation {
    Observation::NotYet(reason!("its controller has not seen it yet"))
}

fn not_made(reason: Option<&str>, message: Option<&str>) -> Observation {
    let why = said(reason, message).unwrap_or_default();
    Observation::NotYet(reason!("its pods cannot be made: {why}"))
}

/// Whether pods keep their earlier form until somebody deletes them, whenever that may be.
fn is_updated_by_hand(set: &DaemonSet) -> bool {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
}

/// Whether the controller speaks of an older form than the one that is written down.
pub(super) fn stale(generation: Option<i64>, observed: Option<i64>) -> bool {
    observed.unwrap_or(0) < generation.unwrap_or(1)
}

/// The first count that is too small is the reason.
fn counted(counts: &[(&str, Option<i32>, i32)]) -> Observation {
    for (what, count, want) in counts {
        let count = count.unwrap_or(0);
        if count < *want {
            return Observation::NotYet(reason!("{count} of {want} pods are {what}"));
        }
    }
    Observation::Holds
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{object, shown};
    use super::*;

    const NOT_THERE: &str = "not yet: it is not there";
    const NOT_SEEN: &str = "not yet: its controller has not seen it yet";

    #[test]
    fn an_absent_workload_is_not_ready() {
        assert_eq!(shown(&daemon_set_rolled_out(None, Expected::Some)), NOT_THERE);
        assert_eq!(shown(&daemon_set_rolled_out(None, Expected::Exactly(0))), NOT_THERE);
        assert_eq!(shown(&deployment_available(None)), NOT_THERE);
        assert_eq!(shown(&replication_controller_ready(None)), NOT_THERE);
    }

    #[test]
    fn a_daemon_set_is_rolled_out_when_all_of_its_counts_are_full() {
        let full = |ready: i32, updated: Value, available: Value| {
            json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
                   "numberMisscheduled": 0, "numberReady": ready, "updatedNumberScheduled": updated,
                   "numberAvailable": available})
        };
        let none = json!({"observedGeneration": 2, "desiredNumberScheduled": 0, "currentNumberScheduled": 0,
                          "numberMisscheduled": 0, "numberReady": 0});
        let mut old = full(3, json!(3), json!(3));
        old["observedGeneration"] = json!(1);
        let cases = [
            (Value::Null, Expected::Some, NOT_SEEN),
            (old, Expected::Some, NOT_SEEN),
            (none.clone(), Expected::Some, "not yet: it wants no pod anywhere yet"),
            (none.clone(), Expected::Exactly(3), "not yet: it wants 0 pods, 3 are expected"),
            (none, Expected::Exactly(0), "not yet: no pod is expected"),
            (full(3, json!(3), json!(3)), Expected::Some, "holds"),
            (full(3, json!(3), json!(3)), Expected::Exactly(3), "holds"),
            (full(3, json!(3), json!(3)), Expected::Exactly(5), "not yet: it wants 3 pods, 5 are expected"),
            (full(3, json!(2), json!(3)), Expected::Some, "not yet: 2 of 3 pods are updated"),
            (full(3, Value::Null, json!(3)), Expected::Some, "not yet: 0 of 3 pods are updated"),
            (full(1, json!(3), json!(3)), Expected::Some, "not yet: 1 of 3 pods are ready"),
            (full(3, json!(3), Value::Null), Expected::Some, "not yet: 0 of 3 pods are available"),
        ];
        for (status, expected, want) in cases {
            let set: DaemonSet = object(json!({"metadata": {"generation": 2}, "status": status}));
            assert_eq!(shown(&daemon_set_rolled_out(Some(&set), expected)), want, "{status}");
        }
        let mut by_hand: DaemonSet =
            object(json!({"metadata": {"generation": 2}, "status": full(3, json!(2), json!(3))}));
        by_hand.spec = object(json!({"selector": {}, "template": {}, "updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(shown(&daemon_set_rolled_out(Some(&by_hand), Expected::Some)), "holds", "its user updates it");
    }

    #[test]
    fn a_deployment_is_available_when_its_present_pods_are() {
        let failure =
            json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no quota"}]);
        let cases = [
            (json!(2), Value::Null, NOT_SEEN),
            (json!(2), json!({"observedGeneration": 0}), NOT_SEEN),
            (json!(0), json!({"observedGeneration": 1}), "not yet: it wants no pod"),
            (json!(2), json!({"observedGeneration": 1}), "not yet: 0 of 2 pods are updated"),
            (Value::Null, json!({"observedGeneration": 1}), "not yet: 0 of 1 pods are updated"),
            (
                json!(2),
                json!({"observedGeneration": 1, "conditions": failure}),
                "not yet: its pods cannot be made: FailedCreate: no quota",
            ),
            (
                json!(2),
                json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}),
                "not yet: 1 of 2 pods are ready",
            ),
            (
                json!(2),
                json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}),
                "not yet: 0 of 2 pods are available",
            ),
            (
                json!(2),
                json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3,
                       "availableReplicas": 3}),
                "not yet: pods of an earlier form are still there",
            ),
            (
                json!(2),
                json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
                       "availableReplicas": 2}),
                "holds",
            ),
        ];
        for (replicas, status, want) in cases {
            let spec = json!({"replicas": replicas, "selector": {}, "template": {}});
            let one: Deployment = object(json!({"metadata": {"generation": 1}, "spec": spec, "status": status}));
            assert_eq!(shown(&deployment_available(Some(&one))), want, "{status}");
        }
    }

    #[test]
    fn a_replication_controller_is_ready_when_its_pods_are() {
        let failure =
            json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no quota"}]);
        let cases = [
            (json!(2), Value::Null, NOT_SEEN),
            (json!(0), json!({"observedGeneration": 1, "replicas": 0}), "not yet: it wants no pod"),
            (json!(2), json!({"observedGeneration": 1, "replicas": 1}), "not yet: 1 of 2 pods are made"),
            (
                json!(2),
                json!({"observedGeneration": 1, "replicas": 1, "conditions": failure}),
                "not yet: its pods cannot be made: FailedCreate: no quota",
            ),
            (json!(2), json!({"observedGeneration": 1, "replicas": 2}), "not yet: 0 of 2 pods are ready"),
            (json!(2), json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}), "holds"),
        ];
        for (replicas, status, want) in cases {
            let one: ReplicationController =
                object(json!({"metadata": {"generation": 1}, "spec": {"replicas": replicas}, "status": status}));
            assert_eq!(shown(&replication_controller_ready(Some(&one))), want, "{status}");
        }
    }
}
