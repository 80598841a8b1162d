//! What is strong enough to count.

use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{EcdsaPublicParams, EddsaLegacyPublicParams, KeyDetails, KeyVersion, PublicParams};

use super::Reason;

const RSA_BITS: u16 = 2048;

/// Hashes without known or feared collisions.
pub(super) fn check_hash(signature: &Signature) -> Result<(), Reason> {
    match signature.hash_alg() {
        Some(
            HashAlgorithm::Sha256
            | HashAlgorithm::Sha384
            | HashAlgorithm::Sha512
            | HashAlgorithm::Sha3_256
            | HashAlgorithm::Sha3_512,
        ) => Ok(()),
        _ => Err(Reason::WeakHash),
    }
}

/// Parts that say "refuse me unless you understand me" and that nobody here understands.
pub(super) fn check_critical(signature: &Signature) -> Result<(), Reason> {
    let config = signature.config().ok_or(Reason::Version)?;
    let strange = |data: &SubpacketData| {
        matches!(data, SubpacketData::Notation(_) | SubpacketData::Experimental(..) | SubpacketData::Other(..))
    };
    match config.hashed_subpackets().any(|part| part.is_critical && strange(&part.data)) {
        true => Err(Reason::Critical),
        false => Ok(()),
    }
}

/// Keys that nobody is known to be able to forge signatures of.
pub(super) fn check_key(key: &impl KeyDetails) -> Result<(), Reason> {
    match key.version() {
        KeyVersion::V4 | KeyVersion::V6 => {}
        _ => return Err(Reason::KeyWeak),
    }
    let strong = match key.public_params() {
        // An MPI starts with its length in bits, and the modulus comes first.
        PublicParams::RSA(rsa) => {
            let bytes = rsa.to_bytes().map_err(|_| Reason::KeyWeak)?;
            matches!(bytes[..], [high, low, ..] if u16::from_be_bytes([high, low]) >= RSA_BITS)
        }
        PublicParams::ECDSA(ecdsa) => matches!(
            ecdsa,
            EcdsaPublicParams::P256 { .. } | EcdsaPublicParams::P384 { .. } | EcdsaPublicParams::P521 { .. }
        ),
        PublicParams::EdDSALegacy(legacy) => matches!(legacy, EddsaLegacyPublicParams::Ed25519 { .. }),
        PublicParams::Ed25519(_) | PublicParams::Ed448(_) => true,
        _ => false,
    };
    if strong { Ok(()) } else { Err(Reason::KeyWeak) }
}
