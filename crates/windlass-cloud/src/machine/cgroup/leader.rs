//! The first process of a machine. Finding it means reading every group of the machine and every process in them, which is
//! too much for each look at a machine; it is the same one until the machine ends or reboots.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::machine::error::MachineError;
use crate::machine::record::Identity;

/// By the machine's groups.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, Identity>>> = LazyLock::new(Mutex::default);

/// The one that was found before, if that very process is alive, else the one that is found now.
pub(super) fn known_or(
    groups: &Path,
    find: impl FnOnce() -> Result<Option<i32>, MachineError>,
) -> Result<Option<i32>, MachineError> {
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = known().get(groups).cloned();
    if let Some(before) = before.filter(Identity::is_alive) {
        return Ok(Some(before.pid));
    }
    let found = find()?;
    match found.and_then(|pid| Identity::of(pid).ok()) {
        Some(identity) => known().insert(groups.to_owned(), identity),
        None => known().remove(groups),
    };
    Ok(found)
}

/// The machine is gone.
pub(super) fn forget(groups: &Path) {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).remove(groups);
}

/// Whether a process is number 1 of a process namespace right below ours.
pub(super) fn is_first(pid: i32) -> bool {
    is_first_inside(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
}

/// Containers inside have a third number.
fn is_first_inside(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    matches!(numbers.split_whitespace().collect::<Vec<_>>()[..], [_, "1"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_is_looked_for_until_it_is_found_and_again_when_it_has_ended() {
        let groups = Path::new("of/the-test-of-leaders");
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(known_or(groups, || Ok(None)).unwrap(), None);
        assert_eq!(known_or(groups, || Ok(Some(own))).unwrap(), Some(own));
        assert_eq!(known_or(groups, || panic!("it is known")).unwrap(), Some(own));
        forget(groups);
        assert_eq!(known_or(groups, || Ok(None)).unwrap(), None);
        // No process has this number, as little as one that has ended.
        let gone = Identity { pid: i32::MAX, started: 1, boot_id: String::new() };
        KNOWN.lock().unwrap().insert(groups.to_owned(), gone);
        assert_eq!(known_or(groups, || Ok(None)).unwrap(), None);
    }

    #[test]
    fn the_leader_is_number_one_inside_and_nothing_deeper() {
        let cases = [
            ("Name:\tsystemd\nNSpid:\t4711\t1\n", true),
            ("NSpid:\t4711\t12\n", false),
            ("NSpid:\t1\n", false),
            ("NSpid:\t4711\t99\t1\n", false),
            ("", false),
        ];
        for (status, want) in cases {
            assert_eq!(is_first_inside(status), want, "{status:?}");
        }
    }
}
