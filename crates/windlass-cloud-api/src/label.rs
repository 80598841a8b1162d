//! Names. Each is checked where it enters, so that none ever becomes a path, an interface or a cgroup that it should not.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is said of a thing, for finding it again.
pub type Tags = BTreeMap<String, String>;

const LABEL: usize = 50;
/// Short enough for the name of one file with its ending.
const KEY: usize = 200;

/// Why a name is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is no {what}: {rule}")]
pub struct LabelError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// As it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = LabelError;

            fn try_from(text: String) -> Result<Self, LabelError> {
                $name::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = LabelError;

            fn from_str(text: &str) -> Result<Self, LabelError> {
                $name::parse(text)
            }
        }
    };
}

text_type! {
    /// The name of a cluster, machine, volume or the like: a DNS label of at most 50 characters.
    Label
}

text_type! {
    /// The key of an object: parts of letters, digits and `._-`, joined by slashes, none with a dot in front.
    ObjectKey
}

text_type! {
    /// A name in a cluster's zone, below its domain: labels joined by dots, without the domain.
    RecordName
}

impl Label {
    /// Takes a DNS label: small letters, digits and dashes, not at its ends.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let rule = "it has small letters, digits and dashes inside, 50 characters at most";
        match is_label(text) && text.len() <= LABEL {
            true => Ok(Label(text.to_owned())),
            false => Err(LabelError { text: clipped(text), what: "name", rule }),
        }
    }
}

impl ObjectKey {
    /// Takes a key such as `addons/amd64-usr/1/torcx_manifest.json`.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let rule = "it has parts of letters, digits, dots, underscores and dashes, none with a dot in front, joined by \
                    slashes, 200 characters at most";
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
        match text.len() <= KEY && text.split('/').all(part) {
            true => Ok(ObjectKey(text.to_owned())),
            false => Err(LabelError { text: clipped(text), what: "object key", rule }),
        }
    }
}

impl RecordName {
    /// Takes a name such as `api` or `etcd-0.internal`.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let rule = "it has labels of small letters, digits and dashes, joined by dots";
        let label = |label: &str| is_label(label) && label.len() <= 63;
        match text.len() <= 180 && text.split('.').all(label) {
            true => Ok(RecordName(text.to_owned())),
            false => Err(LabelError { text: clipped(text), what: "record name", rule }),
        }
    }
}

/// One tag, `key=value`, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tag {
    /// What is said.
    pub key: String,
    /// What it is said to be.
    pub value: String,
}

impl Tag {
    /// Takes `key=value`; the value may hold further equals signs.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let rule = "it has the form key=value, of at most 256 characters without control characters";
        let none = || LabelError { text: clipped(text), what: "tag", rule };
        let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(none)?;
        match text.len() <= 256 && !text.chars().any(char::is_control) {
            true => Ok(Tag { key: key.to_owned(), value: value.to_owned() }),
            false => Err(none()),
        }
    }

    /// Whether these tags say so.
    pub fn is_among(&self, tags: &Tags) -> bool {
        tags.get(&self.key) == Some(&self.value)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl TryFrom<String> for Tag {
    type Error = LabelError;

    fn try_from(text: String) -> Result<Self, LabelError> {
        Tag::parse(&text)
    }
}

impl From<Tag> for String {
    fn from(tag: Tag) -> String {
        tag.to_string()
    }
}

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') && !text.ends_with('-')
}

fn clipped(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_be_a_path_is_no_name() {
        let long = "a".repeat(51);
        for text in ["", ".", "..", "a/b", "../a", "A", "a b", "-a", "a-", "a.b", "a\0", "a\n", "ä", &long] {
            assert!(Label::parse(text).is_err(), "{text:?}");
        }
        for text in ["a", "master-0", "0", "demo-x7k2p"] {
            assert_eq!(Label::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn an_object_key_stays_below_its_root() {
        let long = "k".repeat(201);
        for text in ["", "/", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a b", "a\\b", "%2e%2e", "...", "a\0b"] {
            assert!(ObjectKey::parse(text).is_err(), "{text:?}");
        }
        for text in [".hidden", "a/.b", "./a", "a\nb", "ä", "a+b", "a%2fb", "/etc/passwd", &long] {
            assert!(ObjectKey::parse(text).is_err(), "{text:?}");
            assert!(ObjectKey::try_from(text.to_owned()).is_err(), "{text:?}");
        }
        for text in ["a", "bootstrap.ign", "addons/amd64-usr/1/torcx_manifest.json.asc", "a..b/c.", &long[..200]] {
            assert_eq!(ObjectKey::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_record_name_has_labels() {
        for text in ["", ".", "a.", ".a", "a..b", "A", "*", "a_b", "a b"] {
            assert!(RecordName::parse(text).is_err(), "{text:?}");
        }
        assert!(RecordName::parse("etcd-0.internal").is_ok());
    }

    #[test]
    fn a_tag_has_a_key() {
        for text in ["", "a", "=a", "a=\n"] {
            assert!(Tag::parse(text).is_err(), "{text:?}");
        }
        let tag = Tag::parse("example.org/cluster/demo=owned=x").unwrap();
        assert_eq!((tag.key.as_str(), tag.value.as_str()), ("example.org/cluster/demo", "owned=x"));
        assert!(tag.is_among(&Tags::from([(tag.key.clone(), tag.value.clone())])));
        assert!(!tag.is_among(&Tags::new()));
    }

    proptest! {
        #[test]
        fn what_parses_is_written_as_it_was(text in "[a-z0-9./=-]{0,60}") {
            if let Ok(label) = Label::parse(&text) { prop_assert_eq!(label.to_string(), text.clone()); }
            if let Ok(key) = ObjectKey::parse(&text) { prop_assert_eq!(key.to_string(), text.clone()); }
            if let Ok(name) = RecordName::parse(&text) { prop_assert_eq!(name.to_string(), text.clone()); }
            if let Ok(tag) = Tag::parse(&text) { prop_assert_eq!(tag.to_string(), text); }
        }
    }
}
