//! Nodes, by the names that are expected.

use k8s_openapi::api::core::v1::Node;
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use super::{said, told};

/// Whether every expected machine has its Node.
pub fn nodes_registered<S: AsRef<str>>(nodes: &[Node], expected: &[S]) -> Observation {
    let missing: Vec<String> =
        expected.iter().map(AsRef::as_ref).filter(|&n| named(nodes, n).is_none()).map(Into::into).collect();
    settle(expected.len(), missing, "registered")
}

/// Whether the Node of every expected machine is there and Ready.
pub fn nodes_ready<S: AsRef<str>>(nodes: &[Node], expected: &[S]) -> Observation {
    let unready: Vec<String> = expected.iter().filter_map(|name| trouble(nodes, name.as_ref())).collect();
    settle(expected.len(), unready, "Ready")
}

fn settle(expected: usize, missing: Vec<String>, what: &str) -> Observation {
    if expected == 0 {
        return Observation::NotYet(reason!("no machine is expected"));
    }
    if missing.is_empty() {
        return Observation::Holds;
    }
    let there = expected - missing.len();
    Observation::NotYet(reason!("{there} of {expected} nodes are {what}; missing: {}", told(missing)))
}

fn named<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
    nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name))
}

fn trouble(nodes: &[Node], name: &str) -> Option<String> {
    let Some(node) = named(nodes, name) else { return Some(format!("{name} (not registered)")) };
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    match conditions.find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => {
            let why = said(ready.reason.as_deref(), ready.message.as_deref()).unwrap_or_else(|| "NotReady".to_owned());
            Some(format!("{name} ({why})"))
        }
        None => Some(format!("{name} (its kubelet has said nothing)")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{object, shown};
    use super::*;

    fn node(name: &str, conditions: Value) -> Node {
        object(json!({"metadata": {"name": name}, "status": {"conditions": conditions}}))
    }

    fn ready(name: &str) -> Node {
        node(name, json!([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]))
    }

    #[test]
    fn every_expected_machine_counts_and_no_other() {
        let sick = node(
            "b",
            json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "cni not initialized"}]),
        );
        let silent = object::<Node>(json!({"metadata": {"name": "b"}}));
        let lost = node("b", json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]));
        let cases: [(&[Node], &[&str], &str, &str); 7] = [
            (&[], &[], "not yet: no machine is expected", "not yet: no machine is expected"),
            (&[ready("a")], &[], "not yet: no machine is expected", "not yet: no machine is expected"),
            (
                &[],
                &["a"],
                "not yet: 0 of 1 nodes are registered; missing: a",
                "not yet: 0 of 1 nodes are Ready; missing: a (not registered)",
            ),
            (&[ready("a"), ready("b"), ready("stranger")], &["a", "b"], "holds", "holds"),
            (
                &[ready("a"), sick],
                &["a", "b"],
                "holds",
                "not yet: 1 of 2 nodes are Ready; missing: b (KubeletNotReady: cni not initialized)",
            ),
            (
                &[ready("a"), silent],
                &["a", "b"],
                "holds",
                "not yet: 1 of 2 nodes are Ready; missing: b (its kubelet has said nothing)",
            ),
            (
                &[lost, ready("stranger")],
                &["a", "b", "c", "d", "e"],
                "not yet: 1 of 5 nodes are registered; missing: a; c; d; and 1 more",
                "not yet: 0 of 5 nodes are Ready; missing: a (not registered); b (NodeStatusUnknown); \
                 c (not registered); and 2 more",
            ),
        ];
        for (nodes, expected, registered, are_ready) in cases {
            assert_eq!(shown(&nodes_registered(nodes, expected)), registered);
            assert_eq!(shown(&nodes_ready(nodes, expected)), are_ready);
        }
    }
}
