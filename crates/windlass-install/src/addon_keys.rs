//! The keys that sign the cluster's own bucket of runtime addons: an OpenPGP and a minisign pair, drawn once by `prepare`.
//! A user may put own ones in their place before launch; what machines are told to trust then follows.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::{Duration, OffsetDateTime};
use windlass_artifacts::signature::openpgp::Keyring;
use windlass_artifacts::signature::{KeyError, SigningKeys, minisign, openpgp};
use windlass_assets::asset::{Asset as _, AssetError};
use windlass_assets::{AddonKeys, KeyTexts};
use windlass_pki::KeySource;

/// Keys begin a little before now, as certificates do: for clocks that are behind.
const EARLIER: Duration = Duration::HOUR;

/// The keys of a cluster: those that are there, or new ones that carry the owner's name. The public halves are kept to the
/// byte while they hold the private one's, so that a user may have machines trust more OpenPGP keys than the cluster's own.
pub(crate) fn make(
    previous: Option<&AddonKeys>,
    owner: &str,
    keys: &mut impl KeySource,
    now: OffsetDateTime,
) -> Result<AddonKeys, AssetError> {
    let Some(previous) = previous else { return draw(owner, keys, now) };
    let signing = private_halves(previous)?;
    let mut made = previous.clone();
    if !holds_openpgp(&made.openpgp.public, &signing) {
        made.openpgp.public = signing.openpgp.public_armor().map_err(|source| failed(Box::new(source)))?;
    }
    if !holds_minisign(&made.minisign.public, &signing) {
        made.minisign.public = signing.minisign.public().to_text();
    }
    Ok(made)
}

/// The keys as they sign. What machines trust must be what signs, or no machine would take anything.
pub fn signing(keys: &AddonKeys) -> Result<SigningKeys, AssetError> {
    let signing = private_halves(keys)?;
    for (path, private, holds) in [
        (AddonKeys::openpgp_public(), AddonKeys::openpgp_private(), holds_openpgp(&keys.openpgp.public, &signing)),
        (AddonKeys::minisign_public(), AddonKeys::minisign_private(), holds_minisign(&keys.minisign.public, &signing)),
    ] {
        if !holds {
            return Err(unread(path, format!("the public half of {private} is not in it")));
        }
    }
    Ok(signing)
}

fn draw(owner: &str, keys: &mut impl KeySource, now: OffsetDateTime) -> Result<AddonKeys, AssetError> {
    let mut rng = ChaCha20Rng::from_seed(*keys.seed("addons").expose());
    let drawn = SigningKeys::generate(&mut rng, owner, now - EARLIER);
    let texts = |drawn: SigningKeys| {
        let openpgp = KeyTexts { private: drawn.openpgp.to_armor()?, public: drawn.openpgp.public_armor()? };
        let public = drawn.minisign.public().to_text();
        Ok(AddonKeys { openpgp, minisign: KeyTexts { private: drawn.minisign.to_text(), public } })
    };
    drawn.and_then(texts).map_err(|source: KeyError| failed(Box::new(source)))
}

fn private_halves(keys: &AddonKeys) -> Result<SigningKeys, AssetError> {
    let openpgp = openpgp::SigningKey::parse(&keys.openpgp.private);
    let openpgp = openpgp.map_err(|error| unread(AddonKeys::openpgp_private(), error.to_string()))?;
    let minisign = minisign::SigningKey::parse(&keys.minisign.private);
    let minisign = minisign.map_err(|error| unread(AddonKeys::minisign_private(), error.to_string()))?;
    Ok(SigningKeys { openpgp, minisign })
}

fn holds_openpgp(public: &str, signing: &SigningKeys) -> bool {
    Keyring::parse(public).is_ok_and(|ring| ring.fingerprints().contains(&signing.openpgp.fingerprint()))
}

fn holds_minisign(public: &str, signing: &SigningKeys) -> bool {
    minisign::PublicKey::parse(public).is_ok_and(|key| key == signing.minisign.public())
}

fn unread(path: String, reason: String) -> AssetError {
    AssetError::ReadAsset { path, asset: AddonKeys::NAME, reason }
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> AssetError {
    AssetError::MakeAddonKeys { source }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use windlass_artifacts::signature::{Signatures, Verification, check};
    use windlass_pki::{RandomKeys, SeededKeys};
    use windlass_spec::Secret;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);

    fn drawn(seed: &str) -> AddonKeys {
        make(None, "demo-00000", &mut SeededKeys::new(seed), NOW).unwrap()
    }

    #[test]
    fn the_same_seed_and_moment_draw_the_same_keys_and_nothing_else_does() {
        assert_eq!(drawn("a"), drawn("a"));
        assert_ne!(drawn("a"), drawn("b"));
        let mut random = RandomKeys::from_os().unwrap();
        let mut chance = || make(None, "demo-00000", &mut random, NOW).unwrap();
        assert_ne!(chance(), chance());
    }

    #[test]
    fn what_they_sign_is_trusted_by_whoever_has_the_public_halves() {
        let keys = drawn("a");
        let signed = signing(&keys).unwrap().sign("file", b"data", NOW).unwrap();
        let trusted = windlass_artifacts::signature::Trusted {
            openpgp: Some(Keyring::parse(&keys.openpgp.public).unwrap()),
            minisign: Some(minisign::PublicKey::parse(&keys.minisign.public).unwrap()),
        };
        let signatures = Signatures { asc: Some(signed.asc.as_bytes()), minisig: Some(signed.minisig.as_bytes()) };
        for (data, is_good) in [(b"data".as_slice(), true), (b"date", false)] {
            let checked = check(Verification::Required, &trusted, "file", data, signatures, NOW);
            assert_eq!(checked.is_ok(), is_good);
        }
    }

    #[test]
    fn keys_that_are_there_are_kept_and_public_halves_follow_private_ones() {
        let (mine, other) = (drawn("a"), drawn("b"));
        let again = |keys: &AddonKeys| make(Some(keys), "renamed", &mut SeededKeys::new("c"), NOW).unwrap();
        assert_eq!(again(&mine), mine);
        let replaced = AddonKeys {
            openpgp: KeyTexts { private: other.openpgp.private.clone(), public: mine.openpgp.public.clone() },
            minisign: KeyTexts { private: other.minisign.private.clone(), public: mine.minisign.public.clone() },
        };
        assert!(signing(&replaced).is_err());
        assert_eq!(again(&replaced), other);
        let mut more = mine.clone();
        more.openpgp.public.push_str(&other.openpgp.public);
        assert_eq!(again(&more), more, "a second key to trust is a user's wish");
        assert!(signing(&more).is_ok());
    }

    #[test]
    fn keys_that_are_none_or_do_not_belong_together_are_named() {
        let (mine, other) = (drawn("a"), drawn("b"));
        let with = |change: &dyn Fn(&mut AddonKeys)| {
            let mut keys = mine.clone();
            change(&mut keys);
            keys
        };
        let cases = [
            (with(&|k| k.openpgp.private = Secret::new("x".into())), "assets/addons/signing-key.asc"),
            (with(&|k| k.minisign.private = Secret::new("x".into())), "assets/addons/signing-key.minisign"),
            (with(&|k| k.openpgp.public = other.openpgp.public.clone()), "assets/addons/public-key.asc"),
            (with(&|k| k.openpgp.public = String::new()), "assets/addons/public-key.asc"),
            (with(&|k| k.minisign.public = other.minisign.public.clone()), "assets/addons/public-key.minisign"),
        ];
        for (keys, path) in cases {
            let error = signing(&keys).unwrap_err().to_string();
            assert!(error.starts_with(path), "{error}");
        }
    }
}
