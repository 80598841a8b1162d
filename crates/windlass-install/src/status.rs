//! How far a launch has come and how its machines and nodes are: what `windlass status` shows.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;
use windlass_platform::{MachineState, Platform, SeenMachine};
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::criterion::LookError;
use windlass_steps::event::Kind;
use windlass_steps::journal::History;
use windlass_steps::report::chain;

use crate::launch;
use crate::sight::{Record, Sight, UnitState, in_time};

/// How a cluster is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The name of everything that belongs to the cluster.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// Every step of the launch, in order.
    pub steps: Vec<StepStatus>,
    /// Every machine, or why they cannot be seen.
    pub machines: Seen<Vec<SeenMachine>>,
    /// Every unit of ours on each machine that runs, or why they cannot be seen.
    pub units: BTreeMap<String, Seen<BTreeMap<String, UnitStatus>>>,
    /// Every node and whether it is Ready, or why they cannot be seen.
    pub nodes: Seen<BTreeMap<String, NodeStatus>>,
    /// Every criterion that did not hold when it was last looked at.
    pub unmet: Vec<UnmetCriterion>,
}

/// What was seen, or why nothing was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Seen<T> {
    /// What was seen.
    There(T),
    /// Nothing was seen.
    Unseen {
        /// Why not.
        unseen: String,
    },
}

impl<T> From<Result<T, String>> for Seen<T> {
    fn from(seen: Result<T, String>) -> Self {
        match seen {
            Ok(seen) => Seen::There(seen),
            Err(unseen) => Seen::Unseen { unseen },
        }
    }
}

/// How far a step has come.
#[derive(Debug, Serialize)]
pub struct StepStatus {
    /// The step.
    pub name: String,
    /// Whether it was done.
    pub state: StepState,
    /// Seconds that it took, once it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<f64>,
}

/// Whether a step was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Nobody has begun it.
    Never,
    /// It was begun and has not ended; a launch that was killed leaves it like this.
    Running,
    /// It ended without success.
    Failed,
    /// It is done.
    Done,
}

/// How far a unit of a machine has come.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnitStatus {
    /// Whether it still works.
    pub state: UnitState,
    /// What it does now, or did last.
    pub stage: String,
    /// When it began that, RFC 3339.
    pub since: String,
    /// Seconds that all of it took, once it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<f64>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// Where it stands, in one line.
    pub words: String,
    /// Whether it only does what it does all the time.
    #[serde(skip)]
    stays: bool,
}

impl From<&Record> for UnitStatus {
    fn from(record: &Record) -> Self {
        UnitStatus {
            state: record.state,
            stage: record.stage.clone(),
            since: record.since.clone(),
            took: record.took(),
            attempt: record.attempt,
            words: record.story(),
            stays: record.stays(),
        }
    }
}

/// Whether a node is Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum NodeStatus {
    /// It is.
    Ready,
    /// It is not.
    NotReady,
}

/// A criterion that did not hold when it was last looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnmetCriterion {
    /// The step.
    pub step: String,
    /// What is to be true.
    pub statement: String,
    /// Why it is not.
    pub reason: String,
    /// Since when it is known not to be true, RFC 3339.
    pub since: String,
}

/// Looks at everything.
pub async fn status(infra_id: &str, history: &History, platform: &impl Platform, sight: &impl Sight) -> Status {
    let machines = told(async { Ok(platform.machines().await?) }).await;
    let nodes = async {
        match &machines {
            Ok(machines) if machines.is_empty() => Err("there is no machine".to_owned()),
            Ok(_) | Err(_) => told(sight.nodes()).await,
        }
    };
    let running = machines.iter().flatten().filter(|machine| machine.state == MachineState::Running);
    let units = join_all(running.map(async |machine| (machine.name.clone(), units(sight, &machine.name).await)));
    let (nodes, units) = tokio::join!(nodes, units);
    let nodes = nodes.map(|nodes| nodes.iter().map(of_node).collect());
    Status {
        infra_id: infra_id.to_owned(),
        steps: steps(history),
        machines: machines.into(),
        units: units.into_iter().collect(),
        nodes: nodes.into(),
        unmet: unmet(history),
    }
}

/// A look, or in one line why nothing was seen.
async fn told<T>(look: impl Future<Output = Result<T, LookError>>) -> Result<T, String> {
    in_time(look).await.map_err(|error| chain(error.as_ref()).join(": "))
}

async fn units(sight: &impl Sight, machine: &str) -> Seen<BTreeMap<String, UnitStatus>> {
    let records = told(sight.records(machine)).await;
    records.map(|records| records.iter().map(|(unit, record)| (unit.clone(), record.into())).collect()).into()
}

/// Every step of the flow with what the journal says about it.
pub fn steps(history: &History) -> Vec<StepStatus> {
    let of = |info: windlass_steps::step::StepInfo| {
        let mut events = history.entries.iter().map(|entry| &entry.event).filter(|event| event.step == info.name);
        let last = events.rfind(|event| event.kind != Kind::Observed);
        let state = match last.map(|event| event.kind) {
            None => StepState::Never,
            Some(Kind::Started | Kind::Observed) => StepState::Running,
            Some(Kind::Failed) => StepState::Failed,
            Some(Kind::Finished) => StepState::Done,
        };
        let took = last.and_then(|event| event.took).map(|took| took.as_secs_f64());
        StepStatus { name: info.name.to_string(), state, took }
    };
    launch::steps().into_iter().map(of).collect()
}

/// The criteria of steps that are not done, each with its last reason.
pub fn unmet(history: &History) -> Vec<UnmetCriterion> {
    let mut open: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    for event in history.entries.iter().map(|entry| &entry.event) {
        let step = event.step.to_string();
        match (event.kind, &event.criterion, &event.reason) {
            (Kind::Observed, Some(statement), Some(reason)) => {
                let entry = open.entry((step, statement.clone()));
                let (last, _) = entry.or_insert_with(|| (String::new(), rfc3339_millis(event.time)));
                last.clone_from(reason);
            }
            (Kind::Observed, Some(statement), None) => drop(open.remove(&(step, statement.clone()))),
            (Kind::Started | Kind::Finished, _, _) => open.retain(|(other, _), _| *other != step),
            (Kind::Observed, None, _) | (Kind::Failed, _, _) => {}
        }
    }
    let line = |((step, statement), (reason, since))| UnmetCriterion { step, statement, reason, since };
    open.into_iter().map(line).collect()
}

/// The step that a launch is in, or stopped in.
pub fn current(history: &History) -> Option<String> {
    let open = |step: &StepStatus| matches!(step.state, StepState::Running | StepState::Failed);
    steps(history).into_iter().find(open).map(|step| step.name)
}

fn of_node(node: &Node) -> (String, NodeStatus) {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let name = node.metadata.name.clone().unwrap_or_default();
    (name, if ready { NodeStatus::Ready } else { NodeStatus::NotReady })
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cluster {}", self.infra_id)?;
        for StepStatus { name, state, took } in &self.steps {
            let word = match state {
                StepState::Never => "never",
                StepState::Running => "running",
                StepState::Failed => "failed",
                StepState::Done => "done",
            };
            let took = took.map(|took| format!("  {took:.1} s")).unwrap_or_default();
            writeln!(f, "  {name:<22} {word}{took}")?;
        }
        match &self.machines {
            Seen::There(machines) => {
                machines.iter().try_for_each(|m| writeln!(f, "machine {:<14} {:<10} {}", m.name, m.role, m.state))?;
            }
            Seen::Unseen { unseen } => writeln!(f, "machines cannot be seen: {unseen}")?,
        }
        for (machine, units) in &self.units {
            match units {
                Seen::There(units) => units.iter().try_for_each(|(unit, status)| line(f, machine, unit, status))?,
                Seen::Unseen { unseen } => writeln!(f, "units of {machine} cannot be seen: {unseen}")?,
            }
        }
        match &self.nodes {
            Seen::There(nodes) => {
                nodes.iter().try_for_each(|(name, status)| writeln!(f, "node {name:<17} {status:?}"))?
            }
            Seen::Unseen { unseen } => writeln!(f, "nodes cannot be seen: {unseen}")?,
        }
        self.unmet.iter().try_for_each(|UnmetCriterion { step, statement, reason, since }| {
            writeln!(f, "not met: {step}: {statement}: {reason} (since {since})")
        })
    }
}

/// Only what is under way or went wrong is worth a line.
fn line(f: &mut fmt::Formatter<'_>, machine: &str, unit: &str, status: &UnitStatus) -> fmt::Result {
    let UnitStatus { state, since, took, words, stays, .. } = status;
    if *state == UnitState::Done || *stays {
        return Ok(());
    }
    let took = took.map(|took| format!(", after {took:.1} s")).unwrap_or_default();
    writeln!(f, "unit {machine} {unit:<14} {words} (since {since}{took})")
}

#[cfg(test)]
mod tests {
    use windlass_platform::fake::Fake;
    use windlass_spec::file::read_and_complete;

    use super::*;
    use crate::sight::{FakeSight, StageLine};

    #[tokio::test]
    async fn units_are_told_with_their_stage_and_how_long_they_took() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let (platform, sight) = (Fake::default(), FakeSight::whole(&spec));
        for machine in ["master-0", "worker-0", "worker-1"] {
            platform.put(machine, "worker");
        }
        platform.set("worker-1", MachineState::Off);
        let since = "2026-11-18T10:00:00.000Z".to_owned();
        let record = |state, stage: &str, ended: bool| Record {
            since: since.clone(),
            ended: ended.then(|| since.clone()),
            stages: vec![StageLine { name: stage.into(), started: since.clone(), took: Some(1.25) }],
            ..Record::at(state, stage)
        };
        sight.change(|shown| {
            let units = [
                ("bootstrap", record(UnitState::Done, "open-gate", true)),
                ("hook-a", record(UnitState::Failed, "run", true)),
                ("join", record(UnitState::Running, "await-api", false)),
                ("kubelet-checker", record(UnitState::Running, "watch", false)),
            ];
            shown.records.insert("master-0".into(), units.map(|(unit, record)| (unit.to_owned(), record)).into());
        });
        let status = status("demo-abcde", &History::default(), &platform, &sight).await;
        let text = status.to_string();
        let told: Vec<&str> = text.lines().filter(|line| line.starts_with("unit")).collect();
        let want = [
            "unit master-0 hook-a         failed at run (since 2026-11-18T10:00:00.000Z, after 1.2 s)",
            "unit master-0 join           is at await-api (since 2026-11-18T10:00:00.000Z)",
            "units of worker-0 cannot be seen: worker-0 cannot be asked",
        ];
        assert_eq!(told, want);
        let data = serde_json::to_value(&status).unwrap();
        assert_eq!(data["units"]["master-0"]["bootstrap"]["took"], 1.25);
        assert_eq!(data["units"]["worker-1"], serde_json::Value::Null);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_never_answers_is_told_within_seconds() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let (platform, sight) = (Fake::default(), FakeSight::whole(&spec));
        ["master-0", "worker-0", "worker-1"].iter().for_each(|machine| platform.put(machine, "worker"));
        sight.change(|shown| shown.hangs = true);
        let began = tokio::time::Instant::now();
        let text = status("demo-abcde", &History::default(), &platform, &sight).await.to_string();
        assert!(began.elapsed() <= std::time::Duration::from_secs(5), "{:?}", began.elapsed());
        for what in ["nodes", "units of master-0", "units of worker-1"] {
            assert!(text.contains(&format!("{what} cannot be seen: no answer within 5 s")), "{text}");
        }
    }
}
