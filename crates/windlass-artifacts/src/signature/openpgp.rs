//! OpenPGP with the `pgp` crate, which reads packets and does the arithmetic; what counts is decided here.
//!
//! The crate checks the mathematics of a signature and nothing else: not whether a key has expired, was revoked or
//! may sign, nor how weak it is. [`verify`] does, fails closed, and takes the time as a parameter.

mod armor;
mod certificate;
mod policy;
mod secret;

use pgp::composed::{Deserializable as _, SignedPublicKey};
use pgp::packet::{Signature, SignatureType, SignatureVersion};
use pgp::types::KeyDetails as _;
use time::OffsetDateTime;

use super::{Form, KeyError, Reason, SignatureError, is_future};
use certificate::Component;

pub use secret::SigningKey;

/// An honest signature has a few hundred bytes.
const SIGNATURE_LIMIT: usize = 1 << 16;
const KEYRING_LIMIT: usize = 1 << 20;
const SIGNATURES_LIMIT: usize = 16;

/// Trusted OpenPGP certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyring {
    certificates: Vec<SignedPublicKey>,
}

impl Keyring {
    /// Reads one or more armoured `PGP PUBLIC KEY BLOCK`s.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let wrong = |what| KeyError::ReadPublic { form: Form::OpenPgp, what };
        if text.len() > KEYRING_LIMIT {
            return Err(wrong("it is too long"));
        }
        let mut certificates = Vec::new();
        for block in armor::blocks(text, armor::PUBLIC_KEY).map_err(wrong)? {
            let keys = SignedPublicKey::from_bytes_many(block.as_slice()).map_err(|_| wrong("it is damaged"))?;
            for key in keys {
                certificates.push(key.map_err(|_| wrong("it is damaged"))?);
            }
        }
        match certificates.is_empty() {
            true => Err(wrong("there is no key in it")),
            false => Ok(Keyring { certificates }),
        }
    }

    /// The fingerprints of the primary keys.
    pub fn fingerprints(&self) -> Vec<String> {
        self.certificates.iter().map(|key| format!("{:X}", key.fingerprint())).collect()
    }
}

/// A signature that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The primary key's fingerprint, in upper-case hexadecimal digits.
    pub fingerprint: String,
    /// When it was made, as its maker says.
    pub created: OffsetDateTime,
}

/// Whether some data carries a good signature by a trusted key.
///
/// Signatures by strangers are ignored, as long as there is one that counts; a signature in the name of a trusted key
/// that does not count spoils the whole file.
pub fn verify(keys: &Keyring, data: &[u8], asc: Option<&[u8]>, now: OffsetDateTime) -> Result<Signed, SignatureError> {
    let asc = asc.ok_or(SignatureError::Missing { form: Form::OpenPgp })?;
    let mut signed = None;
    let mut strangers = Vec::new();
    for signature in read(asc)? {
        let named = issuers(&signature);
        let components = keys.certificates.iter().flat_map(|key| certificate::components(key, &signature));
        let mut known = false;
        for component in components {
            known = true;
            signed = Some(verify_one(&component, &signature, data, now)?);
        }
        if !known {
            strangers.push(named);
        }
    }
    let signer = strangers.join(", ");
    signed.ok_or(SignatureError::MatchKey { form: Form::OpenPgp, signer })
}

fn read(asc: &[u8]) -> Result<Vec<Signature>, SignatureError> {
    let wrong = |what| SignatureError::ReadSignature { form: Form::OpenPgp, what };
    if asc.len() > SIGNATURE_LIMIT {
        return Err(wrong("it is too long"));
    }
    let text = std::str::from_utf8(asc).map_err(|_| wrong("it is not armoured text"))?;
    let block = armor::single_block(text, armor::SIGNATURE).map_err(wrong)?;
    let signatures = armor::signatures(&block, SIGNATURES_LIMIT).map_err(wrong)?;
    if signatures.is_empty() { Err(wrong("there is no signature in it")) } else { Ok(signatures) }
}

fn verify_one(
    component: &Component<'_>,
    signature: &Signature,
    data: &[u8],
    now: OffsetDateTime,
) -> Result<Signed, SignatureError> {
    let signer = format!("{:X}", component.fingerprint());
    let refuse = |reason| SignatureError::AcceptSignature { form: Form::OpenPgp, signer: signer.clone(), reason };
    let valid_from = component.check(now).map_err(refuse)?;
    let created = check_signature(signature, valid_from, now).map_err(refuse)?;
    if !component.verifies(signature, data) {
        return Err(SignatureError::VerifyData { form: Form::OpenPgp, signer });
    }
    let created = OffsetDateTime::from_unix_timestamp(created).map_err(|_| refuse(Reason::NoTime))?;
    Ok(Signed { fingerprint: format!("{:X}", component.primary_fingerprint()), created })
}

/// The rules for a signature itself; answers with its time.
fn check_signature(signature: &Signature, valid_from: i64, now: OffsetDateTime) -> Result<i64, Reason> {
    match signature.version() {
        SignatureVersion::V4 | SignatureVersion::V6 => {}
        _ => return Err(Reason::Version),
    }
    if signature.typ() != Some(SignatureType::Binary) {
        return Err(Reason::Kind);
    }
    policy::check_hash(signature)?;
    policy::check_critical(signature)?;
    let created = i64::from(signature.created().ok_or(Reason::NoTime)?.as_secs());
    if is_future(created, now) {
        return Err(Reason::Future);
    }
    if created < valid_from {
        return Err(Reason::BeforeKey);
    }
    match signature.signature_expiration_time().map(|time| i64::from(time.as_secs())) {
        Some(lifetime) if lifetime > 0 && created + lifetime <= now.unix_timestamp() => Err(Reason::Expired),
        _ => Ok(created),
    }
}

/// Who the signature says made it, for messages.
fn issuers(signature: &Signature) -> String {
    let fingerprints = signature.issuer_fingerprint();
    let names: Vec<String> = match fingerprints.is_empty() {
        true => signature.issuer_key_id().iter().map(|id| hex_upper(id.as_ref())).collect(),
        false => fingerprints.iter().map(|fingerprint| hex_upper(fingerprint.as_bytes())).collect(),
    };
    if names.is_empty() { "nobody named".to_owned() } else { names.join(" or ") }
}

fn hex_upper(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
