//! What a unit says about itself while it works: a small JSON file that `windlass-node report` collects, so that whoever
//! asks from outside learns which stage a machine is in and what it waits for.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;
use windlass_steps::clock::{Clock, SystemClock, rfc3339_millis};
use windlass_steps::host::{Mode, make_dir, read_file, write_file};

use crate::places::Places;

const LIMIT: u64 = 1 << 20;

/// What a unit says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it still works.
    pub state: State,
    /// What it does now, or did last.
    pub stage: String,
    /// When it began that, RFC 3339.
    pub since: String,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<Unmet>,
    /// Why it failed last, if it did: one line per cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// What else there is to know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

/// Whether a unit still works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works, or serves.
    Running,
    /// It has done what it is for.
    Done,
    /// It gave up; systemd may start it again.
    Failed,
}

/// A criterion that does not hold yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// What is to be true.
    pub statement: String,
    /// Why it is not.
    pub reason: String,
}

/// Writes the record of one unit.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    record: Record,
}

impl Recorder {
    /// Begins the record of a unit, such as `bootkube`.
    pub fn begin(places: &Places, unit: &str, stage: &str) -> Self {
        let record = Record {
            state: State::Running,
            stage: stage.to_owned(),
            since: now(),
            unmet: Vec::new(),
            because: Vec::new(),
            data: BTreeMap::new(),
        };
        let recorder = Recorder { path: places.record(unit), record };
        recorder.write();
        recorder
    }

    /// The next stage begins.
    pub fn stage(&mut self, stage: &str) {
        self.record.stage = stage.to_owned();
        self.record.since = now();
        self.record.unmet.clear();
        self.write();
    }

    /// A criterion holds now, or has another reason why it does not.
    pub fn observe(&mut self, statement: &str, reason: Option<&str>) {
        self.record.unmet.retain(|unmet| unmet.statement != statement);
        if let Some(reason) = reason {
            self.record.unmet.push(Unmet { statement: statement.to_owned(), reason: reason.to_owned() });
        }
        self.write();
    }

    /// Something else to know.
    pub fn data(&mut self, name: &str, value: impl Into<Value>) {
        self.record.data.insert(name.to_owned(), value.into());
        self.write();
    }

    /// It has done what it is for.
    pub fn done(&mut self) {
        self.record.state = State::Done;
        self.record.unmet.clear();
        self.write();
    }

    /// It gave up.
    pub fn failed(&mut self, because: Vec<String>) {
        self.record.state = State::Failed;
        self.record.because = because;
        self.write();
    }

    /// A record that cannot be written must not stop the work that it is about.
    fn write(&self) {
        let folder = self.path.parent().unwrap_or(&self.path);
        let text = serde_json::to_vec(&self.record).expect("a record is plain data");
        let written = make_dir(folder, Mode::PUBLIC_DIR).and_then(|_| write_file(&self.path, text, Mode::PUBLIC));
        if let Err(error) = written {
            warn!(path = %self.path.display(), error = %error, "record not written");
        }
    }
}

/// Every record of this machine, by unit. One that cannot be read is left out: it is being replaced.
pub fn collect(places: &Places) -> BTreeMap<String, Record> {
    let mut records = BTreeMap::new();
    for entry in std::fs::read_dir(places.records()).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(unit) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".json")) else {
            continue;
        };
        let record = read_file(&path, LIMIT).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(record) = record {
            records.insert(unit.to_owned(), record);
        }
    }
    records
}

/// The same, but held back while it is what the asker knows already, for at most this long.
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

fn now() -> String {
    rfc3339_millis(SystemClock::new().now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_the_stage_and_what_is_unmet() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let mut recorder = Recorder::begin(&places, "bootkube", "await-quorum");
        recorder.observe("three members answer", Some("1 of 3"));
        recorder.observe("three members answer", Some("2 of 3"));
        recorder.data("served", 3);
        let record = &collect(&places)["bootkube"];
        assert_eq!((record.state, record.stage.as_str()), (State::Running, "await-quorum"));
        assert_eq!(record.unmet.len(), 1);
        assert_eq!(record.unmet[0].reason, "2 of 3");
        recorder.observe("three members answer", None);
        assert_eq!(collect(&places)["bootkube"].unmet, []);
        recorder.stage("apply");
        recorder.failed(vec!["no".to_owned()]);
        let record = &collect(&places)["bootkube"];
        assert_eq!((record.state, record.because.as_slice()), (State::Failed, ["no".to_owned()].as_slice()));
        recorder.done();
        assert_eq!(collect(&places)["bootkube"].state, State::Done);
    }

    #[test]
    fn news_are_told_when_they_come_and_what_is_known_only_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let (brief, long) = (Duration::from_millis(40), Duration::from_secs(60));
        let nothing = BTreeMap::new();
        let begun = Instant::now();
        assert_eq!(news(&places, Some(&nothing), brief), nothing);
        assert!(begun.elapsed() >= brief);
        let mut recorder = Recorder::begin(&places, "bootkube", "await-quorum");
        let first = news(&places, Some(&nothing), long);
        assert_eq!(first["bootkube"].stage, "await-quorum");
        assert_eq!(news(&places, None, long), first);
        assert_eq!(news(&places, Some(&first), brief), first);
        let begun = Instant::now();
        let second = std::thread::scope(|scope| {
            let asked = scope.spawn(|| news(&places, Some(&first), long));
            recorder.stage("apply");
            asked.join().unwrap()
        });
        assert_eq!(second["bootkube"].stage, "apply");
        assert!(begun.elapsed() < long);
    }
}
