//! Into a bundle: the same content, keys and time give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use windlass_spec::KubeVersion;
use windlass_steps::host::Mode;

use super::blob::{Trouble, Verified};
use super::index::blob_path;
use super::{BundleEntry, BundleError, BundleIndex, INDEX};
use crate::archive::{FileMode, append_file};
use crate::fresh::FreshFile;
use crate::signature::SigningKeys;

/// Something that is to go into a bundle.
#[derive(Debug, Clone)]
pub struct BundledBlob {
    /// How the list describes it.
    pub entry: BundleEntry,
    /// Where it is.
    pub path: PathBuf,
}

/// Makes a bundle file; it appears under its name only when it is complete.
pub fn make_bundle(
    path: &Path,
    kubernetes_version: &KubeVersion,
    blobs: &[BundledBlob],
    keys: &SigningKeys,
    now: OffsetDateTime,
) -> Result<BundleIndex, BundleError> {
    let failed = |source| BundleError::WriteBundle { source };
    let mut file = FreshFile::create(path).map_err(failed)?;
    let index = write_bundle(BufWriter::with_capacity(1 << 20, &mut file), kubernetes_version, blobs, keys, now)?;
    file.commit(Mode::PUBLIC).map_err(failed)?;
    Ok(index)
}

/// Writes a bundle; each blob is checked against its digest on the way.
pub fn write_bundle(
    out: impl Write,
    kubernetes_version: &KubeVersion,
    blobs: &[BundledBlob],
    keys: &SigningKeys,
    now: OffsetDateTime,
) -> Result<BundleIndex, BundleError> {
    let entries = blobs.iter().map(|blob| blob.entry.clone()).collect();
    let index = BundleIndex::new(*kubernetes_version, entries)?;
    let json = index.to_json()?;
    let signatures = keys.sign(INDEX, &json, now).map_err(|source| BundleError::SignBundle { source })?;
    let mut builder = tar::Builder::new(out);
    let front = [
        (INDEX, json.as_slice()),
        ("bundle.json.asc", signatures.asc.as_bytes()),
        ("bundle.json.minisig", signatures.minisig.as_bytes()),
    ];
    for (name, content) in front {
        append_file(&mut builder, name, content, content.len() as u64, FileMode::Data)
            .map_err(|source| BundleError::PackBundle { source })?;
    }
    for entries in index.blobs() {
        let first = entries.first().and_then(|entry| blobs.iter().find(|blob| blob.entry == **entry));
        if let Some(blob) = first {
            append_blob(&mut builder, blob)?;
        }
    }
    let mut out = builder.into_inner().map_err(|source| BundleError::WriteBundle { source })?;
    out.flush().map_err(|source| BundleError::WriteBundle { source })?;
    Ok(index)
}

fn append_blob(builder: &mut tar::Builder<impl Write>, blob: &BundledBlob) -> Result<(), BundleError> {
    let unreadable = |source| BundleError::ReadBlob { path: blob.path.clone(), source };
    let file = File::open(&blob.path).map_err(unreadable)?;
    let BundleEntry { digest, size, .. } = &blob.entry;
    let length = file.metadata().map_err(unreadable)?.len();
    let mismatch = || BundleError::MatchDigest { name: blob.entry.title(), digest: digest.clone() };
    if length != *size {
        return Err(mismatch());
    }
    let mut reader = Verified::new(file, *size, digest);
    let appended = append_file(builder, &blob_path(digest), &mut reader, *size, FileMode::Data);
    match (reader.finish(), appended) {
        (Some(Trouble::Digest), _) => Err(mismatch()),
        (Some(Trouble::Read(source)), _) => Err(unreadable(source)),
        (None, Err(source)) => Err(BundleError::PackBundle { source }),
        (None, Ok(())) => Ok(()),
    }
}
