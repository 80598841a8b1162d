//! A journal's bytes as a list of entries; pure, so that every way of being cut off can be tried.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::BadLine;
use crate::event::Event;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// What the step promises, if it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Value>,
}

/// Everything a journal says, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The lines that are whole.
    pub entries: Vec<Entry>,
    /// The last line, if a run was killed while writing it.
    pub torn: Option<TornTail>,
}

/// A last line that was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Which line it would have been, counted from one.
    pub line: usize,
    /// Where it begins.
    pub offset: u64,
    /// How much of it there is.
    pub bytes: u64,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, bytes, .. } = self;
        write!(f, "line {line} of the journal was torn: an earlier run was killed after {bytes} bytes of it")
    }
}

impl History {
    /// A last line without a line break, or one that makes no sense, is torn; the same anywhere else is damage.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadLine> {
        let mut history = Self::default();
        let mut offset = 0;
        for (number, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = number + 1;
            let is_last = offset + text.len() == bytes.len();
            let entry = text.strip_suffix(b"\n").map(serde_json::from_slice::<Entry>);
            match entry {
                Some(Ok(entry)) => history.entries.push(entry),
                Some(Err(source)) if !is_last => return Err(BadLine { line, source }),
                Some(Err(_)) | None => {
                    history.torn = Some(TornTail { line, offset: offset as u64, bytes: text.len() as u64 });
                }
            }
            offset += text.len();
        }
        Ok(history)
    }
}
