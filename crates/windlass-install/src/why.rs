//! Why a cluster is not what it should be: every unmet criterion with its reason, from the journal, from the machines'
//! own units, from the platform, and from the API. What cannot be asked is told too.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Serialize;
use windlass_cluster::ready;
use windlass_platform::{BOOTSTRAP, Backend, MachineState, Platform, SeenMachine, Task};
use windlass_steps::criterion::Observation;
use windlass_steps::journal::History;
use windlass_steps::report::chain;

use crate::sight::Sight;
use crate::status;

const UNITS_LIMIT: Duration = Duration::from_secs(5);
const FAILED_UNITS: [&str; 5] = ["systemctl", "--failed", "--no-legend", "--plain", "--no-pager"];

/// Everything that is not as it should be; nothing if all is well.
#[derive(Debug, Default, Serialize)]
pub struct Why {
    /// In the order of the launch: steps, machines, units, nodes and pods.
    pub findings: Vec<Finding>,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The step that waits for it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The machine that it happens on, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What is not as it should be.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Since when a step has waited for it, or a unit is where it is, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// Looks everywhere.
pub async fn why(history: Option<&History>, platform: &impl Platform, sight: &impl Sight) -> Why {
    let mut findings = Vec::new();
    findings.extend(history.map(status::unmet).into_iter().flatten().map(|unmet| Finding {
        step: Some(unmet.step),
        machine: None,
        subject: unmet.statement,
        reason: unmet.reason,
        since: Some(unmet.since),
    }));
    match platform.machines().await {
        Ok(machines) => {
            for machine in &machines {
                findings.extend(of_machine(machine, platform, sight).await);
            }
            if !machines.is_empty() {
                findings.extend(of_balancer(sight).await);
                findings.extend(of_api(&machines, sight).await);
            }
        }
        Err(error) => findings.push(unseen("the machines", &chain(&error))),
    }
    // Whatever else is wrong now is wrong while the launch is in this step.
    let step = history.and_then(status::current);
    findings.iter_mut().filter(|finding| finding.step.is_none()).for_each(|finding| finding.step.clone_from(&step));
    Why { findings }
}

async fn of_machine(machine: &SeenMachine, platform: &impl Platform, sight: &impl Sight) -> Vec<Finding> {
    let finding = |subject: &str, reason: String| Finding {
        step: None,
        machine: Some(machine.name.clone()),
        subject: subject.to_owned(),
        reason,
        since: None,
    };
    if machine.state != MachineState::Running {
        return vec![finding("the machine", machine.state.to_string())];
    }
    let mut findings = Vec::new();
    match sight.records(&machine.name).await {
        Ok(records) => {
            let open = records.iter().filter(|(_, record)| record.is_in_trouble());
            findings.extend(open.map(|(unit, record)| {
                let since = record.ended.as_ref().unwrap_or(&record.since);
                let since = Some(since.clone()).filter(|since| !since.is_empty());
                Finding { since, ..finding(unit, record.story()) }
            }));
        }
        Err(error) => findings.push(finding("what its units say", chain(error.as_ref()).join(": "))),
    }
    let health = sight.health(&machine.name).await.unwrap_or_default();
    findings.extend(health.into_iter().map(|unmet| finding(&unmet.statement, unmet.reason)));
    for unit in failed_units(platform, &machine.name).await {
        let said = last_words(platform, &machine.name, &unit).await;
        findings.push(finding(&unit, format!("the unit has failed: {said}")));
    }
    findings
}

/// Units that systemd knows as failed; a machine that cannot be asked has said so already.
async fn failed_units(platform: &impl Platform, machine: &str) -> Vec<String> {
    let failed = platform.exec(machine, &Task::new(FAILED_UNITS, UNITS_LIMIT)).await;
    let failed = failed.map(|ran| ran.stdout).unwrap_or_default();
    failed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The last lines of a unit's journal.
async fn last_words(platform: &impl Platform, machine: &str, unit: &str) -> String {
    let words = ["journalctl", "--no-pager", "--output", "cat", "--lines", "3", "--unit", unit];
    let said = platform.exec(machine, &Task::new(words, UNITS_LIMIT)).await.map(|ran| ran.stdout);
    said.unwrap_or_default().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Machines that the balancer does not lead to.
async fn of_balancer(sight: &impl Sight) -> Vec<Finding> {
    let backends = match sight.backends().await {
        Ok(backends) => backends,
        Err(error) => return vec![unseen("the balancer", &chain(error.as_ref()))],
    };
    let refused = |Backend { machine, port, trouble }: Backend| {
        let subject = format!("port {port} behind the balancer");
        Some(Finding { step: None, machine: Some(machine), subject, reason: trouble?, since: None })
    };
    backends.into_iter().filter_map(refused).collect()
}

async fn of_api(machines: &[SeenMachine], sight: &impl Sight) -> Vec<Finding> {
    let (nodes, pods) = match (sight.nodes().await, sight.pods().await) {
        (Ok(nodes), Ok(pods)) => (nodes, pods),
        (Err(error), _) | (_, Err(error)) => return vec![unseen("nodes and pods", &chain(error.as_ref()))],
    };
    let members = machines.iter().filter(|machine| machine.name != BOOTSTRAP);
    members.filter_map(|machine| of_node(&machine.name, &nodes)).chain(of_pods(&pods)).collect()
}

fn of_node(machine: &str, nodes: &[Node]) -> Option<Finding> {
    let reason = match ready::nodes_ready(nodes, &[machine]) {
        Observation::Holds => return None,
        Observation::NotYet(reason) | Observation::Never(reason) => reason.to_string(),
    };
    let (machine, subject) = (Some(machine.to_owned()), "its node".to_owned());
    Some(Finding { step: None, machine, subject, reason, since: None })
}

fn of_pods(pods: &[Pod]) -> Vec<Finding> {
    let unfinished = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Succeeded");
    let finding = |pod: &Pod| {
        let machine = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let (subject, reason) = ("a pod".to_owned(), ready::pod_trouble(pod)?);
        Some(Finding { step: None, machine, subject, reason, since: None })
    };
    pods.iter().filter(unfinished).filter_map(finding).collect()
}

fn unseen(what: &str, causes: &[String]) -> Finding {
    let reason = format!("cannot be seen: {}", causes.join(": "));
    Finding { step: None, machine: None, subject: what.to_owned(), reason, since: None }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { step, machine, subject, reason, since } in &self.findings {
            let place: Vec<&str> = [step, machine].into_iter().flatten().map(String::as_str).collect();
            let place = if place.is_empty() { String::new() } else { format!("{}: ", place.join(", ")) };
            let since = since.as_ref().map(|since| format!(" (since {since})")).unwrap_or_default();
            writeln!(f, "{place}{subject}: {reason}{since}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use windlass_platform::Executed;
    use windlass_platform::fake::Fake;
    use windlass_spec::file::read_and_complete;

    use super::*;
    use crate::sight::{FakeSight, Record, UnitState, UnmetLine};

    fn said(stdout: &str) -> Executed {
        Executed { code: 0, stdout: stdout.to_owned(), stderr: String::new() }
    }

    #[tokio::test]
    async fn machines_units_and_nodes_are_told_apart() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let (platform, sight) = (Fake::default(), FakeSight::whole(&spec));
        assert!(why(None, &platform, &sight).await.findings.is_empty(), "what was never made is no trouble");
        platform.put("master-0", "master");
        platform.put("worker-1", "worker");
        platform.set("worker-1", MachineState::Off);
        sight.change(|shown| {
            let since = "2026-11-18T10:00:00.000Z".to_owned();
            let hook = Record {
                ended: Some(since),
                said: vec!["no such device".into()],
                ..Record::at(UnitState::Failed, "run")
            };
            let done = Record::at(UnitState::Done, "open-gate");
            shown
                .records
                .insert("master-0".to_owned(), [("bootstrap".into(), done), ("hook-driver".into(), hook)].into());
            shown.nodes.retain(|node| node.metadata.name.as_deref() != Some("worker-1"));
            let full = UnmetLine { statement: "etcd runs".to_owned(), reason: "it has ended: disk full".to_owned() };
            shown.backends[0].trouble = Some("refused".to_owned());
            shown.health.insert("master-0".to_owned(), vec![full]);
        });
        platform.answer(&FAILED_UNITS.join(" "), said("kubelet.service loaded failed failed The kubelet\n"));
        let words = "journalctl --no-pager --output cat --lines 3 --unit kubelet.service";
        platform.answer(words, said("started\nno such flag\n"));
        let told = why(None, &platform, &sight).await.to_string();
        let want = [
            "master-0: hook-driver: failed at run: no such device (since 2026-11-18T10:00:00.000Z)",
            "master-0: etcd runs: it has ended: disk full",
            "master-0: kubelet.service: the unit has failed: started; no such flag",
            "worker-1: the machine: is off",
            "master-0: port 6443 behind the balancer: refused",
            "worker-1: its node: 0 of 1 nodes are Ready; missing: worker-1 (not registered)",
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), want);
    }

    #[tokio::test]
    async fn what_cannot_be_asked_is_told() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let (platform, sight) = (Fake::default(), FakeSight::whole(&spec));
        platform.put("master-0", "master");
        sight.change(|shown| shown.silence = Some("connection refused".to_owned()));
        let told = why(None, &platform, &sight).await.to_string();
        assert!(told.contains("master-0: what its units say: master-0 cannot be asked"), "{told}");
        assert!(told.contains("nodes and pods: cannot be seen: connection refused"), "{told}");
    }
}
