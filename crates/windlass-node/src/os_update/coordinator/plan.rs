//! What the coordinator decides: which Node may go one step further, and what holds it up.

use k8s_openapi::api::core::v1::Pod;
use windlass_cluster::ready::pod_is_ready;

use super::super::protocol::{
    AFTER_REBOOT, BEFORE_REBOOT, NodeChange, NodeState, REBOOT_IN_PROGRESS, REBOOT_NEEDED, REBOOT_OK, REBOOT_PAUSED,
    WAITS_FOR,
};

/// What has to be said about a Node before it may go on, by annotations that say yes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Required {
    /// Before it reboots.
    pub before: Vec<String>,
    /// After it has, before the next one may begin.
    pub after: Vec<String>,
}

/// The cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// All Nodes.
    pub nodes: Vec<NodeState>,
    /// The pods of etcd and of the API server.
    pub pods: Vec<PodState>,
}

/// What a master cannot be spared while another one reboots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Its member of etcd.
    Etcd,
    /// Its API server.
    ApiServer,
}

impl Program {
    const ALL: [Program; 2] = [Program::Etcd, Program::ApiServer];

    /// The value of the label `k8s-app`.
    pub fn name(self) -> &'static str {
        match self {
            Program::Etcd => "etcd",
            Program::ApiServer => "kube-apiserver",
        }
    }
}

/// A pod of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Where it runs.
    pub node: String,
    /// What it runs.
    pub program: Program,
    /// Whether it serves.
    pub ready: bool,
}

impl PodState {
    /// What a pod shows; nothing for those that run something else, or nowhere yet.
    pub fn of(pod: &Pod) -> Option<Self> {
        let app = pod.metadata.labels.as_ref()?.get("k8s-app")?;
        let program = Program::ALL.into_iter().find(|program| program.name() == app)?;
        let node = pod.spec.as_ref()?.node_name.clone()?;
        Some(PodState { node, program, ready: pod_is_ready(pod) })
    }
}

/// How far a Node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It wants nothing.
    Idle,
    /// It wants to reboot.
    Wanting,
    /// It is being prepared.
    Before,
    /// Its agent has been told to go.
    Rebooting,
    /// It is back.
    Returned,
    /// It is being looked at.
    After,
}

impl Stage {
    /// By what the Node shows.
    pub fn of(node: &NodeState) -> Self {
        let (ok, going) = (node.says(REBOOT_OK), node.says(REBOOT_IN_PROGRESS));
        let wants = node.says(REBOOT_NEEDED) && !node.says(REBOOT_PAUSED);
        if node.shows(AFTER_REBOOT) {
            Stage::After
        } else if ok && node.denies(REBOOT_NEEDED) && node.denies(REBOOT_IN_PROGRESS) {
            Stage::Returned
        } else if ok || going {
            Stage::Rebooting
        } else if wants && node.shows(BEFORE_REBOOT) {
            Stage::Before
        } else if wants {
            Stage::Wanting
        } else {
            Stage::Idle
        }
    }

    /// Whether another Node has to wait for this one.
    pub fn is_busy(self) -> bool {
        match self {
            Stage::Idle | Stage::Wanting => false,
            Stage::Before | Stage::Rebooting | Stage::Returned | Stage::After => true,
        }
    }
}

/// What is to be changed now. Applying it leads to a plan that has nothing to do, until somebody else does something.
pub fn plan(required: &Required, observed: &Observed) -> Vec<NodeChange> {
    let mut nodes: Vec<&NodeState> = observed.nodes.iter().collect();
    // Workers first: an update that does harm does it where it harms least.
    nodes.sort_by_key(|node| (node.is_master(), node.name.as_str()));
    let turn = Turn::of(&nodes, observed);
    nodes.into_iter().filter_map(|node| turn.change(node, required, observed).needed()).collect()
}

/// Whose turn it is.
enum Turn<'a> {
    /// This Node's, which has begun.
    Going(&'a NodeState),
    /// This Node's, which may begin.
    Next(&'a NodeState),
    /// This Node's, but it may not begin.
    Held(&'a NodeState, String),
    /// Nobody's.
    Nobody,
}

impl<'a> Turn<'a> {
    fn of(nodes: &[&'a NodeState], observed: &Observed) -> Self {
        let staged = |stage: Stage| nodes.iter().copied().find(move |node| Stage::of(node) == stage);
        let farther = [Stage::Rebooting, Stage::Returned, Stage::After, Stage::Before];
        if let Some(going) = farther.into_iter().find_map(staged) {
            return Turn::Going(going);
        }
        let mut held = None;
        for node in nodes.iter().copied().filter(|node| Stage::of(node) == Stage::Wanting) {
            match danger(node, observed) {
                None => return Turn::Next(node),
                Some(why) => drop(held.get_or_insert((node, why))),
            }
        }
        held.map_or(Turn::Nobody, |(node, why)| Turn::Held(node, why))
    }

    fn is_going(&self, node: &NodeState) -> bool {
        matches!(self, Turn::Going(going) if going.name == node.name)
    }

    fn change(&self, node: &NodeState, required: &Required, observed: &Observed) -> NodeChange {
        match Stage::of(node) {
            Stage::Idle => not_before(node, required).forget([WAITS_FOR]),
            Stage::Wanting => self.wanting(node, required),
            Stage::Before if self.is_going(node) => before(node, required, observed),
            // Only one may be there; a second label is a person's.
            Stage::Before => not_before(node, required).forget([WAITS_FOR]),
            Stage::Rebooting => rebooting(node, required),
            Stage::Returned => not_before(node, required).forget(&required.after).label(AFTER_REBOOT, true),
            Stage::After => after(node, required, observed),
        }
    }

    fn wanting(&self, node: &NodeState, required: &Required) -> NodeChange {
        match self {
            // What was said before an earlier reboot says nothing about this one.
            Turn::Next(next) if next.name == node.name => {
                NodeChange::of(node).forget(&required.before).label(BEFORE_REBOOT, true).forget([WAITS_FOR])
            }
            Turn::Held(held, why) if held.name == node.name => not_before(node, required).annotate(WAITS_FOR, why),
            Turn::Going(_) | Turn::Next(_) | Turn::Held(..) | Turn::Nobody => {
                not_before(node, required).forget([WAITS_FOR])
            }
        }
    }
}

/// Prepared, and nothing has happened elsewhere meanwhile: it may go.
fn before(node: &NodeState, required: &Required, observed: &Observed) -> NodeChange {
    match danger(node, observed).or_else(|| unsaid(node, &required.before)) {
        Some(why) => NodeChange::of(node).annotate(WAITS_FOR, &why),
        None => not_before(node, required).say(REBOOT_OK, true).forget([WAITS_FOR]),
    }
}

/// The agent's turn, unless it has not begun and somebody says that it should not.
fn rebooting(node: &NodeState, required: &Required) -> NodeChange {
    let change = not_before(node, required);
    let may_stop = node.says(REBOOT_NEEDED) && !node.says(REBOOT_IN_PROGRESS);
    match may_stop && node.says(REBOOT_PAUSED) {
        true => change.say(REBOOT_OK, false),
        false => change,
    }
}

/// Back, looked at, and as good as before: the agent may let pods in, and the next Node may begin.
fn after(node: &NodeState, required: &Required, observed: &Observed) -> NodeChange {
    let change = not_before(node, required);
    let unready = node.trouble.as_ref().map(|why| format!("it is not Ready: {why}"));
    let unserving = || node.is_master().then(|| unserving(node, observed)).flatten();
    match unready.or_else(unserving).or_else(|| unsaid(node, &required.after)) {
        Some(why) => change.annotate(WAITS_FOR, &why),
        None => change.unlabel(AFTER_REBOOT).forget(&required.after).say(REBOOT_OK, false).forget([WAITS_FOR]),
    }
}

/// Without the label, and without what was said while it was there.
fn not_before(node: &NodeState, required: &Required) -> NodeChange {
    let change = NodeChange::of(node);
    match node.has(BEFORE_REBOOT) {
        true => change.unlabel(BEFORE_REBOOT).forget(&required.before),
        false => change,
    }
}

/// The first annotation that does not say yes.
fn unsaid(node: &NodeState, required: &[String]) -> Option<String> {
    let name = required.iter().find(|name| !node.says(name))?;
    Some(match node.annotations.get(name) {
        Some(value) => format!("the annotation {name} is {value:?}, not \"true\""),
        None => format!("the annotation {name} is not there"),
    })
}

/// Why this Node's reboot would hurt the cluster.
fn danger(node: &NodeState, observed: &Observed) -> Option<String> {
    let others = || observed.nodes.iter().filter(|other| other.name != node.name);
    if let Some((other, why)) = others().find_map(|other| Some((other, other.trouble.as_ref()?))) {
        return Some(format!("the node {} is not Ready: {why}", other.name));
    }
    if !node.is_master() {
        return None;
    }
    let left = others().filter(|other| other.is_master()).count();
    let members = left + 1;
    if left < members / 2 + 1 {
        return Some(format!("etcd has {members} members and no quorum without this one"));
    }
    others().filter(|other| other.is_master()).find_map(|other| unserving(other, observed))
}

/// What a master does not serve.
fn unserving(master: &NodeState, observed: &Observed) -> Option<String> {
    let serves = |program: Program| {
        observed.pods.iter().any(|pod| pod.node == master.name && pod.program == program && pod.ready)
    };
    let missing = Program::ALL.into_iter().find(|program| !serves(*program))?;
    Some(format!("{} on {} is not ready", missing.name(), master.name))
}

#[cfg(test)]
mod tests;
