//! What has happened, on disk, before anyone is told: one JSON line per event, synced before [`Journal::append`] returns.
//! A run that was killed at any moment leaves a journal that opens again and knows every step that was acknowledged.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::Serialize;
use serde_json::Value;
use tracing::warn;

use crate::event::{Event, Kind};
use crate::host::{HostError, Mode, sync_dir};
use crate::step::StepName;

mod error;
mod history;

pub use error::JournalError;
pub use history::{Entry, History, TornTail};

/// The file, locked against a second writer, and an index of what it says.
///
/// The `done` of a step lies here in clear: no step may put a secret into it.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    index: Index,
    state: State,
}

/// A journal that is ready for more, and what was found at its end.
#[derive(Debug)]
pub struct Opened {
    /// Ready to append.
    pub journal: Journal,
    /// The unfinished last line of a run that was killed; it is already cut off.
    pub torn: Option<TornTail>,
}

/// After a failed write or sync nobody knows what is on the disk; only opening again finds out.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Sound,
    Broken,
}

#[derive(Debug, Default)]
struct Index {
    started: HashSet<Key>,
    finished: HashMap<Key, Value>,
}

type Key = (StepName, Option<String>);

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: &'a Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<&'a Value>,
}

impl Journal {
    /// Opens the journal for writing, or makes an empty one; a torn last line is cut off and reported.
    pub fn open(path: impl AsRef<Path>) -> Result<Opened, JournalError> {
        let path = path.as_ref();
        let trouble = |source| JournalError::Open { path: path.to_owned(), source };
        let mut file = open_or_create(path)?;
        lock(&file, path)?;
        tighten(&file).map_err(trouble)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(trouble)?;
        let history = History::parse(&bytes).map_err(|bad| bad.of(path))?;
        if let Some(torn) = &history.torn {
            file.set_len(torn.offset).and_then(|()| file.sync_all()).map_err(trouble)?;
            file.seek(SeekFrom::End(0)).map_err(trouble)?;
        }
        let mut index = Index::default();
        history.entries.into_iter().for_each(|entry| index.note(&entry.event, entry.done));
        let journal = Self { path: path.to_owned(), file, index, state: State::Sound };
        Ok(Opened { journal, torn: history.torn })
    }

    /// Reads a journal that someone else may be writing, without a lock and without changing it.
    pub fn read(path: impl AsRef<Path>) -> Result<History, JournalError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| JournalError::Open { path: path.to_owned(), source })?;
        History::parse(&bytes).map_err(|bad| bad.of(path))
    }

    /// Writes one event, with what the step promises if it finished. When this returns, it lasts.
    pub fn append(&mut self, event: &Event, done: Option<&Value>) -> Result<(), JournalError> {
        self.append_batch([(event, done)])
    }

    /// Writes several events with a single sync; either of them may be the last one to survive a crash before it returns.
    pub fn append_batch<'a>(
        &mut self,
        events: impl IntoIterator<Item = (&'a Event, Option<&'a Value>), IntoIter: Clone>,
    ) -> Result<(), JournalError> {
        let events = events.into_iter();
        let mut lines = Vec::new();
        for (event, done) in events.clone() {
            serde_json::to_writer(&mut lines, &Line { event, done })
                .map_err(|source| JournalError::Encode { step: event.step.clone(), source })?;
            lines.push(b'\n');
        }
        self.write(&lines)?;
        events.for_each(|(event, done)| self.index.note(event, done.cloned()));
        Ok(())
    }

    /// What the step promised when it finished on this machine, or without a machine if none is named.
    pub fn finished(&self, step: &StepName, machine: Option<&str>) -> Option<&Value> {
        self.index.finished.get(&(step.clone(), machine.map(str::to_owned)))
    }

    /// Whether any step was ever started: this makes a second launch refuse.
    pub fn started(&self) -> bool {
        !self.index.started.is_empty()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), JournalError> {
        if self.state == State::Broken {
            return Err(JournalError::AppendToBroken { path: self.path.clone() });
        }
        self.state = State::Broken;
        self.file
            .write_all(lines)
            .and_then(|()| self.file.sync_data())
            .map_err(|source| JournalError::Append { path: self.path.clone(), source })?;
        self.state = State::Sound;
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Unlocked by hand: a process being forked by another thread may hold the descriptor a moment longer.
        if let Err(error) = self.file.unlock() {
            warn!(path = %self.path.display(), %error, "lock not released, closing the file releases it");
        }
    }
}

impl Index {
    fn note(&mut self, event: &Event, done: Option<Value>) {
        let key = || (event.step.clone(), event.machine.clone());
        match event.kind {
            Kind::Started => drop(self.started.insert(key())),
            Kind::Finished => drop(self.finished.insert(key(), done.unwrap_or(Value::Null))),
            Kind::Observed | Kind::Failed => {}
        }
    }
}

fn open_or_create(path: &Path) -> Result<File, JournalError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(Mode::PRIVATE_FILE.bits()).custom_flags(OFlag::O_NOFOLLOW.bits());
    match options.clone().create_new(true).open(path) {
        Ok(file) => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let synced = file.sync_all().map_err(|source| HostError::WriteFile { path: path.to_owned(), source });
            synced
                .and_then(|()| sync_dir(dir))
                .map_err(|source| JournalError::Create { path: path.to_owned(), source })?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.open(path).map_err(|source| JournalError::Open { path: path.to_owned(), source })
        }
        Err(source) => Err(JournalError::Open { path: path.to_owned(), source }),
    }
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    let trouble = |source| JournalError::Open { path: path.to_owned(), source };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(JournalError::Lock { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(trouble(source)),
    }
    // `down` renames the journal: a lock on a file that lost its name in the meantime guards nothing.
    let (ours, named) = (file.metadata().map_err(trouble)?, path.symlink_metadata().map_err(trouble)?);
    match (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
        true => Ok(()),
        false => Err(JournalError::Lock { path: path.to_owned() }),
    }
}

fn tighten(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode() & 0o7777;
    if mode == Mode::PRIVATE_FILE.bits() { Ok(()) } else { file.set_permissions(Mode::PRIVATE_FILE.permissions()) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests damage journals on purpose")]
mod tests;
