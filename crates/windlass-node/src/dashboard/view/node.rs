//! Nodes: ready or why not, and what they run.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde::Serialize;
use time::OffsetDateTime;

use super::{Age, told};
use crate::dashboard::table::{Concern, Row};

const ROLE_LABEL: &str = "node-role.kubernetes.io/";

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// Whether it can run pods.
    pub state: NodeState,
    /// Whether it takes new pods.
    pub scheduling: Scheduling,
    /// Its roles; a node without any is a worker.
    pub roles: Vec<String>,
    /// The kubelet's version.
    pub version: Option<String>,
    /// How long ago it registered.
    pub age: Option<Age>,
    /// Why it is not ready, or what it lacks.
    pub reason: Option<String>,
}

/// Whether a node can run pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// The kubelet says no.
    NotReady,
    /// The kubelet has not been heard of lately, or ever.
    Unknown,
    /// The kubelet says yes.
    Ready,
}

/// Whether a node takes new pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// It does.
    Enabled,
    /// It was cordoned.
    Disabled,
}

impl Row for NodeRow {
    const MOST: usize = 500;

    fn order(&self, other: &Self) -> Ordering {
        (self.state, &self.roles, &self.name).cmp(&(other.state, &other.roles, &other.name))
    }

    fn concern(&self) -> Concern {
        match self.state {
            NodeState::NotReady | NodeState::Unknown => Concern::Look,
            NodeState::Ready => Concern::None,
        }
    }
}

/// A row for each node.
pub fn nodes_view(nodes: &[Node], now: OffsetDateTime) -> Vec<NodeRow> {
    nodes.iter().map(|node| row(node, now)).collect()
}

fn row(node: &Node, now: OffsetDateTime) -> NodeRow {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let (state, reason) = state(conditions);
    let cordoned = node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false);
    NodeRow {
        name: node.metadata.name.clone().unwrap_or_default(),
        state,
        scheduling: if cordoned { Scheduling::Disabled } else { Scheduling::Enabled },
        roles: roles(node),
        version: status
            .and_then(|s| s.node_info.as_ref())
            .map(|info| info.kubelet_version.clone())
            .filter(|v| !v.is_empty()),
        age: node.metadata.creation_timestamp.as_ref().map(|then| Age::at(now, then.0)),
        reason,
    }
}

fn roles(node: &Node) -> Vec<String> {
    let labels = node.metadata.labels.iter().flatten();
    let roles: Vec<_> = labels.filter_map(|(label, _)| label.strip_prefix(ROLE_LABEL)).map(str::to_owned).collect();
    if roles.is_empty() { vec!["worker".to_owned()] } else { roles }
}

fn state(conditions: &[NodeCondition]) -> (NodeState, Option<String>) {
    let Some(ready) = conditions.iter().find(|c| c.type_ == "Ready") else {
        return (NodeState::Unknown, Some("the kubelet has not reported yet".to_owned()));
    };
    match ready.status.as_str() {
        "True" => (NodeState::Ready, pressure(conditions)),
        "False" => (NodeState::NotReady, why(ready)),
        _ => (NodeState::Unknown, why(ready)),
    }
}

/// What a ready node lacks: every condition but `Ready` is good when it is false.
fn pressure(conditions: &[NodeCondition]) -> Option<String> {
    let lacking = conditions.iter().filter(|c| c.type_ != "Ready" && c.status == "True");
    let lacking: Vec<_> = lacking.map(|c| c.type_.as_str()).collect();
    told(None, Some(&lacking.join(", ")))
}

fn why(condition: &NodeCondition) -> Option<String> {
    told(condition.reason.as_deref(), condition.message.as_deref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    fn view(object: Value) -> NodeRow {
        let node: Node = serde_json::from_value(object).unwrap();
        nodes_view(&[node], datetime!(2026-11-16 03:00:00 UTC)).remove(0)
    }

    #[test]
    fn a_node_is_ready_only_when_its_kubelet_says_so() {
        let ready = |status: &str| json!({"type": "Ready", "status": status, "reason": "R", "message": "m"});
        let pressed = json!({"type": "DiskPressure", "status": "True"});
        let calm = json!({"type": "DiskPressure", "status": "False"});
        let cases = [
            (json!([ready("True"), calm]), NodeState::Ready, None),
            (json!([pressed, ready("True")]), NodeState::Ready, Some("DiskPressure")),
            (json!([ready("False")]), NodeState::NotReady, Some("R: m")),
            (json!([ready("Unknown")]), NodeState::Unknown, Some("R: m")),
            (json!([ready("nonsense")]), NodeState::Unknown, Some("R: m")),
            (json!([calm]), NodeState::Unknown, Some("the kubelet has not reported yet")),
            (json!([]), NodeState::Unknown, Some("the kubelet has not reported yet")),
        ];
        for (conditions, state, reason) in cases {
            let row = view(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}));
            assert_eq!((row.state, row.reason.as_deref()), (state, reason), "{conditions}");
        }
    }

    #[test]
    fn roles_come_from_labels_and_default_to_worker() {
        let cases = [
            (json!({}), vec!["worker"]),
            (json!({"kubernetes.io/os": "linux"}), vec!["worker"]),
            (json!({"node-role.kubernetes.io/control-plane": ""}), vec!["control-plane"]),
            (json!({"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}), vec!["a", "b"]),
        ];
        for (labels, want) in cases {
            assert_eq!(view(json!({"metadata": {"labels": labels}})).roles, want, "{labels}");
        }
    }

    #[test]
    fn a_cordoned_node_tells_its_version_and_age() {
        let row = view(json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-11-16T02:00:00Z"},
            "spec": {"unschedulable": true},
            "status": {"nodeInfo": {
                "kubeletVersion": "v1.36.3", "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            }},
        }));
        assert_eq!(row.scheduling, Scheduling::Disabled);
        assert_eq!((row.version.as_deref(), row.age), (Some("v1.36.3"), Some(Age::seconds(3600))));
    }

    #[test]
    fn an_empty_node_is_unknown_and_comes_before_ready_ones() {
        let empty = view(json!({}));
        let ready = view(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        assert_eq!(empty.order(&ready), Ordering::Less);
        assert_eq!((empty.concern(), ready.concern()), (Concern::Look, Concern::None));
    }
}
