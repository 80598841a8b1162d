//! The bucket that `windlass artifacts publish` lays out lies where machines with a plain spec look for it.

use std::fs;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use windlass_artifacts::addon::{
    AddonVersion, Board, Location, Manifest, ManifestUrl, Origins, OsVersion, PackageName, Publication,
    PublishedPackage, publish,
};
use windlass_artifacts::base;
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::signature::SigningKeys;
use windlass_spec::file::read_and_complete;
use windlass_steps::host::{Mode, write_file};

const NOW: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);
const SPEC: &str =
    "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec: {domain: demo.test}\n";

#[test]
fn the_default_template_leads_to_the_published_manifest_and_its_packages() {
    let dir = tempfile::tempdir().unwrap();
    let keys = SigningKeys::generate(&mut ChaCha20Rng::from_seed([1; 32]), "bucket", NOW - Duration::DAY).unwrap();
    let (_, spec) = read_and_complete(SPEC.as_bytes()).unwrap();
    let template = ManifestUrl::parse(&spec.spec.artifacts.addon_manifest_url).unwrap();
    for os in base::OsVersion::ALL {
        let os_version = OsVersion::parse(os.as_str()).unwrap();
        let url = template.expand(&Board::amd64(), &os_version).unwrap();
        // As the local cloud's object server has it: below `/o/` the bucket's name, then the object's.
        let (bucket, object) = url.path().strip_prefix("/o/").unwrap().split_once('/').unwrap();
        let archive = dir.path().join("archive");
        write_file(&archive, format!("runtime for {os}"), Mode::PUBLIC).unwrap();
        let package = PublishedPackage {
            name: PackageName::parse("containerd").unwrap(),
            version: AddonVersion::parse("2.2.9").unwrap(),
            archive,
            digest: Digest::of(Algorithm::Sha256, format!("runtime for {os}").as_bytes()),
        };
        let publication = Publication {
            board: Board::amd64(),
            os_version,
            packages: vec![package],
            expires: NOW + Duration::DAY,
            at_least: 1,
            keys: &keys,
            now: NOW,
        };
        let bucket = dir.path().join(bucket);
        let published = publish(&bucket, &publication).unwrap();
        assert_eq!(published.manifest, bucket.join(object));
        let manifest = Manifest::parse(&fs::read(bucket.join(object)).unwrap()).unwrap();
        let Location::Url(location) = &manifest.packages[0].versions[0].locations[0] else { panic!("a path") };
        let package = location.resolve(&url, &Origins::SameAsManifest).unwrap();
        let package = dir.path().join(package.path().strip_prefix("/o/").unwrap());
        assert_eq!(fs::read_to_string(package).unwrap(), format!("runtime for {os}"));
    }
}
