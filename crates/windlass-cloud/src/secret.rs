//! A cluster's secret: what its URLs and its machines' tokens are signed with. Each use has a key of its own.

use sha2::{Digest as _, Sha256};

use crate::metadata::TokenKey;
use crate::object::UrlSigner;

/// Bytes that nobody can guess, as hex.
pub fn draw() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Signs the URLs of a cluster's objects.
pub fn url_signer(secret: &str) -> UrlSigner {
    UrlSigner::new(&derived(secret, "urls"))
}

/// Signs the tokens of a cluster's machines.
pub fn token_key(secret: &str) -> TokenKey {
    TokenKey::from_seed(&derived(secret, "tokens"))
}

/// The half of it that is no secret, as hex.
pub fn token_public_key(secret: &str) -> String {
    hex(&token_key(secret).public().to_bytes())
}

fn derived(secret: &str, purpose: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(purpose.as_bytes());
    hasher.update([0]);
    hasher.update(secret.as_bytes());
    hasher.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_secrets_and_no_two_uses_have_the_same_key() {
        let (one, two) = (draw().unwrap(), draw().unwrap());
        assert_ne!(one, two);
        assert_ne!(token_public_key(&one), token_public_key(&two));
        assert_ne!(derived(&one, "urls"), derived(&one, "tokens"));
    }
}
