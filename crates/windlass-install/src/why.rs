//! Why a cluster is not what it should be: every unmet criterion with its reason, from the journal, from the machines'
//! own units, from the platform, and from the API. What cannot be asked is told too.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Serialize;
use windlass_cluster::ready::{self, Workloads};
use windlass_platform::{BOOTSTRAP, Backend, MachineState, Platform, SeenMachine, Task};
use windlass_steps::criterion::{LookError, Observation};
use windlass_steps::journal::History;
use windlass_steps::report::chain;

use crate::sight::{Sight, in_time};
use crate::status;

const UNITS_LIMIT: Duration = Duration::from_secs(5);
/// Why the Node whose turn it is does not reboot, in words.
const WAITS_FOR: &str = "windlass.dev/reboot-waits-for";
/// Whether the addons of the next OS are there; anything but `true` is the reason why not.
const ADDONS_STAGED: &str = "windlass.dev/addons-staged";
const FAILED_UNITS: [&str; 5] = ["systemctl", "--failed", "--no-legend", "--plain", "--no-pager"];

/// Everything that is not as it should be; nothing if all is well.
#[derive(Debug, Default, Serialize)]
pub struct Why {
    /// In the order of the launch: steps, machines, units, nodes, pods and workloads.
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
    match in_time(async { Ok(platform.machines().await?) }).await {
        Ok(machines) if machines.is_empty() => {}
        Ok(machines) => {
            // All at once: whoever does not answer is waited for once, not once for each of them.
            let units = join_all(machines.iter().map(|machine| of_machine(machine, platform, sight)));
            let (units, balancer, api) = tokio::join!(units, of_balancer(sight), of_api(&machines, sight));
            findings.extend(units.into_iter().flatten().chain(balancer).chain(api));
        }
        Err(error) => findings.push(unseen("the machines", &chain(error.as_ref()))),
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
    let name = &machine.name;
    let (records, health, failed) =
        tokio::join!(in_time(sight.records(name)), in_time(sight.health(name)), failed_units(platform, name));
    let mut findings = Vec::new();
    match (records, &health) {
        (Ok(records), health) => {
            let open = records.iter().filter(|(_, record)| record.is_in_trouble());
            findings.extend(open.map(|(unit, record)| {
                let since = record.ended.as_ref().unwrap_or(&record.since);
                let since = Some(since.clone()).filter(|since| !since.is_empty());
                Finding { since, ..finding(unit, record.story()) }
            }));
            let unasked = health.as_ref().err();
            findings.extend(unasked.map(|error| finding("its health", chain(error.as_ref()).join(": "))));
        }
        // One line is enough for a machine that cannot be asked.
        (Err(error), _) => findings.push(finding("what its units say", chain(error.as_ref()).join(": "))),
    }
    findings.extend(health.into_iter().flatten().map(|unmet| finding(&unmet.statement, unmet.reason)));
    let said = failed.iter().map(async |unit| (unit, last_words(platform, name, unit).await));
    let said = join_all(said).await;
    findings.extend(said.into_iter().map(|(unit, said)| finding(unit, format!("the unit has failed: {said}"))));
    findings
}

/// Units that systemd knows as failed; a machine that cannot be asked has said so already.
async fn failed_units(platform: &impl Platform, machine: &str) -> Vec<String> {
    let failed = said(platform, machine, &FAILED_UNITS).await;
    failed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The last lines of a unit's journal.
async fn last_words(platform: &impl Platform, machine: &str, unit: &str) -> String {
    let words = ["journalctl", "--no-pager", "--output", "cat", "--lines", "3", "--unit", unit];
    said(platform, machine, &words).await.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// What a command prints on a machine; nothing if it cannot be run there.
async fn said(platform: &impl Platform, machine: &str, words: &[&str]) -> String {
    let task = Task::new(words.iter().copied(), UNITS_LIMIT);
    let ran = in_time(async { Ok(platform.exec(machine, &task).await?) }).await;
    ran.map(|ran| ran.stdout).unwrap_or_default()
}

/// Machines that the balancer does not lead to.
async fn of_balancer(sight: &impl Sight) -> Vec<Finding> {
    let backends = match in_time(sight.backends()).await {
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
    let (nodes, pods, workloads) =
        tokio::join!(in_time(sight.nodes()), in_time(sight.pods()), in_time(sight.workloads()));
    let of_nodes = |nodes: &[Node]| -> Vec<Finding> {
        let members = machines.iter().filter(|machine| machine.name != BOOTSTRAP);
        members.filter_map(|machine| of_node(&machine.name, nodes)).chain(nodes.iter().filter_map(of_reboot)).collect()
    };
    // One line is enough for an API that shows nothing at all.
    if let (Err(error), Err(_), Err(_)) = (&nodes, &pods, &workloads) {
        return vec![unseen("nodes, pods and workloads", &chain(error.as_ref()))];
    }
    let looks = [
        ("nodes", nodes.map(|nodes| of_nodes(&nodes))),
        ("pods", pods.map(|pods| of_pods(&pods))),
        ("workloads", workloads.map(|workloads| of_workloads(&workloads))),
    ];
    let told = |(what, look): (&str, Result<Vec<Finding>, LookError>)| {
        look.unwrap_or_else(|error| vec![unseen(what, &chain(error.as_ref()))])
    };
    looks.into_iter().flat_map(told).collect()
}

fn of_node(machine: &str, nodes: &[Node]) -> Option<Finding> {
    let reason = match ready::nodes_ready(nodes, &[machine]) {
        Observation::Holds => return None,
        Observation::NotYet(reason) | Observation::Never(reason) => reason.to_string(),
    };
    let (machine, subject) = (Some(machine.to_owned()), "its node".to_owned());
    Some(Finding { step: None, machine, subject, reason, since: None })
}

/// A reboot that waits: what holds it up stands in the Node's annotations (`docs/design/os-update.md`).
fn of_reboot(node: &Node) -> Option<Finding> {
    let annotation = |name: &str| node.metadata.annotations.as_ref()?.get(name).filter(|text| !text.is_empty());
    let waits_for = annotation(WAITS_FOR).map(|why| format!("it waits: {why}"));
    let unstaged = annotation(ADDONS_STAGED).filter(|staged| *staged != "true");
    // The one usually quotes the other.
    let unstaged = unstaged.filter(|why| !waits_for.as_ref().is_some_and(|told| told.contains(why.as_str())));
    let unstaged = unstaged.map(|why| format!("the addons of the next OS are not staged: {why}"));
    let reasons: Vec<String> = waits_for.into_iter().chain(unstaged).collect();
    let machine = node.metadata.name.clone();
    let finding =
        Finding { step: None, machine, subject: "its reboot".to_owned(), reason: reasons.join("; "), since: None };
    (!reasons.is_empty()).then_some(finding)
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

/// Workloads whose pods are not there, or not well: a pod that cannot be made has no finding of its own.
fn of_workloads(workloads: &Workloads) -> Vec<Finding> {
    let finding = |reason| Finding { step: None, machine: None, subject: "a workload".to_owned(), reason, since: None };
    ready::workload_troubles(workloads).into_iter().map(finding).collect()
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

    type Annotations<'a> = &'a [(&'a str, &'a str)];

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
            let status = shown.workloads.daemon_sets[0].status.as_mut().unwrap();
            (status.current_number_scheduled, status.number_ready) = (4, 4);
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
            "a workload: DaemonSet kube-system/kube-proxy: 4 of 5 pods are scheduled",
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
        assert!(told.contains("nodes, pods and workloads: cannot be seen: connection refused"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn machines_and_an_api_that_never_answer_are_told_within_seconds() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let (platform, sight) = (Fake::default(), FakeSight::whole(&spec));
        let machines = ["master-0", "master-1", "master-2", "worker-0", "worker-1"];
        machines.iter().for_each(|machine| platform.put(machine, "worker"));
        sight.change(|shown| shown.hangs = true);
        let began = tokio::time::Instant::now();
        let told = why(None, &platform, &sight).await.to_string();
        assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
        for machine in machines {
            assert!(told.contains(&format!("{machine}: what its units say: no answer within 5 s")), "{told}");
        }
        for what in ["the balancer", "nodes, pods and workloads"] {
            assert!(told.contains(&format!("{what}: cannot be seen: no answer within 5 s")), "{told}");
        }
    }

    #[tokio::test]
    async fn a_reboot_that_waits_is_told_once_for_each_node() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let quoted = format!("the annotation {ADDONS_STAGED} is \"failed: no disk\", not \"true\"");
        let cases: [(Annotations<'_>, Option<String>); 5] = [
            (&[], None),
            (&[(ADDONS_STAGED, "true"), (WAITS_FOR, "")], None),
            (
                &[(ADDONS_STAGED, "failed: no disk")],
                Some("the addons of the next OS are not staged: failed: no disk".into()),
            ),
            (&[(ADDONS_STAGED, "failed: no disk"), (WAITS_FOR, &quoted)], Some(format!("it waits: {quoted}"))),
            (
                &[(ADDONS_STAGED, "true"), (WAITS_FOR, "worker-0 is not Ready")],
                Some("it waits: worker-0 is not Ready".into()),
            ),
        ];
        for (annotations, want) in cases {
            let (platform, sight) = (Fake::default(), FakeSight::whole(&spec));
            platform.put("worker-1", "worker");
            sight.change(|shown| {
                shown.records.insert("worker-1".to_owned(), Default::default());
                let node = shown.nodes.iter_mut().find(|node| node.metadata.name.as_deref() == Some("worker-1"));
                let annotations = annotations.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
                node.unwrap().metadata.annotations = Some(annotations.collect());
            });
            let told = why(None, &platform, &sight).await.to_string();
            let want = want.map(|reason| format!("worker-1: its reboot: {reason}\n")).unwrap_or_default();
            assert_eq!(told, want);
        }
    }
}
