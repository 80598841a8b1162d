//! The names of objects: keys as users write them, digests as files are called.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Short enough for the name of one file with its ending.
const LONGEST_KEY: usize = 200;
const DIGEST_DIGITS: usize = 64;

/// A name such as `addons/coredns/manifest.yaml`: words of letters, digits, `.`, `_` and `-` between single slashes; no
/// word begins with a dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectKey(String);

/// Why a text is not a name of the object store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// It has too many characters, or none.
    #[error("an object's key has 1 to {LONGEST_KEY} characters, this one {length}")]
    Length {
        /// As counted.
        length: usize,
    },
    /// A part between slashes is not a word.
    #[error("{word:?} is not a part of an object's key: letters, digits, '.', '_' and '-', with no dot in front")]
    Word {
        /// The part.
        word: String,
    },
    /// It is not `sha256:` with 64 digits.
    #[error("{text:?} is not a SHA-256 digest")]
    Digest {
        /// The beginning of it.
        text: String,
    },
}

impl ObjectKey {
    /// Takes a key as it came from outside.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() || text.len() > LONGEST_KEY {
            return Err(KeyError::Length { length: text.len() });
        }
        match text.split('/').find(|word| !is_word(word)) {
            Some(word) => Err(KeyError::Word { word: word.to_owned() }),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// As it was parsed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the file that describes the key. A plus is in no key, so no two keys have the same.
    pub(super) fn file_name(&self) -> String {
        format!("{}.json", self.0.replace('/', "+"))
    }
}

impl TryFrom<String> for ObjectKey {
    type Error = KeyError;
    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::parse(&text)
    }
}

impl From<ObjectKey> for String {
    fn from(key: ObjectKey) -> Self {
        key.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of some keys, up to a slash: `addons` covers `addons/x`, not `addons-old/x`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prefix(ObjectKey);

impl Prefix {
    /// Takes the words before the slash; one slash at the end is let pass.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        ObjectKey::parse(text.strip_suffix('/').unwrap_or(text)).map(Self)
    }

    /// Whether the key is below it.
    pub fn covers(&self, key: &ObjectKey) -> bool {
        key.as_str().strip_prefix(self.0.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// The SHA-256 of an object's bytes, written `sha256:<hex>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectDigest(String);

impl ObjectDigest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(DIGEST_DIGITS);
        for byte in Sha256::digest(bytes) {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(half), 16).expect("four bits are a hexadecimal digit"));
            }
        }
        Self(text)
    }

    /// Takes `sha256:<hex>`.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == DIGEST_DIGITS && hex.bytes().all(is_digit) => Ok(Self(hex.to_owned())),
            _ => Err(KeyError::Digest { text: text.chars().take(80).collect() }),
        }
    }

    /// Only the digits.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ObjectDigest {
    type Error = KeyError;
    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::parse(&text)
    }
}

impl From<ObjectDigest> for String {
    fn from(digest: ObjectDigest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for ObjectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !word.is_empty() && !word.starts_with('.') && word.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_words_between_slashes() {
        let long = "k".repeat(201);
        let good = ["a", "addons/coredns/manifest.yaml", "v1.36.3_x-y", &long[..200]];
        for key in good {
            assert_eq!(ObjectKey::parse(key).unwrap().as_str(), key);
        }
        let bad = [
            "",
            "/",
            "/etc/passwd",
            "a/",
            "a//b",
            "..",
            "a/../b",
            "./a",
            "a/.hidden",
            "a b",
            "a\nb",
            "a\0",
            "ä",
            "a+b",
            "a%2fb",
            "a\\b",
            &long,
        ];
        for key in bad {
            assert!(ObjectKey::parse(key).is_err(), "{key:?}");
            assert!(serde_json::from_value::<ObjectKey>(key.into()).is_err(), "{key:?}");
        }
    }

    #[test]
    fn a_prefix_covers_what_is_below_it_and_nothing_beside_it() {
        let prefix = Prefix::parse("addons/").unwrap();
        let cases = [
            ("addons/x", true),
            ("addons/x/y", true),
            ("addons", false),
            ("addons-old/x", false),
            ("x/addons/y", false),
        ];
        for (key, covered) in cases {
            assert_eq!(prefix.covers(&ObjectKey::parse(key).unwrap()), covered, "{key}");
        }
        assert!(Prefix::parse("").is_err() && Prefix::parse("/").is_err() && Prefix::parse("a//").is_err());
    }

    #[test]
    fn a_digest_is_the_well_known_one_and_round_trips() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(ObjectDigest::of(b"").to_string(), empty);
        assert_eq!(ObjectDigest::parse(empty).unwrap(), ObjectDigest::of(b""));
        for bad in ["", "sha256:", &empty[7..], &empty[..70], &empty.to_uppercase(), "sha256:../../../etc/passwd"] {
            assert!(ObjectDigest::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_two_keys_share_a_file(a in "[a-c._-]{1,3}(/[a-c._-]{1,3}){0,2}", b in "[a-c._-]{1,3}(/[a-c._-]{1,3}){0,2}") {
            if let (Ok(one), Ok(other)) = (ObjectKey::parse(&a), ObjectKey::parse(&b)) {
                prop_assert_eq!(one.file_name() == other.file_name(), one == other);
                prop_assert!(!one.file_name().contains('/') && !one.file_name().starts_with('.'));
            }
        }
    }
}
