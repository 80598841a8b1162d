//! What the engine is doing, in its own words.

use std::fmt;

/// The engine's states. A word that is not CoreOS' is kept as it is, so that an engine that knows more can be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Nothing to do.
    Idle,
    /// Asking its channel.
    CheckingForUpdate,
    /// There is an update.
    UpdateAvailable,
    /// Getting it.
    Downloading,
    /// Comparing it with its digest and signature.
    Verifying,
    /// Making it the next to boot.
    Finalizing,
    /// The next boot takes it.
    UpdatedNeedReboot,
    /// It went wrong.
    ReportingErrorEvent,
    /// Something else.
    Other(String),
}

const WORDS: [(Operation, &str); 8] = [
    (Operation::Idle, "UPDATE_STATUS_IDLE"),
    (Operation::CheckingForUpdate, "UPDATE_STATUS_CHECKING_FOR_UPDATE"),
    (Operation::UpdateAvailable, "UPDATE_STATUS_UPDATE_AVAILABLE"),
    (Operation::Downloading, "UPDATE_STATUS_DOWNLOADING"),
    (Operation::Verifying, "UPDATE_STATUS_VERIFYING"),
    (Operation::Finalizing, "UPDATE_STATUS_FINALIZING"),
    (Operation::UpdatedNeedReboot, "UPDATE_STATUS_UPDATED_NEED_REBOOT"),
    (Operation::ReportingErrorEvent, "UPDATE_STATUS_REPORTING_ERROR_EVENT"),
];

impl Operation {
    /// From the engine's word; any word is one.
    pub fn parse(word: &str) -> Self {
        let known = WORDS.into_iter().find(|(_, known)| *known == word);
        known.map_or_else(|| Operation::Other(word.to_owned()), |(operation, _)| operation)
    }

    /// The engine's word.
    pub fn as_str(&self) -> &str {
        match self {
            Operation::Other(word) => word,
            known => WORDS.iter().find(|(operation, _)| operation == known).map_or("", |(_, word)| word),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the engine says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// When it last asked its channel, in seconds since 1970; 0 for never.
    pub last_checked: i64,
    /// How much of the update is there, from 0 to 1.
    pub progress: f64,
    /// What it is doing.
    pub operation: Operation,
    /// The version to come; empty without an update.
    pub new_version: String,
    /// Its size in bytes.
    pub new_size: i64,
}

/// A status as it goes over the bus.
pub(super) type Fields = (i64, f64, String, String, i64);

impl From<Fields> for Status {
    fn from((last_checked, progress, operation, new_version, new_size): Fields) -> Self {
        Status { last_checked, progress, operation: Operation::parse(&operation), new_version, new_size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_an_operation_and_back() {
        for (operation, word) in WORDS {
            assert_eq!(Operation::parse(word), operation);
            assert_eq!(operation.to_string(), word);
            assert!(word.starts_with("UPDATE_STATUS_"));
        }
        let strange = Operation::parse("UPDATE_STATUS_ATTEMPTING_ROLLBACK");
        assert_eq!(strange, Operation::Other("UPDATE_STATUS_ATTEMPTING_ROLLBACK".to_owned()));
        assert_eq!(strange.as_str(), "UPDATE_STATUS_ATTEMPTING_ROLLBACK");
    }
}
