//! The cache: every artifact once, named by the digest of its content, shared by all clusters of this host.
//!
//! ```text
//! blobs/sha256/<hex>                    the files, read-only
//! entries/<kind>/<name>@<version>.json  which file belongs to which name
//! tmp/                                  work in progress, on the same file system
//! locks/                                who is at work on what
//! ```
//!
//! A file is hashed in full when it enters. It is written in `tmp/`, synced, and renamed to its digest; only then is its
//! record written. So a run that is killed leaves at most a file that no record names, and two runs that add the same
//! thing meet in the same file. Later uses trust a file whose size, inode, modification and change time are those that
//! were recorded, and hash it again otherwise.

mod entry;
mod error;
mod lock;
mod prune;
mod temp;
mod verify;

pub use entry::{Details, Entry, Key, Kind, SourceKind};
pub use error::CacheError;
pub use lock::{Guard, Waiting};
pub use prune::{Removed, Why};
pub use temp::TempDir;
pub use verify::{Fault, Finding};

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use tracing::warn;
use windlass_steps::host::{self, HostError, Mode};

use crate::digest::{Algorithm, Digest};
use entry::{Identity, Record};

const RECORD_LIMIT: u64 = 64 << 10;

/// The artifacts on this host.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache in this directory, which need not exist yet. Nothing is written before something is added.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, CacheError> {
        let root = root.as_ref();
        let absolute =
            std::path::absolute(root).map_err(|source| CacheError::LookAt { path: root.to_owned(), source })?;
        Ok(Cache { root: absolute })
    }

    /// Where it is; absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes a file in. One that lies in the cache's own `tmp/` is moved, any other is copied.
    pub fn add_file(&self, key: &Key, source: SourceKind, file: &Path, mode: Mode) -> Result<Entry, CacheError> {
        self.add_with(key, source, file, mode, Details::default())
    }

    /// Takes a file in, with what its maker has to say about it.
    pub fn add_with(
        &self,
        key: &Key,
        source: SourceKind,
        file: &Path,
        mode: Mode,
        details: Details,
    ) -> Result<Entry, CacheError> {
        let room = self.temp_dir("add")?;
        let trouble = |source| CacheError::AddFile { file: file.to_owned(), source };
        let staged = self.stage(file, room.path()).map_err(trouble)?;
        let (digest, size) = seal(&staged, mode).map_err(trouble)?;
        let blobs = self.make("blobs/sha256")?;
        let path = blobs.join(digest.hex());
        let _adding = self.shared(lock::STORE)?;
        let identity = settle(&staged, &path, &digest).map_err(trouble)?;
        host::sync_dir(&blobs).map_err(|source| CacheError::MakeCache { path: blobs, source })?;
        let Details { links, inputs } = details;
        let entry = Entry { key: key.clone(), digest, size, source, path, links, inputs, sha512: None };
        self.record(&entry, identity)
            .map_err(|source| CacheError::RecordEntry { artifact: key.to_string(), source })?;
        Ok(entry)
    }

    /// [`Cache::add_with`] in a thread of its own: hashing a large file takes a while, in which other things go on.
    pub async fn add_aside(
        &self,
        key: Key,
        source: SourceKind,
        file: PathBuf,
        mode: Mode,
        details: Details,
    ) -> Result<Entry, CacheError> {
        let (cache, subject) = (self.clone(), file.clone());
        let add = move || cache.add_with(&key, source, &file, mode, details);
        tokio::task::spawn_blocking(add).await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(CacheError::AddFile { file: subject, source: io::Error::other("the program is ending") }),
        })
    }

    /// The artifact of this name, if it is there and is what was put there.
    ///
    /// Content that changed is an error and is left as it is; a record whose file is gone is no artifact.
    pub fn find(&self, key: &Key) -> Result<Option<Entry>, CacheError> {
        let path = self.root.join("entries").join(key.record());
        let Some((entry, known)) = self.read_record(&path)? else { return Ok(None) };
        let trouble = |source| CacheError::LookAt { path: entry.path.clone(), source };
        let file = match open_blob(&entry.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(trouble)?,
        };
        let identity = Identity::of(&file.metadata().map_err(trouble)?);
        if identity == known {
            return Ok(Some(entry));
        }
        let found = Digest::of_reader(Algorithm::Sha256, &file).map_err(trouble)?;
        if found != entry.digest {
            let reason = format!("it should be {} and is {found}", entry.digest);
            return Err(CacheError::NotTrusted { path: entry.path, reason });
        }
        // The content is right: a link was added to it, or it was restored from a copy.
        if let Err(error) = self.record(&entry, identity) {
            warn!(artifact = %key, %error, "record not renewed, the file will be hashed again next time");
        }
        Ok(Some(entry))
    }

    /// The SHA-512 of an artifact that was found, as manifests of addons want it. The file is hashed for it once; from then
    /// on its record knows, as long as nobody touches the file.
    pub fn sha512(&self, entry: &Entry) -> Result<Digest, CacheError> {
        if let Some(known) = &entry.sha512 {
            return Ok(known.clone());
        }
        let trouble = |source| CacheError::LookAt { path: entry.path.clone(), source };
        let file = open_blob(&entry.path).map_err(trouble)?;
        let identity = Identity::of(&file.metadata().map_err(trouble)?);
        let hashed = Digest::all_of_reader([Algorithm::Sha256, Algorithm::Sha512], &file);
        let [found, sha512] = hashed.map_err(trouble)?;
        // The record is about to vouch for the file as it is now.
        if found != entry.digest {
            let reason = format!("it should be {} and is {found}", entry.digest);
            return Err(CacheError::NotTrusted { path: entry.path.clone(), reason });
        }
        let known = Entry { sha512: Some(sha512.clone()), ..entry.clone() };
        if let Err(error) = self.record(&known, identity) {
            warn!(artifact = %entry.key, %error, "digest not recorded, the file will be hashed again next time");
        }
        Ok(sha512)
    }

    /// The binary that a program is, by its own name or by one of another's links (`kubelet` of `kubernetes`).
    pub fn program(&self, name: &str, version: &str) -> Result<Option<Entry>, CacheError> {
        if let Some(entry) = self.find(&Key::new(Kind::Binary, name, version)?)? {
            return Ok(Some(entry));
        }
        let linked = |e: &Entry| {
            e.key.kind() == Kind::Binary && e.key.version() == version && e.links.iter().any(|link| link == name)
        };
        match self.list()?.into_iter().find(linked) {
            Some(entry) => self.find(&entry.key),
            None => Ok(None),
        }
    }

    /// Every artifact by its record, in order, without a look at the files.
    pub fn list(&self) -> Result<Vec<Entry>, CacheError> {
        let mut entries = Vec::new();
        for path in self.records()? {
            entries.extend(self.read_record(&path)?.map(|(entry, _)| entry));
        }
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// The files of all records, those of other kinds of file left out.
    fn records(&self) -> Result<Vec<PathBuf>, CacheError> {
        let mut records = Vec::new();
        for kind in Kind::ALL {
            let all = children(&self.root.join("entries").join(kind.as_str()))?;
            records.extend(all.into_iter().filter(|path| path.extension().is_some_and(|e| e == "json")));
        }
        Ok(records)
    }

    fn read_record(&self, path: &Path) -> Result<Option<(Entry, Identity)>, CacheError> {
        let not_trusted = |reason: String| CacheError::NotTrusted { path: path.to_owned(), reason };
        let bytes = match host::read_file(path, RECORD_LIMIT) {
            Ok(bytes) => bytes,
            Err(HostError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(HostError::ReadFile { path, source }) => return Err(CacheError::LookAt { path, source }),
            Err(error) => return Err(not_trusted(error.to_string())),
        };
        let record: Record =
            serde_json::from_slice(&bytes).map_err(|e| not_trusted(format!("it is no record: {e}")))?;
        let key = Key::new(record.kind, &record.name, &record.version).map_err(|e| not_trusted(e.to_string()))?;
        if !path.ends_with(key.record()) || record.digest.algorithm() != Algorithm::Sha256 {
            return Err(not_trusted(format!("it is the record of {key}, {}", record.digest)));
        }
        let entry = Entry {
            key,
            path: self.root.join("blobs/sha256").join(record.digest.hex()),
            digest: record.digest,
            size: record.size,
            source: record.source,
            links: record.links,
            inputs: record.inputs,
            sha512: record.sha512,
        };
        Ok(Some((entry, record.identity)))
    }

    fn record(&self, entry: &Entry, identity: Identity) -> Result<(), HostError> {
        let path = self.root.join("entries").join(entry.key.record());
        host::make_dir(path.parent().unwrap_or(&self.root), Mode::PUBLIC_DIR)?;
        let text = serde_json::to_string(&Record::of(entry, identity)).expect("a record holds texts and numbers only");
        host::write_file(&path, text + "\n", Mode::PUBLIC)
    }

    /// The file itself if it is ours to move, else a copy.
    fn stage(&self, file: &Path, room: &Path) -> io::Result<PathBuf> {
        if !fs::symlink_metadata(file)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        if std::path::absolute(file)?.starts_with(self.root.join("tmp")) {
            return Ok(file.to_owned());
        }
        let copy = room.join("copy");
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy)?;
        io::copy(&mut open_blob(file)?, &mut to)?;
        Ok(copy)
    }
}

/// Hashes a file in full, takes the right to write away and brings it to the disk.
fn seal(path: &Path, mode: Mode) -> io::Result<(Digest, u64)> {
    let file = open_blob(path)?;
    let digest = Digest::of_reader(Algorithm::Sha256, &file)?;
    file.set_permissions(Permissions::from_mode(mode.bits() & 0o7555))?;
    file.sync_all()?;
    Ok((digest, file.metadata()?.len()))
}

/// Gives the content its name, unless the same content is there already; a spoilt file of that name is replaced.
fn settle(staged: &Path, path: &Path, digest: &Digest) -> io::Result<Identity> {
    let wanted = fs::metadata(staged)?.permissions().mode();
    match open_blob(path) {
        Ok(there) if Digest::of_reader(Algorithm::Sha256, &there)? == *digest => {
            let mode = there.metadata()?.permissions().mode();
            if mode | wanted != mode {
                there.set_permissions(Permissions::from_mode((mode | wanted) & 0o7777))?;
            }
            fs::remove_file(staged)?;
            return Ok(Identity::of(&there.metadata()?));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn!(path = %path.display(), %error, "replacing a file that cannot be read"),
    }
    fs::rename(staged, path)?;
    Ok(Identity::of(&fs::symlink_metadata(path)?))
}

/// Opens a regular file, and nothing that a link or a pipe may lead to.
fn open_blob(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// What is in a directory, in order; nothing if there is none.
fn children(dir: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let trouble = |source| CacheError::LookAt { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(trouble)?,
    };
    let mut paths = entries.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>().map_err(trouble)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests;
