//! What can go wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::host::HostError;
use crate::step::StepName;

/// A journal that cannot be trusted, read or written.
#[derive(Debug, Error)]
pub enum JournalError {
    /// It could not be opened, read or brought into shape.
    #[error("cannot open the journal {}", .path.display())]
    Open {
        /// The journal.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A new one could not be made lasting.
    #[error("cannot create the journal {}", .path.display())]
    Create {
        /// The journal.
        path: PathBuf,
        /// What failed.
        source: HostError,
    },
    /// Another windlass is at work in the same directory.
    #[error("cannot lock the journal {}: another windlass is writing it", .path.display())]
    Lock {
        /// The journal.
        path: PathBuf,
    },
    /// A line before the last is damaged: no crash does that, so nothing is guessed.
    #[error("cannot understand line {line} of the journal {}", .path.display())]
    Parse {
        /// The journal.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// Where in the line, and what was expected there.
        source: serde_json::Error,
    },
    /// The event could not be written or synced.
    #[error("cannot append to the journal {}", .path.display())]
    Append {
        /// The journal.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// An earlier append failed, so that its end is unknown; open it again.
    #[error("cannot append to the journal {} after a failed append", .path.display())]
    AppendToBroken {
        /// The journal.
        path: PathBuf,
    },
    /// What the step promises cannot be written as JSON.
    #[error("cannot write the result of {step} as JSON")]
    Encode {
        /// The step.
        step: StepName,
        /// Which part, and why.
        source: serde_json::Error,
    },
    /// What the step promised then is not what this version of it promises.
    #[error("cannot understand the result of {step} in the journal")]
    Decode {
        /// The step.
        step: StepName,
        /// Which part, and why.
        source: serde_json::Error,
    },
}

/// A damaged line in bytes whose path is not known yet.
#[derive(Debug)]
pub(super) struct BadLine {
    pub(super) line: usize,
    pub(super) source: serde_json::Error,
}

impl BadLine {
    pub(super) fn of(self, path: &Path) -> JournalError {
        JournalError::Parse { path: path.to_owned(), line: self.line, source: self.source }
    }
}
