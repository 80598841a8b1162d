//! What the agent decides about its machine: what its Node says, which pods have to go, and when to reboot.

use k8s_openapi::api::core::v1::Pod;
use time::OffsetDateTime;

use super::super::protocol::{
    ENDING_BOOT, LAST_CHECKED, MADE_UNSCHEDULABLE, NEW_VERSION, NodeChange, NodeState, REBOOT_IN_PROGRESS,
    REBOOT_NEEDED, REBOOT_OK, STATUS, WAITS_FOR,
};
use crate::update_engine::{Operation, Status};

/// The longest that a pod may take to end, whatever it asks for.
pub const GRACE: i64 = 120;
/// A pod that should have ended this long ago is not waited for: something else than its containers holds it.
const OVERDUE: time::Duration = time::Duration::seconds(30);
/// The taint of a Node that is closed.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The machine at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Its Node.
    pub node: NodeState,
    /// What names this boot, as no other.
    pub boot: String,
    /// What the update engine does; nothing if nobody knows.
    pub engine: Option<Status>,
    /// The pods that have to go before the reboot; nothing if nobody has looked.
    pub pods: Option<Vec<PodState>>,
}

/// A pod that has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Which.
    pub id: PodId,
    /// For how many seconds it may go on after it was told to end; nothing if it says so itself.
    pub grace: Option<i64>,
    /// Whether it was told to end.
    pub ending: bool,
    /// Why it was not, when that was last tried.
    pub refused: Option<String>,
}

/// Names one pod, and no later one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

impl PodState {
    /// What a pod shows. Nothing for those that a reboot may end: a DaemonSet's or a static one is not wanted elsewhere, one
    /// that tolerates everything would come back, and one that has done its work has nothing to lose.
    pub fn of(pod: &Pod, now: OffsetDateTime) -> Option<Self> {
        let metadata = &pod.metadata;
        let is_mirror = metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR));
        let mut owners = metadata.owner_references.iter().flatten();
        let is_of_daemon_set = owners.any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let overdue = metadata.deletion_timestamp.as_ref().is_some_and(|end| {
            let end = OffsetDateTime::from_unix_timestamp(end.0.as_second());
            end.is_ok_and(|end| now > end + OVERDUE)
        });
        let is_done = matches!(phase, "Succeeded" | "Failed");
        if is_mirror || is_of_daemon_set || is_done || overdue || would_return(pod) {
            return None;
        }
        let id = PodId {
            namespace: metadata.namespace.clone()?,
            name: metadata.name.clone()?,
            uid: metadata.uid.clone().unwrap_or_default(),
        };
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let grace = grace.filter(|seconds| *seconds > GRACE).map(|_| GRACE);
        Some(PodState { id, grace, ending: metadata.deletion_timestamp.is_some(), refused: None })
    }
}

/// Whether a pod tolerates a Node that is closed: evicted, it would be back on it at once, and no drain would end.
fn would_return(pod: &Pod) -> bool {
    let mut tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    tolerations.any(|toleration| {
        let exists = toleration.operator.as_deref() == Some("Exists");
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let tolerated = match toleration.key.as_deref().unwrap_or_default() {
            "" => exists,
            UNSCHEDULABLE => exists || toleration.value.as_deref().unwrap_or_default().is_empty(),
            _ => false,
        };
        tolerated && matches!(effect, "" | "NoSchedule")
    })
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The Node says something else.
    Node(NodeChange),
    /// A pod is told to end, if its disruption budget allows.
    Evict(PodState),
    /// The machine reboots.
    Reboot,
}

/// Whether the machine's pods have to be looked at.
pub fn is_draining(node: &NodeState, boot: &str) -> bool {
    node.says(REBOOT_IN_PROGRESS) && node.annotations.get(ENDING_BOOT).is_some_and(|ending| ending == boot)
}

/// What is to be done now.
pub fn plan(observed: &Observed) -> Vec<Change> {
    let node = &observed.node;
    let change = engine_told(NodeChange::of(node), observed.engine.as_ref());
    if is_draining(node, &observed.boot) {
        return drain(change, observed);
    }
    if node.says(REBOOT_IN_PROGRESS) {
        // Another boot than the one that was to end, or one that nobody noted: the reboot is behind us.
        return only(needs(change, false).say(REBOOT_IN_PROGRESS, false).forget([ENDING_BOOT, WAITS_FOR]));
    }
    let change = change.say(REBOOT_IN_PROGRESS, false);
    let wants = observed.engine.as_ref().map(|engine| engine.operation == Operation::UpdatedNeedReboot);
    let wanted = node.says(REBOOT_NEEDED);
    if !node.says(REBOOT_OK) {
        let change = uncordoned(change, node);
        return only(needs(change, wants.unwrap_or(wanted)));
    }
    match wanted && wants.unwrap_or(true) {
        true => only(begun(change, observed)),
        // Until the coordinator has taken its word back nothing is needed, or the machine would reboot in a circle.
        false => only(needs(change, false)),
    }
}

fn only(change: NodeChange) -> Vec<Change> {
    change.needed().into_iter().map(Change::Node).collect()
}

fn engine_told(change: NodeChange, engine: Option<&Status>) -> NodeChange {
    let Some(engine) = engine else { return change };
    let change = change.annotate(STATUS, engine.operation.as_str()).annotate(NEW_VERSION, &engine.new_version);
    change.annotate(LAST_CHECKED, &engine.last_checked.to_string())
}

fn needs(change: NodeChange, reboot: bool) -> NodeChange {
    change.say(REBOOT_NEEDED, reboot).label(REBOOT_NEEDED, reboot)
}

/// Only what the agent itself has closed is opened again.
fn uncordoned(change: NodeChange, node: &NodeState) -> NodeChange {
    match node.says(MADE_UNSCHEDULABLE) {
        true => change.cordon(false).say(MADE_UNSCHEDULABLE, false),
        false => change,
    }
}

fn begun(change: NodeChange, observed: &Observed) -> NodeChange {
    let change = change.say(REBOOT_IN_PROGRESS, true).annotate(ENDING_BOOT, &observed.boot);
    closed(change, &observed.node)
}

fn closed(change: NodeChange, node: &NodeState) -> NodeChange {
    match node.unschedulable {
        true => change,
        false => change.cordon(true).say(MADE_UNSCHEDULABLE, true),
    }
}

/// Everything that has to go is told to, and when nothing is left the machine reboots.
fn drain(change: NodeChange, observed: &Observed) -> Vec<Change> {
    let change = closed(change, &observed.node);
    let Some(pods) = &observed.pods else { return only(change) };
    let change = match waits_for(pods) {
        Some(why) => change.annotate(WAITS_FOR, &why),
        None => change.forget([WAITS_FOR]),
    };
    // A pod that is evicted while others may still come in could come back.
    if !observed.node.unschedulable {
        return only(change);
    }
    let mut changes = only(change);
    changes.extend(pods.iter().filter(|pod| !pod.ending).cloned().map(Change::Evict));
    if pods.is_empty() {
        changes.push(Change::Reboot);
    }
    changes
}

/// Which pods hold the reboot up, the refused ones first.
fn waits_for(pods: &[PodState]) -> Option<String> {
    let refused = pods.iter().find(|pod| pod.refused.is_some());
    let pod = refused.or_else(|| pods.iter().find(|pod| pod.ending))?;
    let PodId { namespace, name, .. } = &pod.id;
    let why = pod.refused.as_deref().unwrap_or("it is ending");
    Some(match pods.len() - 1 {
        0 => format!("the pod {namespace}/{name}: {why}"),
        more => format!("the pod {namespace}/{name}: {why}; and {more} more"),
    })
}

#[cfg(test)]
mod tests;
