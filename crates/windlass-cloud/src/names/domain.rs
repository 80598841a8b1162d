//! Domain names as this cloud allows them: lower case, without the dot at the end.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A full domain name. Names sort by their labels from the last to the first, so that all names below a name follow it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainName {
    text: String,
    /// The labels from the last to the first, each ended by a byte that sorts before all others.
    sorted: String,
}

/// Text that is no domain name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a domain name: {reason}")]
pub struct DomainNameError {
    /// As it was written.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl DomainName {
    /// Takes a name in any case, with or without the dot at its end.
    pub fn parse(text: &str) -> Result<Self, DomainNameError> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match fault(&name) {
            Some(reason) => Err(DomainNameError { text: text.to_owned(), reason }),
            None => Ok(Self { sorted: sorted(&name), text: name }),
        }
    }

    /// Without the dot at the end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is the given name or one below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.text.strip_suffix(other.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

fn sorted(name: &str) -> String {
    name.rsplit('.').flat_map(|label| [label, "\0"]).collect()
}

fn fault(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > LONGEST {
        return Some("it has more than 253 characters");
    }
    name.split('.').find_map(|label| match label {
        "" => Some("a label is empty"),
        label if label.len() > LONGEST_LABEL => Some("a label has more than 63 characters"),
        label if !label.chars().all(allowed) => Some("a label has a character other than a-z, 0-9, - and _"),
        label if label.starts_with('-') || label.ends_with('-') => Some("a label begins or ends with a dash"),
        _ => None,
    })
}

impl Ord for DomainName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sorted.cmp(&other.sorted)
    }
}

impl PartialOrd for DomainName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DomainName").field(&self.text).finish()
    }
}

impl TryFrom<String> for DomainName {
    type Error = DomainNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<DomainName> for String {
    fn from(name: DomainName) -> Self {
        name.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).unwrap()
    }

    #[test]
    fn case_and_the_last_dot_do_not_matter() {
        assert_eq!(name("API.Demo.Example."), name("api.demo.example"));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        let long = "a".repeat(64);
        let longer = ["a"; 127].join(".") + ".bc";
        let cases = ["", ".", "a..b", ".a", "a b", "-a", "a-.b", "ä", "*.a", &long, &longer];
        for text in cases {
            assert!(DomainName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_lies_within_itself_and_the_names_above() {
        let origin = name("demo.example");
        for (text, within) in
            [("demo.example", true), ("a.b.demo.example", true), ("xdemo.example", false), ("example", false)]
        {
            assert_eq!(name(text).is_within(&origin), within, "{text}");
        }
    }

    proptest! {
        #[test]
        fn names_below_a_name_follow_it_without_a_gap(
            labels in proptest::collection::vec("[a-c_-]?[a-c0]", 1..5),
            above in proptest::collection::vec("[a-c_-]?[a-c0]", 1..4),
            between in proptest::collection::vec("[a-c0]", 1..6),
        ) {
            let Ok(above) = DomainName::parse(&above.join(".")) else { return Ok(()) };
            let Ok(below) = DomainName::parse(&format!("{}.{above}", labels.join("."))) else { return Ok(()) };
            let other = name(&between.join("."));
            assert!(above < below);
            if above < other && other < below {
                assert!(other.is_within(&above));
            }
        }

        #[test]
        fn parsing_is_idempotent(text in "[a-zA-Z0-9._-]{0,40}") {
            if let Ok(parsed) = DomainName::parse(&text) {
                assert_eq!(DomainName::parse(parsed.as_str()), Ok(parsed));
            }
        }
    }
}
