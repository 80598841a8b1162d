//! A download on its way: the bytes so far and what they are expected to become, kept so that another run can go on.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use windlass_steps::host::{self, Mode};

use super::DownloadError;
use crate::cache::Cache;
use crate::digest::{Algorithm, Digest};

const NOTE_LIMIT: u64 = 64 << 10;

/// What the bytes belong to. If any of it has changed, they are worth nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    url: String,
    digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// An open, locked partial download.
pub(super) struct Partial {
    url: Url,
    path: PathBuf,
    note_path: PathBuf,
    note: Note,
    file: File,
    length: u64,
}

impl Partial {
    pub(super) fn open(cache: &Cache, url: &Url, digest: &Digest) -> Result<Self, DownloadError> {
        let dir = cache.partial_dir();
        let full = |source| DownloadError::UseCache { url: url.to_string(), source: Box::new(source) };
        let dir = dir.map_err(full)?;
        let name = Digest::of(Algorithm::Sha256, format!("{url} {digest}").as_bytes());
        let path = dir.join(format!("{}.part", name.hex()));
        let note_path = path.with_extension("json");
        let trouble = |source| DownloadError::KeepPart { path: path.clone(), source };
        let file = locked(&path).map_err(trouble)?.ok_or_else(|| DownloadError::Busy { url: url.to_string() })?;
        let length = file.metadata().map_err(trouble)?.len();
        let note = Note { url: url.to_string(), digest: digest.clone(), etag: None };
        let mut partial = Partial { url: url.clone(), path, note_path, note, file, length };
        match partial.read_note() {
            Some(known) if known.url == partial.note.url && known.digest == *digest => partial.note.etag = known.etag,
            _ => partial.restart(None)?,
        }
        Ok(partial)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// What to send as `If-Range`; a weak tag promises nothing about bytes.
    pub(super) fn etag(&self) -> Option<&str> {
        self.note.etag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }

    /// Throws the bytes away and expects new ones.
    pub(super) fn restart(&mut self, etag: Option<&str>) -> Result<(), DownloadError> {
        self.file.set_len(0).map_err(|source| self.trouble(source))?;
        self.length = 0;
        self.note.etag = etag.map(str::to_owned);
        let text = serde_json::to_string(&self.note).expect("a note holds texts only");
        host::write_file(&self.note_path, text, Mode::PRIVATE_FILE)
            .map_err(|error| self.trouble(io::Error::other(error)))
    }

    /// Takes more bytes. The file is opened for appending, so they always land at the end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.file.write_all(bytes).map_err(|source| self.trouble(source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The digest of everything that came, made in a thread of its own.
    pub(super) async fn digest(&self) -> Result<Digest, DownloadError> {
        let (path, algorithm) = (self.path.clone(), self.note.digest.algorithm());
        let work = move || File::open(&path).and_then(|file| Digest::of_reader(algorithm, file));
        let hashed = tokio::task::spawn_blocking(work).await;
        hashed.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|source| self.trouble(source))
    }

    /// Gives the whole file its place, and forgets about it.
    pub(super) fn finish(self, into: &Path) -> Result<(), DownloadError> {
        fs::rename(&self.path, into).map_err(|source| self.trouble(source))?;
        fs::remove_file(&self.note_path).map_err(|source| self.trouble(source))
    }

    /// Forgets about it without a result.
    pub(super) fn discard(self) -> Result<(), DownloadError> {
        fs::remove_file(&self.path).map_err(|source| self.trouble(source))?;
        fs::remove_file(&self.note_path).map_err(|source| self.trouble(source))
    }

    fn read_note(&self) -> Option<Note> {
        let bytes = host::read_file(&self.note_path, NOTE_LIMIT).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn trouble(&self, source: io::Error) -> DownloadError {
        tracing::debug!(url = %self.url, "partial download in trouble");
        DownloadError::KeepPart { path: self.path.clone(), source }
    }
}

/// Opens and locks the file; nothing if another run has it. A prune may remove it between the two.
fn locked(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..10 {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) if file.metadata()?.nlink() > 0 => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("the file is removed as soon as it is made"))
}
