//! What keeps pods running: deployments, daemon sets, stateful sets and replication controllers, with how many of their
//! pods are ready and how many are wanted.

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use time::OffsetDateTime;

use super::{Age, told};
use crate::dashboard::table::{Concern, Row};

/// A workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it has what it wants.
    pub health: Health,
    /// How many of its pods are ready.
    pub ready: i32,
    /// How many it wants.
    pub desired: i32,
    /// How long ago it was created.
    pub age: Option<Age>,
    /// Why it is not ready.
    pub reason: Option<String>,
}

/// Whether a workload has what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It wants more ready pods than it has, or nobody has looked at its last change.
    NotReady,
    /// It has them.
    Ready,
    /// It wants none.
    Idle,
}

impl Row for WorkloadRow {
    const MOST: usize = 500;

    fn order(&self, other: &Self) -> Ordering {
        (self.health, &self.namespace, &self.name).cmp(&(other.health, &other.namespace, &other.name))
    }

    fn concern(&self) -> Concern {
        match self.health {
            Health::NotReady => Concern::Look,
            Health::Ready | Health::Idle => Concern::None,
        }
    }
}

/// A row for each deployment.
pub fn deployments_view(objects: &[Deployment], now: OffsetDateTime) -> Vec<WorkloadRow> {
    let row = |object: &Deployment| {
        let status = object.status.as_ref();
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let conditions = conditions.iter().map(|c| Told {
            kind: &c.type_,
            status: &c.status,
            reason: c.reason.as_deref(),
            message: c.message.as_deref(),
        });
        let counted = Counted {
            desired: object.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1),
            ready: status.and_then(|s| s.ready_replicas).unwrap_or(0),
            observed: status.and_then(|s| s.observed_generation),
            trouble: trouble(conditions),
        };
        counted.row(&object.metadata, now)
    };
    objects.iter().map(row).collect()
}

/// A row for each daemon set.
pub fn daemon_sets_view(objects: &[DaemonSet], now: OffsetDateTime) -> Vec<WorkloadRow> {
    let row = |object: &DaemonSet| {
        let status = object.status.as_ref();
        let counted = Counted {
            desired: status.map_or(0, |s| s.desired_number_scheduled),
            ready: status.map_or(0, |s| s.number_ready),
            observed: status.and_then(|s| s.observed_generation),
            trouble: None,
        };
        counted.row(&object.metadata, now)
    };
    objects.iter().map(row).collect()
}

/// A row for each stateful set.
pub fn stateful_sets_view(objects: &[StatefulSet], now: OffsetDateTime) -> Vec<WorkloadRow> {
    let row = |object: &StatefulSet| {
        let status = object.status.as_ref();
        let counted = Counted {
            desired: object.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1),
            ready: status.and_then(|s| s.ready_replicas).unwrap_or(0),
            observed: status.and_then(|s| s.observed_generation),
            trouble: None,
        };
        counted.row(&object.metadata, now)
    };
    objects.iter().map(row).collect()
}

/// A row for each replication controller.
pub fn replication_controllers_view(objects: &[ReplicationController], now: OffsetDateTime) -> Vec<WorkloadRow> {
    let row = |object: &ReplicationController| {
        let status = object.status.as_ref();
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let conditions = conditions.iter().map(|c| Told {
            kind: &c.type_,
            status: &c.status,
            reason: c.reason.as_deref(),
            message: c.message.as_deref(),
        });
        let counted = Counted {
            desired: object.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1),
            ready: status.and_then(|s| s.ready_replicas).unwrap_or(0),
            observed: status.and_then(|s| s.observed_generation),
            trouble: trouble(conditions),
        };
        counted.row(&object.metadata, now)
    };
    objects.iter().map(row).collect()
}

/// What the four kinds have in common.
struct Counted {
    desired: i32,
    ready: i32,
    observed: Option<i64>,
    trouble: Option<String>,
}

/// A condition of any kind of object.
struct Told<'a> {
    kind: &'a str,
    status: &'a str,
    reason: Option<&'a str>,
    message: Option<&'a str>,
}

impl Counted {
    fn row(self, meta: &ObjectMeta, now: OffsetDateTime) -> WorkloadRow {
        // An object whose status is about an earlier version of it, or that has none, says nothing about now.
        let seen = self.observed >= Some(meta.generation.unwrap_or(1));
        let health = match (seen, self.desired, self.ready >= self.desired) {
            (true, 0, _) => Health::Idle,
            (true, _, true) => Health::Ready,
            (true, _, false) | (false, _, _) => Health::NotReady,
        };
        let reason = match health {
            Health::Ready | Health::Idle => None,
            Health::NotReady if !seen => Some("its controller has not looked at it yet".to_owned()),
            Health::NotReady => self.trouble,
        };
        WorkloadRow {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            health,
            ready: self.ready,
            desired: self.desired,
            age: meta.creation_timestamp.as_ref().map(|then| Age::at(now, then.0)),
            reason,
        }
    }
}

/// The most telling condition: pods that cannot be made, then no progress, then too few of them.
fn trouble<'a>(conditions: impl Iterator<Item = Told<'a>> + Clone) -> Option<String> {
    let telling = [("ReplicaFailure", "True"), ("Progressing", "False"), ("Available", "False")];
    let of = |(kind, status)| conditions.clone().find(|c| c.kind == kind && c.status == status);
    telling.into_iter().find_map(of).and_then(|c| told(c.reason, c.message))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-16 03:00:00 UTC);

    type Brief = (Health, i32, i32, Option<String>);

    fn brief<K: DeserializeOwned>(view: fn(&[K], OffsetDateTime) -> Vec<WorkloadRow>, object: &Value) -> Brief {
        let row = view(&[serde_json::from_value(object.clone()).unwrap()], NOW).remove(0);
        (row.health, row.ready, row.desired, row.reason)
    }

    /// Every kind of object with this many ready and wanted pods.
    fn briefs(generation: i64, observed: i64, ready: i32, desired: i32) -> [Brief; 4] {
        let meta = json!({"name": "w", "namespace": "n", "generation": generation});
        let status = json!({"replicas": desired, "readyReplicas": ready, "observedGeneration": observed});
        let replicas = json!({"metadata": meta, "status": status, "spec": {
            "replicas": desired, "selector": {}, "serviceName": "s", "template": {},
        }});
        let counted = json!({"replicas": desired, "selector": {"a": "b"}});
        let controller = json!({"metadata": meta, "status": status, "spec": counted});
        let daemons = json!({"metadata": meta, "status": {
            "desiredNumberScheduled": desired, "numberReady": ready, "observedGeneration": observed,
            "currentNumberScheduled": desired, "numberMisscheduled": 0,
        }});
        [
            brief::<Deployment>(deployments_view, &replicas),
            brief::<StatefulSet>(stateful_sets_view, &replicas),
            brief::<DaemonSet>(daemon_sets_view, &daemons),
            brief::<ReplicationController>(replication_controllers_view, &controller),
        ]
    }

    #[test]
    fn a_workload_is_ready_when_all_it_wants_is() {
        let cases = [
            (1, 1, 3, 3, Health::Ready),
            (1, 1, 2, 3, Health::NotReady),
            (1, 1, 4, 3, Health::Ready),
            (1, 1, 0, 0, Health::Idle),
            (2, 1, 3, 3, Health::NotReady),
            (2, 1, 0, 0, Health::NotReady),
        ];
        for (generation, observed, ready, desired, health) in cases {
            for (found, of) in briefs(generation, observed, ready, desired).iter().zip(["dep", "sts", "ds", "rc"]) {
                assert_eq!(found.0, health, "{of} {generation} {observed} {ready}/{desired}");
                assert_eq!((found.1, found.2), (ready, desired), "{of}");
            }
        }
    }

    #[test]
    fn absent_is_not_ready() {
        let object = json!({"metadata": {"name": "w"}});
        let unseen = Some("its controller has not looked at it yet".to_owned());
        let want = |desired| (Health::NotReady, 0, desired, unseen.clone());
        assert_eq!(brief::<Deployment>(deployments_view, &object), want(1));
        assert_eq!(brief::<StatefulSet>(stateful_sets_view, &object), want(1));
        assert_eq!(brief::<DaemonSet>(daemon_sets_view, &object), want(0));
        assert_eq!(brief::<ReplicationController>(replication_controllers_view, &object), want(1));
    }

    #[test]
    fn the_most_telling_condition_is_the_reason() {
        let unavailable = json!({"type": "Available", "status": "False", "reason": "TooFew", "message": "too few"});
        let stuck = json!({"type": "Progressing", "status": "False", "reason": "Stuck", "message": "no progress"});
        let quota = json!({"type": "ReplicaFailure", "status": "True", "reason": "Quota", "message": "exceeded"});
        let fine = json!({"type": "Progressing", "status": "True", "reason": "Fine", "message": "new pods"});
        let cases = [
            (json!([unavailable, stuck, quota]), Some("Quota: exceeded")),
            (json!([unavailable, stuck]), Some("Stuck: no progress")),
            (json!([unavailable, fine]), Some("TooFew: too few")),
            (json!([fine]), None),
        ];
        for (conditions, want) in cases {
            let status = json!({"observedGeneration": 1, "replicas": 1, "conditions": conditions});
            let object = json!({"metadata": {"generation": 1}, "status": status});
            let reasons = [
                brief::<Deployment>(deployments_view, &object).3,
                brief::<ReplicationController>(replication_controllers_view, &object).3,
            ];
            assert!(reasons.iter().all(|reason| reason.as_deref() == want), "{reasons:?}");
        }
    }
}
