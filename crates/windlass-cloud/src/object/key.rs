//! The names of objects: digests as files are called, prefixes of keys. Keys themselves are the API's.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use windlass_cloud_api::{LabelError, ObjectKey};

const DIGEST_DIGITS: usize = 64;

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a SHA-256 digest")]
pub struct DigestError {
    /// The beginning of it.
    text: String,
}

/// The name of the file that describes the key. A plus is in no key, so no two keys have the same.
pub(super) fn file_name(key: &ObjectKey) -> String {
    format!("{}.json", key.as_str().replace('/', "+"))
}

/// The beginning of some keys, up to a slash: `addons` covers `addons/x`, not `addons-old/x`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prefix(ObjectKey);

impl Prefix {
    /// Takes the words before the slash; one slash at the end is let pass.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
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
        Self::from_hash(&Sha256::digest(bytes))
    }

    /// Of everything that a reader gives.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self::from_hash(&hash.finalize())),
                count => hash.update(&buffer[..count]),
            }
        }
    }

    fn from_hash(hash: &[u8]) -> Self {
        let mut text = String::with_capacity(DIGEST_DIGITS);
        for byte in hash {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(half), 16).expect("four bits are a hexadecimal digit"));
            }
        }
        Self(text)
    }

    /// Takes `sha256:<hex>`.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == DIGEST_DIGITS && hex.bytes().all(is_digit) => Ok(Self(hex.to_owned())),
            _ => Err(DigestError { text: text.chars().take(80).collect() }),
        }
    }

    /// Only the digits.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ObjectDigest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        let bytes = vec![7; 200_000];
        assert_eq!(ObjectDigest::of_reader(bytes.as_slice()).unwrap(), ObjectDigest::of(&bytes));
        for bad in ["", "sha256:", &empty[7..], &empty[..70], &empty.to_uppercase(), "sha256:../../../etc/passwd"] {
            assert!(ObjectDigest::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_two_keys_share_a_file(a in "[a-c._-]{1,3}(/[a-c._-]{1,3}){0,2}", b in "[a-c._-]{1,3}(/[a-c._-]{1,3}){0,2}") {
            if let (Ok(one), Ok(other)) = (ObjectKey::parse(&a), ObjectKey::parse(&b)) {
                prop_assert_eq!(file_name(&one) == file_name(&other), one == other);
                prop_assert!(!file_name(&one).contains('/') && !file_name(&one).starts_with('.'));
            }
        }
    }
}
