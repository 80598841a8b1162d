//! Whatever a server calls a signature, a key or a keyring: no panic, and nothing that was never signed counts.
#![no_main]

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use libfuzzer_sys::fuzz_target;
use time::OffsetDateTime;
use time::macros::datetime;
use windlass_artifacts::signature::{SigningKeys, Trusted, minisign, openpgp};

const NOW: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
const CREATED: OffsetDateTime = datetime!(2026-11-01 12:00 UTC);

static TRUSTED: LazyLock<Trusted> = LazyLock::new(|| {
    let keys = SigningKeys::generate(&mut ChaCha20Rng::from_seed([1; 32]), "fuzz", CREATED);
    keys.expect("a key of this century").trusted()
});

/// A fuzzer does not find base64 by itself.
fn armored(kind: &str, data: &[u8]) -> String {
    format!("-----BEGIN PGP {kind}-----\n\n{}\n-----END PGP {kind}-----\n", STANDARD.encode(data))
}

fuzz_target!(|data: &[u8]| {
    let keys = TRUSTED.openpgp.as_ref().expect("we trust one");
    let asc = armored("SIGNATURE", data);
    for asc in [data, asc.as_bytes()] {
        assert!(openpgp::verify(keys, b"never signed", Some(asc), NOW).is_err());
    }
    let key = TRUSTED.minisign.as_ref().expect("we trust one");
    assert!(minisign::verify(key, b"never signed", Some(data), NOW).is_err());
    // A hostile keyring is not among the threats, but reading one must not bring anything down either.
    if let Ok(keys) = openpgp::Keyring::parse(&armored("PUBLIC KEY BLOCK", data)) {
        let _ = openpgp::verify(&keys, b"never signed", Some(asc.as_bytes()), NOW).is_ok();
    }
    let _ = minisign::PublicKey::parse(&String::from_utf8_lossy(data)).is_ok();
});
