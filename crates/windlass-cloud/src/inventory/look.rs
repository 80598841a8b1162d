//! Taking stock: one function for each kind of thing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Holds, Inventory, InventoryError, Item, Thing, Where, cgroups};
use crate::mounts::{self, Mount};
use crate::process::{Identity, ProcessError, is_gone, stat_of};
use crate::volume::loops;

const COMMAND_SHOWN: usize = 200;

pub(super) fn take(place: &Where) -> Result<Inventory, InventoryError> {
    let place = settled(place);
    let table = mounts::own().map_err(|source| InventoryError::Look { path: "/proc/self/mountinfo".into(), source })?;
    let groups = groups(&place, &table)?;
    let mut notes = Vec::new();
    let mut items = processes(&place, &groups, &mut notes)?;
    items.extend(mounted(&place, &table));
    items.extend(loop_devices(&place)?);
    items.extend(groups.into_iter().map(|(cluster, path)| Item { cluster, thing: Thing::Cgroup { path } }));
    items.extend(directories(&place)?);
    Ok(Inventory { place, scope: None, items: in_order(items), notes })
}

/// The kernel tells paths without links in them, so ours must be like that too.
fn settled(place: &Where) -> Where {
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let cgroup_parent = place.cgroup_parent.clone();
    Where { state: whole(&place.state), run: whole(&place.run), cgroup_parent }
}

/// By kind. Mounts stay in the reverse of the order in which they were made, groups and directories from the leaves.
fn in_order(mut items: Vec<Item>) -> Vec<Item> {
    let kind = |item: &Item| match item.thing {
        Thing::Process { .. } => 0,
        Thing::Mount { .. } => 1,
        Thing::Pin { .. } => 2,
        Thing::Loop { .. } => 3,
        Thing::Cgroup { .. } => 4,
        Thing::Directory { .. } => 5,
    };
    items.sort_by_key(kind);
    items
}

type Groups = Vec<(Option<String>, PathBuf)>;

fn groups(place: &Where, table: &[Mount]) -> Result<Groups, InventoryError> {
    let mut found = Vec::new();
    for hierarchy in cgroups::hierarchies(table) {
        let parent = hierarchy.join(&place.cgroup_parent);
        for path in cgroups::tree(&parent)? {
            let below = path.strip_prefix(&parent).ok().and_then(|below| below.components().next());
            found.push((below.map(|name| name.as_os_str().to_string_lossy().into_owned()), path));
        }
    }
    Ok(found)
}

fn processes(place: &Where, groups: &Groups, notes: &mut Vec<String>) -> Result<Vec<Item>, InventoryError> {
    let mut found = BTreeSet::new();
    for (cluster, group) in groups {
        for pid in cgroups::processes(group)? {
            match Identity::of(pid) {
                Ok(identity) => drop(found.insert((cluster.clone(), identity))),
                Err(ProcessError::FindProcess { .. }) => {}
                Err(source) => return Err(InventoryError::Processes { source }),
            }
        }
    }
    for (cluster, record) in records(place)? {
        match Identity::read(&record) {
            Ok(identity) => found.extend(identity.map(|identity| (Some(cluster), identity))),
            Err(error) => notes.push(windlass_steps::report::chain(&error).join(": ")),
        }
    }
    let mut items = Vec::new();
    for (cluster, identity) in found {
        if identity.is_alive().map_err(|source| InventoryError::Processes { source })? {
            let command = command_of(identity.pid);
            items.push(Item { cluster, thing: Thing::Process { identity, command } });
        }
    }
    Ok(items)
}

/// The command line of a process, shortened; its name if it has none.
pub(super) fn command_of(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&line).replace('\0', " ");
    let words: String = words.trim_end().chars().take(COMMAND_SHOWN).collect();
    let name = || stat_of(pid).ok().flatten().map(|stat| format!("[{}]", stat.name));
    if words.is_empty() { name().unwrap_or_default() } else { words }
}

fn records(place: &Where) -> Result<Vec<(String, PathBuf)>, InventoryError> {
    let mut found = Vec::new();
    for (cluster, dir) in below(&place.run.join("clusters"))? {
        for machine in machines(&dir)? {
            found.push((cluster.clone(), machine.join("runner.json")));
        }
    }
    Ok(found)
}

fn mounted(place: &Where, table: &[Mount]) -> Vec<Item> {
    let ours = table.iter().rev().filter(|mount| place.holds(&mount.target));
    let item = ours.map(|mount| {
        let target = mount.target.clone();
        let thing = match mount.is_pin() {
            true => Thing::Pin { target, namespace: mount.root.display().to_string() },
            false => Thing::Mount { target, fs: mount.kind.clone() },
        };
        Item { cluster: place.cluster_of(&mount.target), thing }
    });
    item.collect()
}

fn loop_devices(place: &Where) -> Result<Vec<Item>, InventoryError> {
    let all = loops::list().map_err(|source| InventoryError::Loops { source })?;
    let ours = all.into_iter().filter(|one| place.holds(&one.file)).map(|one| {
        let cluster = place.cluster_of(&one.file);
        Item { cluster, thing: Thing::Loop { device: one.device, file: one.file } }
    });
    Ok(ours.collect())
}

fn directories(place: &Where) -> Result<Vec<Item>, InventoryError> {
    let mut items = Vec::new();
    for root in [&place.state, &place.run] {
        for (cluster, dir) in below(&root.join("clusters"))? {
            let mut add = |path: PathBuf, holds| {
                items.push(Item { cluster: Some(cluster.clone()), thing: Thing::Directory { path, holds } });
            };
            for machine in machines(&dir)? {
                add(machine, Holds::Machine);
            }
            if is_real_dir(&dir).is_ok_and(|real| real) && fs::symlink_metadata(dir.join("volumes")).is_ok() {
                add(dir.join("volumes"), Holds::Volumes);
            }
            add(dir, Holds::Cluster);
        }
    }
    Ok(items)
}

/// What is in a directory, sorted by name: directories, and whatever else lies where one should be. A link in its place
/// is never followed, and a directory that is not there is empty.
fn below(dir: &Path) -> Result<Vec<(String, PathBuf)>, InventoryError> {
    let trouble = |source| InventoryError::Look { path: dir.to_owned(), source };
    let mut found = Vec::new();
    if !is_real_dir(dir).map_err(trouble)? {
        return Ok(found);
    }
    for entry in fs::read_dir(dir).map_err(trouble)? {
        let entry = entry.map_err(trouble)?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found.sort();
    Ok(found)
}

fn is_real_dir(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(file) => Ok(file.is_dir()),
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

/// The machines of a cluster's directory.
fn machines(cluster: &Path) -> Result<Vec<PathBuf>, InventoryError> {
    let trouble = |source| InventoryError::Look { path: cluster.to_owned(), source };
    match is_real_dir(cluster).map_err(trouble)? {
        true => Ok(below(&cluster.join("machines"))?.into_iter().map(|(_, path)| path).collect()),
        false => Ok(Vec::new()),
    }
}
