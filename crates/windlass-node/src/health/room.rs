//! Room on the disks that a node writes to.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::unmet;
use crate::places::Places;
use crate::record::Unmet;

/// What etcd asks for at once when it begins a new log.
const LEAST: u64 = 64 << 20;

/// Every disk with too little room, once, whatever lies on it.
pub fn look(places: &Places) -> Vec<Unmet> {
    let mut told = Vec::new();
    let mut found = Vec::new();
    for place in [places.etcd_data(), places.containerd_data(), places.kubelet_data(), places.logs()] {
        let Some(room) = room(&place) else { continue };
        if room.free < LEAST && !told.contains(&room) {
            found.push(unmet(
                format!("there is room on {}", place.display()),
                format!("{} of {} MiB are free, and {} are needed", room.free >> 20, room.size >> 20, LEAST >> 20),
            ));
            told.push(room);
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    free: u64,
    size: u64,
}

/// What is not there takes no room.
fn room(place: &Path) -> Option<Room> {
    let seen = statvfs(place).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(seen.fragment_size());
    Some(Room { free: bytes(seen.blocks_available()), size: bytes(seen.blocks()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_takes_no_room() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(look(&Places::below(dir.path())), []);
        assert_eq!(room(&dir.path().join("absent")), None);
        assert!(room(dir.path()).unwrap().size > 0);
    }
}
