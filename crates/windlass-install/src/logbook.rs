//! The journal of a cluster directory: who may begin, who may go on, and what becomes of it.

use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::warn;
use windlass_steps::event::Kind;
use windlass_steps::host::{HostError, sync_dir};
use windlass_steps::journal::{History, Journal, JournalError};

use crate::preflight;

/// The journal's file in the cluster directory.
pub const JOURNAL: &str = "journal.jsonl";

/// Whether anything was made according to a journal. A preflight that refused has made nothing, so that the launch may be
/// tried again.
pub fn is_launched(history: &History) -> bool {
    let made = |kind: Kind, step: &str| kind == Kind::Started && step != preflight::NAME.as_str();
    history.entries.iter().any(|entry| made(entry.event.kind, entry.event.step.as_str()))
}

/// Whether a step has finished according to a journal, whatever became of it since.
pub fn has_finished(history: &History, step: &str) -> bool {
    history.entries.iter().any(|entry| entry.event.kind == Kind::Finished && entry.event.step.as_str() == step)
}

/// Why a journal was not opened.
#[derive(Debug, Error)]
pub enum LogbookError {
    /// The cluster of this directory was launched before.
    #[error("{} belongs to a cluster that was launched", .directory.display())]
    Launched {
        /// The cluster directory.
        directory: PathBuf,
    },
    /// There is no launch to go on with.
    #[error("nothing was launched in {}", .directory.display())]
    NotLaunched {
        /// The cluster directory.
        directory: PathBuf,
    },
    /// The journal cannot be read or written.
    #[error("the journal of {} cannot be used", .directory.display())]
    UseJournal {
        /// The cluster directory.
        directory: PathBuf,
        /// What is wrong with it.
        source: JournalError,
    },
    /// The journal could not be put aside.
    #[error("the journal of {} cannot be put aside", .directory.display())]
    PutAside {
        /// The cluster directory.
        directory: PathBuf,
        /// Why not.
        source: HostError,
    },
}

/// The journal for a launch, which must be the first.
pub fn begin(directory: &Path) -> Result<Journal, LogbookError> {
    let (journal, history) = open(directory)?;
    match is_launched(&history) {
        false => Ok(journal),
        true => Err(LogbookError::Launched { directory: directory.to_owned() }),
    }
}

/// The journal of a launch that is to go on.
pub fn go_on(directory: &Path) -> Result<Journal, LogbookError> {
    let nothing = || LogbookError::NotLaunched { directory: directory.to_owned() };
    if !directory.join(JOURNAL).exists() {
        return Err(nothing());
    }
    let (journal, history) = open(directory)?;
    if history.entries.is_empty() { Err(nothing()) } else { Ok(journal) }
}

/// What the journal says; nothing if there is none.
pub fn read(directory: &Path) -> Result<Option<History>, LogbookError> {
    let path = directory.join(JOURNAL);
    match path.exists() {
        false => Ok(None),
        true => Journal::read(&path).map(Some).map_err(trouble(directory)),
    }
}

/// A journal that is to be put aside.
#[derive(Debug)]
pub enum Held {
    /// Nobody else launches here for as long as this is kept.
    Locked(Journal),
    /// Nobody can go on with it, but what it was about may still be there.
    Damaged,
}

/// Keeps everyone else from launching here, if a launch was ever begun here. Damage does not matter to whoever removes.
pub fn hold(directory: &Path) -> Result<Option<Held>, LogbookError> {
    let path = directory.join(JOURNAL);
    if !path.exists() {
        return Ok(None);
    }
    match Journal::open(&path) {
        Ok(opened) => Ok(Some(Held::Locked(opened.journal))),
        Err(error @ JournalError::Parse { .. }) => {
            warn!(%error, "journal damaged, going on without it");
            Ok(Some(Held::Damaged))
        }
        Err(error) => Err(trouble(directory)(error)),
    }
}

/// Puts a journal aside as `journal-<n>.jsonl`, so that the directory can be launched again, and says where it is. The lock
/// ends with the journal, after that.
pub fn put_aside(directory: &Path, held: Held) -> Result<PathBuf, LogbookError> {
    let free = |n: &u32| !directory.join(format!("journal-{n}.jsonl")).exists();
    let number = (1..).find(free).unwrap_or(u32::MAX);
    let target = directory.join(format!("journal-{number}.jsonl"));
    let failed = |source| LogbookError::PutAside { directory: directory.to_owned(), source };
    let renamed = std::fs::rename(directory.join(JOURNAL), &target);
    renamed.map_err(|source| failed(HostError::WriteFile { path: target.clone(), source }))?;
    sync_dir(directory).map_err(failed)?;
    drop(held);
    Ok(target)
}

fn open(directory: &Path) -> Result<(Journal, History), LogbookError> {
    let path = directory.join(JOURNAL);
    let opened = Journal::open(&path).map_err(trouble(directory))?;
    if let Some(torn) = &opened.torn {
        warn!(%torn, "journal mended");
    }
    // Read after it was locked, so that nobody begins in between.
    let history = Journal::read(&path).map_err(trouble(directory))?;
    Ok((opened.journal, history))
}

fn trouble(directory: &Path) -> impl FnOnce(JournalError) -> LogbookError {
    let directory = directory.to_owned();
    move |source| LogbookError::UseJournal { directory, source }
}
