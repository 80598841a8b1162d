//! What a look at the host found, for people and as data.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::{Group, Requirement};

/// Every requirement of a group, in the order of the table, with what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was asked for.
    pub group: Group,
    /// One for each requirement.
    pub findings: Vec<Finding>,
}

/// One requirement and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The row of the table.
    #[serde(flatten)]
    pub requirement: &'static Requirement,
    /// Whether it is there.
    #[serde(flatten)]
    pub state: State,
}

/// Whether a requirement is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// It is there.
    Present {
        /// The program's path, or the tool's name and version.
        found: String,
    },
    /// It is not there, or too old.
    Missing,
}

impl Report {
    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing().next().is_none()
    }

    /// What is missing, in the order of the table.
    pub fn missing(&self) -> impl Iterator<Item = &'static Requirement> {
        self.findings.iter().filter(|finding| finding.state == State::Missing).map(|finding| finding.requirement)
    }
}

// By hand, because the answer is worth a field of its own: `{"group","complete","requirements":[…]}`.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 3)?;
        report.serialize_field("group", &self.group)?;
        report.serialize_field("complete", &self.is_complete())?;
        report.serialize_field("requirements", &self.findings)?;
        report.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.findings.iter().map(|finding| finding.requirement.package.len()).max().unwrap_or(0);
        for Finding { requirement, state } in &self.findings {
            let (word, detail) = match state {
                State::Present { found } => ("present", found.clone()),
                State::Missing => ("missing", requirement.purpose.to_owned()),
            };
            writeln!(f, "{word}  {:width$}  {detail}", requirement.package)?;
        }
        Ok(())
    }
}
