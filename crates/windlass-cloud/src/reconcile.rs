//! The world follows what is wanted. One loop plans; each change is carried out by a task of its own, one per thing at a
//! time; what it saw goes into [`Live`], which wakes the loop. A change that failed is tried again after a pause, for
//! as long as it is wanted.

use std::collections::BTreeMap;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::Instant;
use windlass_cloud_api::{Label, Power};
use windlass_steps::clock::Clock as _;

use crate::cloud::{Busy, Cloud, ClusterLive, Live, MachineLive, Setback, VolumeLive};
use crate::model::{ClusterModel, Edit, Ending, MachineRow, Model, Row, VolumeRow};
use crate::plan::{self, HolderFacts, MachineChange, MachineFacts, Process, Stage, VolumeChange};
use crate::refused::Refused;
use crate::world::{Following, SeenMachine, Trouble, World, leader_ended, words};

/// How often a machine on its way up is looked at: how far it has come is in a file of its runner's.
const GLANCE: Duration = Duration::from_millis(100);

/// Makes the world follow, until the daemon leaves.
pub async fn run(cloud: Cloud) {
    loop {
        let next = pass(&cloud).await;
        cloud.next_wake(next).await;
    }
}

/// One round: adopt what is new, let groups ask for machines, start what the plan says. Answers when to look again if
/// nothing happens before.
async fn pass(cloud: &Cloud) -> Option<Instant> {
    adopt(cloud).await;
    let clusters: Vec<Label> = cloud.read(|model| model.clusters.keys().cloned().collect());
    let mut waits = Vec::new();
    for cluster in &clusters {
        match cloud.follow_groups(cluster) {
            Ok(at) => waits.extend(at.map(|at| instant(cloud, at))),
            Err(refused) => {
                tracing::warn!(%cluster, %refused, "groups not followed, trying again");
                waits.push(Instant::now() + Duration::from_secs(1));
            }
        }
    }
    cloud.with_both(|model, live, revision| {
        for (name, cluster) in model.clusters.iter().filter(|(_, cluster)| !cluster.row.leaving) {
            let live = live.clusters.entry(name.clone()).or_default();
            if live.adopted {
                start_cluster(cloud, cluster, live, revision, &mut waits);
            }
        }
    });
    waits.into_iter().min()
}

fn instant(cloud: &Cloud, at: OffsetDateTime) -> Instant {
    let ahead = at - cloud.clock().now();
    Instant::now() + Duration::try_from(ahead).unwrap_or(Duration::ZERO)
}

/// Looks at the machines and volumes of clusters that this daemon has not seen yet.
async fn adopt(cloud: &Cloud) {
    let new: Vec<ClusterModel> = cloud.with_both(|model, live, _| {
        let adopted = |name: &Label| live.clusters.get(name).is_some_and(|live| live.adopted);
        model.clusters.iter().filter(|(name, _)| !adopted(name)).map(|(_, cluster)| without_objects(cluster)).collect()
    });
    for cluster in new {
        let name = cluster.row.name.clone();
        let mut machines = BTreeMap::new();
        for row in cluster.machines.values() {
            let seen = cloud.world().look(cloud.places(), row).await;
            machines.insert(row.name.clone(), seen);
        }
        let mut volumes = BTreeMap::new();
        for row in cluster.volumes.values() {
            volumes.insert(row.name.clone(), cloud.world().look_at_volume(cloud.places(), row).await);
        }
        let now = cloud.clock().now();
        cloud.learn(|live| {
            let live = live.clusters.entry(name.clone()).or_default();
            for (name, seen) in machines {
                live.machines
                    .entry(name)
                    .or_insert_with(|| MachineLive::seen(MachineFacts::NOTHING, now))
                    .saw(seen, now);
            }
            for (name, (facts, size)) in volumes {
                live.volumes.insert(name, VolumeLive { facts, size, ..VolumeLive::default() });
            }
            live.adopted = true;
        });
        let running: Vec<MachineRow> = cloud.with_both(|_, live, _| {
            let runs =
                |row: &&MachineRow| live.clusters[&name].machines.get(&row.name).is_some_and(MachineLive::is_running);
            cluster.machines.values().filter(runs).cloned().collect()
        });
        running.into_iter().for_each(|row| watch(cloud, row));
    }
}

fn without_objects(cluster: &ClusterModel) -> ClusterModel {
    ClusterModel {
        row: cluster.row.clone(),
        machines: cluster.machines.clone(),
        volumes: cluster.volumes.clone(),
        balancers: BTreeMap::new(),
        forwards: BTreeMap::new(),
        groups: BTreeMap::new(),
        records: BTreeMap::new(),
        objects: BTreeMap::new(),
    }
}

fn start_cluster(
    cloud: &Cloud,
    cluster: &ClusterModel,
    live: &mut ClusterLive,
    revision: u64,
    waits: &mut Vec<Instant>,
) {
    start_network(cloud, cluster, live, revision, waits);
    if live.network.is_none() {
        return;
    }
    for row in cluster.machines.values() {
        start_machine(cloud, row, live, waits);
    }
    for row in cluster.volumes.values() {
        start_volume(cloud, cluster, row, live, waits);
    }
}

fn start_network(
    cloud: &Cloud,
    cluster: &ClusterModel,
    live: &mut ClusterLive,
    revision: u64,
    waits: &mut Vec<Instant>,
) {
    if live.busy.is_some() {
        return;
    }
    if Setback::holds(live.setback.as_ref()) {
        waits.extend(live.setback.as_ref().map(|setback| setback.again));
        return;
    }
    let name = cluster.row.name.clone();
    match &live.network {
        None => {
            let (row, cloud) = (cluster.row.clone(), cloud.clone());
            let work = async move {
                let opened = cloud.world().open_network(&cloud, &row).await;
                finish_network(&cloud, &row.name, opened.map(|network| (Some(network), 0)));
            };
            live.busy = Some(tokio::spawn(work).abort_handle());
        }
        Some(network) if live.followed < revision => {
            let (network, following, cloud) = (network.clone(), Following::of(cluster), cloud.clone());
            let work = async move {
                let followed = network.follow(following).await;
                finish_network(&cloud, &name, followed.map(|()| (None, revision)));
            };
            live.busy = Some(tokio::spawn(work).abort_handle());
        }
        Some(_) => {}
    }
}

fn finish_network(cloud: &Cloud, cluster: &Label, outcome: Result<(Option<crate::world::Network>, u64), Trouble>) {
    cloud.learn(|live| {
        let Some(live) = live.clusters.get_mut(cluster) else { return };
        live.busy = None;
        match outcome {
            Ok((network, followed)) => {
                live.network = network.map(std::sync::Arc::new).or(live.network.take());
                live.followed = live.followed.max(followed);
                live.setback = None;
            }
            Err(trouble) => {
                let reason = words(trouble.as_ref());
                tracing::warn!(%cluster, reason, "network not as wanted, trying again");
                live.setback = Some(Setback::after(live.setback.as_ref(), reason));
            }
        }
    });
}

fn start_machine(cloud: &Cloud, row: &MachineRow, live: &mut ClusterLive, waits: &mut Vec<Instant>) {
    let now = cloud.clock().now();
    let machine =
        live.machines.entry(row.name.clone()).or_insert_with(|| MachineLive::seen(MachineFacts::NOTHING, now));
    if let Process::Running { stage: Stage::Preparing | Stage::Igniting, .. } = machine.facts.process {
        if machine.begin_glance(Instant::now(), GLANCE) {
            glance(cloud, row);
        }
        waits.push(machine.glance_after);
    }
    watch_leader(cloud, row, machine);
    if machine.busy.is_some() {
        return;
    }
    if Setback::holds(machine.setback.as_ref()) {
        waits.extend(machine.setback.as_ref().map(|setback| setback.again));
        return;
    }
    let Some(change) = plan::machine(row, &machine.facts) else { return };
    let (cloud, row, network) = (cloud.clone(), row.clone(), live.network.clone());
    let work = async move {
        let Some(network) = network else { return };
        let outcome = carry_out(&cloud, &network, &row, change).await;
        finish_machine(&cloud, &row, change, outcome);
    };
    machine.busy = Some(Busy { what: change, abort: tokio::spawn(work).abort_handle() });
}

/// Looks how far a machine has come, beside whatever else is done about it.
fn glance(cloud: &Cloud, row: &MachineRow) {
    let (cloud, row) = (cloud.clone(), row.clone());
    tokio::spawn(async move {
        let seen = cloud.world().look(cloud.places(), &row).await;
        let now = cloud.clock().now();
        cloud.learn(|live| {
            if let Some(machine) = machine_of(live, &row) {
                machine.glancing = false;
                machine.saw(seen, now);
            }
        });
    });
}

async fn carry_out(
    cloud: &Cloud,
    network: &crate::world::Network,
    row: &MachineRow,
    change: MachineChange,
) -> Result<(), Trouble> {
    tracing::debug!(cluster = %row.cluster, machine = %row.name, change = change.word(), "carrying out");
    let (world, places) = (cloud.world(), cloud.places());
    match change {
        MachineChange::Plug => world.plug(places, network, row).await,
        MachineChange::Serve => world.serve(cloud, network, row).await,
        MachineChange::Boot => {
            let (image, gateway) =
                cloud.read(|model| (model.images.get(&row.spec.image).cloned(), model_gateway(model, row)));
            let image = image.ok_or_else(|| Refused::unknown("image", &row.spec.image))?;
            world.boot(places, row, &image, &gateway?).await?;
            watch(cloud, row.clone());
            Ok(())
        }
        MachineChange::End(ending) => world.end(places, row, ending).await,
        MachineChange::Remove => world.remove_machine(places, network, row).await,
        MachineChange::Forget => {
            cloud.edit(|_| Ok((vec![Edit::Drop(Row::Machine(row.clone()))], ())))?;
            Ok(())
        }
    }
}

fn model_gateway(model: &Model, row: &MachineRow) -> Result<crate::world::Surroundings, Refused> {
    let cluster = model.clusters.get(&row.cluster).ok_or_else(|| Refused::unknown("cluster", &row.cluster))?;
    Ok(crate::world::Surroundings { gateway: cluster.gateway(), domain: cluster.row.spec.domain.clone() })
}

fn finish_machine(cloud: &Cloud, row: &MachineRow, change: MachineChange, outcome: Result<(), Trouble>) {
    let (cloud, row) = (cloud.clone(), row.clone());
    tokio::spawn(async move {
        let seen = cloud.world().look(cloud.places(), &row).await;
        let now = cloud.clock().now();
        cloud.learn(|live| {
            if change == MachineChange::Forget && outcome.is_ok() {
                live.clusters.get_mut(&row.cluster).map(|live| live.machines.remove(&row.name));
                return;
            }
            let Some(machine) = machine_of(live, &row) else { return };
            machine.busy = None;
            match (&outcome, change) {
                (Ok(()), MachineChange::Plug) => machine.facts.plugged = true,
                (Ok(()), MachineChange::Serve) => machine.facts.served = true,
                (Ok(()), MachineChange::Remove) => (machine.facts.plugged, machine.facts.served) = (false, false),
                _ => {}
            }
            machine.saw(seen, now);
            machine.setback = outcome.as_ref().err().map(|trouble| {
                let reason = words(trouble.as_ref());
                tracing::warn!(cluster = %row.cluster, machine = %row.name, change = change.word(), reason, "failed");
                Setback::after(machine.setback.as_ref(), format!("cannot {}: {reason}", change.word()))
            });
        });
        let said = if outcome.is_ok() { "done" } else { "failed, trying again" };
        let message = format!("{}: {said}", change.word());
        cloud.log().note(cloud.clock(), Some(&row.cluster), Some(row.name.to_string()), message);
    });
}

fn machine_of<'a>(live: &'a mut Live, row: &MachineRow) -> Option<&'a mut MachineLive> {
    live.clusters.get_mut(&row.cluster)?.machines.get_mut(&row.name)
}

/// Waits for the end of a machine's processes, and then looks.
fn watch(cloud: &Cloud, row: MachineRow) {
    let cloud = cloud.clone();
    tokio::spawn(async move {
        if let Err(trouble) = cloud.world().ended(cloud.places(), &row).await {
            tracing::warn!(machine = %row.name, reason = words(trouble.as_ref()), "cannot watch machine");
        }
        let seen = cloud.world().look(cloud.places(), &row).await;
        let now = cloud.clock().now();
        cloud.learn(|live| {
            if let Some(machine) = machine_of(live, &row) {
                machine.saw(seen, now);
            }
        });
    });
}

/// A machine that reboots from inside keeps its runner, which is all that [`watch`] sees. Its first process is another
/// one afterwards: it may be of another image, and has yet to be shown the machine's volumes.
fn watch_leader(cloud: &Cloud, row: &MachineRow, machine: &mut MachineLive) {
    // A stub is a single process.
    let World::Real(_) = cloud.world() else { return };
    let Some(leader) = machine.leader.filter(|leader| machine.watched != Some(*leader)) else { return };
    machine.watched = Some(leader);
    let (cloud, row) = (cloud.clone(), row.clone());
    tokio::spawn(async move {
        if let Err(trouble) = leader_ended(leader).await {
            tracing::warn!(machine = %row.name, reason = words(trouble.as_ref()), "cannot watch first process");
            return;
        }
        let mut glances = tokio::time::interval(GLANCE);
        loop {
            glances.tick().await;
            let seen = cloud.world().look(cloud.places(), &row).await;
            // It has ended, but nobody has taken notice of that yet.
            if seen.leader == Some(leader) {
                continue;
            }
            let now = cloud.clock().now();
            return cloud.learn(|live| {
                if let Some(machine) = machine_of(live, &row) {
                    machine.watched = None;
                    machine.saw(seen, now);
                }
            });
        }
    });
}

fn start_volume(
    cloud: &Cloud,
    cluster: &ClusterModel,
    row: &VolumeRow,
    live: &mut ClusterLive,
    waits: &mut Vec<Instant>,
) {
    let holder = holder(cluster, row, live);
    let volume = live.volumes.entry(row.name.clone()).or_default();
    if volume.busy.is_some() {
        return;
    }
    if Setback::holds(volume.setback.as_ref()) {
        waits.extend(volume.setback.as_ref().map(|setback| setback.again));
        return;
    }
    let grow = volume.facts.made && volume.size < row.spec.size && !row.leaving;
    let change = match plan::volume(row, &volume.facts, holder) {
        Some(change) => change,
        None if grow => VolumeChange::Make,
        None => return,
    };
    let (cloud, row) = (cloud.clone(), row.clone());
    let work = async move {
        let outcome = carry_out_volume(&cloud, &row, &change, holder).await;
        finish_volume(&cloud, &row, &change, holder, outcome).await;
    };
    volume.busy = Some(tokio::spawn(work).abort_handle());
}

fn holder(cluster: &ClusterModel, row: &VolumeRow, live: &ClusterLive) -> HolderFacts {
    let Some(machine) = row.holder.as_ref().and_then(|name| cluster.machines.get(name)) else {
        return HolderFacts::Gone;
    };
    let Some(seen) = live.machines.get(&machine.name) else { return HolderFacts::Off };
    match (&seen.facts.process, seen.leader) {
        (Process::Running { stage: Stage::Up, .. }, Some(leader)) => HolderFacts::Running(leader),
        (Process::Running { .. }, _) => HolderFacts::Booting,
        // One that is about to start may have it open in a moment.
        (Process::Absent | Process::Ended { .. }, _) if seen.may_run() => HolderFacts::Booting,
        (Process::Absent | Process::Ended { .. }, _) => HolderFacts::Off,
    }
}

async fn carry_out_volume(
    cloud: &Cloud,
    row: &VolumeRow,
    change: &VolumeChange,
    holder: HolderFacts,
) -> Result<(), Trouble> {
    let (world, places) = (cloud.world(), cloud.places());
    match (change, holder) {
        (VolumeChange::Make, _) => world.make_volume(places, row).await,
        (VolumeChange::Present, HolderFacts::Running(leader)) => world.present(places, row, leader).await,
        (VolumeChange::Present, _) => Ok(()),
        (VolumeChange::Release, HolderFacts::Running(leader)) => {
            // The node first: it would lead to whatever the host puts on that device next.
            world.withdraw(row, leader).await?;
            world.release(places, row).await
        }
        (VolumeChange::Release, _) => world.release(places, row).await,
        (VolumeChange::Remove, _) => world.remove_volume(places, row).await,
        (VolumeChange::Fence(machine), _) => fence(cloud, row, machine).map_err(Into::into),
        (VolumeChange::Pass(next), _) => pass_on(cloud, row, next.as_ref()).map_err(Into::into),
        (VolumeChange::Forget, _) => {
            cloud.edit(|_| Ok((vec![Edit::Drop(Row::Volume(row.clone()))], ())))?;
            Ok(())
        }
    }
}

fn fence(cloud: &Cloud, row: &VolumeRow, machine: &Label) -> Result<(), Refused> {
    cloud.edit(|model| {
        let found = model.clusters.get(&row.cluster).and_then(|cluster| cluster.machines.get(machine));
        let cut = |m: &MachineRow| MachineRow { power: Power::Off, ending: Ending::Cut, ..m.clone() };
        let edits = found.map(cut).filter(|new| Some(new) != found).map(|new| Edit::Put(Row::Machine(new)));
        Ok((edits.into_iter().collect(), ()))
    })
}

fn pass_on(cloud: &Cloud, row: &VolumeRow, next: Option<&Label>) -> Result<(), Refused> {
    cloud.edit(|model| {
        let found = model.clusters.get(&row.cluster).and_then(|cluster| cluster.volumes.get(&row.name));
        // Only what was planned for is passed on: somebody may have taken it back meanwhile.
        let edits = found
            .filter(|now| *now == row)
            .map(|_| VolumeRow { holder: next.cloned(), next_holder: None, letting_go: false, ..row.clone() })
            .map(|free| Edit::Put(Row::Volume(free)));
        Ok((edits.into_iter().collect(), ()))
    })
}

async fn finish_volume(
    cloud: &Cloud,
    row: &VolumeRow,
    change: &VolumeChange,
    holder: HolderFacts,
    outcome: Result<(), Trouble>,
) {
    let (mut facts, size) = cloud.world().look_at_volume(cloud.places(), row).await;
    if let Err(trouble) = &outcome {
        let message = format!("{}: failed, trying again: {}", change.word(), words(trouble.as_ref()));
        cloud.log().note(cloud.clock(), Some(&row.cluster), Some(row.name.to_string()), message);
    }
    cloud.learn(|live| {
        let Some(live) = live.clusters.get_mut(&row.cluster) else { return };
        if *change == VolumeChange::Forget && outcome.is_ok() {
            live.volumes.remove(&row.name);
            return;
        }
        let volume = live.volumes.entry(row.name.clone()).or_default();
        volume.busy = None;
        facts.seen_by = match (change, holder) {
            (VolumeChange::Present, HolderFacts::Running(leader)) if outcome.is_ok() => Some(leader),
            _ if facts.open => volume.facts.seen_by,
            _ => None,
        };
        (volume.facts, volume.size) = (facts, size);
        volume.setback = outcome.err().map(|trouble| {
            let reason = words(trouble.as_ref());
            tracing::warn!(cluster = %row.cluster, volume = %row.name, ?change, reason, "failed");
            Setback::after(volume.setback.as_ref(), reason)
        });
    });
}

impl MachineLive {
    /// Takes in what a look saw. Whether it has its link and its questions are answered is known by doing: both are
    /// done again by every daemon, and nothing comes of what is there already.
    fn saw(&mut self, seen: SeenMachine, now: OffsetDateTime) {
        if self.facts.process != seen.facts.process {
            self.since = now;
        }
        self.facts = MachineFacts { plugged: self.facts.plugged, served: self.facts.served, ..seen.facts };
        (self.image, self.staged, self.leader, self.said) = (seen.image, seen.staged, seen.leader, seen.reason);
    }
}
