//! How a failure is told: what did not finish, one line for each cause, and what to do next.

use std::error::Error;
use std::fmt;

/// The lines of a failure, ready for stderr; the fields are open so that a binary can say something better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What did not come about.
    pub error: String,
    /// Why, from the nearest cause to the farthest.
    pub because: Vec<String>,
    /// What to look at or run.
    pub next: String,
}

impl Report {
    /// Tells any error with its whole chain of causes.
    pub fn of(error: &dyn Error, next: impl Into<String>) -> Self {
        let mut because = chain(error);
        let error = because.remove(0);
        Self { error, because, next: next.into() }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", indented(&self.error, 7))?;
        for cause in &self.because {
            writeln!(f, "because: {}", indented(cause, 9))?;
        }
        writeln!(f, "next: {}", indented(&self.next, 6))
    }
}

/// The message of the error and of each of its causes; never empty.
pub fn chain(error: &dyn Error) -> Vec<String> {
    std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

fn indented(text: &str, by: usize) -> String {
    text.trim_end().replace('\n', &format!("\n{:by$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{cmd, run_blocking};

    #[test]
    fn a_cause_of_several_lines_stays_under_its_word() {
        let error = run_blocking(cmd("sh").arg("-c").arg("echo one >&2; echo two >&2; exit 1")).unwrap_err();
        let report = Report {
            error: "format-volume did not finish".into(),
            because: chain(&error),
            next: "look at the disk".into(),
        };
        let want = "\
error: format-volume did not finish
because: `sh -c 'echo one >&2; echo two >&2; exit 1'` failed, exit status: 1; stderr:
         one
         two
next: look at the disk
";
        assert_eq!(report.to_string(), want);
    }

    #[test]
    fn every_cause_has_its_line() {
        let error = crate::host::read_file("/no/such/file", 1).unwrap_err();
        let report = Report::of(&error, "check the path");
        assert_eq!(report.error, "cannot read /no/such/file");
        assert_eq!(report.because, ["No such file or directory (os error 2)"]);
    }
}
