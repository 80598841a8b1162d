//! The list in a bundle.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_spec::KubeVersion;

use super::BundleError;
use crate::digest::Digest;

const FORMAT: &str = "windlass-bundle-v1";
const ENTRIES_LIMIT: usize = 10_000;
const TEXT_LIMIT: usize = 200;

/// What a bundle holds and for which Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleIndex {
    kubernetes_version: KubeVersion,
    entries: Vec<BundleEntry>,
}

/// One thing in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleEntry {
    /// The component.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is, in lower case: `binary`, `image`, `addon`, …
    pub kind: String,
    /// The digest of the blob.
    pub digest: Digest,
    /// The length of the blob.
    pub size: u64,
    /// Further names under which it is installed: the tools of a multi-call binary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The digest of what it was made from, if its maker said: whoever takes it can tell whether that is still so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Digest>,
}

impl BundleEntry {
    /// Name and version, for messages.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    pub(super) fn path(&self) -> String {
        blob_path(&self.digest)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    format: String,
    kubernetes_version: String,
    entries: Vec<BundleEntry>,
}

impl BundleIndex {
    /// A list whose entries are in order, each there once.
    pub fn new(kubernetes_version: KubeVersion, mut entries: Vec<BundleEntry>) -> Result<Self, BundleError> {
        entries.sort_by(|one, two| (&one.kind, &one.name, &one.version).cmp(&(&two.kind, &two.name, &two.version)));
        check(&entries).map_err(|what| BundleError::ParseIndex { what })?;
        Ok(BundleIndex { kubernetes_version, entries })
    }

    /// Reads `bundle.json`, which must have been verified before.
    pub(super) fn parse(json: &[u8]) -> Result<Self, BundleError> {
        let wrong = |what: String| BundleError::ParseIndex { what };
        let written: Written = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        if written.format != FORMAT {
            return Err(wrong(format!("its format is not {FORMAT}")));
        }
        let version = KubeVersion::parse(&written.kubernetes_version).map_err(|error| wrong(error.to_string()))?;
        check(&written.entries).map_err(wrong)?;
        Ok(BundleIndex { kubernetes_version: version, entries: written.entries })
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>, BundleError> {
        let written = Written {
            format: FORMAT.to_owned(),
            kubernetes_version: self.kubernetes_version.to_string(),
            entries: self.entries.clone(),
        };
        let mut json =
            serde_json::to_vec_pretty(&written).map_err(|error| BundleError::ParseIndex { what: error.to_string() })?;
        json.push(b'\n');
        Ok(json)
    }

    /// The version that it is complete for.
    pub fn kubernetes_version(&self) -> &KubeVersion {
        &self.kubernetes_version
    }

    /// Everything in it.
    pub fn entries(&self) -> &[BundleEntry] {
        &self.entries
    }

    /// The blobs in the order in which they lie in the bundle, each with the entries that it is for.
    pub(super) fn blobs(&self) -> Vec<Vec<&BundleEntry>> {
        let mut places = BTreeMap::new();
        let mut blobs: Vec<Vec<&BundleEntry>> = Vec::new();
        for entry in &self.entries {
            let place = *places.entry(&entry.digest).or_insert(blobs.len());
            match blobs.get_mut(place) {
                Some(blob) => blob.push(entry),
                None => blobs.push(vec![entry]),
            }
        }
        blobs
    }
}

pub(super) fn blob_path(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm().as_str(), digest.hex())
}

fn check(entries: &[BundleEntry]) -> Result<(), String> {
    if entries.is_empty() || entries.len() > ENTRIES_LIMIT {
        return Err(format!("one to {ENTRIES_LIMIT} entries are wanted"));
    }
    let mut seen = BTreeSet::new();
    let mut sizes = BTreeMap::new();
    for entry in entries {
        let texts = [&entry.name, &entry.version, &entry.kind].into_iter().chain(&entry.links);
        for text in texts {
            if text.is_empty() || text.len() > TEXT_LIMIT || text.contains(char::is_control) {
                return Err(format!("{:?} is not a name", text.chars().take(TEXT_LIMIT).collect::<String>()));
            }
        }
        if !seen.insert((&entry.kind, &entry.name, &entry.version)) {
            return Err(format!("{} is there twice", entry.title()));
        }
        if *sizes.entry(&entry.digest).or_insert(entry.size) != entry.size {
            return Err(format!("{} has two sizes", entry.digest));
        }
    }
    Ok(())
}
