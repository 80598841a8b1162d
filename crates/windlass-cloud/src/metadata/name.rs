//! Names as they come in paths: parsed before anything is looked up by them.

use std::fmt;

use thiserror::Error;

/// A DNS label: what volumes and purposes of tokens are called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// A name in a zone: labels between dots, in lower case, without a dot at the end. The first label may be `*` or begin with
/// an underscore, as those of services do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName(String);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a {what}")]
pub struct NameError {
    text: String,
    what: &'static str,
}

impl Label {
    /// Up to 63 lower-case letters, digits and hyphens, with no hyphen at the ends.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match is_label(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(NameError::new(text, "name (lower-case letters, digits and hyphens)")),
        }
    }

    /// As it was parsed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RecordName {
    /// Up to 253 characters.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_first = |word: &str| word == "*" || is_label(word.strip_prefix('_').unwrap_or(word));
        let is_inner = |word: &str| is_label(word.strip_prefix('_').unwrap_or(word));
        let mut words = text.split('.');
        let good = text.len() <= 253 && words.next().is_some_and(is_first) && words.all(is_inner);
        match good {
            true => Ok(Self(text.to_owned())),
            false => Err(NameError::new(text, "name of a record")),
        }
    }

    /// As it was parsed, without a dot at the end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the zone or below it.
    pub fn is_in(&self, zone: &str) -> bool {
        let zone = zone.trim_end_matches('.');
        self.0.strip_suffix(zone).is_some_and(|rest| !zone.is_empty() && (rest.is_empty() || rest.ends_with('.')))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NameError {
    fn new(text: &str, what: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), what }
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_record_names_are_what_dns_takes() {
        let long = "a".repeat(64);
        let labels = [("etcd-0", true), ("0", true), (&long[..63], true), (&long, false), ("", false), ("-a", false)];
        let more = [("a-", false), ("A", false), ("a.b", false), ("a/b", false), ("..", false), ("ä", false)];
        for (text, good) in labels.into_iter().chain(more) {
            assert_eq!(Label::parse(text).is_ok(), good, "{text:?}");
        }
        let names = [
            ("api.internal.test", true),
            ("api.test.", true),
            ("*.apps.test", true),
            ("_etcd-server-ssl._tcp.test", true),
            ("a.*.test", false),
            ("", false),
            (".", false),
            ("a..b", false),
            ("../x", false),
            ("A.test", false),
        ];
        for (text, good) in names {
            assert_eq!(RecordName::parse(text).is_ok(), good, "{text:?}");
        }
        assert!(RecordName::parse(&"a.".repeat(130)).is_err());
    }

    #[test]
    fn a_name_is_in_its_zone_by_whole_labels() {
        let cases = [
            ("a.one.test", "one.test", true),
            ("one.test", "one.test.", true),
            ("a.stone.test", "one.test", false),
            ("a.one.test.evil", "one.test", false),
            ("a.test", "", false),
        ];
        for (name, zone, inside) in cases {
            assert_eq!(RecordName::parse(name).unwrap().is_in(zone), inside, "{name} in {zone:?}");
        }
    }
}
