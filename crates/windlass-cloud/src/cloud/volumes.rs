//! Requests about volumes. Who has one is decided here, under the lock and on the disk, before anything is attached:
//! two requests can never both succeed.

mod snapshot;

use std::time::Duration;

use windlass_cloud_api::{AttachRequest, Hold, Label, Power, Tag, Volume, VolumeSpec};

use super::machines::{facts, machine_row};
use super::{Cloud, Live, known};
use crate::model::{Edit, MachineRow, Model, Row, VolumeRow};
use crate::plan::{self, Process};
use crate::refused::{Class, Refused};

const LEAST: u64 = 1 << 20;
const MOST: u64 = 16 << 40;
const PATIENCE: Duration = Duration::from_secs(60);

impl Cloud {
    /// Makes a volume, or makes it larger.
    pub async fn put_volume(&self, cluster: &Label, name: &Label, spec: VolumeSpec) -> Result<Volume, Refused> {
        if !(LEAST..=MOST).contains(&spec.size) {
            let why = format!("a volume has between {LEAST} and {MOST} bytes, not {}", spec.size);
            return Err(Refused::new(Class::Impossible, why));
        }
        let row = self.edit_seeing(|model, live| {
            let found = known(model, cluster)?;
            let row = match found.volumes.get(name) {
                None if is_copying(live, cluster, name) => {
                    return Err(Refused::new(Class::Conflict, format!("volume {name} is being made as a copy")));
                }
                None => VolumeRow {
                    name: name.clone(),
                    cluster: cluster.clone(),
                    spec,
                    holder: None,
                    next_holder: None,
                    letting_go: false,
                    leaving: false,
                },
                Some(old) => grown(old, spec)?,
            };
            let same = found.volumes.get(name) == Some(&row);
            Ok((if same { Vec::new() } else { vec![Edit::Put(Row::Volume(row.clone()))] }, row))
        })?;
        self.made(&row).await
    }

    /// The volumes of a cluster, all or those with a tag.
    pub fn volumes(&self, cluster: &Label, tag: Option<&Tag>) -> Result<Vec<Volume>, Refused> {
        self.with_both(|model, live, _| {
            let all = known(model, cluster)?.volumes.values();
            let wanted = all.filter(|row| tag.is_none_or(|tag| tag.is_among(&row.spec.tags)));
            Ok(wanted.map(|row| view(row, live)).collect())
        })
    }

    /// Gives a volume to a machine and waits until the machine sees it.
    pub async fn attach(&self, cluster: &Label, name: &Label, request: &AttachRequest) -> Result<Volume, Refused> {
        let machine = &request.machine;
        self.adopted(cluster).await?;
        let row = self.edit_seeing(|model, live| {
            let row = volume_row(model, cluster, name)?;
            if machine_row(model, cluster, machine)?.leaving {
                return Err(Refused::new(Class::Conflict, format!("machine {machine} is being removed")));
            }
            let new = taken(row, machine, request.hold, &use_of(model, live, row))?;
            Ok((if new == *row { Vec::new() } else { vec![Edit::Put(Row::Volume(new.clone()))] }, new))
        })?;
        self.seen_by(&row, machine).await
    }

    /// Takes a volume back from a machine that does not use it.
    pub async fn detach(&self, cluster: &Label, name: &Label) -> Result<Volume, Refused> {
        self.adopted(cluster).await?;
        let row = self.read(|model| volume_row(model, cluster, name).cloned())?;
        let Some(holder) = &row.holder else { return self.read_volume(&row) };
        if self.with_both(|_, live, _| running(live, cluster, holder)) {
            self.world().may_detach(self.places(), &row).await?;
        }
        self.edit(|model| {
            let now = volume_row(model, cluster, name)?;
            if now != &row {
                return Err(Refused::new(Class::Conflict, format!("volume {name} has just changed hands")));
            }
            let given_back = VolumeRow { next_holder: None, letting_go: true, ..row.clone() };
            Ok((if given_back == row { Vec::new() } else { vec![Edit::Put(Row::Volume(given_back))] }, ()))
        })?;
        let free = |model: &Model, _: &Live| match volume_row(model, cluster, name) {
            Ok(now) if now.letting_go => None,
            Ok(now) if now.holder.as_ref() == Some(holder) => {
                Some(Err(Refused::new(Class::Conflict, format!("volume {name} is being moved from {holder} instead"))))
            }
            found => Some(found.map(drop)),
        };
        self.until(PATIENCE, free).await.unwrap_or_else(|| Err(late(name, "was not let go")))?;
        self.read_volume(&row)
    }

    /// Removes a volume that nobody has.
    pub async fn delete_volume(&self, cluster: &Label, name: &Label) -> Result<(), Refused> {
        self.edit_seeing(|model, live| {
            let row = volume_row(model, cluster, name)?;
            match &row.holder {
                _ if is_copying(live, cluster, name) => {
                    Err(Refused::new(Class::Conflict, format!("volume {name} is being copied")))
                }
                Some(holder) => {
                    let refused = Refused::new(Class::Conflict, format!("volume {name} is in use by {holder}"));
                    Err(refused.next("detach it first"))
                }
                None => Ok((vec![Edit::Put(Row::Volume(VolumeRow { leaving: true, ..row.clone() }))], ())),
            }
        })?;
        let gone = |model: &Model, _: &Live| volume_row(model, cluster, name).is_err().then_some(());
        self.until(PATIENCE, gone).await.ok_or_else(|| late(name, "was not removed"))
    }

    async fn made(&self, row: &VolumeRow) -> Result<Volume, Refused> {
        let (cluster, name) = (&row.cluster, &row.name);
        let made = |_: &Model, live: &Live| {
            let volume = live.clusters.get(cluster)?.volumes.get(name)?;
            match (&volume.setback, volume.facts.made && volume.size >= row.spec.size) {
                (_, true) => Some(Ok(())),
                (Some(setback), false) => Some(Err(setback.reason.clone())),
                (None, false) => None,
            }
        };
        match self.until(PATIENCE, made).await {
            Some(Ok(())) => self.read_volume(row),
            Some(Err(reason)) => {
                let full = reason.contains("No space left") || reason.contains("no room");
                let class = if full { Class::Full } else { Class::Failed };
                Err(Refused::new(class, format!("volume {name} cannot be made")).because(reason))
            }
            None => Err(late(name, "was not made")),
        }
    }

    async fn seen_by(&self, row: &VolumeRow, machine: &Label) -> Result<Volume, Refused> {
        let (cluster, name) = (&row.cluster, &row.name);
        let seen = |model: &Model, live: &Live| {
            let row = match volume_row(model, cluster, name) {
                Ok(row) => row,
                Err(refused) => return Some(Err(refused)),
            };
            let has_it = row.holder.as_ref() == Some(machine) && !row.letting_go;
            if !has_it && row.next_holder.as_ref() != Some(machine) {
                let refused = Refused::new(Class::Conflict, format!("volume {name} went to another machine"));
                return Some(Err(refused));
            }
            let volume = live.clusters.get(cluster)?.volumes.get(name)?;
            // What an earlier holder saw says nothing about this one.
            let leader = live.clusters.get(cluster)?.machines.get(machine).and_then(|machine| machine.leader);
            let seen = leader.is_some() && volume.facts.seen_by == leader;
            let off = !running(live, cluster, machine);
            ((off || seen) && row.next_holder.is_none()).then(|| Ok(view(row, live)))
        };
        self.until(PATIENCE, seen).await.unwrap_or_else(|| Err(late(name, "was not attached")))
    }

    fn read_volume(&self, row: &VolumeRow) -> Result<Volume, Refused> {
        self.with_both(|model, live, _| Ok(view(volume_row(model, &row.cluster, &row.name)?, live)))
    }
}

/// The volume, if its cluster knows it.
pub(crate) fn volume_row<'a>(model: &'a Model, cluster: &Label, name: &Label) -> Result<&'a VolumeRow, Refused> {
    known(model, cluster)?.volumes.get(name).ok_or_else(|| Refused::unknown("volume", name))
}

/// What is known of a volume's use when somebody asks for it.
struct Use {
    /// Whether its holder runs, or is about to.
    holder_runs: bool,
    /// Whether the host has it open as a device.
    open: bool,
    /// Whether it is being copied.
    copied: bool,
}

fn use_of(model: &Model, live: &Live, row: &VolumeRow) -> Use {
    let (wanted, seen) = (model.clusters.get(&row.cluster), live.clusters.get(&row.cluster));
    let volume = seen.and_then(|seen| seen.volumes.get(&row.name));
    let holder = row.holder.as_ref().and_then(|holder| wanted?.machines.get(holder));
    let runs = |row: &MachineRow| match seen.and_then(|seen| seen.machines.get(&row.name)) {
        // One that is switched on and still has something to be done about it is on its way to its boot.
        Some(machine) => machine.may_run() || (is_on(row) && plan::machine(row, &machine.facts).is_some()),
        None => is_on(row),
    };
    Use {
        holder_runs: holder.is_some_and(runs),
        open: volume.is_some_and(|volume| volume.facts.open),
        copied: is_copying(live, &row.cluster, &row.name),
    }
}

fn is_copying(live: &Live, cluster: &Label, volume: &Label) -> bool {
    live.clusters.get(cluster).is_some_and(|live| live.is_copying(volume))
}

fn is_on(row: &MachineRow) -> bool {
    row.power == Power::On && !row.leaving
}

/// The volume in a machine's hands, or on its way there.
fn taken(row: &VolumeRow, machine: &Label, hold: Hold, used: &Use) -> Result<VolumeRow, Refused> {
    let conflict = |why: String| Err(Refused::new(Class::Conflict, why));
    match (&row.holder, &row.next_holder) {
        _ if row.leaving => conflict(format!("volume {} is being removed", row.name)),
        (_, Some(next)) if next == machine => Ok(row.clone()),
        (_, Some(next)) => conflict(format!("volume {} is on its way to {next}", row.name)),
        (Some(holder), None) if row.letting_go && (hold == Hold::Respect || holder == machine) => {
            conflict(format!("volume {} is still being taken from {holder}", row.name))
        }
        (Some(holder), None) if holder == machine => Ok(row.clone()),
        (None, None) if used.copied => conflict(format!("volume {} is being copied", row.name)),
        // Whoever had it before may still have its device.
        (None, None) if used.open => conflict(format!("volume {} is still being closed", row.name)),
        (None, None) => Ok(VolumeRow { holder: Some(machine.clone()), ..row.clone() }),
        (Some(holder), None) if hold == Hold::Respect && used.holder_runs => {
            let refused = Refused::new(Class::Conflict, format!("volume {} is in use by {holder}", row.name));
            Err(refused.next("detach it there, or ask with hold: fence, which takes that machine's power away"))
        }
        // Even a holder that does not run has to let go of the host's device first.
        (Some(_), None) => Ok(VolumeRow { next_holder: Some(machine.clone()), letting_go: false, ..row.clone() }),
    }
}

fn grown(old: &VolumeRow, spec: VolumeSpec) -> Result<VolumeRow, Refused> {
    if old.leaving {
        return Err(Refused::new(Class::Conflict, format!("volume {} is being removed", old.name)));
    }
    match spec.size >= old.spec.size {
        true => Ok(VolumeRow { spec, ..old.clone() }),
        false => {
            let why = format!("volume {} has {} bytes and cannot become smaller", old.name, old.spec.size);
            Err(Refused::new(Class::Impossible, why))
        }
    }
}

fn running(live: &Live, cluster: &Label, machine: &Label) -> bool {
    matches!(facts(live, cluster, machine).process, Process::Running { .. })
}

fn view(row: &VolumeRow, live: &Live) -> Volume {
    let volume = live.clusters.get(&row.cluster).and_then(|live| live.volumes.get(&row.name));
    let live = live.clusters.get(&row.cluster);
    let leader = row.holder.as_ref().and_then(|holder| live?.machines.get(holder)?.leader);
    let stays = row.next_holder.is_none() && !row.letting_go;
    let seen = leader.is_some() && volume.is_some_and(|v| v.facts.seen_by == leader) && stays;
    Volume {
        name: row.name.clone(),
        cluster: row.cluster.clone(),
        spec: row.spec.clone(),
        holder: row.holder.clone(),
        device: seen.then(|| format!("/dev/disk/windlass/{}", row.name)),
    }
}

fn late(name: &Label, what: &str) -> Refused {
    let refused = Refused::new(Class::NotYet, format!("volume {name} {what} within {} s", PATIENCE.as_secs()));
    refused.next("the cloud goes on trying; ask again")
}

#[cfg(test)]
mod tests;
