//! The one place that prints, and the form of a failure.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use windlass_steps::report::Report;

/// Why a task stopped. Nobody matches it: it is told and ends the program.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    what: String,
    next: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Says what is wrong and what to do about it.
    pub fn new(what: impl fmt::Display, next: impl fmt::Display) -> Self {
        Self { what: what.to_string(), next: next.to_string(), source: None }
    }

    /// Keeps the cause; a plain text will do.
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Prints a line of the answer.
pub fn say(line: impl fmt::Display) {
    print(io::stdout().lock(), line);
}

/// Prints the failure with its causes and the way on.
pub fn complain(failure: &Failure) {
    print(io::stderr().lock(), format_args!("{}", Report::of(failure, failure.next.as_str()).to_string().trim_end()));
}

// A reader that went away, as in `cargo xtask deps | head -1`, is no reason to stop half way.
fn print(mut stream: impl Write, line: impl fmt::Display) {
    let _gone = writeln!(stream, "{line}").and_then(|()| stream.flush());
}
