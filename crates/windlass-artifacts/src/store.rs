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
            inputs: entry.inputs.clone(),
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
        let same = |found: &Entry| found.digest == entry.digest && (found.inputs.is_some() || entry.inputs.is_none());
        if self.cache.find(&key)?.as_ref().is_some_and(same) {
            return Ok(());
        }
        let room = self.cache.temp_dir("bundle")?;
        let path = room.path().join("blob");
        copy(reader, &path).map_err(|source| CacheError::AddFile { file: path.clone(), source })?;
        let mode = if kind == Kind::Binary { Mode::EXECUTABLE } else { Mode::PUBLIC };
        let details = Details { links: entry.links.clone(), inputs: entry.inputs.clone() };
        self.cache.add_with(&key, SourceKind::Bundle, &path, mode, details)?;
        Ok(())
    }
}

fn copy(reader: &mut dyn Read, path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::copy(reader, &mut file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng as _;
    use time::Duration;
    use time::macros::datetime;
    use windlass_steps::host::write_file;

    use super::*;
    use crate::bundle::open_bundle;
    use crate::digest::{Algorithm, Digest};
    use crate::signature::Verification;

    const NOW: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

    /// A bundle with one base, and the base as the bundle's maker has it.
    fn bundled(dir: &Path) -> (Bundle, Entry) {
        let cache = Cache::open(dir.join("source")).unwrap();
        write_file(dir.join("base"), "a base", Mode::PUBLIC).unwrap();
        let inputs = Some(Digest::of(Algorithm::Sha256, b"a program"));
        let (key, details) = (Key::new(Kind::Base, "base-1", "1.36.3").unwrap(), Details { links: vec![], inputs });
        let entry = cache.add_with(&key, SourceKind::Made, &dir.join("base"), Mode::PUBLIC, details).unwrap();
        let keys = SigningKeys::generate(&mut ChaCha20Rng::from_seed([1; 32]), "b", NOW - Duration::DAY).unwrap();
        let path = dir.join("bundle");
        bundle(&path, KubeVersion::DEFAULT, std::slice::from_ref(&entry), &keys, NOW).unwrap();
        (open_bundle(&path, &keys.trusted(), Verification::Required, NOW).unwrap(), entry)
    }

    #[test]
    fn a_bundle_says_what_its_artifacts_were_made_from() {
        let dir = tempfile::tempdir().unwrap();
        let (bundle, made) = bundled(dir.path());
        let cache = Cache::open(dir.path().join("target")).unwrap();
        // From a bundle that did not say.
        cache.add_file(&made.key, SourceKind::Bundle, &dir.path().join("base"), Mode::PUBLIC).unwrap();
        for _ in 0..2 {
            import(&bundle, &cache).unwrap();
            let taken = cache.find(&made.key).unwrap().unwrap();
            assert_eq!(
                (taken.source, taken.inputs, taken.digest),
                (SourceKind::Bundle, made.inputs.clone(), made.digest.clone())
            );
        }
    }

    #[test]
    fn a_cached_file_that_changed_is_not_trusted_by_an_import_either() {
        let dir = tempfile::tempdir().unwrap();
        let (bundle, made) = bundled(dir.path());
        let cache = Cache::open(dir.path().join("target")).unwrap();
        import(&bundle, &cache).unwrap();
        let taken = cache.find(&made.key).unwrap().unwrap();
        write_file(&taken.path, "a bass", Mode::PUBLIC).unwrap();
        let error = import(&bundle, &cache).unwrap_err();
        assert!(matches!(error, BundleError::StoreBlob { .. }) && error.is_trust(), "{error}");
        assert!(error.hint().unwrap().contains("prune"), "the bundle is not to blame: {:?}", error.hint());
    }
}
