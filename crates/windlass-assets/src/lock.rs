//! `assets.lock`: the digest of every file as it was made, so that an edit can be told from windlass'
//! own work, before launch and after.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The digests of a cluster directory's files as they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The version of windlass that made the files.
    pub windlass: String,
    /// The digest of each file by its path below the cluster directory.
    pub files: BTreeMap<String, String>,
}

impl Lock {
    /// An empty lock of this version of windlass.
    pub fn new() -> Self {
        Lock { windlass: env!("CARGO_PKG_VERSION").to_owned(), files: BTreeMap::new() }
    }

    /// Takes the text of a lock file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| e.to_string())
    }

    /// The text of a lock file.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("texts and maps of texts have a JSON form");
        text + "\n"
    }
}

/// Every digest that a run meant to write and of which no lock tells yet: of the run at work, and of
/// those before it that died.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Pending {
    /// Takes the text of a pending file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| e.to_string())
    }

    /// The text of a pending file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and maps of texts have a JSON form")
    }

    /// These digests and a lock's.
    pub fn with(mut self, lock: &Lock) -> Self {
        for (path, digest) in &lock.files {
            self.files.entry(path.clone()).or_default().insert(digest.clone());
        }
        self
    }

    /// Whether a run meant to write a file with this digest.
    pub fn holds(&self, path: &str, digest: &str) -> bool {
        self.files.get(path).is_some_and(|digests| digests.contains(digest))
    }

    /// The files that runs meant to write.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.files.keys()
    }
}

/// The digest of some bytes as the lock writes it.
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_reads_back_as_it_was_written() {
        let mut lock = Lock::new();
        lock.files.insert("assets/pki/ca.crt".into(), digest(b"x"));
        assert_eq!(Lock::parse(lock.to_text().as_bytes()), Ok(lock));
        assert!(Lock::parse(b"{}").is_err());
        assert!(digest(b"").starts_with("sha256:e3b0c442"));
    }
}
