//! The cluster directory: where assets wait for launch. Files are whole at every moment, a run that was
//! killed is taken up by the next, and a user's edit is never overwritten.
//!
//! A [`Draft`] collects what `prepare` makes. Committing it first writes every digest that is about to
//! appear to `assets.lock.next`, beside those of runs that died before, then the files, then the lock. So
//! a file whose digest is in either is windlass' own work, whatever moment a run died at; any other
//! content is the user's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use windlass_steps::host::{self, Batch, HostError, Mode};

use crate::asset::{Asset, AssetError, AssetFile};
use crate::lock::{Lock, Pending, digest};

const LOCK: &str = "assets.lock";
const NEXT_LOCK: &str = "assets.lock.next";
/// No asset is larger; a file beyond it is not one of ours.
const LIMIT: u64 = 64 << 20;

/// A cluster directory as it is on disk.
#[derive(Debug)]
pub struct AssetDir {
    root: PathBuf,
    lock: Option<Lock>,
    pending: Pending,
    /// Contents that a draft will write, which stand for the files until then.
    drafted: BTreeMap<String, Vec<u8>>,
    /// The files that a draft has made so far; without a draft, the lock says what was made.
    made: Option<BTreeSet<String>>,
}

impl AssetDir {
    /// Opens a directory that may not exist yet. Nothing is written.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, AssetError> {
        let mut dir = AssetDir {
            root: root.into(),
            lock: None,
            pending: Pending::default(),
            drafted: BTreeMap::new(),
            made: None,
        };
        dir.lock = dir.read_lock(LOCK, Lock::parse)?;
        dir.pending = dir.read_lock(NEXT_LOCK, Pending::parse)?.unwrap_or_default();
        Ok(dir)
    }

    /// Where the directory is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a `prepare` has finished here.
    pub fn is_prepared(&self) -> bool {
        self.lock.is_some()
    }

    /// A file's contents, or nothing if it is not there.
    pub fn get(&self, path: &str) -> Result<Option<Vec<u8>>, AssetError> {
        if let Some(contents) = self.drafted.get(path) {
            return Ok(Some(contents.clone()));
        }
        let full = self.root.join(path);
        match fs::symlink_metadata(&full) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(AssetError::OpenFile { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A file where a directory should be, and the like: reading it names the cause.
            Err(_) => {}
        }
        host::read_file(&full, LIMIT).map(Some).map_err(|source| self.unusable(source))
    }

    /// A file's contents; that it is missing is an error.
    pub fn require(&self, path: &str) -> Result<Vec<u8>, AssetError> {
        self.get(path)?.ok_or_else(|| AssetError::FindFile { path: path.to_owned() })
    }

    /// A text file's contents; that it is missing or not text is an error.
    pub fn require_text(&self, path: &str, asset: &'static str) -> Result<String, AssetError> {
        String::from_utf8(self.require(path)?).map_err(|_| AssetError::ReadAsset {
            path: path.to_owned(),
            asset,
            reason: "it is not UTF-8 text".to_owned(),
        })
    }

    /// The paths below a folder that windlass made.
    pub fn known(&self, folder: &str) -> Vec<String> {
        let below = |path: &&String| path.starts_with(folder);
        match &self.made {
            Some(made) => made.iter().filter(below).cloned().collect(),
            None => self.lock.iter().flat_map(|l| l.files.keys()).filter(below).cloned().collect(),
        }
    }

    /// Whether the last `prepare` that finished made this file.
    pub fn is_locked(&self, path: &str) -> bool {
        self.recorded(path).is_some()
    }

    /// The files that differ from what was made, the removed ones included.
    pub fn edited(&self) -> Result<Vec<String>, AssetError> {
        let mut edited = Vec::new();
        for (path, made) in self.lock.iter().flat_map(|l| &l.files) {
            if self.get(path)?.is_none_or(|contents| digest(&contents) != *made) {
                edited.push(path.clone());
            }
        }
        Ok(edited)
    }

    /// Starts collecting what is to be written here.
    pub fn draft(mut self) -> Draft {
        self.made = Some(BTreeSet::new());
        Draft { dir: self, made: Lock::new(), writes: Vec::new(), refused: Vec::new(), kept: Vec::new() }
    }

    fn read_lock<T>(&self, name: &str, parse: fn(&[u8]) -> Result<T, String>) -> Result<Option<T>, AssetError> {
        let Some(bytes) = self.get(name)? else { return Ok(None) };
        let parsed = parse(&bytes);
        parsed.map(Some).map_err(|reason| AssetError::ReadAsset {
            path: name.to_owned(),
            asset: "the asset lock",
            reason,
        })
    }

    fn unusable(&self, source: HostError) -> AssetError {
        AssetError::UseDirectory { directory: self.root.clone(), source }
    }

    /// Whether some contents of a file are windlass' own work, of this run's predecessors.
    fn is_ours(&self, path: &str, found: &str) -> bool {
        self.recorded(path) == Some(found) || self.pending.holds(path, found)
    }

    fn recorded(&self, path: &str) -> Option<&str> {
        self.lock.as_ref().and_then(|l| l.files.get(path)).map(String::as_str)
    }
}

/// What `prepare` is about to write, with the user's edits taken in.
#[derive(Debug)]
pub struct Draft {
    dir: AssetDir,
    made: Lock,
    writes: Vec<AssetFile>,
    refused: Vec<String>,
    kept: Vec<String>,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Files that were written because they were missing or had changed.
    pub written: Vec<String>,
    /// Files that no longer belong to the cluster and were removed.
    pub removed: Vec<String>,
    /// Files that a user edited and that stay as they are.
    pub kept: Vec<String>,
}

impl Draft {
    /// The directory as it will be, for reading what was settled.
    pub fn dir(&self) -> &AssetDir {
        &self.dir
    }

    /// Takes a made asset in and answers with the asset as it will be used: with the user's edits.
    pub fn settle<A: Asset>(&mut self, made: A) -> Result<A, AssetError> {
        let kept = self.kept.len();
        for file in made.files() {
            self.take(file)?;
        }
        if self.kept.len() == kept { Ok(made) } else { A::read(&self.dir) }
    }

    fn take(&mut self, file: AssetFile) -> Result<(), AssetError> {
        let made = digest(&file.contents);
        let found = self.dir.get(&file.path)?.map(|contents| digest(&contents));
        let unchanged = self.dir.recorded(&file.path) == Some(made.as_str());
        match found {
            Some(found) if found == made => {}
            Some(found) if self.dir.is_ours(&file.path, &found) => self.write(&file),
            Some(_) if unchanged => self.kept.push(file.path.clone()),
            Some(_) => self.refused.push(file.path.clone()),
            None => self.write(&file),
        }
        self.dir.made.get_or_insert_default().insert(file.path.clone());
        self.made.files.insert(file.path, made);
        Ok(())
    }

    fn write(&mut self, file: &AssetFile) {
        self.dir.drafted.insert(file.path.clone(), file.contents.clone());
        self.writes.push(file.clone());
    }

    /// Writes everything, or nothing if an edit would be lost.
    pub fn commit(mut self) -> Result<Committed, AssetError> {
        let stale = self.stale()?;
        if !self.refused.is_empty() {
            return Err(AssetError::Overwrite { paths: self.refused });
        }
        let write = |source| self.dir.unusable(source);
        make_private(&self.dir.root).map_err(write)?;
        let _guard = self.guard()?;
        self.sweep().map_err(write)?;
        let next = self.dir.root.join(NEXT_LOCK);
        let pending = self.dir.pending.clone().with(&self.made);
        host::write_file(&next, pending.to_text(), Mode::PRIVATE_FILE).map_err(write)?;
        self.write_files().map_err(write)?;
        for path in &stale {
            remove(&self.dir.root.join(path)).map_err(write)?;
        }
        host::write_file(self.dir.root.join(LOCK), self.made.to_text(), Mode::PRIVATE_FILE).map_err(write)?;
        remove(&next).map_err(write)?;
        let written = self.writes.iter().map(|f| f.path.clone()).collect();
        Ok(Committed { written, removed: stale, kept: self.kept })
    }

    /// Files of an earlier `prepare` that this one no longer makes; an edited one is refused instead.
    fn stale(&mut self) -> Result<Vec<String>, AssetError> {
        let locked = self.dir.lock.iter().flat_map(|l| l.files.keys());
        let known: BTreeSet<String> = locked.chain(self.dir.pending.paths()).cloned().collect();
        let mut stale = Vec::new();
        for path in known.into_iter().filter(|p| !self.made.files.contains_key(p)) {
            match self.dir.get(&path)?.map(|contents| digest(&contents)) {
                Some(found) if self.dir.is_ours(&path, &found) => stale.push(path),
                Some(_) => self.refused.push(path),
                None => {}
            }
        }
        Ok(stale)
    }

    fn write_files(&self) -> Result<(), HostError> {
        let folders: BTreeSet<&Path> = self.writes.iter().filter_map(|f| Path::new(&f.path).parent()).collect();
        for folder in folders {
            let mut path = self.dir.root.clone();
            for part in folder {
                path.push(part);
                make_private(&path)?;
            }
        }
        let mut batch = Batch::default();
        for file in &self.writes {
            batch.write(self.dir.root.join(&file.path), &file.contents, Mode::PRIVATE_FILE)?;
        }
        batch.commit()
    }

    /// Removes what a killed run left half written.
    fn sweep(&self) -> Result<(), HostError> {
        let folders: BTreeSet<&Path> = self.made.files.keys().filter_map(|p| Path::new(p).parent()).collect();
        for folder in folders.into_iter().chain([Path::new("")]) {
            let path = self.dir.root.join(folder);
            if path.is_dir() {
                host::sweep_temps(&path)?;
            }
        }
        Ok(())
    }

    /// Keeps a second `prepare` out until this one is done.
    fn guard(&self) -> Result<File, AssetError> {
        let busy = |_| AssetError::LockDirectory { directory: self.dir.root.clone() };
        let directory = File::open(&self.dir.root)
            .map_err(|source| self.dir.unusable(HostError::ReadFile { path: self.dir.root.clone(), source }))?;
        directory.try_lock().map_err(busy)?;
        Ok(directory)
    }
}

fn make_private(path: &Path) -> Result<(), HostError> {
    host::make_dir(path, Mode::PRIVATE_DIR)?;
    host::set_mode(path, Mode::PRIVATE_DIR)
}

fn remove(path: &Path) -> Result<(), HostError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HostError::WriteFile { path: path.to_owned(), source: error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
