//! Nodes and pods for tests, in a few words.

use serde_json::{Value, json};

use super::protocol::{BEFORE_REBOOT, NodeState, REBOOT_IN_PROGRESS, REBOOT_NEEDED, REBOOT_OK};
use crate::follow::fake::{FakeApi, NODES};

/// A Node that is Ready: `worker-0`, or `master-0`, which is a master's.
pub(super) fn node(name: &str) -> NodeState {
    let mut node = NodeState { name: name.to_owned(), ..NodeState::default() };
    if name.starts_with("master") {
        node.labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
    }
    node
}

/// The same, saying more: `reboot-ok=true`, labels with a `#` in front, and whole names where they have a slash.
pub(super) fn saying(mut node: NodeState, words: &[&str]) -> NodeState {
    for word in words {
        let (is_label, word) = match word.strip_prefix('#') {
            Some(label) => (true, label),
            None => (false, *word),
        };
        let (name, value) = word.split_once('=').unwrap();
        let name = match name.contains('/') {
            true => name.to_owned(),
            false => format!("container-linux-update.v1.coreos.com/{name}"),
        };
        let all = if is_label { &mut node.labels } else { &mut node.annotations };
        all.insert(name, value.to_owned());
    }
    node
}

/// What a Node says, in the same words, without the label of masters.
pub(super) fn said(node: &NodeState) -> Vec<String> {
    let short = |name: &String| name.trim_start_matches("container-linux-update.v1.coreos.com/").to_owned();
    let annotations = node.annotations.iter().map(|(name, value)| format!("{}={value}", short(name)));
    let labels = node.labels.iter().filter(|(name, _)| !name.starts_with("node-role"));
    annotations.chain(labels.map(|(name, value)| format!("#{}={value}", short(name)))).collect()
}

/// A Node as the API has it.
pub(super) fn object(node: &NodeState) -> Value {
    let ready = if node.trouble.is_none() { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name, "annotations": node.annotations, "labels": node.labels},
        "spec": {"unschedulable": node.unschedulable},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": node.trouble}]},
    })
}

/// The Node as it is in the API now.
pub(super) fn in_api(api: &FakeApi, name: &str) -> NodeState {
    NodeState::of(&serde_json::from_value(api.get(NODES, name).unwrap()).unwrap())
}

/// Whether a Node is anywhere between being chosen and being released.
pub(super) fn is_under_way(node: &NodeState) -> bool {
    node.has(BEFORE_REBOOT)
        || node.has(super::protocol::AFTER_REBOOT)
        || node.says(REBOOT_OK)
        || (node.says(REBOOT_IN_PROGRESS) && node.says(REBOOT_NEEDED))
}
