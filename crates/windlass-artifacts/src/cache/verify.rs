//! The full look: every file hashed, whatever its times say.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Cache, CacheError, Entry, open_blob};
use crate::digest::{Algorithm, Digest};

/// Something in the cache that is not as it was put there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file that is wrong: a record or an artifact.
    pub path: PathBuf,
    /// Kind, name and version of the artifact; nothing if its record cannot be read.
    pub artifact: Option<String>,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a file of the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Its content has another digest.
    Changed {
        /// What it is now.
        found: Digest,
    },
    /// The record is there, the file is not.
    Missing,
    /// It cannot be read, or is no record.
    Unreadable {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(artifact) = &self.artifact {
            write!(f, " ({artifact})")?;
        }
        match &self.fault {
            Fault::Changed { found } => write!(f, ": changed, it is now {found}"),
            Fault::Missing => write!(f, ": missing"),
            Fault::Unreadable { reason } => write!(f, ": {reason}"),
        }
    }
}

impl Cache {
    /// Hashes every artifact in full and says what is wrong; nothing is changed.
    pub fn verify(&self) -> Result<Vec<Finding>, CacheError> {
        let mut findings = Vec::new();
        // Several names may share one file, which is then hashed once.
        let mut looked: BTreeMap<PathBuf, Option<Fault>> = BTreeMap::new();
        for record in self.records()? {
            let entry = match self.read_record(&record) {
                Ok(Some((entry, _))) => entry,
                Ok(None) => continue,
                Err(CacheError::NotTrusted { path, reason }) => {
                    findings.push(Finding { path, artifact: None, fault: Fault::Unreadable { reason } });
                    continue;
                }
                Err(error) => return Err(error),
            };
            let fault = looked.entry(entry.path.clone()).or_insert_with(|| look(&entry.path, &entry.digest));
            findings.extend(fault.clone().map(|fault| finding(&entry, fault)));
        }
        Ok(findings)
    }
}

fn finding(entry: &Entry, fault: Fault) -> Finding {
    Finding { path: entry.path.clone(), artifact: Some(entry.key.to_string()), fault }
}

fn look(path: &Path, wanted: &Digest) -> Option<Fault> {
    match open_blob(path).and_then(|file| Digest::of_reader(Algorithm::Sha256, file)) {
        Ok(found) if found == *wanted => None,
        Ok(found) => Some(Fault::Changed { found }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Fault::Missing),
        Err(error) => Some(Fault::Unreadable { reason: error.to_string() }),
    }
}
