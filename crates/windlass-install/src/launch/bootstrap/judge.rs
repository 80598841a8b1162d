//! Pure judgements over what the bootstrap machine's units, the platform and the balancer show.

use windlass_platform::{BOOTSTRAP, Backend, MachineState, SeenMachine};
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use crate::launch::resources::settled;
use crate::sight::{Record, Records, UnitState};

pub(super) const CONFIG_SERVER: &str = "machine-config-server";
pub(super) const SIGNER: &str = "etcd-signer";
pub(super) const BOOTKUBE: &str = "bootkube";
pub(super) const ADDONS: &str = "addons";
/// The ports that masters serve behind the balancer.
const PORTS: [u16; 2] = [6443, 22623];

/// What bootkube has to have behind it, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// etcd answers, and every master that can be waited for has what it needs.
    Quorum,
    /// API server, controller manager and scheduler of the bootstrap machine serve.
    TemporaryControlPlane,
}

/// The stages of bootkube, in order, and which of ours lies behind it once it is there.
const STAGES: [(&str, Option<Stage>); 9] = [
    ("await-quorum", None),
    ("stop-servers", Some(Stage::Quorum)),
    ("start-api-server", Some(Stage::Quorum)),
    ("start-controllers", Some(Stage::Quorum)),
    ("apply-control-plane", Some(Stage::TemporaryControlPlane)),
    ("await-control-plane", Some(Stage::TemporaryControlPlane)),
    ("hand-over", Some(Stage::TemporaryControlPlane)),
    ("release-leases", Some(Stage::TemporaryControlPlane)),
    ("stop-api-server", Some(Stage::TemporaryControlPlane)),
];

/// Whether a server of the bootstrap machine serves, or has served its time.
pub(super) fn served(records: &Records, unit: &str) -> Observation {
    if passed(records, Stage::Quorum) {
        return Observation::Holds;
    }
    match records.get(unit) {
        Some(record) if record.state == UnitState::Done => Observation::Holds,
        Some(record) if record.state == UnitState::Running && record.unmet.is_empty() => Observation::Holds,
        record => not_yet(unit, record),
    }
}

/// Whether bootkube has this behind it.
pub(super) fn passed(records: &Records, stage: Stage) -> bool {
    let Some(record) = records.get(BOOTKUBE) else { return false };
    let behind = STAGES.iter().find(|(name, _)| *name == record.stage).and_then(|(_, behind)| *behind);
    record.state == UnitState::Done || behind >= Some(stage)
}

/// [`passed`], with the reason why not.
pub(super) fn reached(records: &Records, stage: Stage) -> Observation {
    if passed(records, stage) { Observation::Holds } else { not_yet(BOOTKUBE, records.get(BOOTKUBE)) }
}

/// Whether a unit has done what it is for.
pub(super) fn done(records: &Records, unit: &str) -> Observation {
    match records.get(unit) {
        Some(record) if record.state == UnitState::Done => Observation::Holds,
        record => not_yet(unit, record),
    }
}

fn not_yet(unit: &str, record: Option<&Record>) -> Observation {
    match record {
        Some(record) => Observation::NotYet(reason!("{BOOTSTRAP}: {unit} {}", record.words())),
        None => Observation::NotYet(reason!("{BOOTSTRAP}: {unit} has not started")),
    }
}

/// Whether every master's first boot has its config.
pub(super) fn configured(masters: &[String], machines: &[SeenMachine]) -> Observation {
    troubles(masters, machines, "masters have their config", |state| *state == MachineState::Running)
}

/// Whether none of these machines has died.
pub(super) fn alive(names: &[String], machines: &[SeenMachine]) -> Observation {
    let well = |state: &MachineState| !matches!(state, MachineState::Dead { .. } | MachineState::Off);
    troubles(names, machines, "machines are alive", well)
}

fn troubles(
    names: &[String],
    machines: &[SeenMachine],
    what: &str,
    well: impl Fn(&MachineState) -> bool,
) -> Observation {
    let trouble = |name: &String| match machines.iter().find(|machine| machine.name == *name) {
        None => Some(format!("{name} is not there")),
        Some(machine) if well(&machine.state) => None,
        Some(machine) => Some(format!("{name} {}", machine.state)),
    };
    settled(names.len(), names.iter().filter_map(trouble).collect(), what)
}

/// Whether nobody is sent to the bootstrap machine's API any more.
pub(super) fn only_masters(backends: &[Backend]) -> Observation {
    let bootstrap = backends.iter().find(|b| b.machine == BOOTSTRAP && b.port == PORTS[0] && b.trouble.is_none());
    match bootstrap {
        Some(_) => Observation::NotYet(reason!("{BOOTSTRAP} still answers on port {}", PORTS[0])),
        None => masters_on(backends, PORTS[0]),
    }
}

/// Whether masters serve both the API and machine configs.
pub(super) fn masters_serve(backends: &[Backend]) -> Observation {
    let unserved = PORTS.iter().map(|port| masters_on(backends, *port)).find(|seen| *seen != Observation::Holds);
    unserved.unwrap_or(Observation::Holds)
}

fn masters_on(backends: &[Backend], port: u16) -> Observation {
    let mut masters = backends.iter().filter(|b| b.machine != BOOTSTRAP && b.port == port).peekable();
    if masters.peek().is_none() {
        return Observation::NotYet(reason!("no master stands behind port {port}"));
    }
    let troubles: Option<Vec<String>> =
        masters.map(|b| b.trouble.as_ref().map(|trouble| format!("{}: {trouble}", b.machine))).collect();
    match troubles {
        None => Observation::Holds,
        Some(troubles) => Observation::NotYet(reason!("no master answers on port {port}; {}", troubles.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn record(state: UnitState, stage: &str) -> Record {
        Record {
            state,
            stage: stage.to_owned(),
            since: String::new(),
            unmet: Vec::new(),
            because: vec!["no disk".to_owned()],
            data: BTreeMap::new(),
        }
    }

    fn bootkube(state: UnitState, stage: &str) -> Records {
        [(BOOTKUBE.to_owned(), record(state, stage))].into()
    }

    #[test]
    fn bootkube_passes_its_stages_in_order() {
        use UnitState::{Done, Failed, Running};
        let cases = [
            (Records::new(), false, false),
            (bootkube(Running, "await-quorum"), false, false),
            (bootkube(Running, "stop-servers"), true, false),
            (bootkube(Running, "start-controllers"), true, false),
            (bootkube(Running, "apply-control-plane"), true, true),
            (bootkube(Failed, "await-control-plane"), true, true),
            (bootkube(Running, "something new"), false, false),
            (bootkube(Done, "something new"), true, true),
        ];
        for (records, quorum, control_plane) in cases {
            let seen = (passed(&records, Stage::Quorum), passed(&records, Stage::TemporaryControlPlane));
            assert_eq!(seen, (quorum, control_plane), "{records:?}");
        }
    }

    #[test]
    fn a_unit_that_failed_says_why_and_where() {
        let records = bootkube(UnitState::Failed, "await-quorum");
        let want = "bootstrap: bootkube failed at await-quorum: no disk";
        assert_eq!(done(&records, BOOTKUBE), Observation::NotYet(reason!("{want}")));
        let want = "bootstrap: addons has not started";
        assert_eq!(done(&records, ADDONS), Observation::NotYet(reason!("{want}")));
    }

    #[test]
    fn the_balancer_must_have_let_go_of_the_bootstrap_machine() {
        let backend = |machine: &str, port, trouble: Option<&str>| Backend {
            machine: machine.to_owned(),
            port,
            trouble: trouble.map(str::to_owned),
        };
        let (up, down) = (None, Some("refused"));
        let cases: [(Vec<Backend>, &str); 4] = [
            (vec![], "no master stands behind port 6443"),
            (vec![backend("bootstrap", 6443, down)], "no master stands behind port 6443"),
            (vec![backend("masters-0", 6443, down)], "no master answers on port 6443; masters-0: refused"),
            (
                vec![backend("bootstrap", 6443, up), backend("masters-0", 6443, up)],
                "bootstrap still answers on port 6443",
            ),
        ];
        for (backends, want) in cases {
            assert_eq!(only_masters(&backends), Observation::NotYet(reason!("{want}")));
        }
        let good = [backend("bootstrap", 6443, down), backend("m-0", 6443, up), backend("m-1", 6443, down)];
        assert_eq!(only_masters(&good), Observation::Holds);
        assert_ne!(masters_serve(&good), Observation::Holds, "nobody serves configs");
    }
}
