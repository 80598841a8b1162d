//! ECDSA P-256 keys. The private half is a [`Secret`] all its life: it is drawn from a
//! [`KeySource`] or read from PEM, signs, and leaves only as PEM for a 0600 file.

mod source;

use p256::ecdsa::signature::{Signer as _, Verifier as _};
use p256::ecdsa::{DerSignature, SigningKey, VerifyingKey};
use p256::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding,
};
use sha2::{Digest as _, Sha256};
use windlass_spec::Secret;

pub use source::{KeySource, RandomKeys, SeededKeys, Serial};

/// Why bytes are not a key that windlass uses.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The bytes are no text.
    #[error("it is not text")]
    ReadText,
    /// The text is not a P-256 private key.
    #[error("it is not a P-256 private key in PEM PKCS#8")]
    ReadPrivate {
        /// What the reader said; it never quotes the key.
        source: p256::pkcs8::Error,
    },
    /// The bytes are not a P-256 public key.
    #[error("it is not a P-256 public key")]
    ReadPublic {
        /// What the reader said.
        source: p256::pkcs8::spki::Error,
    },
}

/// A P-256 private key, with its public half at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateKey {
    secret: Secret<SigningKey>,
    public: PublicKey,
}

impl PrivateKey {
    fn new(key: SigningKey) -> Self {
        let public = PublicKey::new(*key.verifying_key());
        PrivateKey { secret: Secret::new(key), public }
    }

    /// Reads a PEM PKCS#8 document (`PRIVATE KEY`).
    pub fn parse_pem(bytes: &[u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(bytes).map_err(|_| KeyError::ReadText)?;
        let key = SigningKey::from_pkcs8_pem(text).map_err(|source| KeyError::ReadPrivate { source })?;
        Ok(PrivateKey::new(key))
    }

    /// The key as a PEM PKCS#8 document, for a 0600 file.
    pub fn to_pem(&self) -> Secret<String> {
        let pem = self.secret.expose().to_pkcs8_pem(LineEnding::LF).expect("every P-256 key has a PKCS#8 form");
        Secret::new(pem.as_str().to_owned())
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// An ASN.1 signature over the SHA-256 of a message; the same message gives the same bytes (RFC 6979).
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature: DerSignature = self.secret.expose().sign(message);
        signature.as_bytes().to_vec()
    }
}

/// A P-256 public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    /// The uncompressed point, as certificates carry it.
    point: Box<[u8]>,
}

impl PublicKey {
    fn new(key: VerifyingKey) -> Self {
        PublicKey { point: key.to_sec1_point(false).to_bytes(), key }
    }

    /// Reads a PEM SubjectPublicKeyInfo document (`PUBLIC KEY`).
    pub fn parse_pem(bytes: &[u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(bytes).map_err(|_| KeyError::ReadText)?;
        VerifyingKey::from_public_key_pem(text).map(PublicKey::new).map_err(|source| KeyError::ReadPublic { source })
    }

    /// Reads a DER SubjectPublicKeyInfo: other algorithms, other curves and points off the curve are refused.
    pub fn parse_der(bytes: &[u8]) -> Result<Self, KeyError> {
        VerifyingKey::from_public_key_der(bytes).map(PublicKey::new).map_err(|source| KeyError::ReadPublic { source })
    }

    /// The key as a PEM SubjectPublicKeyInfo document.
    pub fn to_pem(&self) -> String {
        self.key.to_public_key_pem(LineEnding::LF).expect("every P-256 key has a SubjectPublicKeyInfo form")
    }

    /// Whether an ASN.1 signature over a message was made by this key's private half.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        DerSignature::try_from(signature).is_ok_and(|signature| self.key.verify(message, &signature).is_ok())
    }

    /// The key's identifier in certificates: 160 bits of SHA-256 over the point (RFC 7093, method 1).
    pub fn id(&self) -> Vec<u8> {
        Sha256::digest(&self.point)[..20].to_vec()
    }
}

impl rcgen::PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::PublicKeyData for PrivateKey {
    fn der_bytes(&self) -> &[u8] {
        self.public.der_bytes()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.public.algorithm()
    }
}

impl rcgen::SigningKey for PrivateKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(PrivateKey::sign(self, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> PrivateKey {
        SeededKeys::new("key tests").key(name)
    }

    #[test]
    fn a_private_key_survives_pem() {
        let pem = key("a").to_pem();
        assert!(pem.expose().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(PrivateKey::parse_pem(pem.expose().as_bytes()).unwrap(), key("a"));
    }

    #[test]
    fn a_public_key_survives_pem() {
        let public = key("a").public().clone();
        assert!(public.to_pem().starts_with("-----BEGIN PUBLIC KEY-----\n"));
        assert_eq!(PublicKey::parse_pem(public.to_pem().as_bytes()).unwrap(), public);
    }

    #[test]
    fn signatures_are_deterministic_and_belong_to_one_key() {
        let signature = key("a").sign(b"message");
        assert_eq!(signature, key("a").sign(b"message"));
        assert!(key("a").public().verifies(b"message", &signature));
        assert!(!key("a").public().verifies(b"other", &signature));
        assert!(!key("b").public().verifies(b"message", &signature));
        assert!(!key("a").public().verifies(b"message", b"no signature"));
    }

    #[test]
    fn what_is_not_a_p256_key_is_refused_without_being_quoted() {
        let pem = key("a").to_pem().expose().clone();
        let sec1 = pem.replace("PRIVATE KEY", "EC PRIVATE KEY");
        let garbled = pem.replacen('M', "!", 1);
        for bytes in [b"".as_slice(), b"\xff\xfe", b"canary", sec1.as_bytes(), garbled.as_bytes()] {
            let error = PrivateKey::parse_pem(bytes).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("canary") && !shown.contains("MIG"), "{shown}");
        }
    }
}
