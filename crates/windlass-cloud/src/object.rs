//! The object store of a cluster: bytes under a key, on disk by their digest, with a small file beside them that says what
//! they are. Objects are fetched over HTTP by signed URLs that expire, or freely below a public prefix.
//!
//! [`ObjectStore`] owns the files and a map of them. Whoever has a better place for the map (the daemon's database) gives
//! it to [`ObjectStore::with_index`], records a [`Stored`] object before it releases what was replaced, and forgets an
//! object before it deletes it; [`ObjectStore::sweep`] then removes what a kill in between has left.
//! [`ObjectStore::scan`] makes the map again from the files alone.

mod key;
mod serve;
mod shelf;
mod store;
mod url;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

pub use key::{DigestError, ObjectDigest, Prefix};
pub use serve::{Serving, router};
pub use shelf::{ShelfError, Shelved, take};
pub(crate) use store::AT_ONCE;
pub use store::{ObjectError, ObjectStore};
pub use url::{Denied, UrlSigner};
pub use windlass_cloud_api::ObjectKey;

/// What is known of one object; also the content of the file beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// What it is called.
    pub key: ObjectKey,
    /// What it is.
    pub digest: ObjectDigest,
    /// How many bytes it has.
    pub size: u64,
    /// When it was stored.
    #[serde(with = "time::serde::rfc3339")]
    pub stored: OffsetDateTime,
    /// From when on it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time::serde::rfc3339::option")]
    pub expires: Option<OffsetDateTime>,
}

impl Object {
    /// Whether it is gone at this time.
    pub fn is_expired(&self, now: OffsetDateTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// An object to be stored.
#[derive(Clone, Debug)]
pub struct NewObject<B> {
    /// What it is to be called; an object of that name is replaced.
    pub key: ObjectKey,
    /// Its content.
    pub content: Content<B>,
    /// From when on it is gone.
    pub expires: Option<OffsetDateTime>,
}

/// The content of an object to be stored.
#[derive(Clone, Debug)]
pub enum Content<B> {
    /// These bytes.
    Bytes(B),
    /// A file of the shelf, on the file system of the store: both have it then.
    Shelved(Shelved),
}

/// An object that is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What it is.
    pub object: Object,
    /// The content that the key had before. It stays until [`ObjectStore::release`], so that whoever keeps the map can
    /// make sure of the new entry before the old bytes go.
    pub replaced: Option<ObjectDigest>,
}

/// What was seen after a deletion, by looking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// What it was called.
    pub key: ObjectKey,
    /// What it was.
    pub digest: ObjectDigest,
    /// Whether the file that describes the key is gone.
    pub key_gone: bool,
    /// What became of the bytes.
    pub content: Remains,
}

impl Deletion {
    /// Whether nothing of the object is left that nobody else needs.
    pub fn is_proven(&self) -> bool {
        self.key_gone && self.content != Remains::Found
    }
}

/// What became of the bytes of a deleted object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remains {
    /// No file with that digest is there.
    Gone,
    /// Other keys have the same content, so it stays.
    InUse {
        /// How many.
        keys: usize,
    },
    /// The file is still there, though it should not be.
    Found,
}
