//! The cluster's own bucket of runtime addons: what machines find there, signed with the cluster's own keys.

use time::OffsetDateTime;
use windlass_artifacts::addon::{self, AddonError, Board, Offer, OfferedPackage, OsVersion};
use windlass_artifacts::base;
use windlass_assets::asset::AssetError;
use windlass_pki::Authority;
use windlass_platform::{ArtifactFile, BucketContent, BucketFile};

use crate::addon_keys;
use crate::prepare::Assets;
use crate::software::Addon;

/// Why the bucket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The cluster's keys cannot be used.
    #[error("cannot use the keys of the bucket")]
    ReadKeys {
        /// What is wrong with them.
        source: AssetError,
    },
    /// What is on offer could not be signed.
    #[error("cannot offer addons for OS version {os_version}")]
    SignOffer {
        /// For which.
        os_version: base::OsVersion,
        /// Why not.
        source: AddonError,
    },
}

/// Every file of the bucket, in the order in which they are to appear.
///
/// The manifests' version is the moment in seconds: whoever publishes later has a higher one and need not look at what is
/// there. They end with the cluster's own authority, because nobody publishes again by the calendar.
pub fn files(assets: &Assets, addons: &[Addon], now: OffsetDateTime) -> Result<Vec<BucketFile>, BucketError> {
    let keys = addon_keys::signing(&assets.addon_keys).map_err(|source| BucketError::ReadKeys { source })?;
    let mut files = Vec::new();
    for os in base::OsVersion::ALL {
        let packages: Vec<OfferedPackage> =
            addons.iter().filter(|addon| addon.os_version == os).map(|addon| addon.package.clone()).collect();
        let offer = Offer {
            board: Board::amd64(),
            os_version: OsVersion::parse(os.as_str()).expect("a digit is an OS version"),
            packages,
            version: now.unix_timestamp().try_into().unwrap_or_default(),
            expires: assets.pki.certificate(Authority::Cluster).not_after(),
            keys: &keys,
            now,
        };
        let offered = offer.files().map_err(|source| BucketError::SignOffer { os_version: os, source })?;
        files.extend(offered.into_iter().map(file));
    }
    Ok(files)
}

fn file(file: addon::BucketFile) -> BucketFile {
    let content = match file.content {
        addon::BucketContent::Text(text) => BucketContent::Text(text),
        addon::BucketContent::Archive { path, digest } => {
            BucketContent::File(ArtifactFile { path, digest: digest.to_string() })
        }
    };
    BucketFile { key: file.path, content }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use time::Duration;
    use time::macros::datetime;
    use windlass_artifacts::addon::{
        AddonVersion, Expected, Judged, Location, Manifest, ManifestUrl, Origins, PackageName, Rollback, judge,
    };
    use windlass_artifacts::digest::{Algorithm, Digest};
    use windlass_artifacts::signature::minisign::PublicKey;
    use windlass_artifacts::signature::openpgp::Keyring;
    use windlass_artifacts::signature::{Signatures, Trusted, Verification, check};
    use windlass_assets::AssetDir;
    use windlass_pki::SeededKeys;
    use windlass_platform::BUCKET;

    use super::*;
    use crate::prepare::make;

    const NOW: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
    const SPEC: &[u8] = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";

    fn assets() -> Assets {
        let dir = tempfile::tempdir().unwrap();
        let (_, decided) = windlass_spec::file::read_and_complete(SPEC).unwrap();
        let mut draft = AssetDir::open(dir.path().join("c")).unwrap().draft();
        make(&mut draft, decided, &mut SeededKeys::new("bucket"), NOW).unwrap()
    }

    fn addons() -> Vec<Addon> {
        let addon = |os_version: base::OsVersion, name: &str, version: &str| {
            let bytes = format!("{name} {version} for {os_version}").into_bytes();
            let package = OfferedPackage {
                name: PackageName::parse(name).unwrap(),
                version: AddonVersion::parse(version).unwrap(),
                archive: format!("/cache/{name}-{os_version}").into(),
                digest: Digest::of(Algorithm::Sha256, &bytes),
                hash: Digest::of(Algorithm::Sha512, &bytes),
                length: bytes.len() as u64,
            };
            Addon { os_version, package }
        };
        let both = |os| [addon(os, "containerd", "2.2.9"), addon(os, "kubelet", "1.36.3")];
        base::OsVersion::ALL.into_iter().flat_map(both).collect()
    }

    /// What a machine sees: texts by URL, and the digests of what it may download.
    struct Bucket {
        texts: BTreeMap<String, String>,
        archives: BTreeMap<String, String>,
    }

    impl Bucket {
        fn of(assets: &Assets, files: Vec<BucketFile>) -> Self {
            let mut bucket = Bucket { texts: BTreeMap::new(), archives: BTreeMap::new() };
            for BucketFile { key, content } in files {
                let url = format!("http://objects.internal.{}/o/{BUCKET}/{key}", assets.spec.spec.domain);
                match content {
                    BucketContent::Text(text) => bucket.texts.insert(url, text),
                    BucketContent::File(file) => bucket.archives.insert(url, file.digest),
                };
            }
            bucket
        }
    }

    #[test]
    fn a_machine_with_the_clusters_public_keys_may_follow_every_manifest() {
        let (assets, addons) = (assets(), addons());
        let bucket = Bucket::of(&assets, files(&assets, &addons, NOW).unwrap());
        assert_eq!((bucket.texts.len(), bucket.archives.len()), (6, 4));
        let trusted = Trusted {
            openpgp: Some(Keyring::parse(&assets.addon_keys.openpgp.public).unwrap()),
            minisign: Some(PublicKey::parse(&assets.addon_keys.minisign.public).unwrap()),
        };
        let template = ManifestUrl::parse(&assets.spec.spec.artifacts.addon_manifest_url).unwrap();
        for os in ["1", "2"] {
            let os_version = OsVersion::parse(os).unwrap();
            let url = template.expand(&Board::amd64(), &os_version).unwrap();
            let text = |ending: &str| bucket.texts[&format!("{url}{ending}")].as_bytes();
            let signatures = Signatures { asc: Some(text(".asc")), minisig: Some(text(".minisig")) };
            check(Verification::Required, &trusted, "manifest", text(""), signatures, NOW).unwrap();
            let manifest = Manifest::parse(text("")).unwrap();
            let later = NOW + Duration::days(3000);
            let expected = Expected { board: Board::amd64(), os_version, now: later, highest_seen: None };
            let version = NOW.unix_timestamp() as u64;
            assert_eq!(judge(&manifest, &expected).unwrap(), Judged { rollback: Rollback::Protected(version) });
            for Addon { package, .. } in addons.iter().filter(|addon| addon.os_version.as_str() == os) {
                let offered = manifest.find(&package.name, &package.version).unwrap();
                assert_eq!((&offered.hash, manifest.length(&offered.hash)), (&package.hash, Some(package.length)));
                let Location::Url(location) = &offered.locations[0] else { panic!("a path") };
                let url = location.resolve(&url, &Origins::SameAsManifest).unwrap();
                assert_eq!(bucket.archives[url.as_str()], package.digest.to_string());
            }
        }
    }

    #[test]
    fn publishing_again_never_goes_back_and_changes_no_package() {
        let (assets, addons) = (assets(), addons());
        let versions = |now| -> Vec<u64> {
            let texts = Bucket::of(&assets, files(&assets, &addons, now).unwrap()).texts;
            let manifests = texts.iter().filter(|(url, _)| url.ends_with(".json"));
            manifests.map(|(_, text)| Manifest::parse(text.as_bytes()).unwrap().stamp.unwrap().version).collect()
        };
        let archives = |now| Bucket::of(&assets, files(&assets, &addons, now).unwrap()).archives;
        let later = NOW + Duration::minutes(5);
        assert!(versions(later) > versions(NOW));
        assert_eq!(archives(later), archives(NOW));
        assert_eq!(files(&assets, &addons, NOW).unwrap(), files(&assets, &addons, NOW).unwrap());
    }

    #[test]
    fn packages_appear_before_the_manifest_that_names_them() {
        let files = files(&assets(), &addons(), NOW).unwrap();
        for (place, file) in files.iter().enumerate().filter(|(_, file)| file.key.ends_with(".json")) {
            let dir = file.key.trim_end_matches("torcx_manifest.json");
            let after = files[place + 1..].iter().filter(|file| file.key.starts_with(dir));
            assert_eq!(after.count(), 0, "{}", file.key);
        }
    }
}
