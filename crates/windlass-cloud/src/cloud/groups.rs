//! Requests about groups, and what a group's plan means in edits.

use std::collections::BTreeSet;

use time::OffsetDateTime;
use windlass_cloud_api::{Group, GroupSpec, Label};
use windlass_steps::clock::Clock as _;

use super::machines::{check, counted, new_machine};
use super::{Cloud, ClusterLive, Live, known};
use crate::group::{self, GroupChange, Member, MemberState};
use crate::model::{ClusterModel, Edit, GroupRow, MachineRow, Model, Row};
use crate::plan::{Process, Stage};
use crate::refused::{Class, Refused};

const MOST: u32 = 5000;

impl Cloud {
    /// Makes a group, or changes its count and template.
    pub fn put_group(&self, cluster: &Label, name: &Label, spec: GroupSpec) -> Result<Group, Refused> {
        if spec.count > MOST || spec.template.address.is_some() {
            let why = format!("a group has {MOST} machines at most, and no address in its template");
            return Err(Refused::new(Class::Impossible, why));
        }
        // Its machines are called after it and a number, which has ten digits at most.
        if Label::parse(&format!("{name}-{}", u32::MAX)).is_err() {
            let why = format!("group name {name} is too long: its machines get a number behind it");
            return Err(Refused::new(Class::Impossible, why));
        }
        self.edit(|model| {
            check(model, &spec.template)?;
            let found = known(model, cluster)?;
            let row = match found.groups.get(name) {
                None => GroupRow {
                    name: name.clone(),
                    cluster: cluster.clone(),
                    spec,
                    generation: 1,
                    last_serial: 0,
                    back_off: None,
                    leaving: false,
                },
                Some(old) if old.leaving => {
                    return Err(Refused::new(Class::Conflict, format!("group {name} is being removed")));
                }
                Some(old) => {
                    let newer = u64::from(old.spec.template != spec.template);
                    GroupRow { spec, generation: old.generation + newer, ..old.clone() }
                }
            };
            let same = found.groups.get(name) == Some(&row);
            Ok((if same { Vec::new() } else { vec![Edit::Put(Row::Group(row))] }, ()))
        })?;
        self.group(cluster, name)
    }

    /// One group.
    pub fn group(&self, cluster: &Label, name: &Label) -> Result<Group, Refused> {
        self.with_both(|model, live, _| {
            let found = known(model, cluster)?;
            let row = found.groups.get(name).ok_or_else(|| Refused::unknown("group", name))?;
            Ok(view(found, row, live))
        })
    }

    /// Removes a group and its machines.
    pub fn delete_group(&self, cluster: &Label, name: &Label) -> Result<(), Refused> {
        self.edit(|model| match known(model, cluster)?.groups.get(name) {
            Some(row) => Ok((vec![Edit::Put(Row::Group(GroupRow { leaving: true, ..row.clone() }))], ())),
            None => Err(Refused::unknown("group", name)),
        })
    }

    /// Carries out what the groups of a cluster need, as edits; answers when one of them waits for its time.
    pub(crate) fn follow_groups(&self, cluster: &Label) -> Result<Option<OffsetDateTime>, Refused> {
        let now = self.clock().now();
        let members = self.with_both(|model, live, _| {
            let found = model.clusters.get(cluster).filter(|found| !found.row.leaving);
            found.map(|found| memberships(found, live.clusters.get(cluster), now)).unwrap_or_default()
        });
        let mut waits: Option<OffsetDateTime> = None;
        for (name, members) in members {
            let wait = self.edit(|model: &Model| {
                let Some(found) = model.clusters.get(cluster) else { return Ok((Vec::new(), None)) };
                let Some(row) = found.groups.get(&name) else { return Ok((Vec::new(), None)) };
                let wanted = of(row);
                let changes = group::plan(&wanted, &members, now);
                Ok((edits(found, row, &changes, now), wanted.waits_until(now)))
            })?;
            waits = [waits, wait].into_iter().flatten().min();
        }
        Ok(waits)
    }
}

fn of(row: &GroupRow) -> group::Group {
    group::Group {
        name: row.name.to_string(),
        desired: if row.leaving { 0 } else { row.spec.count },
        generation: row.generation,
        max_surge: row.spec.count / 10,
        last_serial: row.last_serial,
        back_off: row.back_off.clone(),
    }
}

/// The members of every group of a cluster, as they are.
fn memberships(cluster: &ClusterModel, live: Option<&ClusterLive>, now: OffsetDateTime) -> Vec<(Label, Vec<Member>)> {
    let member = |row: &MachineRow| {
        let machine = live.and_then(|live| live.machines.get(&row.name));
        let state = match machine.map(|machine| &machine.facts.process) {
            _ if row.leaving => MemberState::Removing,
            Some(Process::Running { stage: Stage::Up, .. }) => MemberState::Healthy,
            Some(Process::Ended { boot, .. }) if *boot >= row.boot => MemberState::Dead,
            _ => MemberState::Starting,
        };
        Member {
            name: row.name.to_string(),
            generation: row.generation,
            created: row.created,
            state,
            since: machine.map_or(now, |machine| machine.since),
        }
    };
    let of =
        |group: &Label| cluster.machines.values().filter(|m| m.group.as_ref() == Some(group)).map(member).collect();
    cluster.groups.keys().map(|name| (name.clone(), of(name))).collect()
}

fn edits(cluster: &ClusterModel, row: &GroupRow, changes: &[GroupChange], now: OffsetDateTime) -> Vec<Edit> {
    let (mut group, mut wanted) = (row.clone(), of(row));
    let mut edits = Vec::new();
    let (mut given, mut new) = (BTreeSet::new(), 0);
    let mut first_free = 0;
    for change in changes {
        match change {
            GroupChange::BackOff(_) => wanted.note(change),
            GroupChange::Remove { name, .. } => {
                let machine = Label::parse(name).ok().and_then(|name| cluster.machines.get(&name));
                edits.extend(machine.map(|m| Edit::Put(Row::Machine(MachineRow { leaving: true, ..m.clone() }))));
            }
            GroupChange::Create { serial, generation, .. } => {
                let (name, serial) = unused(cluster, &row.name, first_free.max(*serial));
                first_free = serial + 1;
                wanted.note(&GroupChange::Create { name: name.clone(), serial, generation: *generation });
                let (Ok(name), Some(address)) = (Label::parse(&name), cluster.free_address(&given)) else { continue };
                given.insert(address);
                let group = Some((row.name.clone(), *generation));
                let machine = new_machine(cluster, name, row.spec.template.clone(), address, now, group);
                edits.push(Edit::Put(Row::Machine(MachineRow { index: machine.index + new, ..machine })));
                new += 1;
            }
        }
    }
    (group.last_serial, group.back_off) = (wanted.last_serial, wanted.back_off);
    if new > 0 {
        edits.push(Edit::Put(counted(cluster, new)));
    }
    let empty = cluster.machines.values().all(|machine| machine.group.as_ref() != Some(&row.name));
    match (row.leaving && empty, group == *row) {
        (true, _) => edits.push(Edit::Drop(Row::Group(group))),
        (false, false) => edits.push(Edit::Put(Row::Group(group))),
        (false, true) => {}
    }
    edits
}

/// The first name of a group's machines, from this number on, that no machine has: one that stands alone may.
fn unused(cluster: &ClusterModel, group: &Label, from: u64) -> (String, u64) {
    let mut names = (from..).map(|serial| (format!("{group}-{serial}"), serial));
    let is_free = |name: &str| !cluster.machines.contains_key(name);
    names.find(|(name, _)| is_free(name)).expect("a cluster has fewer machines than there are numbers")
}

fn view(cluster: &ClusterModel, row: &GroupRow, live: &Live) -> Group {
    let live = live.clusters.get(&cluster.row.name);
    let members = cluster.machines.values().filter(|machine| machine.group.as_ref() == Some(&row.name));
    let up = |name: &Label| live.and_then(|live| live.machines.get(name)).is_some_and(|machine| machine.is_up());
    let current = members.clone().filter(|m| m.generation == row.generation && !m.leaving && up(&m.name)).count();
    Group {
        name: row.name.clone(),
        spec: row.spec.clone(),
        generation: row.generation,
        members: members.map(|machine| machine.name.clone()).collect(),
        current: current as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{cluster, label, machine};

    #[test]
    fn a_machine_that_stands_alone_was_replaced_by_a_groups_machine_of_its_name() {
        let alone = [machine("a", "g-1"), machine("a", "g-3")];
        let rows = alone.iter().cloned().map(Row::Machine).chain([Row::Cluster(cluster("a"))]);
        let model = Model::of(rows);
        let group = GroupRow {
            name: label("g"),
            cluster: label("a"),
            spec: GroupSpec { count: 2, template: alone[0].spec.clone() },
            generation: 1,
            last_serial: 0,
            back_off: None,
            leaving: false,
        };
        let now = OffsetDateTime::UNIX_EPOCH;
        let changes = group::plan(&of(&group), &[], now);
        let mut names = Vec::new();
        for edit in edits(&model.clusters[&label("a")], &group, &changes, now) {
            match edit {
                Edit::Put(Row::Machine(row)) => names.push(row.name.to_string()),
                Edit::Put(Row::Group(row)) => assert_eq!(row.last_serial, 4),
                _ => {}
            }
        }
        assert_eq!(names, ["g-2", "g-4"]);
    }
}
