//! Names that can be mixed up, each a type of its own: text becomes one of these where it enters,
//! and inside nobody validates again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not a name; the message says what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Declares a name type: a private text, `parse`, `Display`, and serde through `parse`.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Takes a text as this kind of name, or says why it is none.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                $check(text).map(|()| $type(text.to_owned()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                $type::parse(&text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
    };
}

name!(
    /// A cluster's name: the first part of its infra-id and of its default domain.
    ClusterName,
    cluster_name
);
name!(
    /// An instance group's name: the first part of its machines' names.
    GroupName,
    group_name
);
name!(
    /// A machine's name, which is also its host name and the name of its Node.
    MachineName,
    dns_label
);
name!(
    /// The DNS domain under which the cluster's names lie.
    Domain,
    domain
);

impl MachineName {
    /// The name of a group's machine by its place in the group, counted from 0.
    pub fn of(group: &GroupName, index: u32) -> Self {
        MachineName(format!("{group}-{index}"))
    }
}

fn cluster_name(text: &str) -> Result<(), NameError> {
    // The infra-id adds six characters, and ends up in names of at most 63.
    bounded_label(text, 40, "a cluster name")
}

fn group_name(text: &str) -> Result<(), NameError> {
    bounded_label(text, 50, "a group name")
}

fn dns_label(text: &str) -> Result<(), NameError> {
    bounded_label(text, 63, "a machine name")
}

fn bounded_label(text: &str, most: usize, what: &str) -> Result<(), NameError> {
    if text.len() <= most && is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(NameError(format!(
        "{text:?} is not {what}: use at most {most} lower-case letters, digits and inner hyphens, starting with a letter"
    )))
}

fn domain(text: &str) -> Result<(), NameError> {
    // `api.internal.` and `etcd-<n>.internal.` go in front, and 253 is DNS's own limit.
    let fits = text.len() <= 200 && text.contains('.');
    let last_is_word = text.rsplit('.').next().is_some_and(|l| !l.bytes().all(|b| b.is_ascii_digit()));
    if fits && last_is_word && text.split('.').all(is_label) {
        return Ok(());
    }
    Err(NameError(format!(
        "{text:?} is not a DNS domain: use two or more labels of lower-case letters, digits and inner hyphens, such as demo.test, at most 200 characters"
    )))
}

fn is_label(label: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    label.len() <= 63
        && edge(label.bytes().next())
        && edge(label.bytes().last())
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_dns_labels_that_leave_room_for_the_infra_id() {
        for good in ["a", "demo", "a-1", "prod-eu-west"] {
            assert!(ClusterName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Demo", "-a", "a-", "1a", "a.b", "a_b", "../a", "é", &"a".repeat(41)] {
            assert!(ClusterName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn domains_have_two_labels_and_no_numeric_end() {
        for good in ["demo.test", "a.b.c.example", "xn--bcher-kva.test"] {
            assert!(Domain::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "test", "a..b", ".a.b", "a.b.", "A.b", "10.0.0.1", "a b.c", "a.b/c"] {
            assert!(Domain::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reading_a_name_goes_through_parse() {
        assert!(serde_json::from_str::<GroupName>("\"UP\"").is_err());
        let name: GroupName = serde_json::from_str("\"gpu\"").unwrap();
        assert_eq!(MachineName::of(&name, 3).as_str(), "gpu-3");
    }
}
