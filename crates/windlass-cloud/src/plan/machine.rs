//! One machine.

use windlass_cloud_api::{MachineState, Power};

use crate::model::{Ending, MachineRow};

/// What is there of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    /// Whether it has its link.
    pub plugged: bool,
    /// Whether its metadata service answers.
    pub served: bool,
    /// Whether there is anything of it on the disk.
    pub kept: bool,
    /// What its processes do.
    pub process: Process,
}

impl MachineFacts {
    /// There is nothing of it.
    pub const NOTHING: MachineFacts =
        MachineFacts { plugged: false, served: false, kept: false, process: Process::Absent };

    fn is_nothing(&self) -> bool {
        *self == MachineFacts::NOTHING
    }
}

/// What a machine's processes do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    /// It was never started.
    Absent,
    /// It runs.
    Running {
        /// Which boot of it.
        boot: u64,
        /// Who watches it.
        pid: u32,
        /// How far it has come.
        stage: Stage,
    },
    /// It does not run any more.
    Ended {
        /// Which boot of it.
        boot: u64,
        /// How.
        how: Ended,
    },
}

/// How far a machine that runs has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its disk is being made.
    Preparing,
    /// Its first boot fetches and applies its configuration.
    Igniting,
    /// Its own first process runs.
    Up,
}

/// How a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It powered off, by itself or because it was asked.
    PoweredOff,
    /// Otherwise.
    Died(String),
}

/// The next thing to do about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineChange {
    /// Give it its link.
    Plug,
    /// Answer its questions.
    Serve,
    /// Start it, for the first time with making its disk and applying its configuration.
    Boot,
    /// End it.
    End(Ending),
    /// Take away what is there of it.
    Remove,
    /// Strike it off.
    Forget,
}

impl MachineChange {
    /// As the log has it.
    pub fn word(self) -> &'static str {
        match self {
            MachineChange::Plug => "plug",
            MachineChange::Serve => "serve",
            MachineChange::Boot => "boot",
            MachineChange::End(Ending::Asked) => "stop",
            MachineChange::End(Ending::Cut) => "power-cut",
            MachineChange::Remove => "remove",
            MachineChange::Forget => "forget",
        }
    }
}

/// What to do about a machine next, if anything.
pub fn machine(row: &MachineRow, facts: &MachineFacts) -> Option<MachineChange> {
    let running = match &facts.process {
        Process::Running { boot, .. } => Some(*boot),
        Process::Absent | Process::Ended { .. } => None,
    };
    if row.leaving {
        return Some(match (running, facts.is_nothing()) {
            (Some(_), _) => MachineChange::End(Ending::Cut),
            (None, false) => MachineChange::Remove,
            (None, true) => MachineChange::Forget,
        });
    }
    match (row.power, running) {
        (Power::Off, Some(_)) => Some(MachineChange::End(row.ending)),
        (Power::Off, None) => None,
        // A machine that runs without its services was adopted: they come back while it goes on.
        (Power::On, Some(boot)) if boot >= row.boot => services(facts),
        (Power::On, Some(_)) => Some(MachineChange::End(row.ending)),
        (Power::On, None) => match &facts.process {
            Process::Ended { boot, .. } if *boot >= row.boot => None,
            _ => services(facts).or(Some(MachineChange::Boot)),
        },
    }
}

fn services(facts: &MachineFacts) -> Option<MachineChange> {
    match (facts.plugged, facts.served) {
        (false, _) => Some(MachineChange::Plug),
        (true, false) => Some(MachineChange::Serve),
        (true, true) => None,
    }
}

/// What to tell people about it.
pub fn state(row: &MachineRow, facts: &MachineFacts, reason: Option<String>) -> MachineState {
    match &facts.process {
        Process::Running { stage: Stage::Up, pid, .. } => MachineState::Running { pid: *pid },
        Process::Running { stage: Stage::Igniting, .. } => MachineState::Igniting { reason },
        Process::Running { stage: Stage::Preparing, .. } => MachineState::Making { reason },
        Process::Ended { boot, how } if *boot >= row.boot || row.power == Power::Off => match how {
            Ended::PoweredOff => MachineState::Stopped,
            Ended::Died(_) if row.power == Power::Off => MachineState::Stopped,
            Ended::Died(reason) => MachineState::Dead { reason: reason.clone() },
        },
        _ if row.power == Power::Off => MachineState::Stopped,
        _ => MachineState::Making { reason },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::tests::machine as row;

    fn carried_out(row: &MachineRow, facts: &MachineFacts, change: MachineChange) -> MachineFacts {
        let mut facts = facts.clone();
        match change {
            MachineChange::Plug => facts.plugged = true,
            MachineChange::Serve => facts.served = true,
            MachineChange::Boot => {
                facts.kept = true;
                facts.process = Process::Running { boot: row.boot, pid: 1, stage: Stage::Up };
            }
            MachineChange::End(_) => {
                let Process::Running { boot, .. } = facts.process else { panic!("ended what does not run") };
                facts.process = Process::Ended { boot, how: Ended::PoweredOff };
            }
            MachineChange::Remove => facts = MachineFacts::NOTHING,
            MachineChange::Forget => panic!("there is nothing to carry out"),
        }
        facts
    }

    fn ending() -> impl Strategy<Value = Ending> {
        prop_oneof![Just(Ending::Asked), Just(Ending::Cut)]
    }

    fn rows() -> impl Strategy<Value = MachineRow> {
        (prop_oneof![Just(Power::On), Just(Power::Off)], 1..4_u64, ending(), any::<bool>())
            .prop_map(|(power, boot, ending, leaving)| MachineRow { power, boot, ending, leaving, ..row("a", "m") })
    }

    fn facts() -> impl Strategy<Value = MachineFacts> {
        let process = prop_oneof![
            Just(Process::Absent),
            (0..4_u64).prop_map(|boot| Process::Running { boot, pid: 1, stage: Stage::Up }),
            (0..4_u64).prop_map(|boot| Process::Ended { boot, how: Ended::PoweredOff }),
            (0..4_u64).prop_map(|boot| Process::Ended { boot, how: Ended::Died("killed".into()) }),
        ];
        (any::<bool>(), any::<bool>(), any::<bool>(), process)
            .prop_map(|(plugged, served, kept, process)| MachineFacts { plugged, served, kept, process })
    }

    proptest! {
        #[test]
        fn carrying_out_the_plan_makes_the_next_plan_empty(row in rows(), facts in facts()) {
            let mut facts = facts;
            for _ in 0..12 {
                match machine(&row, &facts) {
                    None => return Ok(()),
                    Some(MachineChange::Forget) => { prop_assert!(row.leaving); return Ok(()); }
                    Some(change) => facts = carried_out(&row, &facts, change),
                }
            }
            prop_assert!(false, "still {:?} with {facts:?}", machine(&row, &facts));
        }

        #[test]
        fn nothing_boots_that_is_to_be_off_or_gone(row in rows(), facts in facts()) {
            if row.leaving || row.power == Power::Off {
                prop_assert!(machine(&row, &facts) != Some(MachineChange::Boot));
            }
        }
    }

    #[test]
    fn a_machine_that_died_stays_dead_until_it_is_started() {
        let died = Process::Ended { boot: 1, how: Ended::Died("killed".into()) };
        let facts = MachineFacts { plugged: true, served: true, kept: true, process: died };
        assert_eq!(machine(&row("a", "m"), &facts), None);
        assert!(matches!(state(&row("a", "m"), &facts, None), MachineState::Dead { .. }));
        let started = MachineRow { boot: 2, ..row("a", "m") };
        assert_eq!(machine(&started, &facts), Some(MachineChange::Boot));
    }

    #[test]
    fn an_adopted_machine_gets_its_services_back_while_it_runs() {
        let process = Process::Running { boot: 1, pid: 7, stage: Stage::Up };
        let facts = MachineFacts { plugged: true, process, ..MachineFacts::NOTHING };
        assert_eq!(machine(&row("a", "m"), &facts), Some(MachineChange::Serve));
    }
}
