//! Making room: what nothing names, nobody pins or nobody should trust goes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use windlass_steps::host;

use super::{Cache, CacheError, Key, Kind, children, lock};

/// A file that prune removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Where it was.
    pub path: PathBuf,
    /// Its size; 0 for a directory.
    pub size: u64,
    /// Why it went.
    pub why: Why,
}

/// Why a file went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The record of an artifact that is not wanted any more.
    NotPinned,
    /// The record of an artifact whose file is missing or is not what it should be, or no record at all.
    NotTrusted,
    /// An artifact that no record names.
    Unnamed,
    /// Work that a dead run left, or a download that nobody goes on with.
    LeftOver,
}

impl Cache {
    /// Removes the artifacts that `keep` does not want, those that are not what they should be, files that nothing
    /// names and what dead runs left. It hashes everything, because it is what a user is told to run after a finding.
    pub fn prune(&self, keep: impl Fn(&Key) -> bool) -> Result<Vec<Removed>, CacheError> {
        if !self.root().exists() {
            return Ok(Vec::new());
        }
        let _pruning = self.exclusive(lock::STORE)?;
        let bad: BTreeSet<PathBuf> = self.verify()?.into_iter().map(|finding| finding.path).collect();
        let mut removed = Vec::new();
        let mut named = BTreeSet::new();
        for record in self.records()? {
            let why = match self.read_record(&record) {
                Ok(None) => continue,
                Ok(Some((entry, _))) if bad.contains(&entry.path) => Why::NotTrusted,
                Ok(Some((entry, _))) if !keep(&entry.key) => Why::NotPinned,
                Ok(Some((entry, _))) => {
                    named.insert(entry.path);
                    continue;
                }
                Err(error) if error.is_trust() => Why::NotTrusted,
                Err(error) => return Err(error),
            };
            removed.extend(remove(&record, why)?);
        }
        for blob in children(&self.root().join("blobs/sha256"))?.iter().filter(|blob| !named.contains(*blob)) {
            removed.extend(remove(blob, Why::Unnamed)?);
        }
        let left_over = |path| Removed { path, size: 0, why: Why::LeftOver };
        let swept = self.sweep_records()?.into_iter().chain(self.sweep()?).chain(self.sweep_partials()?);
        removed.extend(swept.map(left_over));
        Ok(removed)
    }

    /// Half-written records.
    fn sweep_records(&self) -> Result<Vec<PathBuf>, CacheError> {
        let mut swept = Vec::new();
        for kind in Kind::ALL {
            let dir = self.root().join("entries").join(kind.as_str());
            if dir.is_dir() {
                let gone = host::sweep_temps(&dir);
                swept.extend(gone.map_err(|source| CacheError::MakeCache { path: dir, source })?);
            }
        }
        Ok(swept)
    }
}

fn remove(path: &Path, why: Why) -> Result<Option<Removed>, CacheError> {
    let size = fs::symlink_metadata(path).map(|meta| meta.len()).unwrap_or_default();
    match fs::remove_file(path) {
        Ok(()) => Ok(Some(Removed { path: path.to_owned(), size, why })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CacheError::RemoveFile { path: path.to_owned(), source }),
    }
}
