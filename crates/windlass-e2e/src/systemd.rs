//! What systemd says of its units in the journal.

use serde_json::Value;

/// Whether an entry tells of a start that a condition forbade: it is told as one that is done.
pub fn was_skipped(entry: &Value) -> bool {
    entry["MESSAGE"].as_str().is_some_and(|text| text.contains("was skipped"))
}
