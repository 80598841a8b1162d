//! Pods that are not ready, and the most precise reason that the API has for it.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use serde::Serialize;
use time::OffsetDateTime;

use super::{Age, told};
use crate::dashboard::table::{Concern, Row};

/// A pod that is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it runs, once that is decided.
    pub node: Option<String>,
    /// Its phase.
    pub phase: String,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// How often its containers were started again.
    pub restarts: i32,
    /// How long ago it was created.
    pub age: Option<Age>,
}

impl Row for PodRow {
    const MOST: usize = 200;

    fn order(&self, other: &Self) -> Ordering {
        (&self.namespace, &self.name).cmp(&(&other.namespace, &other.name))
    }

    fn concern(&self) -> Concern {
        Concern::Look
    }
}

/// A row for each pod that is neither ready nor finished.
pub fn pods_view(pods: &[Pod], now: OffsetDateTime) -> Vec<PodRow> {
    pods.iter().filter(|pod| !well(pod)).map(|pod| row(pod, now)).collect()
}

fn well(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let finished = status.phase.as_deref() == Some("Succeeded");
    let ready = condition(status, "Ready").is_some_and(|c| c.status == "True");
    finished || (ready && pod.metadata.deletion_timestamp.is_none())
}

fn row(pod: &Pod, now: OffsetDateTime) -> PodRow {
    let status = pod.status.as_ref();
    PodRow {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        phase: status.and_then(|s| s.phase.clone()).unwrap_or_else(|| "Unknown".to_owned()),
        reason: reason(pod),
        restarts: status.map_or(0, |s| containers(s).map(|c| c.restart_count).sum()),
        age: pod.metadata.creation_timestamp.as_ref().map(|then| Age::at(now, then.0)),
    }
}

/// From the most to the least precise: it is going, a container says why, the pod says why, a condition does.
fn reason(pod: &Pod) -> Option<String> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("Terminating".to_owned());
    }
    let status = pod.status.as_ref()?;
    containers(status)
        .find_map(container_reason)
        .or_else(|| told(status.reason.as_deref(), status.message.as_deref()))
        .or_else(|| {
            let telling = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
            let unmet = telling.iter().filter_map(|kind| condition(status, kind)).find(|c| c.status != "True")?;
            told(unmet.reason.as_deref(), unmet.message.as_deref())
        })
}

fn container_reason(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let said = if let Some(waiting) = &state.waiting {
        // Every container waits in these two while the sandbox is made or init containers run: no reason yet.
        let usual = matches!(waiting.reason.as_deref(), Some("PodInitializing" | "ContainerCreating"));
        if usual && waiting.message.is_none() {
            return None;
        }
        told(waiting.reason.as_deref(), waiting.message.as_deref())
    } else if let Some(ended) = state.terminated.as_ref().filter(|ended| ended.exit_code != 0) {
        let why = told(ended.reason.as_deref(), ended.message.as_deref()).unwrap_or_else(|| "Error".to_owned());
        Some(format!("exit code {}, {why}", ended.exit_code))
    } else {
        None
    };
    said.map(|said| format!("{}: {said}", container.name))
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    fn view(meta: Value, status: Value) -> Option<PodRow> {
        let pod: Pod = serde_json::from_value(json!({"metadata": meta, "status": status})).unwrap();
        pods_view(&[pod], datetime!(2026-11-16 03:00:00 UTC)).pop()
    }

    fn container(name: &str, state: &Value) -> Value {
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 2, "state": state})
    }

    #[test]
    fn ready_and_finished_pods_are_not_listed() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let cases = [
            (json!({"phase": "Running", "conditions": ready("True")}), false),
            (json!({"phase": "Running", "conditions": ready("False")}), true),
            (json!({"phase": "Succeeded", "conditions": ready("False")}), false),
            (json!({"phase": "Failed"}), true),
            (json!({"phase": "Pending"}), true),
            (json!({"phase": "Running"}), true),
            (json!({}), true),
        ];
        for (status, listed) in cases {
            assert_eq!(view(json!({}), status.clone()).is_some(), listed, "{status}");
        }
    }

    #[test]
    fn the_most_precise_reason_is_told() {
        let waiting = |reason: &str, message: Option<&str>| json!({"waiting": {"reason": reason, "message": message}});
        let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        let unscheduled = json!([
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"},
        ]);
        let unready = json!([
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers: [a]"},
        ]);
        let cases = [
            (json!({"conditions": unscheduled}), Some("Unschedulable: 0/5 nodes")),
            (json!({"reason": "Evicted", "message": "low on disk"}), Some("Evicted: low on disk")),
            (
                json!({"conditions": unready, "containerStatuses": [
                    container("a", &json!({"running": {}})),
                    container("b", &waiting("CrashLoopBackOff", Some("back-off 10s"))),
                ]}),
                Some("b: CrashLoopBackOff: back-off 10s"),
            ),
            (
                json!({
                    "initContainerStatuses": [container("i", &ended(1, "Error"))],
                    "containerStatuses": [container("a", &waiting("PodInitializing", None))],
                }),
                Some("i: exit code 1, Error"),
            ),
            (
                json!({
                    "conditions": unready,
                    "initContainerStatuses": [container("i", &ended(0, "Completed"))],
                    "containerStatuses": [container("a", &waiting("ContainerCreating", None))],
                }),
                Some("ContainersNotReady: containers: [a]"),
            ),
            (json!({"conditions": unready}), Some("ContainersNotReady: containers: [a]")),
            (json!({}), None),
        ];
        for (status, want) in cases {
            let row = view(json!({}), status.clone()).unwrap();
            assert_eq!(row.reason.as_deref(), want, "{status}");
        }
    }

    #[test]
    fn a_pod_that_is_going_says_so_even_while_it_is_ready() {
        let meta = json!({"deletionTimestamp": "2026-11-16T02:59:59Z", "creationTimestamp": "2026-11-16T02:59:00Z"});
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let row = view(meta, status).unwrap();
        assert_eq!((row.reason.as_deref(), row.age), (Some("Terminating"), Some(Age::seconds(60))));
    }

    #[test]
    fn restarts_of_all_containers_are_added_up() {
        let running = json!({"running": {}});
        let status = json!({
            "initContainerStatuses": [container("i", &running)],
            "containerStatuses": [container("a", &running), container("b", &running)],
        });
        assert_eq!(view(json!({}), status).unwrap().restarts, 6);
    }
}
