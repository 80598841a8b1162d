//! Taking everything away, in the order in which nothing stands in the way of the next: processes hold mounts, mounts hold
//! loop devices, processes hold control groups, and directories go last. A failure is kept for the receipt and does not
//! stop the rest.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use windlass_steps::criterion::{LookError, Observation};
use windlass_steps::reason;
use windlass_steps::report::chain;

use super::{Inventory, Item, Left, Receipt, Removed, Thing, cgroups};
use crate::mounts;
use crate::process::{Identity, ProcessError, Signal};
use crate::settle::{settle, settle_blocking};
use crate::volume::loops::{self, Loop};

const UNTIL_DEAD: Duration = Duration::from_secs(10);
const UNTIL_IDLE: Duration = Duration::from_secs(1);

/// Takes away everything in the inventory, and looks again.
pub async fn remove(inventory: &Inventory) -> Receipt {
    let mut tries = Vec::new();
    tries.extend(end_processes(inventory).await);
    for item in inventory.items() {
        let started = Instant::now();
        let result = match &item.thing {
            Thing::Process { .. } => continue,
            Thing::Mount { target, .. } => blocking(target, unmount).await,
            Thing::Pin { target, .. } => blocking(target, unpin).await,
            Thing::Loop { device, file } => let_go(device, file).await,
            Thing::Cgroup { path } => blocking(path, remove_group).await,
            Thing::Directory { path, .. } => blocking(path, remove_tree).await,
        };
        tries.push(Try { item, took: started.elapsed(), trouble: result.err() });
    }
    receipt(inventory, &tries)
}

/// What was tried on one thing.
struct Try<'a> {
    item: &'a Item,
    took: Duration,
    trouble: Option<String>,
}

fn receipt(before: &Inventory, tries: &[Try<'_>]) -> Receipt {
    let after = before.again();
    let left = match &after {
        Ok(after) => after.items().iter().map(|item| left(item, tries)).collect(),
        Err(error) => vec![Left { what: "the host".to_owned(), why: format!("cannot look again: {}", told(error)) }],
    };
    let is_gone = |item: &Item| after.as_ref().is_ok_and(|after| !after.items().iter().any(|now| same(now, item)));
    let gone = tries.iter().filter(|one| is_gone(one.item));
    let removed = gone.map(|one| Removed { what: one.item.clone(), took: one.took.as_secs_f64() }).collect();
    Receipt { before: before.clone(), removed, left }
}

fn left(item: &Item, tries: &[Try<'_>]) -> Left {
    let tried = tries.iter().find(|one| same(one.item, item));
    let why = match tried {
        Some(Try { trouble: Some(trouble), .. }) => trouble.clone(),
        Some(_) => "it was removed and is there again".to_owned(),
        None => "it was not there before".to_owned(),
    };
    Left { what: item.thing.to_string(), why }
}

/// A process may change its command line and stays the same process.
fn same(one: &Item, other: &Item) -> bool {
    match (&one.thing, &other.thing) {
        (Thing::Process { identity: one, .. }, Thing::Process { identity: other, .. }) => one == other,
        (one, other) => one == other,
    }
}

fn told(error: &(dyn Error + 'static)) -> String {
    chain(error).join(": ")
}

async fn blocking(path: &Path, work: fn(&Path) -> Result<(), String>) -> Result<(), String> {
    let path = path.to_owned();
    let worked = tokio::task::spawn_blocking(move || work(&path)).await;
    worked.unwrap_or_else(|error| Err(error.to_string()))
}

async fn end_processes(inventory: &Inventory) -> Vec<Try<'_>> {
    let started = Instant::now();
    let mut known = Vec::new();
    let mut groups = Vec::new();
    for item in inventory.items() {
        match &item.thing {
            Thing::Process { identity, .. } => known.push(identity.clone()),
            Thing::Cgroup { path } => groups.push(path.clone()),
            _ => {}
        }
    }
    groups.iter().for_each(|group| cgroups::thaw(group));
    let groups = cgroups::topmost(&groups);
    let ended = match known.is_empty() && groups.is_empty() {
        true => Ok(()),
        false => settle("no process is left".to_owned(), UNTIL_DEAD, move || kill_round(&known, &groups)).await,
    };
    let trouble = ended.err().map(|unmet| unmet.reason);
    let processes = inventory.items().iter().filter(|item| matches!(item.thing, Thing::Process { .. }));
    processes.map(|item| Try { item, took: started.elapsed(), trouble: trouble.clone() }).collect()
}

/// Kills whoever is there now: a process may have been forked since the last round, into a group that is new too.
fn kill_round(known: &[Identity], groups: &[PathBuf]) -> Result<Observation, LookError> {
    let mut alive = Vec::new();
    for identity in known {
        if identity.is_alive()? {
            alive.push(identity.clone());
        }
    }
    for top in groups {
        for group in cgroups::tree(top)? {
            alive.extend(members(&group)?);
        }
    }
    alive.sort();
    alive.dedup();
    for identity in &alive {
        kill(identity)?;
    }
    let first: Vec<String> = alive.iter().take(5).map(ToString::to_string).collect();
    Ok(match alive.len() {
        0 => Observation::Holds,
        count => Observation::NotYet(reason!("{count} do not die: {}", first.join(", ")).at(0)),
    })
}

fn members(group: &Path) -> Result<Vec<Identity>, LookError> {
    let mut alive = Vec::new();
    for pid in cgroups::processes(group)? {
        match Identity::of(pid) {
            Ok(identity) if identity.is_alive()? => alive.push(identity),
            Ok(_) | Err(ProcessError::FindProcess { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(alive)
}

fn kill(identity: &Identity) -> Result<(), ProcessError> {
    // Whoever is removing things may have been put into the group by mistake; it must live to tell.
    if *identity == Identity::own()? {
        return Ok(());
    }
    identity.open()?.map_or(Ok(()), |handle| handle.signal(Signal::KILL))
}

/// A mount that stays busy is reported and never detached lazily: it would be out of sight and still there.
fn unmount(target: &Path) -> Result<(), String> {
    let path = target.to_owned();
    let look = move || match umount2(&path, MntFlags::UMOUNT_NOFOLLOW) {
        // Gone already, with a mount above it.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(Observation::Holds),
        Err(error) => Ok(Observation::NotYet(reason!("cannot unmount it: {}", error.desc()))),
    };
    settle_blocking("it is unmounted".to_owned(), UNTIL_IDLE, look).map_err(|unmet| unmet.reason)
}

/// A pinned namespace is never busy by its pin: what lives in it goes on without.
fn unpin(target: &Path) -> Result<(), String> {
    match umount2(target, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(error) => return Err(format!("cannot unpin it: {}", error.desc())),
    }
    absent(fs::remove_file(target)).map_err(|error| format!("cannot remove its file: {error}"))
}

async fn let_go(device: &Path, file: &Path) -> Result<(), String> {
    let found = loops::list().map_err(|error| told(&error))?;
    let found: Option<Loop> = found.into_iter().find(|one| one.device == device && one.file == file);
    match found {
        Some(one) => loops::let_go(&one).await.map_err(|error| told(&error)),
        None => Ok(()),
    }
}

/// With what was made below it since. The kernel needs a moment after the last process of a group has ended.
fn remove_group(path: &Path) -> Result<(), String> {
    let top = path.to_owned();
    let look = move || {
        let removed = cgroups::tree(&top)?.iter().try_for_each(|group| absent(fs::remove_dir(group)));
        Ok(match removed {
            Ok(()) => Observation::Holds,
            Err(error) => Observation::NotYet(reason!("cannot remove it: {error}")),
        })
    };
    settle_blocking("the control group is gone".to_owned(), UNTIL_IDLE, look).map_err(|unmet| unmet.reason)
}

/// Never reaches into another file system: what is mounted below may be the user's.
fn remove_tree(path: &Path) -> Result<(), String> {
    let table = mounts::own().map_err(|error| format!("cannot see what is mounted below it: {error}"))?;
    if let Some(mount) = table.iter().find(|mount| mount.target.starts_with(path)) {
        return Err(format!("something is still mounted on {}", mount.target.display()));
    }
    let is_dir = fs::symlink_metadata(path).is_ok_and(|file| file.is_dir());
    let removed = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    absent(removed).map_err(|error| format!("cannot remove it: {error}"))
}

fn absent(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
