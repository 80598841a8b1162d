//! Why a signature does not count, or a key cannot be used. No message ever holds a private key.

use super::Form;

/// Why some data is not trusted. All of these are refusals: exit code 9.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature file is not there.
    #[error("the {form} signature ({}) is missing", .form.suffix())]
    Missing {
        /// Which one.
        form: Form,
    },
    /// Nobody is trusted, so nothing can be.
    #[error("no key is trusted, so no signature can be")]
    FindTrustedKey,
    /// The file is not a detached signature of its form.
    #[error("cannot read the {form} signature: {what}")]
    ReadSignature {
        /// Which one.
        form: Form,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The signature was made by someone who is not trusted.
    #[error("the {form} signature is by {signer}, whose key is not trusted")]
    MatchKey {
        /// Which one.
        form: Form,
        /// Fingerprints or key ids, as the signature names them.
        signer: String,
    },
    /// A trusted key, or a signature by it, breaks a rule.
    #[error("the {form} signature by {signer} does not count: {reason}")]
    AcceptSignature {
        /// Which one.
        form: Form,
        /// The key.
        signer: String,
        /// The rule.
        reason: Reason,
    },
    /// The signature is by a trusted key, over something else.
    #[error("the {form} signature by {signer} is not one over this data")]
    VerifyData {
        /// Which one.
        form: Form,
        /// The key.
        signer: String,
    },
}

impl SignatureError {
    /// Whether this is a matter of trust (exit code 9): it always is.
    pub fn is_trust(&self) -> bool {
        match self {
            SignatureError::Missing { .. }
            | SignatureError::FindTrustedKey
            | SignatureError::ReadSignature { .. }
            | SignatureError::MatchKey { .. }
            | SignatureError::AcceptSignature { .. }
            | SignatureError::VerifyData { .. } => true,
        }
    }
}

/// A rule that keys and signatures must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The key's time is over.
    #[error("the key has expired")]
    KeyExpired,
    /// The key's owner took it back.
    #[error("the key was revoked")]
    KeyRevoked,
    /// The key is from the future.
    #[error("the key is not valid yet")]
    KeyNotYet,
    /// The key can be broken.
    #[error("the key is too weak")]
    KeyWeak,
    /// No good self-signature says what the key is for.
    #[error("the key has no valid self-signature")]
    KeyUnbound,
    /// The key is for something else.
    #[error("the key is not for signing")]
    KeyPurpose,
    /// The hash can be broken.
    #[error("its hash is too weak")]
    WeakHash,
    /// The signature does not say when it was made.
    #[error("it has no time")]
    NoTime,
    /// The signature is from the future.
    #[error("it was made in the future")]
    Future,
    /// The signature is older than its key.
    #[error("it is older than its key")]
    BeforeKey,
    /// The signature's time is over.
    #[error("it has expired")]
    Expired,
    /// It signs a key, a text with any line endings, or nothing.
    #[error("it is not a signature over binary data")]
    Kind,
    /// A version that is too old or too new.
    #[error("its version is not supported")]
    Version,
    /// It demands to be understood, and is not.
    #[error("it has a critical part that is not understood")]
    Critical,
}

/// Why a key cannot be read, made or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not a public key.
    #[error("cannot read the {form} public key: {what}")]
    ReadPublic {
        /// Which form.
        form: Form,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The text is not a private key; it is not quoted.
    #[error("cannot read the {form} private key: {what}")]
    ReadPrivate {
        /// Which form.
        form: Form,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The time is outside what OpenPGP can say.
    #[error("cannot date a key or signature before 1970 or after 2106")]
    Date,
    /// The library could not do it.
    #[error("cannot make an OpenPGP key or signature")]
    Make {
        /// What it said.
        source: Box<pgp::errors::Error>,
    },
    /// The comment would not survive in a minisign file.
    #[error("cannot sign {file:?}: a file name without control characters is wanted")]
    NameFile {
        /// The name.
        file: String,
    },
}
