//! What a unit says about itself while it works: a small JSON file that `windlass-node report` collects, so that whoever
//! asks from outside learns which stage a machine is in, how long each took, what it waits for and what went wrong.
//!
//! The file lies in `/run`. How an attempt of a unit that ends began and how it ended is also kept on the disk, so that a
//! machine's first boot can be explained after the next one, and a unit that starts again goes on with the list of its
//! earlier attempts.

mod collect;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;
use windlass_steps::clock::{Clock, SystemClock, rfc3339_millis};
use windlass_steps::host::{Mode, make_dir, write_file};

use crate::places::Places;

pub use collect::{collect, last, news};

/// How many stages of an attempt are kept: the last.
const STAGES: usize = 40;
/// How many earlier attempts are kept: the last.
const ATTEMPTS: usize = 8;
/// How many of the last lines of an error are kept, and how much of each.
const LINES: usize = 20;
const LINE: usize = 400;

/// What a unit says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it still works.
    pub state: State,
    /// What it does now, or did last.
    pub stage: String,
    /// When it began that, RFC 3339.
    pub since: String,
    /// When this attempt began, RFC 3339.
    #[serde(default)]
    pub started: String,
    /// When it ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Which attempt this is, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    /// What it has done so far and does now, in order; only the last if there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<Unmet>,
    /// Why it failed, if it did: one line per cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// The last lines of what the command that failed had said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// The attempts before this one; only the last if there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Attempt>,
    /// What else there is to know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

fn first() -> u32 {
    1
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

/// One thing that a unit does on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// What it is called.
    pub name: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that it took, once it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<f64>,
}

/// An attempt before the one that a record is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which it was, from 1.
    pub number: u32,
    /// When it began, RFC 3339.
    pub started: String,
    /// When it ended, if it lived to say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// How it ended.
    pub ending: Ending,
    /// What it did last, as far as is known.
    pub stage: String,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It did what it is for.
    Done,
    /// It gave up.
    Failed,
    /// It was killed, or its machine went down.
    Cut,
}

/// A criterion that does not hold yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// What is to be true.
    pub statement: String,
    /// Why it is not.
    pub reason: String,
}

/// For how long a record is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// How it began and ended is told after the machine has started again too.
    OverReboots,
    /// Until the machine starts again: that something served before says nothing of now.
    UntilReboot,
}

/// Writes the record of one unit.
pub struct Recorder {
    path: PathBuf,
    /// Where the story survives the machine.
    kept: Option<PathBuf>,
    record: Record,
    clock: Arc<dyn Clock>,
    stage_began: Duration,
    /// The stage at which everything stops, and the note that it did.
    held_at: Option<(String, PathBuf)>,
}

impl Recorder {
    /// Begins the record of a unit that does something and ends, such as `bootkube`, at its first stage. Earlier attempts
    /// are listed in it.
    pub fn begin(places: &Places, unit: &str, stage: &str) -> Self {
        Recorder::begin_by(Arc::new(SystemClock::new()), places, unit, stage, Kept::OverReboots)
    }

    /// Begins the record of one that serves until it is told to end, or of a pod that sees no more of its machine.
    pub fn begin_serving(places: &Places, unit: &str, stage: &str) -> Self {
        Recorder::begin_by(Arc::new(SystemClock::new()), places, unit, stage, Kept::UntilReboot)
    }

    /// Begins a record by this clock.
    pub fn begin_by(clock: Arc<dyn Clock>, places: &Places, unit: &str, stage: &str, kept: Kept) -> Self {
        let now = rfc3339_millis(clock.now());
        let before = last(places, unit);
        let record = Record {
            state: State::Running,
            stage: stage.to_owned(),
            since: now.clone(),
            started: now.clone(),
            ended: None,
            attempt: before.as_ref().map_or(1, |before| before.attempt.saturating_add(1)),
            stages: vec![Stage { name: stage.to_owned(), started: now, took: None }],
            unmet: Vec::new(),
            because: Vec::new(),
            said: Vec::new(),
            earlier: before.map(attempts).unwrap_or_default(),
            data: BTreeMap::new(),
        };
        let kept = match kept {
            Kept::OverReboots => Some(places.kept_record(unit)),
            Kept::UntilReboot => None,
        };
        let stage_began = clock.monotonic();
        let recorder = Recorder { path: places.record(unit), kept, record, clock, stage_began, held_at: None };
        recorder.write();
        recorder.keep();
        recorder
    }

    /// The next stage begins.
    pub fn stage(&mut self, stage: &str) {
        self.end_stage();
        let now = self.now();
        self.record.stages.push(Stage { name: stage.to_owned(), started: now.clone(), took: None });
        let surplus = self.record.stages.len().saturating_sub(STAGES);
        self.record.stages.drain(..surplus);
        self.record.stage = stage.to_owned();
        self.record.since = now;
        self.record.unmet.clear();
        self.write();
        self.hold();
    }

    /// Stops for good when a stage begins, once in the life of a machine: a test cuts the machine's power there.
    pub fn hold_at(&mut self, places: &Places, stage: Option<&str>) {
        self.held_at = stage.map(|stage| (stage.to_owned(), places.held_at(stage)));
        self.hold();
    }

    fn hold(&self) {
        let Some((stage, note)) = &self.held_at else { return };
        if *stage != self.record.stage || note.exists() {
            return;
        }
        self.write_to(note);
        loop {
            std::thread::park();
        }
    }

    /// A criterion holds now, or has another reason why it does not.
    pub fn observe(&mut self, statement: &str, reason: Option<&str>) {
        self.record.unmet.retain(|unmet| unmet.statement != statement);
        if let Some(reason) = reason {
            self.record.unmet.push(Unmet { statement: statement.to_owned(), reason: reason.to_owned() });
        }
        self.write();
    }

    /// All that does not hold, as seen in one look at everything.
    pub fn unmet(&mut self, unmet: Vec<Unmet>) {
        self.record.unmet = unmet;
        self.write();
    }

    /// Something else to know.
    pub fn data(&mut self, name: &str, value: impl Into<Value>) {
        self.record.data.insert(name.to_owned(), value.into());
        self.write();
    }

    /// Writes the story so far where it survives the machine. Whoever is about to reboot it calls this; beginnings and
    /// ends are kept without being asked. Stages are not: each would cost two syncs of a disk that the machine starts from.
    pub fn keep(&self) {
        if let Some(kept) = &self.kept {
            self.write_to(kept);
        }
    }

    /// It has done what it is for.
    pub fn done(&mut self) {
        self.record.state = State::Done;
        self.record.unmet.clear();
        self.record.because.clear();
        self.record.said.clear();
        self.end();
    }

    /// It gave up. A cause of several lines is one that a command gave with its last words.
    pub fn failed(&mut self, because: Vec<String>) {
        self.record.state = State::Failed;
        (self.record.because, self.record.said) = causes(&because);
        self.end();
    }

    fn end(&mut self) {
        self.end_stage();
        self.record.ended = Some(self.now());
        self.write();
        self.keep();
    }

    fn end_stage(&mut self) {
        let now = self.clock.monotonic();
        let took = now.saturating_sub(self.stage_began);
        if let Some(stage) = self.record.stages.last_mut() {
            stage.took.get_or_insert(whole_millis(took));
        }
        self.stage_began = now;
    }

    fn now(&self) -> String {
        rfc3339_millis(self.clock.now())
    }

    fn write(&self) {
        self.write_to(&self.path);
    }

    /// A record that cannot be written must not stop the work that it is about.
    fn write_to(&self, path: &Path) {
        let folder = path.parent().unwrap_or(path);
        let text = serde_json::to_vec(&self.record).expect("a record is plain data");
        let written = make_dir(folder, Mode::PUBLIC_DIR).and_then(|_| write_file(path, text, Mode::PUBLIC));
        if let Err(error) = written {
            warn!(path = %path.display(), error = %error, "record not written");
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("path", &self.path).field("record", &self.record).finish_non_exhaustive()
    }
}

/// Seconds as a number with milliseconds, which has the same text wherever it is read and written again.
fn whole_millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The attempts before the next one.
fn attempts(before: Record) -> Vec<Attempt> {
    let ending = match before.state {
        State::Running => Ending::Cut,
        State::Done => Ending::Done,
        State::Failed => Ending::Failed,
    };
    let attempt = Attempt {
        number: before.attempt,
        started: before.started,
        ended: before.ended,
        ending,
        stage: before.stage,
        because: before.because,
    };
    let mut attempts = before.earlier;
    attempts.push(attempt);
    let surplus = attempts.len().saturating_sub(ATTEMPTS);
    attempts.drain(..surplus);
    attempts
}

/// The first line of each cause, and the last of all the others.
fn causes(because: &[String]) -> (Vec<String>, Vec<String>) {
    let first = |cause: &String| cut(cause.lines().next().unwrap_or_default().trim_end_matches("; stderr:"));
    let rest = because.iter().flat_map(|cause| cause.lines().skip(1)).filter(|line| !line.trim().is_empty());
    let mut said: Vec<String> = rest.map(cut).collect();
    let surplus = said.len().saturating_sub(LINES);
    said.drain(..surplus);
    (because.iter().map(first).collect(), said)
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
