//! Our own OpenPGP keys. The private half is a [`Secret`] all its life and leaves only as armour for a 0600 file.

use std::time::Duration;

use chacha20::rand_core::CryptoRng;
use pgp::composed::{ArmorOptions, Deserializable as _, DetachedSignature, SignedKeyDetails, SignedSecretKey};
use pgp::crypto::ed25519::Mode;
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::crypto::{ed25519, eddsa_legacy};
use pgp::packet::{
    KeyFlags, PacketTrait as _, PubKeyInner, PublicKey, SecretKey, SignatureConfig, SignatureType, Subpacket,
    SubpacketData, UserId,
};
use pgp::types::{KeyDetails as _, KeyVersion, Password, PlainSecretParams, PublicParams, SecretParams, Timestamp};
use time::OffsetDateTime;
use windlass_spec::Secret;

use super::{Form, KeyError, Keyring, armor};

/// An OpenPGP key that signs, without a passphrase: it lies in a 0600 file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    key: Secret<SignedSecretKey>,
}

impl SigningKey {
    /// Draws an Ed25519 key of version 4 in the older framing, which GnuPG 2.2 reads too.
    pub fn generate(
        rng: &mut impl CryptoRng,
        owner: &str,
        created: OffsetDateTime,
        lifetime: Option<Duration>,
    ) -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let created = timestamp(created)?;
        let key = make(seed, owner, created, lifetime.map(|it| it.as_secs())).map_err(failed)?;
        Ok(SigningKey { key: Secret::new(key) })
    }

    /// Reads an armoured `PGP PRIVATE KEY BLOCK`.
    pub fn parse(text: &Secret<String>) -> Result<Self, KeyError> {
        let wrong = |what| KeyError::ReadPrivate { form: Form::OpenPgp, what };
        let block = armor::single_block(text.expose(), armor::PRIVATE_KEY).map_err(wrong)?;
        let key = SignedSecretKey::from_bytes(block.as_slice()).map_err(|_| wrong("it is damaged"))?;
        match key.primary_key.secret_params() {
            SecretParams::Plain(_) => Ok(SigningKey { key: Secret::new(key) }),
            SecretParams::Encrypted(_) => Err(wrong("it is locked with a passphrase")),
        }
    }

    /// The key as an armoured block, for a 0600 file.
    pub fn to_armor(&self) -> Result<Secret<String>, KeyError> {
        self.key.expose().to_armored_string(ArmorOptions::default()).map(Secret::new).map_err(failed)
    }

    /// The certificate, for those who are to trust it.
    pub fn public(&self) -> Keyring {
        Keyring { certificates: vec![self.key.expose().to_public_key()] }
    }

    /// The certificate as an armoured block.
    pub fn public_armor(&self) -> Result<String, KeyError> {
        self.key.expose().to_public_key().to_armored_string(ArmorOptions::default()).map_err(failed)
    }

    /// The fingerprint, in upper-case hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        format!("{:X}", self.key.expose().fingerprint())
    }

    /// A detached signature in armour; the same data at the same time gives the same text.
    pub fn sign(&self, data: &[u8], now: OffsetDateTime) -> Result<String, KeyError> {
        let key = &self.key.expose().primary_key;
        let mut config = SignatureConfig::v4(SignatureType::Binary, key.algorithm(), HashAlgorithm::Sha512);
        config.hashed_subpackets = dated_by(key, timestamp(now)?).map_err(failed)?;
        config.unhashed_subpackets = vec![issuer(key).map_err(failed)?];
        let signature = config.sign(key, &Password::empty(), data).map_err(failed)?;
        DetachedSignature::new(signature).to_armored_string(ArmorOptions::default()).map_err(failed)
    }
}

fn make(
    seed: [u8; 32],
    owner: &str,
    created: Timestamp,
    lifetime: Option<u64>,
) -> Result<SignedSecretKey, pgp::errors::Error> {
    let secret = ed25519::SecretKey::try_from_bytes(seed, Mode::EdDSALegacy)?;
    let secret = PlainSecretParams::EdDSALegacy(eddsa_legacy::SecretKey::Ed25519(secret));
    let public = PublicParams::try_from(&secret)?;
    let inner = PubKeyInner::new(KeyVersion::V4, PublicKeyAlgorithm::EdDSALegacy, created, None, public)?;
    let public = PublicKey::from_inner(inner)?;
    let key = SecretKey::new(public.clone(), SecretParams::Plain(secret))?;
    let id = UserId::from_str(Default::default(), owner)?;
    let mut flags = KeyFlags::default();
    flags.set_certify(true);
    flags.set_sign(true);
    let mut config = SignatureConfig::v4(SignatureType::CertPositive, key.algorithm(), HashAlgorithm::Sha512);
    config.hashed_subpackets = dated_by(&key, created)?;
    config.hashed_subpackets.push(Subpacket::regular(SubpacketData::KeyFlags(flags))?);
    config.hashed_subpackets.push(Subpacket::regular(SubpacketData::IsPrimary(true))?);
    if let Some(seconds) = lifetime {
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        let expiry = SubpacketData::KeyExpirationTime(pgp::types::Duration::from_secs(seconds));
        config.hashed_subpackets.push(Subpacket::regular(expiry)?);
    }
    config.unhashed_subpackets = vec![issuer(&key)?];
    let signature = config.sign_certification(&key, &public, &Password::empty(), id.tag(), &id)?;
    let details = SignedKeyDetails::new(vec![], vec![], vec![id.into_signed(signature)], vec![]);
    Ok(SignedSecretKey::new(key, details, vec![], vec![]))
}

fn dated_by(key: &SecretKey, created: Timestamp) -> Result<Vec<Subpacket>, pgp::errors::Error> {
    Ok(vec![
        Subpacket::critical(SubpacketData::SignatureCreationTime(created))?,
        Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint()))?,
    ])
}

fn issuer(key: &SecretKey) -> Result<Subpacket, pgp::errors::Error> {
    Subpacket::regular(SubpacketData::IssuerKeyId(key.legacy_key_id()))
}

fn timestamp(time: OffsetDateTime) -> Result<Timestamp, KeyError> {
    u32::try_from(time.unix_timestamp()).map(Timestamp::from_secs).map_err(|_| KeyError::Date)
}

fn failed(source: pgp::errors::Error) -> KeyError {
    KeyError::Make { source: Box::new(source) }
}
