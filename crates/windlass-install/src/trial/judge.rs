//! What an answer of the cluster means for a verification. Reasons name the node and the cause.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use windlass_cluster::ready::{
    Expected, daemon_set_rolled_out, deployment_available, pod_is_ready, pod_trouble, pods_ready,
};
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use super::Wanted;
use super::objects::{EVERYWHERE, PORT, REPLICAS, SCHEDULED};
use super::talk::Ran;

/// The pod of a node that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) pod: String,
    pub(super) address: IpAddr,
}

/// What one node's pod is to ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) statement: String,
    /// The pod that asks and the URL, or why nobody can ask.
    pub(super) asked: Result<(String, String), String>,
}

/// Whether a pod of the DaemonSet serves on each of these nodes.
pub(super) fn on_every_node(set: Option<&DaemonSet>, pods: &[Pod], nodes: &[String]) -> Observation {
    if let (true, unmet @ Observation::NotYet(_)) = (pods.is_empty(), daemon_set_rolled_out(set, Expected::Some)) {
        return unmet;
    }
    if nodes.is_empty() {
        return Observation::NotYet(reason!("no node is expected"));
    }
    let trouble: Vec<String> = nodes.iter().filter_map(|node| of_node(pods, node)).collect();
    if trouble.is_empty() {
        return Observation::Holds;
    }
    let there = nodes.len() - trouble.len();
    Observation::NotYet(reason!("{there} of {} nodes have one; {}", nodes.len(), trouble.join("; ")))
}

/// Whether the scheduler found a place for the Deployment's pods, and they serve.
pub(super) fn scheduled(deployment: Option<&Deployment>, pods: &[Pod]) -> Observation {
    match (deployment_available(deployment), pods_ready(pods, Some(REPLICAS))) {
        (Observation::Holds, _) => Observation::Holds,
        // The pods know more than their controller, if there are any.
        (_, unmet @ Observation::NotYet(_)) if !pods.is_empty() => unmet,
        (unmet, _) => unmet,
    }
}

/// The pods that can be asked, by their nodes. One that has an address may be unready for a moment on a busy machine;
/// whoever asks it waits for an answer.
pub(super) fn seats(pods: &[Pod]) -> BTreeMap<String, Seat> {
    let seat = |pod: &Pod| {
        let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
        Some((place(pod)?.to_owned(), Seat { pod: pod.metadata.name.clone()?, address }))
    };
    // Of two on a node the later one counts.
    let (ready, others): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod_is_ready(pod));
    others.into_iter().chain(ready).filter_map(seat).collect()
}

/// What every node is to ask: both services, one by its full name and one by its short name, and the pod of the next
/// node, because a service may happen to answer from the same node each time.
pub(super) fn questions(request: &Wanted, namespace: &str, seats: &BTreeMap<String, Seat>) -> Vec<Question> {
    let nodes = &request.nodes;
    let full = format!("http://{EVERYWHERE}.{namespace}.svc.{}:80/", request.cluster_domain);
    let short = format!("http://{SCHEDULED}:80/");
    let mut questions = Vec::new();
    for (node, next) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
        let mut ask = |statement: String, url: Result<String, String>| {
            let seat = seats.get(node).ok_or_else(|| format!("there is no pod on {node} that could ask"));
            let asked = seat.and_then(|seat| Ok((seat.pod.clone(), url?)));
            questions.push(Question { statement, asked });
        };
        ask(format!("{node} reaches a service by its full name"), Ok(full.clone()));
        ask(format!("{node} reaches a service by its short name"), Ok(short.clone()));
        let other = seats.get(next).ok_or_else(|| format!("there is no pod on {next} that could answer"));
        let direct = other.map(|seat| format!("http://{}/", SocketAddr::new(seat.address, PORT)));
        ask(format!("{node} reaches a pod on {next}"), direct);
    }
    questions
}

/// Whether a program that asked in a pod was answered by one of our pods.
pub(super) fn answered(ran: &Ran, pods: &[Pod]) -> Observation {
    if ran.status.status.as_deref() != Some("Success") {
        let words = told(&ran.stderr).or_else(|| ran.status.message.clone());
        let words = words.unwrap_or_else(|| "the program failed and said nothing".to_owned());
        return Observation::NotYet(reason!("{words}"));
    }
    let (address, name) = ran.stdout.trim_end().split_once('\n').unwrap_or(("", ran.stdout.trim_end()));
    ours(name, pods).map_or(Observation::Holds, |words| Observation::NotYet(reason!("{address}: {words}")))
}

/// What is wrong with an answer that is to be the name of one of our pods.
pub(super) fn ours(name: &str, pods: &[Pod]) -> Option<String> {
    let known = pods.iter().any(|pod| pod.metadata.name.as_deref() == Some(name.trim_end()));
    (!known).then(|| format!("{name:?} answered, which is not one of our pods"))
}

/// Whether none of these namespaces is left.
pub(super) fn gone(namespaces: &[Namespace]) -> Observation {
    if namespaces.is_empty() {
        return Observation::Holds;
    }
    let left: Vec<String> = namespaces.iter().map(left).collect();
    Observation::NotYet(reason!("{}", left.join("; ")))
}

/// How the namespace controller explains itself; the other conditions of a namespace mean nothing while they are false.
fn left(namespace: &Namespace) -> String {
    let name = namespace.metadata.name.as_deref().unwrap_or("?");
    let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut causes = conditions.filter(|condition| condition.status == "True").filter_map(|c| c.message.as_deref());
    match causes.next() {
        Some(cause) => format!("{name} is being deleted: {cause}"),
        None => format!("{name} is being deleted"),
    }
}

/// Why a node has no pod that serves.
fn of_node(pods: &[Pod], node: &str) -> Option<String> {
    let mut here = pods.iter().filter(|pod| place(pod) == Some(node)).peekable();
    if here.peek().is_none() {
        return Some(format!("{node} has none"));
    }
    let trouble: Vec<String> = here.map(pod_trouble).collect::<Option<_>>()?;
    Some(format!("{node}: {}", trouble.join(", ")))
}

/// The node of a pod, or the one that a DaemonSet wants it on while the scheduler has not agreed.
fn place(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    let wanted = || {
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let fields = terms.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
        let mut named = fields.filter(|field| field.key == "metadata.name");
        named.find_map(|field| field.values.as_ref()?.first()).map(String::as_str)
    };
    spec.node_name.as_deref().or_else(wanted)
}

/// The causes in a failure's report, without what to do next: that is for whoever runs the program by hand.
fn told(stderr: &str) -> Option<String> {
    let cause =
        |line: &str| ["error: ", "because: "].iter().find_map(|word| line.strip_prefix(word).map(str::to_owned));
    let causes: Vec<String> = stderr.lines().filter_map(cause).collect();
    (!causes.is_empty()).then(|| causes.join(": "))
}

#[cfg(test)]
mod tests;
