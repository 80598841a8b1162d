//! The words of the protocol: annotations and labels of a Node, what a Node shows of them, and how they are changed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};
use windlass_cluster::failure::ApiFailure;

use crate::follow::ask;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        $($(#[$doc])*
        pub const $name: &str = concat!("container-linux-update.v1.coreos.com/", $word);)*
    };
}

words! {
    /// Annotation and label: the machine has staged an update. Set by the agent.
    REBOOT_NEEDED = "reboot-needed";
    /// Annotation: the machine is being drained and rebooted. Set by the agent.
    REBOOT_IN_PROGRESS = "reboot-in-progress";
    /// Annotation: the machine may reboot. Set by the coordinator.
    REBOOT_OK = "reboot-ok";
    /// Annotation: the machine may not begin. Set by people only.
    REBOOT_PAUSED = "reboot-paused";
    /// Annotation: it was the agent that made the Node unschedulable. Set by the agent.
    MADE_UNSCHEDULABLE = "agent-made-unschedulable";
    /// Annotation: what the update engine does. Set by the agent.
    STATUS = "status";
    /// Annotation: when the update engine last looked, in seconds since 1970. Set by the agent.
    LAST_CHECKED = "last-checked-time";
    /// Annotation: the version to come. Set by the agent.
    NEW_VERSION = "new-version";
    /// Label: whoever has to prepare the machine for its reboot should do so. Set by the coordinator.
    BEFORE_REBOOT = "before-reboot";
    /// Label: whoever has to look at the machine after its reboot should do so. Set by the coordinator.
    AFTER_REBOOT = "after-reboot";
}

/// Annotation: the machine's next OS has its addons. Set by the pre-reboot hook, and required by the coordinator.
pub const ADDONS_STAGED: &str = "windlass.dev/addons-staged";
/// Annotation: why the Node's reboot does not go on. Set by whoever holds it up, for people.
pub const WAITS_FOR: &str = "windlass.dev/reboot-waits-for";
/// Annotation: the boot that a reboot in progress is to end. Set by the agent, for itself.
pub const ENDING_BOOT: &str = "windlass.dev/reboot-ends-boot";

/// What says that a Node is a master's.
const MASTER: &str = "node-role.kubernetes.io/control-plane";
const TRUE: &str = "true";
const FALSE: &str = "false";

/// A Node as far as reboots are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Which form of it this is, so that a change is made to this form or not at all.
    pub version: String,
    /// All its annotations.
    pub annotations: BTreeMap<String, String>,
    /// All its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether new pods stay away.
    pub unschedulable: bool,
    /// Why it is not Ready, if it is not.
    pub trouble: Option<String>,
}

impl NodeState {
    /// What a Node shows.
    pub fn of(node: &Node) -> Self {
        let metadata = &node.metadata;
        NodeState {
            name: metadata.name.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            trouble: trouble(node),
        }
    }

    /// Whether an annotation says yes.
    pub fn says(&self, annotation: &str) -> bool {
        self.annotations.get(annotation).is_some_and(|value| value == TRUE)
    }

    /// Whether an annotation says no, which is not the same as saying nothing.
    pub fn denies(&self, annotation: &str) -> bool {
        self.annotations.get(annotation).is_some_and(|value| value == FALSE)
    }

    /// Whether it has a label, whatever its value.
    pub fn has(&self, label: &str) -> bool {
        self.labels.contains_key(label)
    }

    /// Whether a label says yes.
    pub fn shows(&self, label: &str) -> bool {
        self.labels.get(label).is_some_and(|value| value == TRUE)
    }

    /// Whether it is a master's.
    pub fn is_master(&self) -> bool {
        self.has(MASTER)
    }
}

fn trouble(node: &Node) -> Option<String> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    match conditions.find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(ready.reason.clone().unwrap_or_else(|| "NotReady".to_owned())),
        None => Some("its kubelet has said nothing".to_owned()),
    }
}

/// What is to become different about a Node; what is so already is not part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChange {
    from: NodeState,
    annotations: BTreeMap<String, Option<String>>,
    labels: BTreeMap<String, Option<String>>,
    unschedulable: Option<bool>,
}

impl NodeChange {
    /// Nothing yet.
    pub fn of(node: &NodeState) -> Self {
        NodeChange { from: node.clone(), annotations: BTreeMap::new(), labels: BTreeMap::new(), unschedulable: None }
    }

    /// The Node's name.
    pub fn node(&self) -> &str {
        &self.from.name
    }

    /// An annotation that says yes or no.
    #[must_use]
    pub fn say(self, annotation: &str, yes: bool) -> Self {
        self.annotate(annotation, if yes { TRUE } else { FALSE })
    }

    /// An annotation with any value.
    #[must_use]
    pub fn annotate(mut self, annotation: &str, value: &str) -> Self {
        set(&mut self.annotations, &self.from.annotations, annotation, Some(value));
        self
    }

    /// No such annotations.
    #[must_use]
    pub fn forget<S: AsRef<str>>(mut self, annotations: impl IntoIterator<Item = S>) -> Self {
        for annotation in annotations {
            set(&mut self.annotations, &self.from.annotations, annotation.as_ref(), None);
        }
        self
    }

    /// A label that says yes or no.
    #[must_use]
    pub fn label(mut self, label: &str, yes: bool) -> Self {
        set(&mut self.labels, &self.from.labels, label, Some(if yes { TRUE } else { FALSE }));
        self
    }

    /// No such label.
    #[must_use]
    pub fn unlabel(mut self, label: &str) -> Self {
        set(&mut self.labels, &self.from.labels, label, None);
        self
    }

    /// Whether new pods stay away.
    #[must_use]
    pub fn cordon(mut self, yes: bool) -> Self {
        self.unschedulable = (self.from.unschedulable != yes).then_some(yes);
        self
    }

    /// Whether everything is so already.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty() && self.unschedulable.is_none()
    }

    /// The same, unless there is nothing to do.
    pub fn needed(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }

    /// The merge patch. It names the form of the Node that was looked at: if that has changed since, the API refuses,
    /// and whoever wanted the change looks again.
    pub fn patch(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), json!(self.from.version));
        if !self.annotations.is_empty() {
            metadata.insert("annotations".into(), json!(self.annotations));
        }
        if !self.labels.is_empty() {
            metadata.insert("labels".into(), json!(self.labels));
        }
        match self.unschedulable {
            Some(yes) => json!({ "metadata": metadata, "spec": { "unschedulable": yes } }),
            None => json!({ "metadata": metadata }),
        }
    }

    /// Makes the change in the API.
    pub(super) async fn apply(&self, nodes: &Api<Node>) -> Result<Changed, ApiFailure> {
        match ask(nodes.patch(self.node(), &PatchParams::default(), &Patch::Merge(&self.patch()))).await {
            Ok(_) => Ok(Changed::Made),
            Err(failure) if matches!(failure.code, Some(404 | 409)) => Ok(Changed::Overtaken),
            Err(failure) => Err(failure),
        }
    }
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// It is made.
    Made,
    /// The Node is another one by now, or gone: look again.
    Overtaken,
}

/// Notes a value if the Node has another.
fn set(
    changes: &mut BTreeMap<String, Option<String>>,
    now: &BTreeMap<String, String>,
    name: &str,
    value: Option<&str>,
) {
    match now.get(name).map(String::as_str) == value {
        true => drop(changes.remove(name)),
        false => drop(changes.insert(name.to_owned(), value.map(str::to_owned))),
    }
}

#[cfg(test)]
impl NodeChange {
    /// Makes the change to a Node of a simulation.
    pub(super) fn make(&self, node: &mut NodeState) {
        assert_eq!(*node, self.from, "decisions are made on what is there");
        for (now, changes) in [(&mut node.annotations, &self.annotations), (&mut node.labels, &self.labels)] {
            for (name, value) in changes {
                match value {
                    Some(value) => drop(now.insert(name.clone(), value.clone())),
                    None => drop(now.remove(name)),
                }
            }
        }
        node.unschedulable = self.unschedulable.unwrap_or(node.unschedulable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeState {
        let node = serde_json::from_value(json!({
            "metadata": {"name": "worker-0", "resourceVersion": "7", "annotations": {REBOOT_NEEDED: "true", "a": "b"},
                         "labels": {BEFORE_REBOOT: "true"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]},
        }));
        NodeState::of(&node.unwrap())
    }

    #[test]
    fn the_words_are_those_of_the_protocol() {
        assert_eq!(REBOOT_NEEDED, "container-linux-update.v1.coreos.com/reboot-needed");
        assert_eq!(MADE_UNSCHEDULABLE, "container-linux-update.v1.coreos.com/agent-made-unschedulable");
    }

    #[test]
    fn a_node_is_read() {
        let node = node();
        assert!(node.says(REBOOT_NEEDED) && !node.denies(REBOOT_NEEDED) && !node.denies(REBOOT_OK));
        assert!(node.has(BEFORE_REBOOT) && node.shows(BEFORE_REBOOT) && node.unschedulable && !node.is_master());
        assert_eq!(node.trouble.as_deref(), Some("KubeletNotReady"));
        let silent = NodeState::of(&Node::default());
        assert_eq!(silent.trouble.as_deref(), Some("its kubelet has said nothing"));
    }

    #[test]
    fn a_change_holds_only_what_is_different() {
        let node = node();
        let same = NodeChange::of(&node).say(REBOOT_NEEDED, true).forget([REBOOT_OK]).label(BEFORE_REBOOT, true);
        assert!(same.unlabel(AFTER_REBOOT).cordon(true).needed().is_none());
        let change = NodeChange::of(&node).say(REBOOT_OK, true).forget(["a"]).unlabel(BEFORE_REBOOT).cordon(false);
        let want = json!({
            "metadata": {"resourceVersion": "7", "annotations": {REBOOT_OK: "true", "a": null},
                         "labels": {BEFORE_REBOOT: null}},
            "spec": {"unschedulable": false},
        });
        assert_eq!(change.patch(), want);
        let undone = change.forget([REBOOT_OK]).annotate("a", "b").label(BEFORE_REBOOT, true).cordon(true);
        assert!(undone.is_empty(), "what is taken back is no change");
    }
}
