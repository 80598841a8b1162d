//! What a verification says: statements, whether each holds, and how long that took to find out.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A statement about the cluster, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is to be true; what is true of one node names it.
    pub statement: String,
    /// Why it is not; without a reason it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it took until that was known.
    #[serde(serialize_with = "write_took", deserialize_with = "read_took")]
    pub took: Duration,
}

impl Finding {
    /// Whether the statement is true.
    pub fn holds(&self) -> bool {
        self.reason.is_none()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { statement, reason, took } = self;
        match reason {
            None => write!(f, "holds: {statement} ({:.1} s)", took.as_secs_f64()),
            Some(reason) => write!(f, "not met: {statement}: {reason} ({:.1} s)", took.as_secs_f64()),
        }
    }
}

/// Everything that a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The statements, in the order in which a user would try things.
    pub findings: Vec<Finding>,
}

impl Tried {
    /// Whether something was found, and all of it holds.
    pub fn is_good(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(Finding::holds)
    }

    /// The findings if all is well; an error that tells every other one if not, as a step wants it.
    pub fn into_result(self) -> Result<Tried, Unverified> {
        if self.is_good() {
            return Ok(self);
        }
        Err(Unverified { unmet: self.findings.into_iter().filter(|finding| !finding.holds()).collect() })
    }
}

/// A cluster was not found to be as it should; a line for each statement that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", told(unmet))]
pub struct Unverified {
    /// The statements that do not hold.
    pub unmet: Vec<Finding>,
}

fn told(unmet: &[Finding]) -> String {
    if unmet.is_empty() {
        return "nothing was looked at".to_owned();
    }
    unmet.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn write_took<S: Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    took.as_secs_f64().serialize(serializer)
}

fn read_took<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(statement: &str, reason: Option<&str>) -> Finding {
        let took = Duration::from_millis(1250);
        Finding { statement: statement.to_owned(), reason: reason.map(str::to_owned), took }
    }

    #[test]
    fn a_verification_is_good_when_something_was_found_and_all_of_it_holds() {
        let verified = |findings: &[Finding]| Tried { findings: findings.to_vec() };
        let (good, bad) = (finding("a", None), finding("b", Some("no such pod")));
        assert_eq!(verified(std::slice::from_ref(&good)).into_result().unwrap().findings.len(), 1);
        assert_eq!(verified(&[]).into_result().unwrap_err().to_string(), "nothing was looked at");
        let error = verified(&[good, bad.clone(), bad]).into_result().unwrap_err();
        assert_eq!(error.to_string(), "not met: b: no such pod (1.2 s)\nnot met: b: no such pod (1.2 s)");
    }

    #[test]
    fn findings_have_a_form_as_text_and_as_data() {
        let cases = [
            (finding("a", None), "holds: a (1.2 s)", json!({"statement": "a", "took": 1.25})),
            (finding("a", Some("b")), "not met: a: b (1.2 s)", json!({"statement": "a", "reason": "b", "took": 1.25})),
        ];
        for (finding, text, data) in cases {
            assert_eq!(finding.to_string(), text);
            assert_eq!(serde_json::to_value(&finding).unwrap(), data);
            assert_eq!(serde_json::from_value::<Finding>(data).unwrap(), finding);
        }
    }
}
