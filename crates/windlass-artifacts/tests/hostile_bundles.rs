//! Bundles: what goes in comes out, and nothing else does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use windlass_artifacts::bundle::{
    BlobSink, Bundle, BundleEntry, BundleError, BundledBlob, SinkError, make_bundle, open_bundle, write_bundle,
};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::signature::{Checked, SigningKeys, Trusted, Verification};
use windlass_spec::KubeVersion;

const NOW: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

#[derive(Default)]
struct Collected(Vec<(String, Vec<u8>)>);

impl BlobSink for Collected {
    fn take(&mut self, entry: &BundleEntry, reader: &mut dyn Read) -> Result<(), SinkError> {
        let mut content = Vec::new();
        reader.read_to_end(&mut content)?;
        self.0.push((entry.title(), content));
        Ok(())
    }
}

fn keys() -> SigningKeys {
    SigningKeys::generate(&mut ChaCha20Rng::from_seed([5; 32]), "bundle", NOW - Duration::DAY).unwrap()
}

fn version() -> KubeVersion {
    KubeVersion::parse("1.36.3").unwrap()
}

fn put(path: &Path, content: &[u8]) -> PathBuf {
    fs::File::create(path).unwrap().write_all(content).unwrap();
    path.to_owned()
}

fn blob(dir: &Path, name: &str, content: &[u8]) -> BundledBlob {
    let entry = BundleEntry {
        name: name.to_owned(),
        version: "1.0".to_owned(),
        kind: "binary".to_owned(),
        digest: Digest::of(Algorithm::Sha256, content),
        size: content.len() as u64,
        links: vec!["kubelet".to_owned()],
        inputs: None,
    };
    BundledBlob { entry, path: put(&dir.join(name), content) }
}

/// Two blobs that differ, two names for the same one, and an empty one.
fn blobs(dir: &Path) -> Vec<BundledBlob> {
    vec![
        blob(dir, "etcd", &[7; 3000]),
        blob(dir, "runc", b"short"),
        blob(dir, "runc-again", b"short"),
        blob(dir, "empty", b""),
    ]
}

fn bundled(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_bundle(&mut bytes, &version(), &blobs(dir), &keys(), NOW).unwrap();
    bytes
}

fn open(path: &Path, trusted: &Trusted) -> Result<Bundle, BundleError> {
    open_bundle(path, trusted, Verification::Required, NOW)
}

static TRUSTED: LazyLock<Trusted> = LazyLock::new(|| keys().trusted());

fn import(path: &Path) -> Result<Vec<(String, Vec<u8>)>, BundleError> {
    let mut collected = Collected::default();
    open(path, &TRUSTED)?.import(&mut collected)?;
    Ok(collected.0)
}

#[test]
fn what_goes_in_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle.tar");
    let index = make_bundle(&path, &version(), &blobs(dir.path()), &keys(), NOW).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bundled(dir.path()), "the same content is the same file");
    let bundle = open(&path, &keys().trusted()).unwrap();
    assert!(matches!(bundle.checked(), Checked::Signed(_)));
    assert_eq!((bundle.index(), bundle.index().kubernetes_version()), (&index, &version()));
    let mut collected = Collected::default();
    let imported = bundle.import(&mut collected).unwrap();
    assert_eq!((imported.entries, imported.bytes), (4, 3005));
    let mut want: Vec<_> =
        blobs(dir.path()).into_iter().map(|b| (b.entry.title(), fs::read(b.path).unwrap())).collect();
    want.sort();
    collected.0.sort();
    assert_eq!(collected.0, want);
    let temps =
        fs::read_dir(dir.path()).unwrap().filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains("tmp"));
    assert_eq!(temps.count(), 0);
}

#[test]
fn any_flipped_byte_is_refused_or_means_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (good, path) = (bundled(dir.path()), dir.path().join("flipped"));
    let want = import(&put(&path, &good)).unwrap();
    let mut harmless = 0;
    for at in (0..good.len()).step_by(11) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x04;
        match import(&put(&path, &bytes)) {
            Err(error) => assert!(error.is_trust(), "{at}: {error:?}"),
            Ok(got) => {
                assert_eq!(got, want, "{at}");
                harmless += 1;
            }
        }
    }
    // Only the signatures' own remarks (the armour's checksum, the untrusted comment) may be changed unnoticed.
    assert!(harmless < 10, "{harmless}");
}

#[test]
fn any_cut_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (good, path) = (bundled(dir.path()), dir.path().join("cut"));
    for length in (0..good.len()).step_by(97).chain([good.len() - 1, good.len() - 512, good.len() - 1024]) {
        let error = import(&put(&path, &good[..length])).expect_err("cut");
        assert!(error.is_trust(), "{length}: {error:?}");
    }
}

/// The bundle's members as they lie there, header, content and padding.
fn members(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut archive = tar::Archive::new(bytes);
    let mut members = Vec::new();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let (start, size) = (entry.raw_header_position() as usize, entry.size() as usize);
        members.push(bytes[start..start + 512 + size.next_multiple_of(512)].to_vec());
    }
    members
}

#[test]
fn members_can_be_neither_added_nor_left_out_nor_moved() {
    let dir = tempfile::tempdir().unwrap();
    let good = bundled(dir.path());
    let members = members(&good);
    assert_eq!(members.len(), 6);
    let other_dir = tempfile::tempdir().unwrap();
    let mut other = Vec::new();
    write_bundle(&mut other, &version(), &[blob(other_dir.path(), "x", b"x")], &keys(), NOW).unwrap();
    let other = self::members(&other);
    let all: Vec<&Vec<u8>> = members.iter().collect();
    let without = |at: usize| all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, m)| *m).collect::<Vec<_>>();
    let mut cases: Vec<(String, Vec<&Vec<u8>>)> = (0..6).map(|at| (format!("without {at}"), without(at))).collect();
    cases.push(("one twice".to_owned(), [all.clone(), vec![&members[5]]].concat()));
    cases.push(("a foreign one".to_owned(), [all.clone(), vec![&other[3]]].concat()));
    cases.push(("the list of another bundle".to_owned(), [vec![&other[0]], all[1..].to_vec()].concat()));
    cases.push(("the front of another bundle".to_owned(), [other[..3].iter().collect(), all[3..].to_vec()].concat()));
    let mut swapped = all.clone();
    swapped.swap(3, 4);
    cases.push(("two swapped".to_owned(), swapped));
    for (what, parts) in cases {
        let mut bytes: Vec<u8> = parts.into_iter().flatten().copied().collect();
        bytes.extend_from_slice(&[0; 1024]);
        let error = import(&put(&dir.path().join("changed"), &bytes)).expect_err(&what);
        assert!(error.is_trust(), "{what}: {error:?}");
    }
    let trailing = [good, b"more".to_vec()].concat();
    assert!(import(&put(&dir.path().join("changed"), &trailing)).unwrap_err().is_trust());
}

#[test]
fn a_strangers_bundle_is_refused_unless_nobody_looks() {
    let dir = tempfile::tempdir().unwrap();
    let path = put(&dir.path().join("bundle"), &bundled(dir.path()));
    let stranger = SigningKeys::generate(&mut ChaCha20Rng::from_seed([6; 32]), "x", NOW - Duration::DAY).unwrap();
    for trusted in [stranger.trusted(), Trusted::default()] {
        let error = open(&path, &trusted).unwrap_err();
        assert!(matches!(error, BundleError::VerifyIndex { .. }) && error.is_trust());
        let bundle = open_bundle(&path, &trusted, Verification::Skipped, NOW).unwrap();
        let Checked::Unverified(warning) = bundle.checked() else { panic!() };
        assert!(warning.to_string().contains("bundle"));
    }
    let error = open(&dir.path().join("missing"), &keys().trusted()).unwrap_err();
    assert!(!error.is_trust(), "a missing file is not a matter of trust");
}

#[test]
fn nobody_ever_holds_a_whole_bad_blob() {
    struct Suspicious(u64);
    impl BlobSink for Suspicious {
        fn take(&mut self, entry: &BundleEntry, reader: &mut dyn Read) -> Result<(), SinkError> {
            let mut byte = [0];
            while let Ok(1) = reader.read(&mut byte) {
                self.0 += 1;
            }
            assert!(entry.name != "etcd" || self.0 < entry.size);
            Ok(())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = bundled(dir.path());
    let at = bytes.windows(8).position(|window| window == [7; 8]).unwrap();
    bytes[at] ^= 1;
    let bundle = open(&put(&dir.path().join("bad"), &bytes), &keys().trusted()).unwrap();
    let error = bundle.import(&mut Suspicious(0)).unwrap_err();
    assert!(matches!(&error, BundleError::MatchDigest { name, .. } if name == "etcd 1.0"), "{error:?}");
}

#[test]
fn a_sink_may_skip_what_it_has_and_may_fail() {
    struct Lazy;
    impl BlobSink for Lazy {
        fn take(&mut self, _: &BundleEntry, _: &mut dyn Read) -> Result<(), SinkError> {
            Ok(())
        }
    }
    struct Full;
    impl BlobSink for Full {
        fn take(&mut self, _: &BundleEntry, _: &mut dyn Read) -> Result<(), SinkError> {
            Err("the disk is full".into())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let bundle = open(&put(&dir.path().join("bundle"), &bundled(dir.path())), &keys().trusted()).unwrap();
    assert_eq!(bundle.import(&mut Lazy).unwrap().entries, 4);
    let error = bundle.import(&mut Full).unwrap_err();
    assert!(matches!(error, BundleError::StoreBlob { .. }) && !error.is_trust());
}

#[test]
fn a_blob_that_is_not_what_its_entry_says_is_not_bundled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle");
    let mut same_length = blobs(dir.path());
    put(&same_length[0].path, &[8; 3000]);
    let error = make_bundle(&path, &version(), &same_length, &keys(), NOW).unwrap_err();
    assert!(matches!(error, BundleError::MatchDigest { .. }) && error.is_trust());
    put(&same_length[0].path, &[7; 2999]);
    assert!(make_bundle(&path, &version(), &same_length, &keys(), NOW).is_err());
    same_length[0].path = dir.path().join("gone");
    assert!(matches!(make_bundle(&path, &version(), &same_length, &keys(), NOW), Err(BundleError::ReadBlob { .. })));
    let twice = [blobs(dir.path()), blobs(dir.path())].concat();
    assert!(make_bundle(&path, &version(), &twice, &keys(), NOW).is_err());
    assert!(make_bundle(&path, &version(), &[], &keys(), NOW).is_err());
    assert!(!path.exists());
}
