//! Exit codes as systemd takes them, and how a failure is told.

use std::error::Error;
use std::process::ExitCode;

use windlass_steps::report::Report;

/// How `windlass-node` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// The same again may succeed (`EX_TEMPFAIL`).
    TryAgain,
    /// The same again will fail the same way (`EX_CONFIG`).
    Permanent,
    /// What a hook of the user's ended with.
    Passed(u8),
}

impl Exit {
    /// Every code of our own, in order.
    pub const ALL: [Exit; 3] = [Exit::Done, Exit::TryAgain, Exit::Permanent];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::TryAgain => 75,
            Exit::Permanent => 78,
            Exit::Passed(code) => code,
        }
    }

    /// What it means, for the reference.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::TryAgain => "try again",
            Exit::Permanent => "permanent: trying again will not help",
            Exit::Passed(_) => "what the user's hook ended with",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A command that did not do what it was asked, and what to say about it.
#[derive(Debug)]
pub struct Failure {
    /// The code to leave with.
    pub exit: Exit,
    /// The words for stderr.
    pub report: Report,
}

impl Failure {
    /// A failure from an error and what to do next.
    pub fn of(exit: Exit, error: &dyn Error, next: impl Into<String>) -> Self {
        Failure { exit, report: Report::of(error, next) }
    }
}
