use std::sync::LazyLock;

use pgp::composed::{CleartextSignedMessage, KeyType};
use pgp::crypto::ecc_curve::ECCCurve;
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Notation, SignatureType, SubpacketData};
use pgp::types::{Duration, KeyDetails as _, Password};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use windlass_artifacts::signature::openpgp::{Keyring, verify};
use windlass_artifacts::signature::{Form, Reason, SignatureError};

use crate::maker::*;

/// The RSA keys cost more than everything else here, so they are made once.
static RSA_2048: LazyLock<Maker> = LazyLock::new(|| rsa(2048));
static RSA_1024: LazyLock<Maker> = LazyLock::new(|| rsa(1024));

fn rsa(bits: u32) -> Maker {
    let mut maker = Maker::new(KeyType::Rsa(bits), 1, days(-10));
    maker.certify(HashAlgorithm::Sha256, days(-10), vec![flags(true)]);
    maker
}

type Refused = fn(&SignatureError) -> bool;

struct Case {
    what: &'static str,
    keys: Keyring,
    asc: Option<Vec<u8>>,
    refused: Refused,
}

fn case(what: &'static str, keys: &Maker, asc: Vec<u8>, refused: Refused) -> Case {
    Case { what, keys: keys.keyring(), asc: Some(asc), refused }
}

fn reason(error: &SignatureError) -> Option<Reason> {
    match error {
        SignatureError::AcceptSignature { reason, .. } => Some(*reason),
        _ => None,
    }
}

fn unreadable(error: &SignatureError) -> bool {
    matches!(error, SignatureError::ReadSignature { form: Form::OpenPgp, .. })
}

fn other_data(error: &SignatureError) -> bool {
    matches!(error, SignatureError::VerifyData { .. })
}

fn strange(error: &SignatureError) -> bool {
    matches!(error, SignatureError::MatchKey { .. })
}

fn keys() -> Vec<Case> {
    let (good, other) = (Maker::good(1), Maker::good(2));
    let mut expired = Maker::bare(3);
    expired.certify(HashAlgorithm::Sha256, days(-10), vec![flags(true), expiry(5)]);
    let mut revoked = Maker::good(4);
    revoked.revoke();
    let mut future = Maker::new(KeyType::Ed25519Legacy, 5, days(1));
    future.certify(HashAlgorithm::Sha256, days(-1), vec![flags(true)]);
    let mut certifier = Maker::bare(6);
    certifier.certify(HashAlgorithm::Sha256, days(-10), vec![flags(false)]);
    let mut silent = Maker::bare(7);
    silent.certify(HashAlgorithm::Sha256, days(-10), vec![]);
    let mut weakly_bound = rsa_bare();
    weakly_bound.certify(HashAlgorithm::Sha1, days(-10), vec![flags(true)]);
    let mut stolen = Maker::bare(8);
    stolen.certified_by(&other);
    let mut withdrawn = Maker::good(9);
    withdrawn.revoke_user();
    let mut not_yet_bound = Maker::bare(10);
    not_yet_bound.certify(HashAlgorithm::Sha256, days(1), vec![flags(true)]);
    let mut koblitz = Maker::new(KeyType::ECDSA(ECCCurve::Secp256k1), 11, days(-10));
    koblitz.certify(HashAlgorithm::Sha256, days(-10), vec![flags(true)]);
    let mut dsa = Maker::dsa();
    dsa.certify(HashAlgorithm::Sha256, days(-10), vec![flags(true)]);
    let bare = Maker::bare(12);
    let mut replaced = Maker::bare(13);
    replaced.certify(HashAlgorithm::Sha256, days(-10), vec![flags(true)]);
    replaced.certify(HashAlgorithm::Sha256, days(-2), vec![flags(true), expiry(9)]);
    let own = |maker: &Maker| asc(&[maker.signature()]);
    vec![
        case("by a key that is not trusted", &good, own(&other), strange),
        case("by an expired key", &expired, own(&expired), |e| reason(e) == Some(Reason::KeyExpired)),
        case("by a key whose newest word is that it expired", &replaced, own(&replaced), |e| {
            reason(e) == Some(Reason::KeyExpired)
        }),
        case("by a revoked key", &revoked, own(&revoked), |e| reason(e) == Some(Reason::KeyRevoked)),
        case("by a key from the future", &future, own(&future), |e| reason(e) == Some(Reason::KeyNotYet)),
        case("by a key that only certifies", &certifier, own(&certifier), |e| reason(e) == Some(Reason::KeyPurpose)),
        case("by a key that is for nothing", &silent, own(&silent), |e| reason(e) == Some(Reason::KeyPurpose)),
        case("by a key bound with SHA-1", &weakly_bound, own(&weakly_bound), |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by a key that another one certified", &stolen, own(&stolen), |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by a key whose user was revoked", &withdrawn, own(&withdrawn), |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by a key bound tomorrow", &not_yet_bound, own(&not_yet_bound), |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by a key without self-signature", &bare, own(&bare), |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by RSA with 1024 bits", &RSA_1024, own(&RSA_1024), |e| reason(e) == Some(Reason::KeyWeak)),
        case("by DSA", &dsa, own(&dsa), |e| reason(e) == Some(Reason::KeyWeak)),
        case("by a Koblitz curve", &koblitz, own(&koblitz), |e| reason(e) == Some(Reason::KeyWeak)),
    ]
}

fn rsa_bare() -> Maker {
    Maker::of(RSA_2048.key.clone())
}

fn subkeys() -> Vec<Case> {
    let with = |seed, plan| {
        let mut maker = Maker::good(seed);
        let subkey = maker.subkey(seed + 100, plan, None);
        let signed = asc(&[sign(&subkey, HashAlgorithm::Sha256, usual(&subkey), DATA)]);
        (maker, signed)
    };
    let (encrypting, by_encrypting) = with(20, Subkey { sign: false, ..SIGNING });
    let (one_sided, by_one_sided) = with(21, Subkey { back: false, ..SIGNING });
    let (expired, by_expired) = with(22, Subkey { lifetime: Some(5), ..SIGNING });
    let (revoked, by_revoked) = with(23, Subkey { revoked: true, ..SIGNING });
    let stranger = Maker::good(24);
    let mut adopted = Maker::good(25);
    let subkey = adopted.subkey(125, SIGNING, Some(&stranger));
    let by_adopted = asc(&[sign(&subkey, HashAlgorithm::Sha256, usual(&subkey), DATA)]);
    let mut dead = Maker::good(26);
    let subkey = dead.subkey(126, SIGNING, None);
    dead.revoke();
    let by_dead = asc(&[sign(&subkey, HashAlgorithm::Sha256, usual(&subkey), DATA)]);
    vec![
        case("by a subkey that may not sign", &encrypting, by_encrypting, |e| reason(e) == Some(Reason::KeyPurpose)),
        case("by a subkey that never agreed", &one_sided, by_one_sided, |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by an expired subkey", &expired, by_expired, |e| reason(e) == Some(Reason::KeyExpired)),
        case("by a revoked subkey", &revoked, by_revoked, |e| reason(e) == Some(Reason::KeyRevoked)),
        case("by a subkey that another key bound", &adopted, by_adopted, |e| reason(e) == Some(Reason::KeyUnbound)),
        case("by a subkey of a revoked key", &dead, by_dead, |e| reason(e) == Some(Reason::KeyRevoked)),
    ]
}

fn signatures() -> Vec<Case> {
    let good = Maker::good(1);
    let with = |parts: Vec<SubpacketData>| {
        let parts = parts.into_iter().map(part).collect();
        asc(&[sign(&good.key, HashAlgorithm::Sha256, parts, DATA)])
    };
    let issuer = || SubpacketData::IssuerFingerprint(good.key.fingerprint());
    let time = |at| SubpacketData::SignatureCreationTime(days(at));
    let lifetime = SubpacketData::SignatureExpirationTime(Duration::from_secs(3600));
    let weak = |hash| asc(&[sign(&RSA_2048.key, hash, usual(&RSA_2048.key), DATA)]);
    let text = asc(&[sign_as(&good.key, SignatureType::Text, HashAlgorithm::Sha256, usual(&good.key), DATA)]);
    let with_critical = |data| {
        let mut parts = usual(&good.key);
        parts.push(critical(data));
        asc(&[sign(&good.key, HashAlgorithm::Sha256, parts, DATA)])
    };
    let notation = Notation { readable: true, name: "x@example.org".into(), value: "y".into() };
    let other = Maker::good(2);
    let in_its_name = sign(&other.key, HashAlgorithm::Sha256, usual(&good.key), DATA);
    let other_file = sign(&good.key, HashAlgorithm::Sha256, usual(&good.key), b"another manifest");
    let is_weak: Refused = |e| reason(e) == Some(Reason::WeakHash);
    vec![
        case("over other data", &good, asc(std::slice::from_ref(&other_file)), other_data),
        case("in the name of a trusted key", &good, asc(std::slice::from_ref(&in_its_name)), other_data),
        case("with a flipped bit", &good, flipped(&good), other_data),
        case("a good one and a forged one", &good, asc(&[good.signature(), in_its_name.clone()]), other_data),
        case("a forged one and a good one", &good, asc(&[in_its_name, good.signature()]), other_data),
        case("a good one and one over other data", &good, asc(&[good.signature(), other_file]), other_data),
        case("by strangers only", &good, asc(&[other.signature(), Maker::good(14).signature()]), strange),
        case("by nobody named", &good, with(vec![time(0)]), strange),
        case("made tomorrow", &good, with(vec![time(1), issuer()]), |e| reason(e) == Some(Reason::Future)),
        case("older than its key", &good, with(vec![time(-11), issuer()]), |e| reason(e) == Some(Reason::BeforeKey)),
        case("expired", &good, with(vec![time(-1), issuer(), lifetime]), |e| reason(e) == Some(Reason::Expired)),
        case("without a time", &good, with(vec![issuer()]), |e| reason(e) == Some(Reason::NoTime)),
        case("with MD5", &RSA_2048, weak(HashAlgorithm::Md5), is_weak),
        case("with SHA-1", &RSA_2048, weak(HashAlgorithm::Sha1), is_weak),
        case("with RIPEMD-160", &RSA_2048, weak(HashAlgorithm::Ripemd160), is_weak),
        case("with SHA-224", &RSA_2048, weak(HashAlgorithm::Sha224), is_weak),
        case("over text", &good, text, |e| reason(e) == Some(Reason::Kind)),
        case("over a key", &good, asc(&[good.direct()]), |e| reason(e) == Some(Reason::Kind)),
        case("with a critical notation", &good, with_critical(SubpacketData::Notation(notation)), |e| {
            reason(e) == Some(Reason::Critical)
        }),
        case("with a critical experiment", &good, with_critical(SubpacketData::Experimental(101, "x".into())), |e| {
            reason(e) == Some(Reason::Critical)
        }),
    ]
}

/// The signature's own numbers are the last bytes of the packet.
fn flipped(maker: &Maker) -> Vec<u8> {
    let mut bytes = packets(&[maker.signature()]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    armor("SIGNATURE", &bytes)
}

fn files() -> Vec<Case> {
    let good = Maker::good(1);
    let whole = asc(&[good.signature()]);
    let text = String::from_utf8(whole.clone()).unwrap();
    let bytes = packets(&[good.signature()]);
    let literal = [&[0xcb, 14, b'b', 0, 0, 0, 0, 0][..], b"contents"].concat();
    let clear = CleartextSignedMessage::sign(StdRng::seed_from_u64(1), "the manifest", &good.key, &Password::empty());
    let clear = clear.unwrap().to_armored_string(Default::default()).unwrap();
    let missing = Case {
        what: "missing",
        keys: good.keyring(),
        asc: None,
        refused: |e| *e == SignatureError::Missing { form: Form::OpenPgp },
    };
    vec![
        missing,
        case("an empty file", &good, Vec::new(), unreadable),
        case("an empty block", &good, armor("SIGNATURE", b""), unreadable),
        case("without its last line", &good, text.lines().take(3).collect::<Vec<_>>().join("\n").into(), unreadable),
        case("with garbled base64", &good, text.replacen("\n\n", "\n\n!!", 1).into(), unreadable),
        case("cut in the packet", &good, armor("SIGNATURE", &bytes[..bytes.len() - 20]), unreadable),
        case("not armoured", &good, bytes.clone(), unreadable),
        case("clear-signed", &good, clear.into(), unreadable),
        case("a message", &good, armor("MESSAGE", &[bytes.clone(), literal.clone()].concat()), unreadable),
        case("a message dressed as a signature", &good, armor("SIGNATURE", &[bytes, literal].concat()), unreadable),
        case("a public key", &good, good.armored().into(), unreadable),
        case("text before it", &good, format!("hello\n{text}").into(), unreadable),
        case("text after it", &good, format!("{text}hello\n").into(), unreadable),
        case("two blocks", &good, [whole.clone(), whole.clone()].concat(), unreadable),
        case("too many signatures", &good, asc(&vec![good.signature(); 17]), unreadable),
        case("a huge file", &good, [whole, vec![b'\n'; 1 << 17]].concat(), unreadable),
    ]
}

#[test]
fn openpgp_signatures_that_must_not_count_are_refused_for_their_reason() {
    let cases: Vec<Case> = [keys(), subkeys(), signatures(), files()].into_iter().flatten().collect();
    assert!(cases.len() >= 25, "{}", cases.len());
    for Case { what, keys, asc, refused } in cases {
        let error = verify(&keys, DATA, asc.as_deref(), NOW).expect_err(what);
        assert!(refused(&error), "a signature {what}: {error:?}");
        assert!(error.is_trust(), "{what}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn good_openpgp_signatures_of_every_strong_kind_count() {
    let mut makers = vec![Maker::good(1)];
    for (seed, kind) in
        [(31, KeyType::ECDSA(ECCCurve::P256)), (32, KeyType::ECDSA(ECCCurve::P384)), (33, KeyType::Ed25519)]
    {
        let mut maker = Maker::new(kind, seed, days(-10));
        maker.certify(HashAlgorithm::Sha512, days(-10), vec![flags(true), expiry(30)]);
        makers.push(maker);
    }
    let stranger = Maker::good(2);
    for maker in makers.iter().chain([&*RSA_2048]) {
        let fingerprint = format!("{:X}", maker.key.fingerprint());
        let own = sign(&maker.key, HashAlgorithm::Sha512, usual(&maker.key), DATA);
        for signatures in [vec![own.clone()], vec![stranger.signature(), own.clone()], vec![own, stranger.signature()]]
        {
            let signed = verify(&maker.keyring(), DATA, Some(&asc(&signatures)), NOW).unwrap();
            assert_eq!(signed.fingerprint, fingerprint);
            assert_eq!(signed.created, NOW - time::Duration::HOUR);
        }
    }
}

#[test]
fn a_signing_subkey_counts_in_its_primarys_name() {
    let mut maker = Maker::good(1);
    let subkey = maker.subkey(101, Subkey { lifetime: Some(30), ..SIGNING }, None);
    let signature = asc(&[sign(&subkey, HashAlgorithm::Sha256, usual(&subkey), DATA)]);
    let signed = verify(&maker.keyring(), DATA, Some(&signature), NOW).unwrap();
    assert_eq!(vec![signed.fingerprint], maker.keyring().fingerprints());
}

#[test]
fn one_of_several_trusted_keys_is_enough() {
    let (one, two) = (Maker::good(1), Maker::good(2));
    let both = Keyring::parse(&format!("{}\n{}", one.armored(), two.armored())).unwrap();
    assert_eq!(both.fingerprints().len(), 2);
    for maker in [&one, &two] {
        verify(&both, DATA, Some(&asc(&[maker.signature()])), NOW).unwrap();
    }
    assert!(verify(&both, DATA, Some(&asc(&[Maker::good(3).signature()])), NOW).is_err());
}

#[test]
fn what_is_not_a_public_key_is_not_a_keyring() {
    let good = Maker::good(1);
    let bytes = packets(&[good.signature()]);
    let texts = [
        String::new(),
        "hello".to_owned(),
        String::from_utf8(armor("PUBLIC KEY BLOCK", b"")).unwrap(),
        String::from_utf8(armor("PUBLIC KEY BLOCK", &bytes)).unwrap(),
        good.armored().replace("PUBLIC", "PRIVATE"),
        good.armored().replacen("\n\n", "\n\n!", 1),
        " ".repeat(2 << 20),
    ];
    for text in texts {
        assert!(Keyring::parse(&text).is_err(), "{text:.200}");
    }
}
