//! The OS that a machine runs: which image its `/usr` is. A staged one waits in the machine's directory until the machine
//! starts again, by whatever way; until then nothing changes.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::{MachineError, change};
use super::record;

/// An OS version, unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// As in `VERSION_ID`.
    pub version: String,
    /// The image's tree, of which only `usr` is used.
    pub tree: PathBuf,
}

/// What the machine runs, or will when it starts for the first time.
pub fn current(directory: &Path) -> Result<Option<Slot>, MachineError> {
    record::read(&current_file(directory))
}

/// What it will run after its next start, if that is something else.
pub fn staged(directory: &Path) -> Result<Option<Slot>, MachineError> {
    record::read(&staged_file(directory))
}

/// Has the machine run this OS from its next start on.
pub fn stage(directory: &Path, slot: &Slot) -> Result<(), MachineError> {
    record::write_lasting(&staged_file(directory), slot)
}

/// At a start: takes what is staged, or what it ran before, or for the first time `first`.
pub fn take(directory: &Path, first: &Slot) -> Result<Slot, MachineError> {
    let (from, to) = (staged_file(directory), current_file(directory));
    if let Some(slot) = staged(directory)? {
        fs::rename(&from, &to).map_err(change("take into use", &from))?;
        return Ok(slot);
    }
    if let Some(slot) = current(directory)? {
        return Ok(slot);
    }
    // The description says so as well, so that it need not last.
    record::write(&to, first)?;
    Ok(first.clone())
}

fn current_file(directory: &Path) -> PathBuf {
    directory.join("os.json")
}

fn staged_file(directory: &Path) -> PathBuf {
    directory.join("os-staged.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_slot_is_taken_at_a_start_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let slot = |version: &str| Slot { version: version.to_owned(), tree: PathBuf::from("/t").join(version) };
        assert_eq!(take(dir.path(), &slot("1")).unwrap(), slot("1"));
        stage(dir.path(), &slot("2")).unwrap();
        assert_eq!(current(dir.path()).unwrap(), Some(slot("1")));
        assert_eq!(staged(dir.path()).unwrap(), Some(slot("2")));
        assert_eq!(take(dir.path(), &slot("1")).unwrap(), slot("2"));
        assert_eq!(staged(dir.path()).unwrap(), None);
        assert_eq!(take(dir.path(), &slot("1")).unwrap(), slot("2"));
    }
}
