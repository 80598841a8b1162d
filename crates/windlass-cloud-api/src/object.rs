//! Objects: files with a digest and, if wanted, an end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ObjectKey;

/// An object to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewObject {
    /// Its key; an object of that key is replaced.
    pub key: ObjectKey,
    /// What is in it.
    pub content: ObjectContent,
}

/// What is in an object to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ObjectContent {
    /// This text.
    Text(String),
    /// What a file of the cloud's host holds, which the cloud takes from there.
    File {
        /// Where it is; absolute.
        path: PathBuf,
        /// `sha256:…` of its bytes, or it is not taken.
        digest: String,
    },
}

/// An object as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectInfo {
    /// Its key.
    pub key: ObjectKey,
    /// `sha256:…` of its bytes.
    pub digest: String,
    /// How many they are.
    pub size: u64,
}

/// How long a URL is to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UrlRequest {
    /// Seconds from now.
    pub seconds: u32,
}

/// A URL that works inside the cluster's network for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectUrl {
    /// The URL.
    pub url: String,
    /// When it stops working, RFC 3339.
    pub expires: String,
}

/// What was looked at after an object was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProofOfDeletion {
    /// The object's key.
    pub key: ObjectKey,
    /// What it was; nothing if it was not there.
    pub digest: Option<String>,
    /// Whether the key is unknown now.
    pub key_gone: bool,
    /// Whether its bytes are off the disk now; another key may have the same ones.
    pub bytes_gone: bool,
}
