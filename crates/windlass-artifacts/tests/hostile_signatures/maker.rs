//! Makes OpenPGP keys and signatures of every kind, good and bad, past the checks of our own code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgp::composed::{ArmorOptions, KeyType, SignedKeyDetails, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{
    KeyFlags, Packet, PacketParser, PacketTrait, PubKeyInner, PublicKey, PublicSubkey, SecretKey, SecretSubkey,
    Signature, SignatureConfig, SignatureType, Subpacket, SubpacketData, UserId,
};
use pgp::types::{Duration, KeyDetails, KeyVersion, Password, SigningKey, Timestamp};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use time::OffsetDateTime;
use time::macros::datetime;
use windlass_artifacts::signature::openpgp::Keyring;

pub const NOW: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);
pub const DATA: &[u8] = b"the manifest";
pub const DAY: i64 = 86_400;

/// A moment as OpenPGP has it, in days from now.
pub fn days(days: i64) -> Timestamp {
    Timestamp::from_secs(u32::try_from(NOW.unix_timestamp() + days * DAY).unwrap())
}

pub fn part(data: SubpacketData) -> Subpacket {
    Subpacket::regular(data).unwrap()
}

pub fn critical(data: SubpacketData) -> Subpacket {
    Subpacket::critical(data).unwrap()
}

pub fn expiry(days: i64) -> Subpacket {
    part(SubpacketData::KeyExpirationTime(Duration::from_secs(u32::try_from(days * DAY).unwrap())))
}

pub fn flags(sign: bool) -> Subpacket {
    let mut flags = KeyFlags::default();
    flags.set_certify(!sign);
    flags.set_sign(sign);
    part(SubpacketData::KeyFlags(flags))
}

fn config(key: &impl SigningKey, kind: SignatureType, hash: HashAlgorithm, parts: Vec<Subpacket>) -> SignatureConfig {
    let mut config = SignatureConfig::v4(kind, key.algorithm(), hash);
    config.hashed_subpackets = parts;
    config
}

/// A certificate in the making, with its private half.
pub struct Maker {
    pub key: SecretKey,
    certificate: SignedPublicKey,
}

impl Maker {
    pub fn new(kind: KeyType, seed: u64, created: Timestamp) -> Self {
        let (public, secret) = kind.generate(StdRng::seed_from_u64(seed)).unwrap();
        let inner = PubKeyInner::new(KeyVersion::V4, kind.to_alg(), created, None, public).unwrap();
        Maker::of(SecretKey::new(PublicKey::from_inner(inner).unwrap(), secret).unwrap())
    }

    /// An Ed25519 key, ten days old, that may sign.
    pub fn good(seed: u64) -> Self {
        let mut maker = Maker::new(KeyType::Ed25519Legacy, seed, days(-10));
        maker.certify(HashAlgorithm::Sha256, days(-10), vec![flags(true)]);
        maker
    }

    /// The same without a self-signature.
    pub fn bare(seed: u64) -> Self {
        Maker::new(KeyType::Ed25519Legacy, seed, days(-10))
    }

    pub fn of(key: SecretKey) -> Self {
        let details = SignedKeyDetails::new(vec![], vec![], vec![], vec![]);
        let certificate = SignedPublicKey::new(key.public_key().clone(), details, vec![]);
        Maker { key, certificate }
    }

    /// DSA with 1024 bits: the key of RFC 6979, A.2.1, as a packet.
    pub fn dsa() -> Self {
        let numbers = [
            "86F5CA03DCFEB225063FF830A0C769B9DD9D6153AD91D7CE27F787C43278B447E6533B86B18BED6E8A48B784A14C252C5BE0DBF60B86D638\
             5BD2F12FB763ED8873ABFD3F5BA2E0A8C0A59082EAC056935E529DAF7C610467899C77ADEDFC846C881870B7B19B2B58F9BE0521A17002E3\
             BDD6B86685EE90B3D9A1B02B782B1779",
            "996F967F6C8E388D9E28D01E205FBA957A5698B1",
            "07B0F92546150B62514BB771E2A0C0CE387F03BDA6C56B505209FF25FD3C133D89BBCD97E904E09114D9A7DEFDEADFC9078EA544D2E401AE\
             ECC40BB9FBBF78FD87995A10A1C27CB7789B594BA7EFB5C4326A9FE59A070E136DB77175464ADCA417BE5DCE2F40D10A46A3A3943F26AB7F\
             D9C0398FF8C76EE0A56826A8A88F1DBD",
            "5DF5E01DED31D0297E274E1691C192FE5868FEF9E19A84776454B100CF16F65392195A38B90523E2542EE61871C0440CB87C322FC4B4D2EC\
             5E1E7EC766E1BE8D4CE935437DC11C3C8FD426338933EBFE739CB3465F4D3668C5E473508253B1E682F65CBDC4FAE93C2EA212390E54905A\
             86E2223170B44EAA7DA5DD9FFCFB7F3B",
        ];
        let secret = mpi("411602CB19A6CCC34494D79D98EF1E7ED5AF25F7");
        let mut body = vec![4];
        body.extend_from_slice(&days(-10).as_secs().to_be_bytes());
        body.push(17);
        body.extend(numbers.iter().flat_map(|number| mpi(number)));
        body.push(0);
        body.extend_from_slice(&secret);
        let sum: u32 = secret.iter().map(|b| u32::from(*b)).sum();
        body.extend_from_slice(&(sum as u16).to_be_bytes());
        let mut bytes = vec![0xc0 | 5, 255];
        bytes.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(&body);
        match PacketParser::new(bytes.as_slice()).next() {
            Some(Ok(Packet::SecretKey(key))) => Maker::of(key),
            other => panic!("{other:?}"),
        }
    }

    pub fn certify(&mut self, hash: HashAlgorithm, created: Timestamp, parts: Vec<Subpacket>) -> &mut Self {
        let signature = self.certification(SignatureType::CertPositive, hash, created, parts);
        self.push_user(signature)
    }

    pub fn revoke_user(&mut self) -> &mut Self {
        let revocation = self.certification(SignatureType::CertRevocation, HashAlgorithm::Sha256, days(-1), vec![]);
        self.certificate.details.users[0].signatures.push(revocation);
        self
    }

    /// A self-signature that someone else made.
    pub fn certified_by(&mut self, other: &Maker) -> &mut Self {
        let parts = vec![part(SubpacketData::SignatureCreationTime(days(-10))), flags(true)];
        let config = config(&other.key, SignatureType::CertPositive, HashAlgorithm::Sha256, parts);
        let id = user();
        let public = self.key.public_key().clone();
        let made = config.sign_certification_third_party(&other.key, &Password::empty(), &public, id.tag(), &id);
        self.push_user(made.unwrap())
    }

    pub fn revoke(&mut self) -> &mut Self {
        let parts = vec![part(SubpacketData::SignatureCreationTime(days(-1)))];
        let config = config(&self.key, SignatureType::KeyRevocation, HashAlgorithm::Sha256, parts);
        let revocation = config.sign_key(&self.key, &Password::empty(), self.key.public_key()).unwrap();
        self.certificate.details.revocation_signatures.push(revocation);
        self
    }

    /// Adds a subkey bound by `binder`, which is the certificate itself in all honesty.
    pub fn subkey(&mut self, seed: u64, plan: Subkey, binder: Option<&Maker>) -> SecretSubkey {
        let kind = KeyType::Ed25519Legacy;
        let (public, secret) = kind.generate(StdRng::seed_from_u64(seed)).unwrap();
        let inner = PubKeyInner::new(KeyVersion::V4, kind.to_alg(), days(-10), None, public).unwrap();
        let public = PublicSubkey::from_inner(inner).unwrap();
        let subkey = SecretSubkey::new(public.clone(), secret).unwrap();
        let primary = self.key.public_key().clone();
        let time = || part(SubpacketData::SignatureCreationTime(days(-10)));
        let mut parts = vec![time(), flags(plan.sign)];
        parts.extend(plan.lifetime.map(expiry));
        if plan.back {
            let config = config(&subkey, SignatureType::KeyBinding, HashAlgorithm::Sha256, vec![time()]);
            let back = config.sign_primary_key_binding(&subkey, &public, &Password::empty(), &primary).unwrap();
            parts.push(part(SubpacketData::EmbeddedSignature(Box::new(back))));
        }
        let signer = binder.map_or(&self.key, |maker| &maker.key);
        let bind = |kind, parts| {
            let config = config(signer, kind, HashAlgorithm::Sha256, parts);
            config.sign_subkey_binding(signer, &primary, &Password::empty(), &public).unwrap()
        };
        let mut signatures = vec![bind(SignatureType::SubkeyBinding, parts)];
        if plan.revoked {
            signatures.push(bind(SignatureType::SubkeyRevocation, vec![time()]));
        }
        self.certificate.public_subkeys.push(SignedPublicSubKey::new(public, signatures));
        subkey
    }

    /// The certificate as a user would hand it to us.
    pub fn keyring(&self) -> Keyring {
        Keyring::parse(&self.armored()).unwrap()
    }

    pub fn armored(&self) -> String {
        self.certificate.to_armored_string(ArmorOptions::default()).unwrap()
    }

    pub fn signature(&self) -> Signature {
        sign(&self.key, HashAlgorithm::Sha256, usual(&self.key), DATA)
    }

    /// A signature over the key itself, offered as one over data.
    pub fn direct(&self) -> Signature {
        let config = config(&self.key, SignatureType::Key, HashAlgorithm::Sha256, usual(&self.key));
        config.sign_key(&self.key, &Password::empty(), self.key.public_key()).unwrap()
    }

    fn certification(
        &self,
        kind: SignatureType,
        hash: HashAlgorithm,
        created: Timestamp,
        parts: Vec<Subpacket>,
    ) -> Signature {
        let mut parts = parts;
        parts.push(part(SubpacketData::SignatureCreationTime(created)));
        let id = user();
        let config = config(&self.key, kind, hash, parts);
        config.sign_certification(&self.key, self.key.public_key(), &Password::empty(), id.tag(), &id).unwrap()
    }

    fn push_user(&mut self, signature: Signature) -> &mut Self {
        self.certificate.details.users.push(user().into_signed(signature));
        self
    }
}

pub struct Subkey {
    pub sign: bool,
    pub back: bool,
    pub lifetime: Option<i64>,
    pub revoked: bool,
}

pub const SIGNING: Subkey = Subkey { sign: true, back: true, lifetime: None, revoked: false };

fn user() -> UserId {
    UserId::from_str(Default::default(), "bucket").unwrap()
}

/// The parts of an honest signature, made an hour ago.
pub fn usual(key: &impl KeyDetails) -> Vec<Subpacket> {
    let hour_ago = Timestamp::from_secs(days(0).as_secs() - 3600);
    vec![
        part(SubpacketData::SignatureCreationTime(hour_ago)),
        part(SubpacketData::IssuerFingerprint(key.fingerprint())),
    ]
}

pub fn sign(key: &impl SigningKey, hash: HashAlgorithm, parts: Vec<Subpacket>, data: &[u8]) -> Signature {
    sign_as(key, SignatureType::Binary, hash, parts, data)
}

pub fn sign_as(
    key: &impl SigningKey,
    kind: SignatureType,
    hash: HashAlgorithm,
    parts: Vec<Subpacket>,
    data: &[u8],
) -> Signature {
    config(key, kind, hash, parts).sign(key, &Password::empty(), data).unwrap()
}

/// Signature packets, one after the other.
pub fn packets(signatures: &[Signature]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for signature in signatures {
        signature.to_writer_with_header(&mut bytes).unwrap();
    }
    bytes
}

pub fn armor(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let encoded = STANDARD.encode(bytes);
    let lines: Vec<&str> = encoded.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PGP {kind}-----\n\n{}\n-----END PGP {kind}-----\n", lines.join("\n")).into_bytes()
}

pub fn asc(signatures: &[Signature]) -> Vec<u8> {
    armor("SIGNATURE", &packets(signatures))
}

fn mpi(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    let bits = bytes.len() * 8 - bytes[0].leading_zeros() as usize;
    [u16::try_from(bits).unwrap().to_be_bytes().to_vec(), bytes].concat()
}
