//! Which boot of a machine its process was started for: a number in a file beside the machine.

use std::path::{Path, PathBuf};

use windlass_steps::host::{Mode, read_file, write_file};

use super::Trouble;
use crate::machine::record;

/// The boot that was begun last; 0 if none was.
pub(super) fn begun(directory: &Path) -> u64 {
    let text = read_file(file(directory), 64).ok();
    text.and_then(|text| String::from_utf8_lossy(&text).trim().parse().ok()).unwrap_or(0)
}

/// Begins this boot. The records of the last one go first: how it ended must never be taken for the end of this one.
pub(super) fn begin(directory: &Path, boot: u64, records: [PathBuf; 2]) -> Result<(), Trouble> {
    for path in records {
        record::remove(&path)?;
    }
    write_file(file(directory), boot.to_string(), Mode::PRIVATE_FILE)?;
    Ok(())
}

fn file(directory: &Path) -> PathBuf {
    directory.join("boot")
}
