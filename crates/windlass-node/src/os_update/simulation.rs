//! Coordinator, agents and hooks of five machines, each step chosen by a seed, until every machine has rebooted once.

use super::agent::{self, PodId};
use super::coordinator::{self, Program, Required};
use super::hook;
use super::protocol::{ADDONS_STAGED, NodeChange, NodeState, REBOOT_PAUSED};
use super::testing::{is_under_way, node};
use crate::update_engine::{Operation, Status};

const MACHINES: [&str; 5] = ["master-0", "master-1", "master-2", "worker-0", "worker-1"];

struct Machine {
    node: NodeState,
    boots: u32,
    engine: Operation,
    pods: usize,
}

impl Machine {
    fn new(name: &str) -> Self {
        Machine { node: node(name), boots: 0, engine: Operation::UpdatedNeedReboot, pods: 3 }
    }

    fn agent_steps(&mut self) {
        let boot = format!("boot-{}", self.boots);
        let pod = |n: usize| agent::PodState {
            id: PodId { namespace: "default".into(), name: format!("p{n}"), uid: n.to_string() },
            grace: None,
            ending: false,
            refused: None,
        };
        let pods = agent::is_draining(&self.node, &boot).then(|| (0..self.pods).map(pod).collect());
        let engine = Status {
            last_checked: 1,
            progress: 0.0,
            operation: self.engine.clone(),
            new_version: String::new(),
            new_size: 0,
        };
        for change in agent::plan(&agent::Observed { node: self.node.clone(), boot, engine: Some(engine), pods }) {
            match change {
                agent::Change::Node(change) => change.make(&mut self.node),
                agent::Change::Evict(_) => self.pods -= 1,
                agent::Change::Reboot => {
                    assert_eq!(self.pods, 0);
                    self.boots += 1;
                    self.engine = Operation::Idle;
                }
            }
        }
    }

    fn hook_steps(&mut self) {
        match hook::plan(&self.node) {
            None => {}
            Some(hook::Change::Clear(change)) => change.make(&mut self.node),
            Some(hook::Change::Stage) => NodeChange::of(&self.node).say(ADDONS_STAGED, true).make(&mut self.node),
        }
    }
}

fn coordinator_steps(machines: &mut [Machine]) {
    let required = Required { before: vec![ADDONS_STAGED.to_owned()], after: Vec::new() };
    let serves =
        |program: Program| move |n: usize| coordinator::PodState { node: format!("master-{n}"), program, ready: true };
    let pods = (0..3).map(serves(Program::Etcd)).chain((0..3).map(serves(Program::ApiServer))).collect();
    let nodes = machines.iter().map(|machine| machine.node.clone()).collect();
    for change in coordinator::plan(&required, &coordinator::Observed { nodes, pods }) {
        change.make(&mut machines.iter_mut().find(|machine| machine.node.name == change.node()).unwrap().node);
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Runs until every machine that may has rebooted and is released, and says in how many steps.
fn run(seed: u64, paused: Option<usize>) -> Vec<Machine> {
    let mut machines: Vec<Machine> = MACHINES.iter().map(|name| Machine::new(name)).collect();
    if let Some(at) = paused {
        let node = &mut machines[at].node;
        node.annotations.insert(REBOOT_PAUSED.to_owned(), "true".to_owned());
    }
    let mut dice = Dice(seed);
    for _ in 0..3000 {
        match dice.below(11) {
            0 => coordinator_steps(&mut machines),
            n @ 1..=5 => machines[n as usize - 1].agent_steps(),
            n => machines[n as usize - 6].hook_steps(),
        }
        let under_way: Vec<&str> =
            machines.iter().map(|machine| &machine.node).filter(|n| is_under_way(n)).map(|n| n.name.as_str()).collect();
        assert!(under_way.len() <= 1, "seed {seed}: {under_way:?} at the same time");
        let closed =
            machines.iter().filter(|machine| machine.node.unschedulable && is_under_way(&machine.node)).count();
        assert!(closed <= 1, "seed {seed}");
    }
    machines
}

#[test]
fn every_machine_reboots_once_and_one_at_a_time() {
    for seed in 0..60 {
        for machine in run(seed, None) {
            assert_eq!(machine.boots, 1, "seed {seed}: {:?}", machine.node);
            assert!(!machine.node.unschedulable && !is_under_way(&machine.node), "seed {seed}: {:?}", machine.node);
        }
    }
}

#[test]
fn a_paused_machine_stays_and_holds_nobody_up() {
    for seed in 0..30 {
        let paused = (seed % 5) as usize;
        for (at, machine) in run(seed, Some(paused)).into_iter().enumerate() {
            assert_eq!(machine.boots, u32::from(at != paused), "seed {seed}: {:?}", machine.node);
        }
    }
}
