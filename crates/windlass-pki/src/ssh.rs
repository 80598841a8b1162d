//! Ed25519 keys for SSH, in the two texts that OpenSSH keeps them in: a private file (`openssh-key-v1`, not encrypted) and
//! a public line. The same key always gives the same texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::SigningKey;
use sha2::{Digest as _, Sha256};
use windlass_spec::Secret;

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const KIND: &[u8] = b"ssh-ed25519";
/// What a key that is not encrypted has for a cipher and for a way from a pass phrase to a key.
const NONE: &[u8] = b"none";
/// The width of OpenSSH's lines.
const WIDTH: usize = 70;
/// The private part is padded to whole blocks of this size where nothing is encrypted.
const BLOCK: usize = 8;

/// Why a text is not a key that windlass uses.
#[derive(Debug, thiserror::Error)]
pub enum SshKeyError {
    /// It has not the form of OpenSSH's private keys.
    #[error("it is not an OpenSSH private key")]
    ReadForm,
    /// It is encrypted, of another kind, or its halves do not match.
    #[error("it is not an Ed25519 key without a pass phrase")]
    ReadKey,
}

/// An Ed25519 key for SSH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKey {
    seed: Secret<[u8; 32]>,
    public: [u8; 32],
}

impl SshKey {
    /// The key that follows from these random bytes.
    pub fn from_seed(seed: Secret<[u8; 32]>) -> Self {
        let public = SigningKey::from_bytes(seed.expose()).verifying_key().to_bytes();
        SshKey { seed, public }
    }

    /// Reads the text of a private file.
    pub fn parse(text: &str) -> Result<Self, SshKeyError> {
        let inner = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let encoded: String = inner.ok_or(SshKeyError::ReadForm)?.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(encoded).map_err(|_| SshKeyError::ReadForm)?;
        let mut outer = Reader(bytes.strip_prefix(MAGIC).ok_or(SshKeyError::ReadForm)?);
        let (cipher, kdf, options) = (outer.string()?, outer.string()?, outer.string()?);
        let count = outer.number()?;
        if (cipher, kdf, options.len(), count) != (NONE, NONE, 0, 1) {
            return Err(SshKeyError::ReadKey);
        }
        let public = outer.string()?;
        let mut inner = Reader(outer.string()?);
        let checks = (inner.number()?, inner.number()?);
        let (kind, _, pair) = (inner.string()?, inner.string()?, inner.string()?);
        let seed: [u8; 32] = pair.get(..32).and_then(|seed| seed.try_into().ok()).ok_or(SshKeyError::ReadKey)?;
        let key = SshKey::from_seed(Secret::new(seed));
        let matches = kind == KIND && checks.0 == checks.1 && pair[32..] == key.public && public == key.blob();
        if matches { Ok(key) } else { Err(SshKeyError::ReadKey) }
    }

    /// The text of the private file, for mode 0600.
    pub fn to_text(&self) -> Secret<String> {
        let encoded = STANDARD.encode(self.document());
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(WIDTH).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
        Secret::new(format!("{BEGIN}\n{}\n{END}\n", lines.join("\n")))
    }

    /// The public half as one line, without its end.
    pub fn public_line(&self) -> String {
        format!("ssh-ed25519 {}", STANDARD.encode(self.blob()))
    }

    /// The public half as SSH sends it.
    fn blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        put(&mut blob, KIND);
        put(&mut blob, &self.public);
        blob
    }

    fn document(&self) -> Vec<u8> {
        let mut private = Vec::new();
        // Twice the same number tells a reader that it decrypted well; nothing is encrypted here, and chance would make
        // the same key two texts.
        let check: [u8; 4] = std::array::from_fn(|at| Sha256::digest(self.public)[at]);
        private.extend(check);
        private.extend(check);
        put(&mut private, KIND);
        put(&mut private, &self.public);
        put(&mut private, &[self.seed.expose().as_slice(), &self.public].concat());
        put(&mut private, b"");
        private.extend((1..).take(private.len().next_multiple_of(BLOCK) - private.len()));
        let mut document = MAGIC.to_vec();
        for part in [NONE, NONE, b""] {
            put(&mut document, part);
        }
        document.extend(1_u32.to_be_bytes());
        put(&mut document, &self.blob());
        put(&mut document, &private);
        document
    }
}

/// Adds a string as SSH writes it: its length and its bytes.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("the parts of a key are short");
    to.extend(length.to_be_bytes());
    to.extend(bytes);
}

/// Takes numbers and strings off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<u32, SshKeyError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(SshKeyError::ReadForm)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Result<&'a [u8], SshKeyError> {
        let length = self.number()? as usize;
        let (string, rest) = self.0.split_at_checked(length).ok_or(SshKeyError::ReadForm)?;
        self.0 = rest;
        Ok(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeySource as _, SeededKeys};

    fn key(name: &str) -> SshKey {
        SeededKeys::new("ssh tests").ssh_key(name)
    }

    /// Made by ssh-keygen, with a comment and chance's check number.
    const FOREIGN: &str = concat!(
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n",
        "QyNTUxOQAAACAftgteQ+Mk80q91FrqS21RZ5VlUrhlWYi9210p51wvDwAAAJD0CPur9Aj7\n",
        "qwAAAAtzc2gtZWQyNTUxOQAAACAftgteQ+Mk80q91FrqS21RZ5VlUrhlWYi9210p51wvDw\n",
        "AAAECQ4xdvXkADnoB0GfmNhMNlZVGBcrUq7SidHIraYY0GHB+2C15D4yTzSr3UWupLbVFn\n",
        "lWVSuGVZiL3bXSnnXC8PAAAAB3NvbWVvbmUBAgMEBQY=\n",
        "-----END OPENSSH PRIVATE KEY-----\n",
    );
    const FOREIGN_PUBLIC: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB+2C15D4yTzSr3UWupLbVFnlWVSuGVZiL3bXSnnXC8P";

    #[test]
    fn a_key_survives_its_text_and_always_has_the_same() {
        let text = key("a").to_text();
        assert_eq!(text, key("a").to_text());
        assert_eq!(SshKey::parse(text.expose()).unwrap(), key("a"));
        assert_ne!(key("a").public_line(), key("b").public_line());
        assert!(text.expose().lines().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn a_key_of_ssh_keygen_is_taken() {
        assert_eq!(SshKey::parse(FOREIGN).unwrap().public_line(), FOREIGN_PUBLIC);
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_quoted() {
        let good = key("a").to_text().expose().clone();
        let foreign_half = {
            let mut document = key("a").document();
            let at = document.len() - 20;
            document[at] ^= 1;
            format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(document))
        };
        let cut = format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(&key("a").document()[..100]));
        let locked = format!(
            "{BEGIN}\n{}\n{END}\n",
            STANDARD.encode([MAGIC, b"\0\0\0\x0aaes256-ctr\0\0\0\x06bcrypt\0\0\0\0\0\0\0\x01"].concat())
        );
        for text in
            ["", "canary", &good.replace("OPENSSH", "RSA"), &good.replace('A', "!"), &foreign_half, &cut, &locked]
        {
            let error = SshKey::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{text}");
        }
    }
}
