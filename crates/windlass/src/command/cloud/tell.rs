//! The words for what the local cloud says.

use serde::Serialize;
use windlass_cloud_api::{Cluster, Event, Label, Machine, MachineState, Status};

/// What people should know when no daemon runs.
pub(super) const ABSENT: &str = "it starts with the first cluster, and with windlass cloud machine start";

/// A cluster in a few numbers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterLine {
    name: Label,
    domain: String,
    subnet: String,
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    machines: usize,
    running: usize,
}

impl ClusterLine {
    pub(super) fn of(cluster: &Cluster, machines: &[Machine]) -> Self {
        ClusterLine {
            name: cluster.name.clone(),
            domain: cluster.spec.domain.clone(),
            subnet: cluster.spec.subnet.to_string(),
            ready: cluster.ready,
            trouble: cluster.trouble.clone(),
            machines: machines.len(),
            running: machines.iter().filter(|machine| machine.state.is_running()).count(),
        }
    }

    fn text(&self) -> String {
        let network = match (&self.trouble, self.ready) {
            (Some(trouble), _) => format!("trouble: {trouble}"),
            (None, true) => "ready".to_owned(),
            (None, false) => "not ready yet".to_owned(),
        };
        let Self { name, domain, subnet, machines, running, .. } = self;
        format!("cluster {name}: {domain}, {subnet}, {network}; {running} of {machines} machines run\n")
    }
}

pub(super) fn status(status: &Status, clusters: &[ClusterLine]) -> String {
    let mut text = format!(
        "the local cloud runs: version {}, process {}, {} machines, state in {}\n",
        status.version,
        status.pid,
        status.world,
        status.state.display(),
    );
    match clusters {
        [] => text.push_str("no cluster\n"),
        clusters => text.extend(clusters.iter().map(ClusterLine::text)),
    }
    for stray in &status.strays {
        text.push_str(&format!("stray {stray}: things of it are on this host, but the cloud does not know it\n"));
    }
    for trouble in &status.troubles {
        text.push_str(&format!("trouble: {trouble}\n"));
    }
    text
}

pub(super) fn event(event: &Event) -> String {
    let cluster = event.cluster.as_ref().map_or("-", Label::as_str);
    let subject = event.subject.as_deref().unwrap_or("-");
    format!("{} {cluster} {subject} {}\n", event.time, event.message)
}

pub(super) fn machines(machines: &[Machine]) -> String {
    let width = |of: fn(&Machine) -> usize| machines.iter().map(of).max().unwrap_or_default();
    let clusters = width(|machine| machine.cluster.as_str().len());
    let names = width(|machine| machine.name.as_str().len());
    let line = |machine: &Machine| {
        let Machine { cluster, name, address, image, .. } = machine;
        let (cluster, name, address) = (cluster.as_str(), name.as_str(), address.to_string());
        format!("{cluster:<clusters$}  {name:<names$}  {address:<15}  {image}  {}\n", state(&machine.state))
    };
    machines.iter().map(line).collect()
}

pub(super) fn state(state: &MachineState) -> String {
    let so_far = |word: &str, reason: &Option<String>| match reason {
        Some(reason) => format!("{word}: {reason}"),
        None => word.to_owned(),
    };
    match state {
        MachineState::Making { reason } => so_far("being made", reason),
        MachineState::Igniting { reason } => so_far("first boot", reason),
        MachineState::Running { pid } => format!("runs, process {pid}"),
        MachineState::Stopped => "off".to_owned(),
        MachineState::Dead { reason } => format!("dead: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_words_and_its_reason() {
        let why = || Some("image is unpacked".to_owned());
        let cases = [
            (MachineState::Making { reason: None }, "being made"),
            (MachineState::Igniting { reason: why() }, "first boot: image is unpacked"),
            (MachineState::Running { pid: 7 }, "runs, process 7"),
            (MachineState::Stopped, "off"),
            (MachineState::Dead { reason: "killed".to_owned() }, "dead: killed"),
        ];
        for (given, want) in cases {
            assert_eq!(state(&given), want);
        }
    }

    #[test]
    fn strays_and_troubles_are_told() {
        let stray = Label::parse("lost").unwrap();
        let told = Status {
            version: "1".to_owned(),
            pid: 7,
            state: "/var/lib/windlass".into(),
            world: "real".to_owned(),
            clusters: Vec::new(),
            strays: vec![stray],
            running: 0,
            troubles: vec!["the state file was damaged".to_owned()],
        };
        let text = status(&told, &[]);
        for line in ["no cluster", "stray lost: ", "trouble: the state file was damaged"] {
            assert!(text.lines().any(|told| told.starts_with(line)), "{text}");
        }
    }
}
