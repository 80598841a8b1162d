//! Short-lived tokens that say who a machine is, for those who cannot see its link: `<payload>.<signature>`, both in
//! base64url, the payload JSON, the signature Ed25519 over the payload as written.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use time::OffsetDateTime;

use crate::Role;

/// In front of what is signed, so that a signature of this key over something else is never one of a token.
const CONTEXT: &[u8] = b"windlass machine token 1\n";
const LONGEST: usize = 4096;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The machine's cluster.
    pub cluster: String,
    /// The machine's name.
    pub name: String,
    /// The machine's role.
    pub role: Role,
    /// The one thing that it is good for.
    pub purpose: String,
    /// The second since 1970 from which on it is good for nothing.
    pub expires: i64,
}

/// Signs the tokens of one cluster.
pub struct TokenKey(SigningKey);

/// Checks the tokens of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPublicKey(VerifyingKey);

/// Why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It is not two pieces of base64url, or far too long.
    #[error("this is not a token")]
    Form,
    /// Someone else wrote it, or changed it.
    #[error("the token's signature is not valid")]
    Signature,
    /// It is signed, and does not say what a token says.
    #[error("the token says something that is not understood")]
    Content,
    /// It is for something else.
    #[error("the token is for another purpose")]
    Purpose,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// The key is no point on the curve.
    #[error("this is not a public key")]
    PublicKey,
}

// By hand, so that the secret is never shown.
impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

impl TokenKey {
    /// The key that this seed stands for, which should be 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The half that is no secret.
    pub fn public(&self) -> TokenPublicKey {
        TokenPublicKey(self.0.verifying_key())
    }
}

impl TokenPublicKey {
    /// From its 32 bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, TokenError> {
        VerifyingKey::from_bytes(bytes).map(Self).map_err(|_| TokenError::PublicKey)
    }

    /// Its 32 bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// From the hex that [`crate::Cluster::token_key`] has.
    pub fn parse_hex(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
        let bytes: [u8; 32] = bytes.and_then(|b| b.try_into().ok()).ok_or(TokenError::PublicKey)?;
        Self::from_bytes(&bytes)
    }
}

impl Token {
    /// The token as it travels.
    pub fn sign(&self, key: &TokenKey) -> String {
        let payload = serde_json::to_vec(self).expect("a token is plain data with text for keys");
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let signature = key.0.sign(&signed(&payload));
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }

    /// What the text says, if it was signed with this key for this purpose and is still good.
    pub fn verify(text: &str, key: &TokenPublicKey, purpose: &str, now: OffsetDateTime) -> Result<Self, TokenError> {
        if text.len() > LONGEST {
            return Err(TokenError::Form);
        }
        let (payload, signature) = text.split_once('.').ok_or(TokenError::Form)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Form)?;
        let signature = Signature::from_slice(&signature).map_err(|_| TokenError::Form)?;
        key.0.verify_strict(&signed(payload), &signature).map_err(|_| TokenError::Signature)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenError::Form)?;
        let token: Self = serde_json::from_slice(&payload).map_err(|_| TokenError::Content)?;
        if token.purpose != purpose {
            return Err(TokenError::Purpose);
        }
        if now.unix_timestamp() >= token.expires {
            return Err(TokenError::Expired);
        }
        Ok(token)
    }
}

fn signed(payload: &str) -> Vec<u8> {
    [CONTEXT, payload.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    const NOON: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

    fn token() -> Token {
        Token {
            cluster: "one-abcde".into(),
            name: "masters-0".into(),
            role: Role::Master,
            purpose: "join".into(),
            expires: NOON.unix_timestamp() + 60,
        }
    }

    fn with_payload(key: &TokenKey, json: &str) -> String {
        let payload = URL_SAFE_NO_PAD.encode(json);
        let signature = key.0.sign(&signed(&payload));
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }

    #[test]
    fn only_a_whole_token_of_the_right_key_purpose_and_time_is_believed() {
        let (key, other) = (TokenKey::from_seed(&[1; 32]), TokenKey::from_seed(&[2; 32]));
        let good = token().sign(&key);
        let (payload, signature) = good.split_once('.').unwrap();
        let elevated = Token { role: Role::Worker, ..token() }.sign(&key);
        let (elevated_payload, _) = elevated.split_once('.').unwrap();
        let without_context = URL_SAFE_NO_PAD.encode(key.0.sign(payload.as_bytes()).to_bytes());
        let more = r#"{"cluster":"c","name":"n","role":"master","purpose":"join","expires":9999999999,"admin":true}"#;
        // The text, the purpose asked for, seconds after noon, and what comes of it.
        type Case = (&'static str, String, &'static str, i64, Result<Token, TokenError>);
        let cases: &[Case] = &[
            ("good", good.clone(), "join", 59, Ok(token())),
            ("at the second", good.clone(), "join", 60, Err(TokenError::Expired)),
            ("other purpose", good.clone(), "config", 0, Err(TokenError::Purpose)),
            ("other key", token().sign(&other), "join", 0, Err(TokenError::Signature)),
            ("payload of another", format!("{elevated_payload}.{signature}"), "join", 0, Err(TokenError::Signature)),
            ("flipped payload", format!("A{}.{signature}", &payload[1..]), "join", 0, Err(TokenError::Signature)),
            ("no context", format!("{payload}.{without_context}"), "join", 0, Err(TokenError::Signature)),
            ("empty signature", format!("{payload}."), "join", 0, Err(TokenError::Form)),
            ("no signature", payload.to_owned(), "join", 0, Err(TokenError::Form)),
            ("three parts", format!("{good}.x"), "join", 0, Err(TokenError::Form)),
            ("padding", format!("{good}=="), "join", 0, Err(TokenError::Form)),
            ("space", format!(" {good}"), "join", 0, Err(TokenError::Signature)),
            ("empty", String::new(), "join", 0, Err(TokenError::Form)),
            ("huge", format!("{}.{signature}", "A".repeat(5000)), "join", 0, Err(TokenError::Form)),
            ("not JSON", with_payload(&key, "hello"), "join", 0, Err(TokenError::Content)),
            ("more than it should say", with_payload(&key, more), "join", 0, Err(TokenError::Content)),
        ];
        for (name, text, purpose, after, want) in cases {
            let now = NOON + time::Duration::seconds(*after);
            assert_eq!(Token::verify(text, &key.public(), purpose, now), *want, "{name}");
        }
    }

    #[test]
    fn the_secret_is_not_shown_and_the_public_key_round_trips() {
        let key = TokenKey::from_seed(&[7; 32]);
        assert_eq!(format!("{key:?}"), "TokenKey(..)");
        assert_eq!(TokenPublicKey::from_bytes(&key.public().to_bytes()), Ok(key.public()));
        let hex: String = key.public().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(TokenPublicKey::parse_hex(&format!("{hex}\n")), Ok(key.public()));
        for bad in ["", "00", &hex[1..], &format!("{hex}00"), &hex.replace(&hex[..1], "ü"), "+1"] {
            assert!(TokenPublicKey::parse_hex(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_signed_is_what_is_verified(seed: [u8; 32], name in ".{0,40}", purpose in "[a-z-]{1,20}", left in 1..1_000_000_i64) {
            let key = TokenKey::from_seed(&seed);
            let token = Token { name, purpose, expires: NOON.unix_timestamp() + left, ..token() };
            let text = token.sign(&key);
            prop_assert_eq!(Token::verify(&text, &key.public(), &token.purpose, NOON), Ok(token));
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0..1000_usize, to in "[A-Za-z0-9_-]") {
            let key = TokenKey::from_seed(&[3; 32]);
            let good = token().sign(&key);
            let at = at % good.len();
            let bad = format!("{}{to}{}", &good[..at], &good[at + 1..]);
            prop_assert_eq!(Token::verify(&bad, &key.public(), "join", NOON).is_ok(), bad == good);
        }

        #[test]
        fn any_text_is_an_answer_and_not_a_panic(text in ".{0,200}") {
            let key = TokenKey::from_seed(&[3; 32]);
            prop_assert!(Token::verify(&text, &key.public(), "join", NOON).is_err());
        }
    }
}
