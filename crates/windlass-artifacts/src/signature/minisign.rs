//! minisign: `minisign-verify` verifies, and what signs is written here by the documented format
//! (<https://jedisct1.github.io/minisign/#signature-format>), so that each checks the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::digest::consts::U32;
use blake2::{Blake2b, Blake2b512, Digest as _};
use chacha20::rand_core::CryptoRng;
use ed25519_dalek::Signer as _;
use time::OffsetDateTime;
use windlass_spec::Secret;

use super::{Form, KeyError, Reason, SignatureError, is_future};

/// Two comments and two lines of base64.
const SIGNATURE_LIMIT: usize = 1 << 13;
const KEY_ALGORITHM: &[u8] = b"Ed";
const PREHASHED: &[u8] = b"ED";
const NO_KDF: &[u8] = &[0, 0];
const CHECKSUM: &[u8] = b"B2";
/// Salt and the two cost limits, which only a passphrase would need.
const KDF_LENGTH: usize = 32 + 8 + 8;

/// A trusted minisign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: minisign_verify::PublicKey,
    id: [u8; 8],
    bytes: [u8; 32],
}

impl PublicKey {
    /// Reads a `minisign.pub` file, or the line of base64 alone.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let wrong = |what| KeyError::ReadPublic { form: Form::Minisign, what };
        let lines: Vec<&str> = text.lines().collect();
        let line = match lines[..] {
            [line] => line,
            [comment, line] if comment.starts_with("untrusted comment:") => line,
            _ => return Err(wrong("a comment and one line of base64 are wanted")),
        };
        let bytes = STANDARD.decode(line).map_err(|_| wrong("it is not base64"))?;
        let (algorithm, rest) = bytes.split_at_checked(2).ok_or_else(|| wrong("it is too short"))?;
        let (id, key) = rest.split_at_checked(8).ok_or_else(|| wrong("it is too short"))?;
        if algorithm != KEY_ALGORITHM {
            return Err(wrong("its algorithm is not Ed25519"));
        }
        let id = id.try_into().map_err(|_| wrong("it has no key id"))?;
        let bytes: [u8; 32] = key.try_into().map_err(|_| wrong("it has a wrong length"))?;
        match ed25519_dalek::VerifyingKey::from_bytes(&bytes) {
            Ok(point) if !point.is_weak() => {}
            _ => return Err(wrong("it is not a good point of the curve")),
        }
        let key = minisign_verify::PublicKey::from_base64(line).map_err(|_| wrong("it is damaged"))?;
        Ok(PublicKey { key, id, bytes })
    }

    /// The key id as minisign shows it.
    pub fn id(&self) -> String {
        format!("{:016X}", u64::from_le_bytes(self.id))
    }

    /// The content of a `minisign.pub` file.
    pub fn to_text(&self) -> String {
        let bytes = [KEY_ALGORITHM, &self.id, &self.bytes].concat();
        format!("untrusted comment: minisign public key {}\n{}\n", self.id(), STANDARD.encode(bytes))
    }
}

/// A signature that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The key's id.
    pub key_id: String,
    /// The comment that the signature covers.
    pub trusted_comment: String,
}

/// Whether some data carries a good signature by this key; only the current, prehashed kind is taken.
pub fn verify(
    key: &PublicKey,
    data: &[u8],
    minisig: Option<&[u8]>,
    now: OffsetDateTime,
) -> Result<Signed, SignatureError> {
    let form = Form::Minisign;
    let text = read(minisig.ok_or(SignatureError::Missing { form })?)?;
    let wrong = |what| SignatureError::ReadSignature { form, what };
    let signature = minisign_verify::Signature::decode(text).map_err(|error| match error {
        minisign_verify::Error::UnsupportedAlgorithm => wrong("its algorithm is not Ed25519"),
        _ => wrong("it is damaged"),
    })?;
    key.key.verify(data, &signature, false).map_err(|error| match error {
        minisign_verify::Error::UnexpectedKeyId => SignatureError::MatchKey { form, signer: signer_id(text) },
        minisign_verify::Error::InvalidSignature => SignatureError::VerifyData { form, signer: key.id() },
        _ => wrong("it is of the old kind, over the data and not over its hash"),
    })?;
    let trusted_comment = signature.trusted_comment().to_owned();
    if timestamp(&trusted_comment).is_some_and(|seconds| is_future(seconds, now)) {
        return Err(SignatureError::AcceptSignature { form, signer: key.id(), reason: Reason::Future });
    }
    Ok(Signed { key_id: key.id(), trusted_comment })
}

fn read(minisig: &[u8]) -> Result<&str, SignatureError> {
    let wrong = |what| SignatureError::ReadSignature { form: Form::Minisign, what };
    if minisig.len() > SIGNATURE_LIMIT {
        return Err(wrong("it is too long"));
    }
    let text = std::str::from_utf8(minisig).map_err(|_| wrong("it is not text"))?;
    let lines: Vec<&str> = text.lines().collect();
    match lines[..] {
        [untrusted, _, trusted, _] if untrusted.starts_with("untrusted comment:") => {
            let strange = |c: char| c.is_control() && c != '\t';
            if trusted.contains(strange) { Err(wrong("its comment has control characters")) } else { Ok(text) }
        }
        _ => Err(wrong("four lines are wanted, the first a comment")),
    }
}

/// minisign writes `timestamp:<seconds>` first in the comment.
fn timestamp(comment: &str) -> Option<i64> {
    comment.split('\t').find_map(|field| field.strip_prefix("timestamp:")?.parse().ok())
}

/// The key id that the signature names; it was decoded before, so it is there.
fn signer_id(text: &str) -> String {
    let bytes = text.lines().nth(1).and_then(|line| STANDARD.decode(line).ok());
    let id = bytes.and_then(|bytes| bytes.get(2..10)?.try_into().ok());
    id.map_or_else(|| "nobody named".to_owned(), |id| format!("{:016X}", u64::from_le_bytes(id)))
}

/// A minisign key that signs, without a passphrase: it lies in a 0600 file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    key: Secret<ed25519_dalek::SigningKey>,
    id: [u8; 8],
}

impl SigningKey {
    /// Draws a key and its id.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let (mut seed, mut id) = ([0; 32], [0; 8]);
        rng.fill_bytes(&mut seed);
        rng.fill_bytes(&mut id);
        SigningKey { key: Secret::new(ed25519_dalek::SigningKey::from_bytes(&seed)), id }
    }

    /// Reads a `minisign.key` file that was made without a passphrase (`minisign -G -W`).
    pub fn parse(text: &Secret<String>) -> Result<Self, KeyError> {
        let wrong = |what| KeyError::ReadPrivate { form: Form::Minisign, what };
        let line = text.expose().lines().nth(1).ok_or_else(|| wrong("two lines are wanted"))?;
        let bytes = Secret::new(STANDARD.decode(line).map_err(|_| wrong("it is not base64"))?);
        let rest = bytes.expose().strip_prefix(KEY_ALGORITHM).ok_or_else(|| wrong("its algorithm is not Ed25519"))?;
        let rest = rest.strip_prefix(NO_KDF).ok_or_else(|| wrong("it is locked with a passphrase"))?;
        let rest = rest.strip_prefix(CHECKSUM).ok_or_else(|| wrong("its checksum is of an unknown kind"))?;
        let rest = rest.get(KDF_LENGTH..).filter(|rest| rest.len() == 8 + 64 + 32);
        let rest = rest.ok_or_else(|| wrong("it has a wrong length"))?;
        let (id, rest) = rest.split_at(8);
        let (pair, checksum) = rest.split_at(64);
        if checksum != key_checksum(id, pair) {
            return Err(wrong("its checksum is wrong"));
        }
        let id = id.try_into().map_err(|_| wrong("it has no key id"))?;
        let pair = pair.try_into().map_err(|_| wrong("it has a wrong length"))?;
        let key = ed25519_dalek::SigningKey::from_keypair_bytes(pair).map_err(|_| wrong("its halves do not match"))?;
        Ok(SigningKey { key: Secret::new(key), id })
    }

    /// The content of a `minisign.key` file, mode 0600.
    pub fn to_text(&self) -> Secret<String> {
        let pair = self.key.expose().to_keypair_bytes();
        let checksum = key_checksum(&self.id, &pair);
        let parts = [KEY_ALGORITHM, NO_KDF, CHECKSUM, &[0; KDF_LENGTH], &self.id, &pair, &checksum];
        let encoded = STANDARD.encode(parts.concat());
        Secret::new(format!("untrusted comment: minisign secret key\n{encoded}\n"))
    }

    /// The half for those who are to trust it.
    pub fn public(&self) -> PublicKey {
        let bytes = self.key.expose().verifying_key().to_bytes();
        let line = STANDARD.encode([KEY_ALGORITHM, &self.id, &bytes].concat());
        PublicKey::parse(&line).expect("a drawn key is a good point, and its line has just been written")
    }

    /// A signature whose trusted comment holds the time and the file's name.
    pub fn sign(&self, file: &str, data: &[u8], now: OffsetDateTime) -> Result<String, KeyError> {
        if file.is_empty() || file.len() > 1024 || file.contains(char::is_control) {
            return Err(KeyError::NameFile { file: file.chars().take(200).collect() });
        }
        let comment = format!("timestamp:{}\tfile:{file}\thashed", now.unix_timestamp());
        let signature = self.key.expose().sign(&Blake2b512::digest(data)).to_bytes();
        let line = STANDARD.encode([PREHASHED, &self.id, &signature].concat());
        let global = self.key.expose().sign(&[signature.as_slice(), comment.as_bytes()].concat());
        let global = STANDARD.encode(global.to_bytes());
        let id = self.public().id();
        Ok(format!("untrusted comment: signature by minisign key {id}\n{line}\ntrusted comment: {comment}\n{global}\n"))
    }
}

fn key_checksum(id: &[u8], pair: &[u8]) -> Vec<u8> {
    let mut hash = Blake2b::<U32>::new();
    hash.update(KEY_ALGORITHM);
    hash.update(id);
    hash.update(pair);
    hash.finalize().to_vec()
}
