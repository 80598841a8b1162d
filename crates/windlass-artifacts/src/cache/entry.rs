//! What the cache holds: keys, entries, and the records that say which file belongs to which key.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::CacheError;
use crate::digest::Digest;

/// What an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program.
    Binary,
    /// An OCI archive.
    Image,
    /// A runtime addon: a systemd-sysext archive.
    Addon,
    /// The machine base.
    Base,
    /// Everything for one Kubernetes version in one file.
    Bundle,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Binary, Kind::Image, Kind::Addon, Kind::Base, Kind::Bundle];

    /// The word for it in records and paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Binary => "binary",
            Kind::Image => "image",
            Kind::Addon => "addon",
            Kind::Base => "base",
            Kind::Bundle => "bundle",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where an artifact came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Downloaded from a mirror or a registry.
    Release,
    /// Built from a pinned Go module.
    Source,
    /// Unpacked from a bundle.
    Bundle,
    /// Made by windlass from other artifacts.
    Made,
}

impl SourceKind {
    /// The word for it in records and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceKind::Release => "release",
            SourceKind::Source => "source",
            SourceKind::Bundle => "bundle",
            SourceKind::Made => "made",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name by which an artifact is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    kind: Kind,
    name: String,
    version: String,
}

impl Key {
    /// Takes a name and a version that can be part of a file name; a `/` or `:` in a name is fine.
    pub fn new(kind: Kind, name: &str, version: &str) -> Result<Self, CacheError> {
        for text in [name, version] {
            let safe = |b: u8| b.is_ascii_alphanumeric() || b"._+-/:".contains(&b);
            let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
            if !starts_well || text.len() > 80 || !text.bytes().all(safe) {
                return Err(CacheError::NameArtifact { text: text.chars().take(100).collect() });
            }
        }
        Ok(Key { kind, name: name.to_owned(), version: version.to_owned() })
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which one of that name.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The record's file below `entries/`.
    pub(super) fn record(&self) -> String {
        let escaped = |text: &str| text.replace('/', "%2F").replace(':', "%3A");
        format!("{}/{}@{}.json", self.kind, escaped(&self.name), escaped(&self.version))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}@{}", self.kind, self.name, self.version)
    }
}

/// One artifact that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it was asked for as.
    pub key: Key,
    /// The SHA-256 of its file.
    pub digest: Digest,
    /// The size of its file.
    pub size: u64,
    /// Where it came from.
    pub source: SourceKind,
    /// Its file in the cache; absolute.
    pub path: PathBuf,
    /// Other names under which a binary does other things.
    pub links: Vec<String>,
    /// The digest of what it was made from, if the maker said.
    pub inputs: Option<Digest>,
    /// Its SHA-512, if anybody has asked for it ([`Cache::sha512`](super::Cache::sha512)).
    pub sha512: Option<Digest>,
}

/// What the maker of an artifact may add to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Other names under which a binary does other things.
    pub links: Vec<String>,
    /// The digest of what it was made from, so that a change of that can be seen.
    pub inputs: Option<Digest>,
}

/// The contract's form: `{name,version,kind,digest,size,path,source}`.
impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Entry", 7)?;
        object.serialize_field("name", self.key.name())?;
        object.serialize_field("version", self.key.version())?;
        object.serialize_field("kind", &self.key.kind())?;
        object.serialize_field("digest", &self.digest)?;
        object.serialize_field("size", &self.size)?;
        object.serialize_field("path", &self.path)?;
        object.serialize_field("source", &self.source)?;
        object.end()
    }
}

/// A record as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) kind: Kind,
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) source: SourceKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inputs: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha512: Option<Digest>,
    pub(super) identity: Identity,
}

/// What the kernel says about a file that was hashed. While none of it changes, nobody has written to the file: any
/// write moves the change time, which no program can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    size: u64,
    inode: u64,
    mtime_ns: i64,
    ctime_ns: i64,
}

impl Identity {
    pub(super) fn of(meta: &Metadata) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Identity {
            size: meta.len(),
            inode: meta.ino(),
            mtime_ns: nanos(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: nanos(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl Record {
    pub(super) fn of(entry: &Entry, identity: Identity) -> Self {
        Record {
            name: entry.key.name().to_owned(),
            version: entry.key.version().to_owned(),
            kind: entry.key.kind(),
            digest: entry.digest.clone(),
            size: entry.size,
            source: entry.source,
            links: entry.links.clone(),
            inputs: entry.inputs.clone(),
            sha512: entry.sha512.clone(),
            identity,
        }
    }
}
