//! Digests: what a file must be, in the two forms that the world writes them.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};

/// How a digest was made. Weaker ones do not exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256: images, caches, `.sha256` files.
    Sha256,
    /// SHA-512: `.sha512` files and torcx manifests.
    Sha512,
}

impl Algorithm {
    /// The name in front of the hexadecimal digits.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Sha512 => 128,
        }
    }
}

/// The digest of a file: `sha256:<hex>` in caches and images, `sha512-<hex>` in torcx manifests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// Why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: sha256 or sha512 with lower-case hexadecimal digits is wanted")]
pub struct DigestError(String);

impl Digest {
    /// Takes `sha256:<hex>` or `sha512-<hex>`, with either separator.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let wrong = || DigestError(text.chars().take(160).collect());
        let (name, hex) = text.split_once([':', '-']).ok_or_else(wrong)?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(wrong()),
        };
        Digest::from_hex(algorithm, hex).map_err(|_| wrong())
    }

    /// Takes bare hexadecimal digits, as `.sha256` files hold them.
    pub fn from_hex(algorithm: Algorithm, hex: &str) -> Result<Self, DigestError> {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() != algorithm.digits() || !hex.bytes().all(digit) {
            return Err(DigestError(hex.chars().take(160).collect()));
        }
        Ok(Digest { algorithm, hex: hex.to_owned() })
    }

    /// The digest of some bytes.
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest of everything that a reader gives.
    pub fn of_reader(algorithm: Algorithm, reader: impl Read) -> io::Result<Self> {
        let [digest] = Digest::all_of_reader([algorithm], reader)?;
        Ok(digest)
    }

    /// Several digests of everything that a reader gives, which is read once.
    pub fn all_of_reader<const N: usize>(algorithms: [Algorithm; N], mut reader: impl Read) -> io::Result<[Self; N]> {
        let mut hashers = algorithms.map(Hasher::new);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(hashers.map(Hasher::finish)),
                n => hashers.iter_mut().for_each(|hasher| hasher.update(&buffer[..n])),
            }
        }
    }

    /// How it was made.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digits alone.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The form of torcx manifests: `sha512-<hex>`.
    pub fn to_torcx(&self) -> String {
        format!("{}-{}", self.algorithm.as_str(), self.hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
        Digest::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// A digest in the making, for bytes that arrive bit by bit.
#[derive(Debug, Clone)]
pub struct Hasher {
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// An empty one.
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        };
        Hasher { state }
    }

    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Sha256(h) => h.update(bytes),
            State::Sha512(h) => h.update(bytes),
        }
    }

    /// The digest of all bytes so far.
    pub fn finish(self) -> Digest {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
        match self.state {
            State::Sha256(h) => Digest { algorithm: Algorithm::Sha256, hex: hex(h.finalize().as_slice()) },
            State::Sha512(h) => Digest { algorithm: Algorithm::Sha512, hex: hex(h.finalize().as_slice()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_both_forms_are_read_and_weak_ones_are_not() {
        let digest = Digest::of(Algorithm::Sha256, b"");
        assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest.clone()));
        let long = Digest::of(Algorithm::Sha512, b"x");
        assert_eq!(Digest::parse(&long.to_torcx()), Ok(long));
        for bad in ["", "sha256:", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha1-aa", "sha256:E3B0", &digest.hex()[1..]]
        {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_reader_and_its_bytes_have_the_same_digest() {
        let bytes = vec![7; 200_000];
        let read = Digest::of_reader(Algorithm::Sha512, bytes.as_slice()).unwrap();
        assert_eq!(read, Digest::of(Algorithm::Sha512, &bytes));
    }
}
