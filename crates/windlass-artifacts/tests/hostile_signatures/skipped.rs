use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::Duration;
use windlass_artifacts::signature::openpgp::{Keyring, SigningKey};
use windlass_artifacts::signature::{
    Checked, Form, Reason, SignatureError, Signatures, SigningKeys, Trusted, Verification, check,
};

use crate::maker::{DATA, NOW};

fn keys() -> SigningKeys {
    SigningKeys::generate(&mut ChaCha20Rng::from_seed([9; 32]), "windlass bucket", NOW - Duration::DAY).unwrap()
}

#[test]
fn skipping_takes_anything_and_says_so_loudly() {
    let checked = check(Verification::Skipped, &Trusted::default(), "the manifest", DATA, Signatures::default(), NOW);
    let Ok(Checked::Unverified(warning)) = checked else { panic!("{checked:?}") };
    assert_eq!(warning.subject(), "the manifest");
    assert!(warning.to_string().contains("WITHOUT") && warning.to_string().contains("--no-verify-signatures"));
}

#[test]
fn every_form_that_is_trusted_is_wanted() {
    let pair = keys().sign("torcx_manifest.json", DATA, NOW).unwrap();
    let (asc, minisig) = (Some(pair.asc.as_bytes()), Some(pair.minisig.as_bytes()));
    let ask = |trusted: &Trusted, signatures| check(Verification::Required, trusted, "m", DATA, signatures, NOW);
    let both = keys().trusted();
    let Ok(Checked::Signed(signed)) = ask(&both, Signatures { asc, minisig }) else { panic!() };
    assert_eq!(signed.openpgp.unwrap().fingerprint, keys().openpgp.fingerprint());
    assert!(signed.minisign.is_some());
    let missing = |form| SignatureError::Missing { form };
    assert_eq!(ask(&both, Signatures { asc, minisig: None }).unwrap_err(), missing(Form::Minisign));
    assert_eq!(ask(&both, Signatures { asc: None, minisig }).unwrap_err(), missing(Form::OpenPgp));
    assert_eq!(ask(&Trusted::default(), Signatures { asc, minisig }).unwrap_err(), SignatureError::FindTrustedKey);
    let one = Trusted { minisign: None, ..both };
    assert!(ask(&one, Signatures { asc, minisig: None }).is_ok());
}

#[test]
fn our_own_keys_survive_their_files_and_are_reproducible() {
    let key = keys().openpgp;
    assert_eq!(SigningKey::parse(&key.to_armor().unwrap()).unwrap(), key);
    let ring = Keyring::parse(&key.public_armor().unwrap()).unwrap();
    assert_eq!(ring, key.public());
    assert_eq!(keys(), keys());
    assert_eq!(key.sign(DATA, NOW).unwrap(), key.sign(DATA, NOW).unwrap());
    assert!(!format!("{key:?}").contains("Ed25519"), "{key:?}");
    let public = windlass_spec::Secret::new(key.public_armor().unwrap());
    assert!(SigningKey::parse(&public).is_err());
}

#[test]
fn our_own_keys_can_have_an_end() {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let year = std::time::Duration::from_secs(365 * 86_400);
    let key = SigningKey::generate(&mut rng, "windlass bucket", NOW, Some(year)).unwrap();
    let trusted = Trusted { openpgp: Some(key.public()), minisign: None };
    let asc = key.sign(DATA, NOW).unwrap();
    let at = |now| {
        check(Verification::Required, &trusted, "m", DATA, Signatures { asc: Some(asc.as_bytes()), minisig: None }, now)
    };
    assert!(at(NOW + Duration::days(364)).is_ok());
    let expired = at(NOW + Duration::days(365)).unwrap_err();
    assert!(matches!(expired, SignatureError::AcceptSignature { reason: Reason::KeyExpired, .. }), "{expired:?}");
    let early = at(NOW - Duration::DAY).unwrap_err();
    assert!(matches!(early, SignatureError::AcceptSignature { .. }), "{early:?}");
    assert!(SigningKey::generate(&mut rng, "x", time::macros::datetime!(1960-01-01 0:00 UTC), None).is_err());
}
