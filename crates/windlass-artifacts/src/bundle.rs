//! Bundles: one signed file with everything for one Kubernetes version, for machines with no network at all.
//!
//! A bundle is a plain tar archive: `bundle.json`, which lists everything with digest and size; the two signatures of
//! that list; then each blob under its digest, in the list's order. Whoever holds the signing key vouches for the list,
//! the list vouches for the blobs, and every byte is either vouched for or known beforehand, so that nothing can be
//! changed, added or left out.

mod blob;
mod error;
mod import;
mod index;
mod make;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

pub use error::BundleError;
pub use import::{BlobSink, Imported, SinkError};
pub use index::{BundleEntry, BundleIndex};
pub use make::{BundledBlob, make_bundle, write_bundle};

use crate::archive::{Kind, Limits, TarReader};
use crate::signature::{Checked, Signatures, Trusted, Verification, check};
use blob::At;

const INDEX: &str = "bundle.json";
const INDEX_LIMIT: u64 = 8 << 20;
const SIGNATURE_LIMIT: u64 = 1 << 16;
const PATH_LIMIT: usize = 256;

/// A bundle whose list was verified; its blobs are verified as they are imported.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    file: File,
    index: BundleIndex,
    checked: Checked,
    /// Where the blobs start.
    blobs: u64,
}

impl Bundle {
    /// What is in it.
    pub fn index(&self) -> &BundleIndex {
        &self.index
    }

    /// Who signed it, or the warning that nobody looked.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }
}

/// Opens a bundle and verifies its list before a single field of it is believed.
pub fn open_bundle(
    path: &Path,
    trusted: &Trusted,
    verification: Verification,
    now: OffsetDateTime,
) -> Result<Bundle, BundleError> {
    let unreadable = |source| BundleError::ReadBundle { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let limits = Limits { bytes: length, members: 3, ratio: 1, path_length: PATH_LIMIT };
    let mut tar = TarReader::new(BufReader::new(At::new(&file, 0)), limits);
    let json = front(&mut tar, INDEX, INDEX_LIMIT)?;
    let asc = front(&mut tar, "bundle.json.asc", SIGNATURE_LIMIT)?;
    let minisig = front(&mut tar, "bundle.json.minisig", SIGNATURE_LIMIT)?;
    let signatures = Signatures { asc: Some(&asc), minisig: Some(&minisig) };
    let subject = format!("the bundle {}", path.display());
    let checked = check(verification, trusted, &subject, &json, signatures, now)
        .map_err(|source| BundleError::VerifyIndex { source })?;
    let index = BundleIndex::parse(&json)?;
    tar.skip().map_err(|source| BundleError::ReadMember { source })?;
    let blobs = tar.offset();
    Ok(Bundle { path: path.to_owned(), file, index, checked, blobs })
}

fn front<R: Read>(tar: &mut TarReader<R>, name: &'static str, limit: u64) -> Result<Vec<u8>, BundleError> {
    let wrong = |what| BundleError::RefuseMember { member: name.to_owned(), what };
    let member = tar.next().map_err(|source| BundleError::ReadMember { source })?;
    let member = member.ok_or_else(|| wrong("it is missing"))?;
    if member.path != name || member.kind != Kind::File {
        return Err(wrong("it is not where it should be"));
    }
    if member.size > limit {
        return Err(wrong("it is too large"));
    }
    let mut content = Vec::new();
    let read = tar.read_to_end(&mut content);
    read.map_err(|error| BundleError::ReadMember { source: tar.trouble(error) })?;
    Ok(content)
}
