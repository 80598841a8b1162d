//! What a step is: one thing that is done once, with a name, a result that only it can make, and exit criteria.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::criterion::Criterion;

mod stop;

pub use stop::Stop;

/// One thing that is done once and owns its exit criteria. What it needs are its fields.
#[expect(async_fn_in_trait, reason = "flows are joined, never spawned; a Send bound would infect every platform trait")]
pub trait Step {
    /// A verb phrase, unique in its flow.
    const NAME: StepName;
    /// What it does, in one line for the phase list.
    const SUMMARY: &'static str;
    /// How long its criteria may go without progress; the work itself is not timed.
    const DEADLINE: Duration;
    /// What it promises. The journal keeps it in clear, so it never holds a secret.
    type Done: Serialize + DeserializeOwned;
    /// Does the work, and does not wait for its effects.
    async fn run(&self) -> Result<Self::Done, StepError>;
    /// The statements that are true when the step is done; at least one.
    fn exit_criteria<'a>(&'a self, done: &'a Self::Done) -> Vec<Criterion<'a>>;
}

/// A step's constants as data, for help texts, the phase list and the reference page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepInfo {
    /// [`Step::NAME`].
    pub name: StepName,
    /// [`Step::SUMMARY`].
    pub summary: &'static str,
    /// [`Step::DEADLINE`].
    pub deadline: Duration,
}

impl StepInfo {
    /// Describes the step without making one.
    pub fn of<S: Step>() -> Self {
        Self { name: S::NAME, summary: S::SUMMARY, deadline: S::DEADLINE }
    }
}

/// A step's name in kebab case, such as `form-etcd-quorum`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct StepName(Cow<'static, str>);

impl StepName {
    /// For constants: a name that is not kebab case does not compile.
    pub const fn new(name: &'static str) -> Self {
        assert!(is_kebab(name.as_bytes()), "a step name is kebab case");
        Self(Cow::Borrowed(name))
    }

    /// For names from outside, such as arguments.
    pub fn parse(name: &str) -> Result<Self, ParseStepName> {
        match is_kebab(name.as_bytes()) {
            true => Ok(Self(Cow::Owned(name.to_owned()))),
            false => Err(ParseStepName { name: name.to_owned() }),
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for StepName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&name).map_err(serde::de::Error::custom)
    }
}

/// The text cannot be a step's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name:?} is not a step name: use lower-case words joined by dashes")]
pub struct ParseStepName {
    name: String,
}

const fn is_kebab(name: &[u8]) -> bool {
    let mut at = 0;
    let mut before = b'-';
    while at < name.len() {
        let fits = match name[at] {
            b'a'..=b'z' => true,
            b'0'..=b'9' => at > 0,
            b'-' => before != b'-',
            _ => false,
        };
        if !fits {
            return false;
        }
        before = name[at];
        at += 1;
    }
    before != b'-'
}

/// Why a step's work failed: where errors stop being matched and start being reported.
#[derive(Debug, Error)]
#[error("cannot {attempt}")]
pub struct StepError {
    attempt: String,
    source: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
}

impl StepError {
    /// Names the attempt so that it reads well after "cannot": `attach etcd-0 to master-0`. The source may be a text.
    pub fn new(attempt: impl fmt::Display, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { attempt: attempt.to_string(), source: source.into(), hint: None }
    }

    /// Says what to look at or run; it becomes the report's `next:` line.
    pub fn hint(mut self, next: impl Into<String>) -> Self {
        self.hint = Some(next.into());
        self
    }

    /// The hint given here, or one that a failed command brought along.
    pub(crate) fn next(&self) -> Option<String> {
        self.hint.clone().or_else(|| {
            let causes = std::iter::successors(Error::source(self), |&cause| cause.source());
            causes.filter_map(|cause| cause.downcast_ref::<crate::host::HostError>()).find_map(|error| error.hint())
        })
    }
}

/// Turns any error into a [`StepError`] on its way out: `write(..).attempt("write kubelet.env")?`.
pub trait Attempt<T> {
    /// Names what was tried; `format_args!` costs nothing unless it failed.
    fn attempt(self, attempt: impl fmt::Display) -> Result<T, StepError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Attempt<T> for Result<T, E> {
    fn attempt(self, attempt: impl fmt::Display) -> Result<T, StepError> {
        self.map_err(|source| StepError::new(attempt, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chain;

    #[test]
    fn names_are_kebab_case() {
        let cases = [
            ("form-etcd-quorum", true),
            ("preflight", true),
            ("a1-2", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a--b", false),
            ("1a", false),
            ("Form", false),
            ("a b", false),
            ("a_b", false),
            ("ü", false),
        ];
        for (name, good) in cases {
            assert_eq!(StepName::parse(name).is_ok(), good, "{name}");
            assert_eq!(serde_json::from_value::<StepName>(name.into()).is_ok(), good, "{name}");
        }
        const NAME: StepName = StepName::new("form-etcd-quorum");
        assert_eq!(StepName::parse("form-etcd-quorum"), Ok(NAME));
    }

    #[test]
    fn a_step_error_keeps_its_cause_and_its_hint() {
        let failed: Result<(), _> = Err(std::io::Error::other("disk on fire"));
        let error = failed.attempt(format_args!("write {}", "kubelet.env")).unwrap_err();
        assert_eq!(chain(&error), ["cannot write kubelet.env", "disk on fire"]);
        assert_eq!(error.next(), None);
        assert_eq!(error.hint("leave the building").next().unwrap(), "leave the building");
    }

    #[test]
    fn a_missing_program_hints_through_the_step_error() {
        let error = crate::host::run_blocking(crate::host::cmd("no-such-program"));
        let error = error.attempt("make the volume").unwrap_err();
        assert!(error.next().unwrap().contains("install no-such-program"));
    }
}
