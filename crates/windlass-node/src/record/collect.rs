//! Reading records: all of a machine for whoever asks, and the last one of a unit for its next attempt.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use windlass_steps::host::read_file;

use super::{Record, State};
use crate::places::Places;

const LIMIT: u64 = 1 << 20;

/// Every record of this machine, by unit. One that cannot be read is left out: it is being replaced. A unit that has not
/// begun since the machine started is told by how it ended before; one that never ended says nothing of now.
pub fn collect(places: &Places) -> BTreeMap<String, Record> {
    let mut records = read_folder(&places.kept_records());
    records.retain(|_, record| record.state != State::Running);
    records.extend(read_folder(&places.records()));
    records
}

/// What a unit said last, before or after the machine started.
pub fn last(places: &Places, unit: &str) -> Option<Record> {
    read(&places.record(unit)).or_else(|| read(&places.kept_record(unit)))
}

/// What [`collect`] finds, but held back while it is what the asker knows already, for at most this long.
pub fn news(places: &Places, known: Option<&BTreeMap<String, Record>>, patience: Duration) -> BTreeMap<String, Record> {
    let until = Instant::now() + patience;
    // Before the first look, so that no change falls between the two.
    let watch = watch(&places.records());
    loop {
        let records = collect(places);
        let left = until.saturating_duration_since(Instant::now());
        if Some(&records) != known || left.is_zero() {
            return records;
        }
        match &watch {
            Ok(watch) => wait_for_change(watch, left),
            // Nobody has written a record yet, or the machine has no watch to give: the answer comes late, not wrong.
            Err(_) => std::thread::park_timeout(left),
        }
    }
}

fn read_folder(folder: &Path) -> BTreeMap<String, Record> {
    let mut records = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(unit) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".json")) else {
            continue;
        };
        if let Some(record) = read(&path) {
            records.insert(unit.to_owned(), record);
        }
    }
    records
}

fn read(path: &Path) -> Option<Record> {
    read_file(path, LIMIT).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn watch(folder: &Path) -> nix::Result<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    // A record is written beside its place and then put there.
    inotify.add_watch(folder, AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE)?;
    Ok(inotify)
}

fn wait_for_change(watch: &Inotify, limit: Duration) {
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
    // However this ends, the records are looked at again.
    let _ = poll(&mut [PollFd::new(watch.as_fd(), PollFlags::POLLIN)], limit);
    let _ = watch.read_events();
}
