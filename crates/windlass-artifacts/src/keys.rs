//! This host's own signing keys, drawn once and kept beside the cache: bundles and buckets made here are signed with
//! them, and trusted here without further words.

use std::path::{Path, PathBuf};

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::OffsetDateTime;
use windlass_spec::Secret;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};

use crate::signature::minisign::{self, PublicKey};
use crate::signature::openpgp::{self, Keyring};
use crate::signature::{KeyError, SigningKeys, Trusted};

const LIMIT: u64 = 1 << 20;

/// Why keys could not be had.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A key file could not be read or written.
    #[error("cannot keep the signing keys in {}", .path.display())]
    KeepKeys {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: HostError,
    },
    /// A key file does not hold a key.
    #[error("cannot use the key in {}", .path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KeyError,
    },
    /// The system gives no randomness.
    #[error("cannot draw randomness from the system")]
    DrawSeed {
        /// The cause.
        source: getrandom::Error,
    },
    /// New keys could not be drawn.
    #[error("cannot draw signing keys")]
    DrawKeys {
        /// The cause.
        source: KeyError,
    },
}

/// The keys of the cache in `root`, drawn if there are none.
pub fn own(root: &Path, now: OffsetDateTime) -> Result<SigningKeys, KeysError> {
    let folder = root.join("keys");
    let (pgp, mini) = (folder.join("signing.asc"), folder.join("signing.minisign"));
    if pgp.is_file() && mini.is_file() {
        let openpgp = openpgp::SigningKey::parse(&secret(&pgp)?)
            .map_err(|source| KeysError::ReadKey { path: pgp.clone(), source })?;
        let minisign = minisign::SigningKey::parse(&secret(&mini)?)
            .map_err(|source| KeysError::ReadKey { path: mini.clone(), source })?;
        return Ok(SigningKeys { openpgp, minisign });
    }
    let draw = |source| KeysError::DrawKeys { source };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|source| KeysError::DrawSeed { source })?;
    let keys = SigningKeys::generate(&mut ChaCha20Rng::from_seed(seed), "windlass", now).map_err(draw)?;
    make_dir(&folder, Mode::PRIVATE_DIR).map_err(|source| KeysError::KeepKeys { path: folder.clone(), source })?;
    let keep = |path: &Path, text: &str, mode| {
        write_file(path, text, mode).map_err(|source| KeysError::KeepKeys { path: path.to_owned(), source })
    };
    keep(&folder.join("public.asc"), &keys.openpgp.public_armor().map_err(draw)?, Mode::PUBLIC)?;
    keep(&folder.join("public.minisign"), &keys.minisign.public().to_text(), Mode::PUBLIC)?;
    keep(&pgp, keys.openpgp.to_armor().map_err(draw)?.expose(), Mode::PRIVATE_FILE)?;
    keep(&mini, keys.minisign.to_text().expose(), Mode::PRIVATE_FILE)?;
    Ok(keys)
}

/// Keys to trust, from files of public keys of either form; one of each form at the most.
pub fn trusted(files: &[PathBuf]) -> Result<Trusted, KeysError> {
    let mut trusted = Trusted { openpgp: None, minisign: None };
    for path in files {
        let text = text(path)?;
        let wrong = |source| KeysError::ReadKey { path: path.clone(), source };
        if text.trim_start().starts_with("-----BEGIN PGP") {
            trusted.openpgp = Some(Keyring::parse(&text).map_err(wrong)?);
        } else {
            trusted.minisign = Some(PublicKey::parse(&text).map_err(wrong)?);
        }
    }
    Ok(trusted)
}

fn text(path: &Path) -> Result<String, KeysError> {
    let bytes = read_file(path, LIMIT).map_err(|source| KeysError::KeepKeys { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn secret(path: &Path) -> Result<Secret<String>, KeysError> {
    text(path).map(Secret::new)
}
