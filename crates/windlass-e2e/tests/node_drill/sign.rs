//! A signature that counts, on a manifest that the product would not write: for another board.

use pgp::composed::{ArmorOptions, Deserializable as _, DetachedSignature, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{KeyDetails as _, Password, Timestamp};

/// Signs a text with an armoured private key.
pub fn sign(key: &str, text: &str) -> String {
    let (key, _) = SignedSecretKey::from_string(key).expect("the host's key is one");
    let key = &key.primary_key;
    let part = |data| Subpacket::regular(data).expect("a part of a signature");
    let mut config = SignatureConfig::v4(SignatureType::Binary, key.algorithm(), HashAlgorithm::Sha512);
    config.hashed_subpackets = vec![
        part(SubpacketData::SignatureCreationTime(Timestamp::now())),
        part(SubpacketData::IssuerFingerprint(key.fingerprint())),
    ];
    config.unhashed_subpackets = vec![part(SubpacketData::IssuerKeyId(key.legacy_key_id()))];
    let signature = config.sign(key, &Password::empty(), text.as_bytes()).expect("a key signs");
    DetachedSignature::new(signature).to_armored_string(ArmorOptions::default()).expect("it can be written")
}
