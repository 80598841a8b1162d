//! Detached signatures, made and verified: OpenPGP (`.asc`, as seed document 004 has it) and minisign (`.minisig`).
//!
//! [`check`] is the one question that the rest of windlass asks. Whoever is trusted is a parameter, [`Trusted`], and so
//! is the time. For each form that has a trusted key the signature must be there and must verify, so that leaving one
//! away gains nobody anything. [`SigningKeys`] are a bucket's own pair.

mod error;
pub mod minisign;
pub mod openpgp;

use std::fmt;

use chacha20::rand_core::CryptoRng;
use time::OffsetDateTime;

pub use error::{KeyError, Reason, SignatureError};

/// Clocks of machines that have just booted are off by a little; a signature may be this much younger than now.
const CLOCK_SKEW_SECONDS: i64 = 300;

/// How signatures are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An armoured OpenPGP signature.
    OpenPgp,
    /// A minisign signature.
    Minisign,
}

impl Form {
    /// What follows the signed file's name in the signature's.
    pub fn suffix(self) -> &'static str {
        match self {
            Form::OpenPgp => ".asc",
            Form::Minisign => ".minisig",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::OpenPgp => "OpenPGP",
            Form::Minisign => "minisign",
        })
    }
}

/// Whether signatures are looked at: `--no-verify-signatures` says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// The default.
    Required,
    /// Everything is taken as it comes, and said so.
    Skipped,
}

/// Whose signatures count. A form without keys is not asked for.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    /// OpenPGP certificates; one signature by any of them is wanted.
    pub openpgp: Option<openpgp::Keyring>,
    /// The minisign key.
    pub minisign: Option<minisign::PublicKey>,
}

/// The signatures that came with some data; what was not there is `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Signatures<'a> {
    /// The content of the `.asc` file.
    pub asc: Option<&'a [u8]>,
    /// The content of the `.minisig` file.
    pub minisig: Option<&'a [u8]>,
}

/// What [`check`] found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Every form that was asked for verified.
    Signed(Signed),
    /// Nothing was verified, because that was asked for.
    Unverified(Unverified),
}

/// Who signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The OpenPGP signature, if one was asked for.
    pub openpgp: Option<openpgp::Signed>,
    /// The minisign signature, if one was asked for.
    pub minisign: Option<minisign::Signed>,
}

/// A warning that must reach the user: something was taken without a look at its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "skipped verification must be reported"]
pub struct Unverified {
    subject: String,
}

impl Unverified {
    /// What was taken unverified.
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is used WITHOUT a check of its signature, as --no-verify-signatures asks", self.subject)
    }
}

/// Whether some data is what a trusted key's owner signed; `subject` is what messages call it.
pub fn check(
    verification: Verification,
    trusted: &Trusted,
    subject: &str,
    data: &[u8],
    signatures: Signatures<'_>,
    now: OffsetDateTime,
) -> Result<Checked, SignatureError> {
    match verification {
        Verification::Skipped => return Ok(Checked::Unverified(Unverified { subject: subject.to_owned() })),
        Verification::Required => {}
    }
    if trusted.openpgp.is_none() && trusted.minisign.is_none() {
        return Err(SignatureError::FindTrustedKey);
    }
    let openpgp = trusted.openpgp.as_ref().map(|keys| openpgp::verify(keys, data, signatures.asc, now)).transpose()?;
    let minisign =
        trusted.minisign.as_ref().map(|key| minisign::verify(key, data, signatures.minisig, now)).transpose()?;
    Ok(Checked::Signed(Signed { openpgp, minisign }))
}

/// The keys with which a bucket or a bundle is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeys {
    /// An Ed25519 key of version 4, which every OpenPGP program of the last ten years reads.
    pub openpgp: openpgp::SigningKey,
    /// An Ed25519 key.
    pub minisign: minisign::SigningKey,
}

/// Both signatures of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePair {
    /// For the `.asc` file.
    pub asc: String,
    /// For the `.minisig` file.
    pub minisig: String,
}

impl SigningKeys {
    /// Draws a new pair that is valid from `created` on.
    pub fn generate(rng: &mut impl CryptoRng, owner: &str, created: OffsetDateTime) -> Result<Self, KeyError> {
        let openpgp = openpgp::SigningKey::generate(rng, owner, created, None)?;
        Ok(SigningKeys { openpgp, minisign: minisign::SigningKey::generate(rng) })
    }

    /// Signs some data under the name of its file.
    pub fn sign(&self, file: &str, data: &[u8], now: OffsetDateTime) -> Result<SignaturePair, KeyError> {
        let asc = self.openpgp.sign(data, now)?;
        Ok(SignaturePair { asc, minisig: self.minisign.sign(file, data, now)? })
    }

    /// What the others must hold to trust these signatures.
    pub fn trusted(&self) -> Trusted {
        Trusted { openpgp: Some(self.openpgp.public()), minisign: Some(self.minisign.public()) }
    }
}

/// Whether a moment is later than now, by more than clocks differ.
fn is_future(seconds: i64, now: OffsetDateTime) -> bool {
    seconds > now.unix_timestamp().saturating_add(CLOCK_SKEW_SECONDS)
}
