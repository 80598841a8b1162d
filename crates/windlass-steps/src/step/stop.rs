//! Why a flow stopped, and how that is told.

use thiserror::Error;

use super::{StepError, StepName};
use crate::journal::JournalError;
use crate::report::{Report, chain};
use crate::wait::Unmet;

/// Why a flow did not go on to its end. Only [`Stop::Reached`] is what the user asked for.
#[derive(Debug, Error)]
pub enum Stop {
    /// The step's work failed.
    #[error("{step} did not finish")]
    Failed {
        /// The step.
        step: StepName,
        /// What it tried, and why that failed.
        #[source]
        error: StepError,
    },
    /// The work was done but the world did not follow.
    #[error("{step} did not finish")]
    Unmet {
        /// The step.
        step: StepName,
        /// Each criterion that did not hold, with its last reason.
        unmet: Vec<Unmet>,
    },
    /// Nothing may go on that cannot be remembered.
    #[error("{step} did not finish")]
    Journal {
        /// The step.
        step: StepName,
        /// What the journal could not do.
        source: JournalError,
    },
    /// The user or the system asked for the end.
    #[error("{step} was interrupted")]
    Interrupted {
        /// The step that was running.
        step: StepName,
    },
    /// The one step that was asked for needs the result of another.
    #[error("{wanted} cannot run yet")]
    NeedsFirst {
        /// The step that was asked for.
        wanted: StepName,
        /// The first step of the flow that has not finished.
        first: StepName,
    },
    /// The one step that was asked for has finished; nothing is wrong.
    #[error("{step} has finished and nothing else was asked for")]
    Reached {
        /// The step that was asked for.
        step: StepName,
    },
}

impl Stop {
    /// The failure as it is shown; a binary that knows better replaces `next`.
    pub fn report(&self) -> Report {
        let because = match self {
            Self::Failed { error, .. } => chain(error),
            Self::Unmet { unmet, .. } => unmet.iter().map(ToString::to_string).collect(),
            Self::Journal { source, .. } => chain(source),
            Self::NeedsFirst { first, .. } => vec![format!("{first} has not finished")],
            Self::Interrupted { .. } | Self::Reached { .. } => Vec::new(),
        };
        Report { error: self.to_string(), because, next: self.next() }
    }

    fn next(&self) -> String {
        let look = |step| format!("read what {step} did in journal.jsonl and logs/windlass.log");
        match self {
            Self::Failed { step, error } => error.next().unwrap_or_else(|| look(step)),
            Self::Unmet { step, .. } => look(step),
            Self::Journal { source: JournalError::Lock { .. }, .. } => "wait until the other windlass ends".to_owned(),
            Self::Journal { .. } => "make the journal writable and the disk not full, then run again".to_owned(),
            Self::Interrupted { .. } => "windlass resume".to_owned(),
            Self::NeedsFirst { first, .. } => format!("windlass phase run {first}"),
            Self::Reached { .. } => "windlass phase list".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_stop_is_told_in_the_same_form() {
        let step = || StepName::new("form-etcd-quorum");
        let unmet = |statement: &str, reason: &str| Unmet {
            statement: statement.into(),
            reason: reason.into(),
            lasted: Duration::from_millis(31_250),
        };
        let no_disk = || StepError::new("start member 2", std::io::Error::other("no disk"));
        let look = "read what form-etcd-quorum did in journal.jsonl and logs/windlass.log";
        let journal = JournalError::AppendToBroken { path: "/c/journal.jsonl".into() };
        let cases = [
            (
                Stop::Failed { step: step(), error: no_disk() },
                format!("error: form-etcd-quorum did not finish\nbecause: cannot start member 2\nbecause: no disk\nnext: {look}\n"),
            ),
            (
                Stop::Failed { step: step(), error: no_disk().hint("df -h") },
                "error: form-etcd-quorum did not finish\nbecause: cannot start member 2\nbecause: no disk\nnext: df -h\n".into(),
            ),
            (
                Stop::Unmet {
                    step: step(),
                    unmet: vec![unmet("a quorum answers", "1 of 3"), unmet("a leader is known", "could not look: refused")],
                },
                format!(
                    "error: form-etcd-quorum did not finish\nbecause: not met: a quorum answers: 1 of 3 (for 31.2 s)\n\
                     because: not met: a leader is known: could not look: refused (for 31.2 s)\nnext: {look}\n"
                ),
            ),
            (
                Stop::Journal { step: step(), source: journal },
                "error: form-etcd-quorum did not finish\n\
                 because: cannot append to the journal /c/journal.jsonl after a failed append\n\
                 next: make the journal writable and the disk not full, then run again\n".into(),
            ),
            (
                Stop::Interrupted { step: step() },
                "error: form-etcd-quorum was interrupted\nnext: windlass resume\n".into(),
            ),
            (
                Stop::NeedsFirst { wanted: step(), first: StepName::new("preflight") },
                "error: form-etcd-quorum cannot run yet\nbecause: preflight has not finished\n\
                 next: windlass phase run preflight\n".into(),
            ),
        ];
        for (stop, text) in cases {
            assert_eq!(stop.report().to_string(), text);
        }
    }
}
