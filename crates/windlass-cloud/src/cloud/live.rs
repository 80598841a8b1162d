//! What is there, as far as the cloud knows: learnt by looking when the daemon starts, and from then on from what it
//! does and from the ends of the processes that it watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use windlass_cloud_api::Label;

use crate::object::ObjectStore;
use crate::plan::{MachineChange, MachineFacts, Process, Stage, VolumeFacts};
use crate::world::Network;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is there of every cluster.
#[derive(Default)]
pub struct Live {
    /// By name.
    pub clusters: BTreeMap<Label, ClusterLive>,
}

/// What is there of one cluster.
#[derive(Default)]
pub struct ClusterLive {
    /// Whether its machines and volumes were looked at.
    pub adopted: bool,
    /// Its network, once it is up.
    pub network: Option<Arc<Network>>,
    /// What is being done about the network.
    pub busy: Option<AbortHandle>,
    /// What went wrong with it.
    pub setback: Option<Setback>,
    /// The edit that its services follow.
    pub followed: u64,
    /// Its machines.
    pub machines: BTreeMap<Label, MachineLive>,
    /// Its volumes.
    pub volumes: BTreeMap<Label, VolumeLive>,
    /// Volumes that are being copied, by the name of the copy.
    pub copying: BTreeMap<Label, Label>,
    /// Its objects, once somebody asked for them.
    pub objects: Option<Arc<ObjectStore>>,
}

impl ClusterLive {
    /// Whether a volume is being copied, or is a copy that is not whole yet.
    pub fn is_copying(&self, volume: &Label) -> bool {
        self.copying.iter().any(|(copy, from)| copy == volume || from == volume)
    }

    /// What is being done about the cluster, its machines and its volumes.
    pub fn under_way(&self) -> Vec<AbortHandle> {
        let machines = self.machines.values().filter_map(|machine| machine.busy.as_ref()).map(|busy| &busy.abort);
        let volumes = self.volumes.values().filter_map(|volume| volume.busy.as_ref());
        self.busy.iter().chain(machines).chain(volumes).cloned().collect()
    }
}

/// What is there of one machine.
pub struct MachineLive {
    /// What was seen.
    pub facts: MachineFacts,
    /// What is being done about it.
    pub busy: Option<Busy>,
    /// What went wrong the last time.
    pub setback: Option<Setback>,
    /// When its process was seen to change.
    pub since: OffsetDateTime,
    /// The image that it runs, where that is another than it started with.
    pub image: Option<Label>,
    /// What an update has put ready.
    pub staged: Option<Label>,
    /// Its own first process.
    pub leader: Option<u32>,
    /// The first process whose end somebody waits for.
    pub watched: Option<u32>,
    /// What it says about how far it has come.
    pub said: Option<String>,
    /// Whether somebody is looking.
    pub glancing: bool,
    /// When it may be looked at again on its way up.
    pub glance_after: Instant,
}

impl MachineLive {
    /// What was just seen.
    pub fn seen(facts: MachineFacts, now: OffsetDateTime) -> Self {
        MachineLive {
            facts,
            busy: None,
            setback: None,
            since: now,
            image: None,
            staged: None,
            leader: None,
            watched: None,
            said: None,
            glancing: false,
            glance_after: Instant::now(),
        }
    }

    /// Whether it may be looked at now; then nobody else may before that is done and the pause over. What a look finds
    /// wakes the loop that asks this, so that only the time keeps it from looking again at once.
    pub fn begin_glance(&mut self, now: Instant, pause: Duration) -> bool {
        if self.glancing || now < self.glance_after {
            return false;
        }
        (self.glancing, self.glance_after) = (true, now + pause);
        true
    }

    /// Whether its own first process runs.
    pub fn is_up(&self) -> bool {
        matches!(self.facts.process, Process::Running { stage: Stage::Up, .. })
    }

    /// Whether anything of it runs, or may do so before anybody looks again.
    pub fn may_run(&self) -> bool {
        let booting = |busy: &Busy| busy.what == MachineChange::Boot;
        self.is_running() || self.busy.as_ref().is_some_and(booting)
    }

    /// Whether anything of it runs.
    pub fn is_running(&self) -> bool {
        matches!(self.facts.process, Process::Running { .. })
    }
}

/// Something under way.
pub struct Busy {
    /// What, as the log has it.
    pub what: MachineChange,
    /// How to end it.
    pub abort: AbortHandle,
}

/// What is there of one volume.
#[derive(Default)]
pub struct VolumeLive {
    /// What was seen.
    pub facts: VolumeFacts,
    /// Its size as it was made.
    pub size: u64,
    /// What is being done about it.
    pub busy: Option<AbortHandle>,
    /// What went wrong the last time.
    pub setback: Option<Setback>,
}

/// Something that failed and will be tried again.
#[derive(Debug, Clone)]
pub struct Setback {
    /// Why.
    pub reason: String,
    /// When.
    pub again: Instant,
    /// How long the pause was.
    pause: Duration,
}

impl Setback {
    /// After a failure: each pause is twice the one before, up to 5 s.
    pub fn after(previous: Option<&Setback>, reason: String) -> Self {
        let pause = previous.map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
        Setback { reason, again: Instant::now() + pause, pause }
    }

    /// Whether it is still too early.
    pub fn holds(setback: Option<&Setback>) -> bool {
        setback.is_some_and(|setback| setback.again > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_on_its_way_up_is_looked_at_by_one_at_a_time_and_not_without_a_pause() {
        let mut machine = MachineLive::seen(MachineFacts::NOTHING, OffsetDateTime::UNIX_EPOCH);
        let (now, pause) = (machine.glance_after, Duration::from_millis(100));
        assert!(machine.begin_glance(now, pause));
        assert!(!machine.begin_glance(now + pause, pause), "one is under way");
        machine.glancing = false;
        assert!(!machine.begin_glance(now + pause / 2, pause), "what it found woke the loop");
        assert!(machine.begin_glance(now + pause, pause));
    }
}
