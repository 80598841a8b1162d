//! Pure judgements over what the bootstrap machine's units, the platform and the balancer show.

use windlass_platform::{BOOTSTRAP, Backend, MachineState, SeenMachine};
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use crate::launch::resources::settled;
use crate::sight::{Record, Records, UnitState};

pub(super) const CONFIG_SERVER: &str = "machine-config-server";
pub(super) const SIGNER: &str = "etcd-signer";
const ASSETS: &str = "bootstrap-assets";
pub(super) const BOOTKUBE: &str = "bootkube";
pub(super) const ADDONS: &str = "addons";
/// What a server says of itself from the moment it listens.
const SERVES: &str = "serve";
/// The step of bootkube that ends when both servers have stopped.
const SERVERS: &str = "stop-servers";
/// The step of bootkube that ends when controller manager and scheduler work.
const CONTROLLERS: &str = "start-controllers";
/// The ports that masters serve behind the balancer.
const PORTS: [u16; 2] = [6443, 22623];

/// What bootkube has to have behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// etcd answers, and every master that can be waited for has what it needs.
    Quorum,
    /// Machine-config server and signer have stopped.
    Stopped,
    /// API server, controller manager and scheduler of the bootstrap machine serve.
    TemporaryControlPlane,
}

/// The stages of bootkube at which etcd's quorum lies behind it.
const AFTER_QUORUM: [&str; 8] = [
    SERVERS,
    "start-api-server",
    CONTROLLERS,
    "apply-control-plane",
    "await-control-plane",
    "hand-over",
    "release-leases",
    "stop-api-server",
];

/// Whether the bootstrap machine has its assets, or has gone on with them: records do not outlive a reboot.
pub(in crate::launch) fn delivered(records: &Records) -> Observation {
    match records.contains_key(BOOTKUBE) {
        true => Observation::Holds,
        false => done(records, ASSETS),
    }
}

/// Whether a server of the bootstrap machine serves, or has served its time.
pub(super) fn served(records: &Records, unit: &str) -> Observation {
    if passed(records, Stage::Quorum) {
        return Observation::Holds;
    }
    match records.get(unit) {
        Some(record) if record.state == UnitState::Done => Observation::Holds,
        // A unit runs before it listens, and has nothing unmet then either.
        Some(record) if record.state == UnitState::Running && record.stage == SERVES => Observation::Holds,
        record => not_yet(unit, record),
    }
}

/// Whether bootkube has this behind it. Controllers are started while the control plane is applied, so that no stage tells
/// whether they work: the record of the step that has ended does.
pub(super) fn passed(records: &Records, stage: Stage) -> bool {
    let Some(record) = records.get(BOOTKUBE) else { return false };
    let behind = match stage {
        Stage::Quorum => AFTER_QUORUM.contains(&record.stage.as_str()),
        Stage::Stopped => record.data.contains_key(SERVERS),
        Stage::TemporaryControlPlane => record.data.contains_key(CONTROLLERS),
    };
    behind || record.state == UnitState::Done
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
    use serde_json::json;

    use super::*;

    fn record(state: UnitState, stage: &str) -> Record {
        Record { because: vec!["no disk".to_owned()], ..Record::at(state, stage) }
    }

    /// As the record is once the step has ended.
    fn with_controllers(mut records: Records) -> Records {
        let record = records.get_mut(BOOTKUBE).unwrap();
        record.data.insert(CONTROLLERS.to_owned(), json!({"finished": "2026-11-16T03:00:00.000Z", "took": 1.5}));
        records
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
            (with_controllers(bootkube(Running, "apply-control-plane")), true, true),
            (with_controllers(bootkube(Failed, "await-control-plane")), true, true),
            (bootkube(Running, "something new"), false, false),
            (bootkube(Done, "something new"), true, true),
        ];
        for (records, quorum, control_plane) in cases {
            let seen = (passed(&records, Stage::Quorum), passed(&records, Stage::TemporaryControlPlane));
            assert_eq!(seen, (quorum, control_plane), "{records:?}");
        }
    }

    #[test]
    fn servers_that_are_being_stopped_have_not_stopped() {
        let mut records = bootkube(UnitState::Running, SERVERS);
        assert!(!passed(&records, Stage::Stopped));
        records.get_mut(BOOTKUBE).unwrap().data.insert(SERVERS.to_owned(), json!({"took": 0.1}));
        assert!(passed(&records, Stage::Stopped));
    }

    #[test]
    fn applying_the_control_plane_does_not_mean_that_the_controllers_work() {
        let mut records = bootkube(UnitState::Running, "apply-control-plane");
        records.get_mut(BOOTKUBE).unwrap().data.insert("apply-control-plane".to_owned(), json!({"took": 1.5}));
        let seen = reached(&records, Stage::TemporaryControlPlane);
        assert!(matches!(seen, Observation::NotYet(_)), "{seen:?}");
        assert_eq!(reached(&with_controllers(records), Stage::TemporaryControlPlane), Observation::Holds);
    }

    #[test]
    fn a_server_that_has_started_and_does_not_listen_yet_does_not_serve() {
        use UnitState::{Done, Failed, Running};
        let cases = [
            (Running, "start", false),
            (Running, "serve", true),
            (Failed, "serve", false),
            (Failed, "start", false),
            (Done, "serve", true),
        ];
        for unit in [CONFIG_SERVER, SIGNER] {
            for (state, stage, serves) in cases {
                let records: Records = [(unit.to_owned(), record(state, stage))].into();
                assert_eq!(served(&records, unit) == Observation::Holds, serves, "{unit} {state:?} {stage}");
            }
            assert_ne!(served(&Records::new(), unit), Observation::Holds);
            let gone_on = bootkube(Running, "start-api-server");
            assert_eq!(served(&gone_on, unit), Observation::Holds, "it has served its time");
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
