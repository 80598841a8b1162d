//! Where keys and serial numbers come from. Every draw has a name, so that a seeded source can give
//! each name its own value, whatever else was drawn before.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};
use p256::ecdsa::SigningKey;
use sha2::{Digest as _, Sha256};
use windlass_spec::Secret;

use super::PrivateKey;
use crate::error::PkiError;
use crate::ssh::SshKey;

/// A source of private keys and serial numbers.
pub trait KeySource {
    /// Draws the private key of this name.
    fn key(&mut self, name: &str) -> PrivateKey;

    /// Draws the serial number of this name.
    fn serial(&mut self, name: &str) -> Serial;

    /// Draws the seed of this name, for whoever makes keys of another kind.
    fn seed(&mut self, name: &str) -> Secret<[u8; 32]>;
    /// Draws the SSH key of this name.
    fn ssh_key(&mut self, name: &str) -> SshKey;
}

/// A certificate's serial number: positive, 17 bytes, 128 of its bits drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serial([u8; 17]);

impl Serial {
    fn draw(rng: &mut ChaCha20Rng) -> Self {
        // The fixed first byte keeps the number positive and its length constant; RFC 5280 allows 20.
        let mut bytes = [1; 17];
        rng.fill_bytes(&mut bytes[1..]);
        Serial(bytes)
    }

    /// The number, most significant byte first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Unpredictable keys: a ChaCha20 stream under a seed from the operating system.
#[derive(Debug)]
pub struct RandomKeys(ChaCha20Rng);

impl RandomKeys {
    /// Takes a seed from the operating system; nothing can fail after this.
    pub fn from_os() -> Result<Self, PkiError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|source| PkiError::DrawSeed { source })?;
        Ok(RandomKeys(ChaCha20Rng::from_seed(seed)))
    }
}

impl KeySource for RandomKeys {
    fn key(&mut self, _name: &str) -> PrivateKey {
        draw_key(&mut self.0)
    }

    fn serial(&mut self, _name: &str) -> Serial {
        Serial::draw(&mut self.0)
    }

    fn seed(&mut self, _name: &str) -> Secret<[u8; 32]> {
        draw_seed(&mut self.0)
    }

    fn ssh_key(&mut self, _name: &str) -> SshKey {
        draw_ssh_key(&mut self.0)
    }
}

/// Keys that follow from a seed, for tests: whoever knows the seed knows every key.
#[derive(Debug, Clone)]
pub struct SeededKeys {
    seed: Secret<String>,
}

impl SeededKeys {
    /// Takes any text as the seed.
    pub fn new(seed: &str) -> Self {
        SeededKeys { seed: Secret::new(seed.to_owned()) }
    }

    fn rng(&self, purpose: &str, name: &str) -> ChaCha20Rng {
        let mut hash = Sha256::new();
        for part in ["windlass", self.seed.expose(), purpose, name] {
            // Lengths keep ("a", "bc") apart from ("ab", "c").
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        ChaCha20Rng::from_seed(hash.finalize().into())
    }
}

impl KeySource for SeededKeys {
    fn key(&mut self, name: &str) -> PrivateKey {
        draw_key(&mut self.rng("key", name))
    }

    fn serial(&mut self, name: &str) -> Serial {
        Serial::draw(&mut self.rng("serial", name))
    }

    fn seed(&mut self, name: &str) -> Secret<[u8; 32]> {
        draw_seed(&mut self.rng("seed", name))
    }

    fn ssh_key(&mut self, name: &str) -> SshKey {
        draw_ssh_key(&mut self.rng("ssh key", name))
    }
}

fn draw_seed(rng: &mut ChaCha20Rng) -> Secret<[u8; 32]> {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    Secret::new(seed)
}

fn draw_key(rng: &mut ChaCha20Rng) -> PrivateKey {
    loop {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        // Zero and numbers above the group's order are no keys; about one draw in 2^32 meets one.
        if let Ok(key) = SigningKey::from_slice(&bytes) {
            return PrivateKey::new(key);
        }
    }
}

fn draw_ssh_key(rng: &mut ChaCha20Rng) -> SshKey {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    SshKey::from_seed(Secret::new(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_draw_depends_on_seed_purpose_and_name_alone() {
        let (mut one, mut two) = (SeededKeys::new("1"), SeededKeys::new("1"));
        one.key("first");
        assert_eq!(one.key("a"), two.key("a"));
        assert_eq!(one.serial("a"), two.serial("a"));
        assert_eq!(one.seed("a"), two.seed("a"));
        assert_ne!(one.seed("a"), one.seed("b"));
        assert_eq!(one.ssh_key("a"), two.ssh_key("a"));
        assert_ne!(one.ssh_key("a"), one.ssh_key("b"));
        assert_ne!(one.key("a"), one.key("b"));
        assert_ne!(one.key("a"), SeededKeys::new("2").key("a"));
        assert_ne!(SeededKeys::new("ab").key("c"), SeededKeys::new("a").key("bc"));
    }

    #[test]
    fn random_draws_differ_even_under_one_name() {
        let (mut one, mut two) = (RandomKeys::from_os().unwrap(), RandomKeys::from_os().unwrap());
        let keys = [one.key("a"), one.key("a"), two.key("a")];
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        assert_ne!(one.serial("a"), one.serial("a"));
        assert_ne!(one.seed("a"), one.seed("a"));
        assert_ne!(one.ssh_key("a"), one.ssh_key("a"));
    }

    #[test]
    fn serials_are_positive_and_short_enough() {
        let serial = SeededKeys::new("1").serial("a");
        assert_eq!((serial.as_bytes().len(), serial.as_bytes()[0]), (17, 1));
    }
}
