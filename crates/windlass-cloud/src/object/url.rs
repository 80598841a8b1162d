//! URLs that open one object for a while: the key and the time of expiry, signed with a secret of the cluster.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use thiserror::Error;
use time::OffsetDateTime;

use super::ObjectKey;

/// Makes and checks the URLs of one cluster's objects.
pub struct UrlSigner(hmac::Key);

/// Why an object is not handed out. The answer to the world is the same for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// No signature, or not one of ours for this key and this time.
    #[error("the signature is not valid")]
    Signature,
    /// It was valid once.
    #[error("the URL has expired")]
    Expired,
}

// By hand, so that the secret is never shown.
impl fmt::Debug for UrlSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlSigner(..)")
    }
}

impl UrlSigner {
    /// Signs with this secret, which should be 32 random bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The URL of the object at a server (`http://10.0.0.1`), good until the whole second of `expires`.
    pub fn url(&self, server: &str, key: &ObjectKey, expires: OffsetDateTime) -> String {
        let expires = expires.unix_timestamp();
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, message(key, expires).as_bytes()));
        format!("{}/o/{key}?expires={expires}&signature={signature}", server.trim_end_matches('/'))
    }

    /// Whether the two parameters of a URL open this object now.
    pub fn verify(&self, key: &ObjectKey, expires: &str, signature: &str, now: OffsetDateTime) -> Result<(), Denied> {
        let expires: i64 = expires.parse().map_err(|_| Denied::Signature)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Denied::Signature)?;
        hmac::verify(&self.0, message(key, expires).as_bytes(), &signature).map_err(|_| Denied::Signature)?;
        if now.unix_timestamp() < expires { Ok(()) } else { Err(Denied::Expired) }
    }
}

fn message(key: &ObjectKey, expires: i64) -> String {
    format!("windlass object\n{key}\n{expires}")
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOON: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

    fn parts(url: &str) -> (String, String) {
        let (_, query) = url.split_once("?expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        (expires.to_owned(), signature.to_owned())
    }

    #[test]
    fn a_url_opens_its_own_object_until_it_expires() {
        let (signer, other) = (UrlSigner::new(&[1; 32]), UrlSigner::new(&[2; 32]));
        let (key, foreign) = (ObjectKey::parse("a/b").unwrap(), ObjectKey::parse("a/c").unwrap());
        let url = signer.url("http://10.0.0.1/", &key, NOON);
        assert!(url.starts_with("http://10.0.0.1/o/a/b?expires=1794830400&signature="), "{url}");
        let (expires, signature) = parts(&url);
        let before = NOON - time::Duration::SECOND;
        let flipped = format!("{}{}", if signature.starts_with('A') { 'B' } else { 'A' }, &signature[1..]);
        let cases = [
            ("good", &signer, &key, expires.as_str(), signature.as_str(), before, Ok(())),
            ("at the second", &signer, &key, &expires, &signature, NOON, Err(Denied::Expired)),
            ("prolonged", &signer, &key, "1794830401", &signature, before, Err(Denied::Signature)),
            ("same number, other text", &signer, &key, "+1794830400 ", &signature, before, Err(Denied::Signature)),
            ("another object", &signer, &foreign, &expires, &signature, before, Err(Denied::Signature)),
            ("another cluster", &other, &key, &expires, &signature, before, Err(Denied::Signature)),
            ("tampered", &signer, &key, &expires, &flipped, before, Err(Denied::Signature)),
            ("cut", &signer, &key, &expires, &signature[..10], before, Err(Denied::Signature)),
            ("empty", &signer, &key, &expires, "", before, Err(Denied::Signature)),
            ("no number", &signer, &key, "never", &signature, before, Err(Denied::Signature)),
        ];
        for (name, signer, key, expires, signature, now, want) in cases {
            assert_eq!(signer.verify(key, expires, signature, now), want, "{name}");
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert_eq!(format!("{:?}", UrlSigner::new(&[7; 32])), "UrlSigner(..)");
    }
}
