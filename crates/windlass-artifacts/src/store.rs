//! Between bundles and the cache: everything for one Kubernetes version in one file, and back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use time::OffsetDateTime;
use windlass_spec::KubeVersion;
use windlass_steps::host::Mode;

use crate::bundle::{BlobSink, Bundle, BundleEntry, BundleError, BundledBlob, Imported, SinkError, make_bundle};
use crate::cache::{Cache, CacheError, Details, Entry, Key, Kind, SourceKind};
use crate::signature::SigningKeys;

/// Packs artifacts into a bundle file.
pub fn bundle(
    path: &Path,
    version: KubeVersion,
    entries: &[Entry],
    keys: &SigningKeys,
    now: OffsetDateTime,
) -> Result<u64, BundleError> {
    let blob = |entry: &Entry| BundledBlob {
        entry: BundleEntry {
            name: entry.key.name().to_owned(),
            version: entry.key.version().to_owned(),
            kind: entry.key.kind().as_str().to_owned(),
            digest: entry.digest.clone(),
            size: entry.size,
            links: entry.links.clone(),
        },
        path: entry.path.clone(),
    };
    let blobs: Vec<BundledBlob> = entries.iter().map(blob).collect();
    make_bundle(path, &version, &blobs, keys, now)?;
    let sizes: BTreeMap<&str, u64> = entries.iter().map(|e| (e.digest.hex(), e.size)).collect();
    Ok(sizes.values().sum())
}

/// Takes everything from a verified bundle into the cache.
pub fn import(bundle: &Bundle, cache: &Cache) -> Result<Imported, BundleError> {
    bundle.import(&mut Sink { cache })
}

struct Sink<'a> {
    cache: &'a Cache,
}

impl BlobSink for Sink<'_> {
    fn take(&mut self, entry: &BundleEntry, reader: &mut dyn Read) -> Result<(), SinkError> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == entry.kind);
        let kind = kind.ok_or_else(|| format!("{} is of an unknown kind {:?}", entry.title(), entry.kind))?;
        let key = Key::new(kind, &entry.name, &entry.version)?;
        if self.cache.find(&key)?.is_some_and(|found| found.digest == entry.digest) {
            return Ok(());
        }
        let room = self.cache.temp_dir("bundle")?;
        let path = room.path().join("blob");
        copy(reader, &path).map_err(|source| CacheError::AddFile { file: path.clone(), source })?;
        let mode = if kind == Kind::Binary { Mode::EXECUTABLE } else { Mode::PUBLIC };
        let details = Details { links: entry.links.clone(), inputs: None };
        self.cache.add_with(&key, SourceKind::Bundle, &path, mode, details)?;
        Ok(())
    }
}

fn copy(reader: &mut dyn Read, path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::copy(reader, &mut file)?;
    Ok(())
}
