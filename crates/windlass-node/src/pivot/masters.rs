//! Whether the masters carry the control plane, judged from what the API shows: each master that moves has joined, has
//! its label, runs every program of the self-hosted control plane and answers as an API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use tracing::warn;
use windlass_cluster::ready::{pod_is_ready, pod_trouble};
use windlass_steps::criterion::{Observation, Reason};
use windlass_steps::reason;

use super::site::quorum;

/// A master that has shown nothing new for this long is not waited for.
const STILL: Duration = Duration::from_secs(20);
const LABEL: &str = "node-role.kubernetes.io/control-plane";
const APP: &str = "k8s-app";
/// The kubelet's mark on what the API shows of a static pod; a copy that the checkpointer keeps does not count.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What runs on every master.
pub(super) const ON_EVERY_MASTER: [&str; 4] =
    ["kube-apiserver", "checkpointer", "machine-config-server", "csr-approver"];
/// What runs on as many masters as its replicas say.
pub(super) const REPLICATED: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// What the API shows of the masters at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub nodes: Vec<Node>,
    /// Those of `kube-system`.
    pub pods: Vec<Pod>,
    /// How many certificate requests each machine has made.
    pub requests: BTreeMap<String, usize>,
    /// Whether the API server of each master answers.
    pub answers: BTreeMap<String, Observation>,
}

/// How far a master has come; a change of it is progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    requests: usize,
    has_joined: bool,
    is_labelled: bool,
    ready: BTreeSet<&'static str>,
    answers: bool,
}

/// A master, how far it has come, and for how long it has been there.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub name: &'a str,
    pub progress: Progress,
    pub still: Duration,
}

impl Snapshot {
    /// How far a master has come.
    pub(super) fn progress(&self, master: &str) -> Progress {
        let node = self.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(master));
        let is_labelled = node.is_some_and(|n| n.metadata.labels.as_ref().is_some_and(|l| l.contains_key(LABEL)));
        let is_ready = |app: &&str| self.pods_of(app).any(|pod| is_on(pod, master) && pod_is_ready(pod));
        Progress {
            requests: self.requests.get(master).copied().unwrap_or(0),
            has_joined: node.is_some(),
            is_labelled,
            ready: ON_EVERY_MASTER.into_iter().chain(REPLICATED).filter(is_ready).collect(),
            answers: self.answers.get(master) == Some(&Observation::Holds),
        }
    }

    /// Why a master does not carry the control plane, in the order in which it comes to.
    fn lacks(&self, master: &Seen<'_>) -> Option<String> {
        let progress = &master.progress;
        if !progress.has_joined {
            return Some(match progress.requests {
                0 => "it has not asked for a certificate".to_owned(),
                _ => "it has asked for a certificate and not joined".to_owned(),
            });
        }
        if !progress.is_labelled {
            return Some(format!("its Node has no label {LABEL}"));
        }
        if let Some(app) = ON_EVERY_MASTER.into_iter().find(|app| !progress.ready.contains(app)) {
            let trouble = self.pods_of(app).filter(|pod| is_on(pod, master.name)).find_map(pod_trouble);
            return Some(trouble.unwrap_or_else(|| format!("there is no pod of {app}")));
        }
        match self.answers.get(master.name) {
            Some(Observation::Holds) => None,
            Some(Observation::NotYet(why) | Observation::Never(why)) => Some(format!("its API server: {why}")),
            None => Some("its API server was not asked".to_owned()),
        }
    }

    fn pods_of(&self, app: &str) -> impl Iterator<Item = &Pod> {
        let is_of = move |pod: &&Pod| {
            let meta = &pod.metadata;
            let labelled = meta.labels.as_ref().and_then(|labels| labels.get(APP)).is_some_and(|value| value == app);
            labelled && !meta.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR))
        };
        self.pods.iter().filter(is_of)
    }
}

/// Whether a master carries the control plane, or stands still while enough others carry it.
pub(super) fn carries(snapshot: &Snapshot, masters: &[Seen<'_>], name: &str) -> Observation {
    let Some(master) = masters.iter().find(|master| master.name == name) else {
        return Observation::NotYet(reason!("nobody expects it"));
    };
    let Some(lacks) = snapshot.lacks(master) else { return Observation::Holds };
    if master.still >= STILL && carrying(snapshot, masters) >= quorum(masters.len()) {
        warn!(machine = name, lacks, "going on without a master that stands still");
        return Observation::Holds;
    }
    Observation::NotYet(Reason::new(lacks))
}

/// Whether a program of which one leads stands ready on every master that carries the control plane, or as often as it
/// is wanted.
pub(super) fn stands_ready(snapshot: &Snapshot, masters: &[Seen<'_>], app: &str, replicas: usize) -> Observation {
    let places: BTreeSet<&str> = masters
        .iter()
        .map(|master| master.name)
        .filter(|name| snapshot.pods_of(app).any(|pod| is_on(pod, name) && pod_is_ready(pod)))
        .collect();
    let want = carrying(snapshot, masters).max(quorum(masters.len())).min(replicas);
    if !places.is_empty() && places.len() >= want {
        return Observation::Holds;
    }
    let trouble: Vec<String> = snapshot.pods_of(app).filter_map(pod_trouble).collect();
    Observation::NotYet(reason!("{} of {want} are ready; {}", places.len(), trouble.join("; ")))
}

fn carrying(snapshot: &Snapshot, masters: &[Seen<'_>]) -> usize {
    masters.iter().filter(|master| snapshot.lacks(master).is_none()).count()
}

fn is_on(pod: &Pod, machine: &str) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(machine)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, labels: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn pod(app: &str, machine: &str, ready: &str) -> Pod {
        let body = json!({
            "metadata": {"name": format!("{app}-x"), "namespace": "kube-system", "labels": {"k8s-app": app}},
            "spec": {"nodeName": machine, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready, "reason": "NotYet"}]},
        });
        serde_json::from_value(body).unwrap()
    }

    /// Three masters that carry everything.
    fn whole() -> Snapshot {
        let mut snapshot = Snapshot::default();
        for name in ["a", "b", "c"] {
            snapshot.nodes.push(node(name, json!({LABEL: ""})));
            for app in ON_EVERY_MASTER.into_iter().chain(REPLICATED) {
                snapshot.pods.push(pod(app, name, "True"));
            }
            snapshot.requests.insert(name.into(), 1);
            snapshot.answers.insert(name.into(), Observation::Holds);
        }
        snapshot
    }

    fn unready(snapshot: &mut Snapshot, app: &str, machine: &str) {
        snapshot.pods.retain(|p| !(is_on(p, machine) && p.metadata.labels.as_ref().unwrap()[APP] == app));
        snapshot.pods.push(pod(app, machine, "False"));
    }

    fn gone(snapshot: &mut Snapshot, machine: &str) {
        snapshot.nodes.retain(|n| n.metadata.name.as_deref() != Some(machine));
        snapshot.pods.retain(|p| !is_on(p, machine));
        snapshot.answers.insert(machine.into(), Observation::NotYet(Reason::new("refused")));
    }

    fn seen(snapshot: &Snapshot, still: u64) -> Vec<Seen<'static>> {
        let one = |name| Seen { name, progress: snapshot.progress(name), still: Duration::from_secs(still) };
        ["a", "b", "c"].into_iter().map(one).collect()
    }

    fn told(observation: Observation) -> String {
        match observation {
            Observation::Holds => "holds".to_owned(),
            Observation::NotYet(reason) => reason.text().to_owned(),
            Observation::Never(reason) => format!("never: {reason}"),
        }
    }

    #[test]
    fn a_master_carries_the_control_plane_when_nothing_is_missing() {
        type Damage = fn(&mut Snapshot);
        let cases: [(Damage, &str); 8] = [
            (|_| {}, "holds"),
            (
                |s| {
                    gone(s, "c");
                    s.requests.clear();
                },
                "it has not asked for a certificate",
            ),
            (|s| gone(s, "c"), "it has asked for a certificate and not joined"),
            (|s| s.nodes[2] = node("c", json!({})), "its Node has no label node-role.kubernetes.io/control-plane"),
            (|s| unready(s, "csr-approver", "c"), "kube-system/csr-approver-x on c: NotYet"),
            (|s| s.pods.retain(|p| !is_on(p, "c")), "there is no pod of kube-apiserver"),
            (
                |s| {
                    s.answers.insert("c".into(), Observation::NotYet(Reason::new("refused")));
                },
                "its API server: refused",
            ),
            (
                |s| {
                    s.answers.clear();
                },
                "its API server was not asked",
            ),
        ];
        for (damage, want) in cases {
            let mut snapshot = whole();
            damage(&mut snapshot);
            assert_eq!(told(carries(&snapshot, &seen(&snapshot, 19), "c")), want);
        }
    }

    #[test]
    fn a_static_copy_is_not_the_pod_itself() {
        let mut snapshot = whole();
        for pod in snapshot.pods.iter_mut().filter(|p| is_on(p, "c")) {
            pod.metadata.annotations = Some([(MIRROR.to_owned(), "x".to_owned())].into());
        }
        assert_eq!(told(carries(&snapshot, &seen(&snapshot, 0), "c")), "there is no pod of kube-apiserver");
    }

    #[test]
    fn a_straggler_is_left_behind_only_while_a_quorum_carries_the_control_plane() {
        let mut one_gone = whole();
        gone(&mut one_gone, "c");
        let mut two_gone = whole();
        gone(&mut two_gone, "b");
        gone(&mut two_gone, "c");
        let cut_off = "it has asked for a certificate and not joined";
        for (snapshot, still, want) in
            [(&one_gone, 19, cut_off), (&one_gone, 20, "holds"), (&two_gone, 20, cut_off), (&two_gone, 600, cut_off)]
        {
            assert_eq!(told(carries(snapshot, &seen(snapshot, still), "c")), want, "{still}");
        }
        assert_eq!(told(carries(&whole(), &seen(&whole(), 0), "stranger")), "nobody expects it");
    }

    #[test]
    fn a_leader_and_those_who_stand_by_are_ready_wherever_they_can_be() {
        let app = "kube-scheduler";
        let mut one_gone = whole();
        gone(&mut one_gone, "c");
        let mut one_sick = whole();
        unready(&mut one_sick, app, "b");
        let mut none = whole();
        none.pods.retain(|p| p.metadata.labels.as_ref().unwrap()[APP] != app);
        let mut not_yet = Snapshot::default();
        not_yet.pods.push(pod(app, "a", "True"));
        let cases = [
            (&whole(), 3, "holds"),
            (&whole(), 1, "holds"),
            (&one_gone, 3, "holds"),
            (&one_sick, 3, "2 of 3 are ready; kube-system/kube-scheduler-x on b: NotYet"),
            (&none, 3, "0 of 3 are ready; "),
            (&none, 0, "0 of 0 are ready; "),
            (&not_yet, 3, "1 of 2 are ready; "),
        ];
        for (snapshot, replicas, want) in cases {
            assert_eq!(told(stands_ready(snapshot, &seen(snapshot, 0), app, replicas)), want);
        }
    }

    #[test]
    fn progress_is_what_changes_and_not_what_is_said_about_it() {
        let before = whole().progress("c");
        let mut snapshot = whole();
        snapshot.nodes[2].metadata.annotations = Some([("heartbeat".to_owned(), "2".to_owned())].into());
        assert_eq!(snapshot.progress("c"), before);
        unready(&mut snapshot, "checkpointer", "c");
        assert_ne!(snapshot.progress("c"), before);
    }
}
