//! torcx manifests: the real format is read, ours is written, and what a machine must not follow is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use proptest::prelude::*;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use url::Url;
use windlass_artifacts::addon::*;
use windlass_artifacts::archive::{FileMode, Limits, extract};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::signature::{Checked, Signatures, SigningKeys, Verification, check};
use windlass_spec::KubeVersion;

const NOW: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

fn hash(content: &str) -> String {
    Digest::of(Algorithm::Sha512, content.as_bytes()).to_torcx()
}

/// The shape of Container Linux's own manifests, with everything that they had.
fn foreign() -> String {
    format!(
        r#"{{
  "kind": "torcx-package-list-v0",
  "value": {{
    "packages": [
      {{
        "name": "docker",
        "defaultVersion": "17.06",
        "versions": [
          {{
            "version": "1.12",
            "hash": "{}",
            "casDigest": "ba22f72a",
            "sourcePackage": "app-torcx/docker-1.12",
            "locations": [ {{ "url": "https://tectonic-torcx.release.core-os.net/pkgs/docker_1.12.torcx.tgz" }} ]
          }},
          {{
            "version": "17.06",
            "hash": "{}",
            "casDigest": null,
            "sourcePackage": "app-torcx/docker-17.06",
            "locations": [
              {{ "path": "/usr/share/torcx/store/docker:17.06.torcx.tgz" }},
              {{ "url": "docker_17.06.torcx.tgz", "mirror": true }}
            ],
            "future": {{ "field": [1, 2] }}
          }}
        ]
      }}
    ]
  }}
}}"#,
        hash("a"),
        hash("b")
    )
}

fn stamped(change: impl Fn(&str) -> String) -> String {
    let lengths = format!(r#"{{"{}": 10, "{}": 20}}"#, hash("a"), hash("b"));
    let stamp = format!(
        r#""windlass": {{"version": 7, "expires": "2026-12-16T12:00:00Z", "board": "amd64-usr", "osVersion": "base-1", "lengths": {lengths}}},"#
    );
    foreign().replacen(r#""packages""#, &format!(r#"{} "packages""#, change(&stamp)), 1)
}

fn same(text: &str) -> String {
    text.to_owned()
}

fn expected() -> Expected {
    Expected { board: Board::amd64(), os_version: OsVersion::parse("base-1").unwrap(), now: NOW, highest_seen: Some(7) }
}

#[test]
fn a_manifest_of_container_linux_is_read() {
    let manifest = Manifest::parse(foreign().as_bytes()).unwrap();
    let docker = PackageName::parse("docker").unwrap();
    let found = manifest.find(&docker, &AddonVersion::parse("17.06").unwrap()).unwrap();
    assert_eq!(found.hash.to_torcx(), hash("b"));
    assert_eq!(found.locations[0], Location::Path("/usr/share/torcx/store/docker:17.06.torcx.tgz".to_owned()));
    assert_eq!(manifest.packages[0].default_version.as_ref().unwrap().as_str(), "17.06");
    assert!(manifest.stamp.is_none() && manifest.length(&found.hash).is_none());
    assert!(manifest.find(&docker, &AddonVersion::parse("18").unwrap()).is_none());
}

#[test]
fn manifests_survive_being_written() {
    for json in [foreign(), stamped(same)] {
        let manifest = Manifest::parse(json.as_bytes()).unwrap();
        assert_eq!(Manifest::parse(manifest.to_json().as_bytes()).unwrap(), manifest);
    }
}

#[test]
fn manifests_that_make_no_sense_are_refused() {
    let good = foreign();
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let cases = [
        ("nothing", String::new()),
        ("not JSON", "hello".to_owned()),
        ("something after it", format!("{good}x")),
        ("another kind", good.replace("list-v0", "list-v1")),
        ("no packages", good.replace("\"packages\"", "\"images\"")),
        ("a SHA-256", good.replace(&hash("a"), &Digest::of(Algorithm::Sha256, b"a").to_torcx())),
        ("a MD5", good.replace(&hash("a"), "md5-d41d8cd98f00b204e9800998ecf8427e")),
        ("a short hash", good.replace(&hash("a"), &hash("a")[..100])),
        ("a hash with a colon", good.replace("sha512-", "sha512:")),
        ("a version twice", good.replace("\"1.12\"", "\"17.06\"")),
        ("a version that climbs", good.replace("\"1.12\"", "\"../1\"")),
        ("a name that climbs", good.replace("\"docker\"", "\"../docker\"")),
        ("a name twice as a key", good.replace("\"name\": \"docker\"", "\"name\": \"docker\", \"name\": \"x\"")),
        ("a path that climbs", good.replace("/usr/share/torcx", "/usr/../torcx")),
        ("a path that is relative", good.replace("/usr/share/torcx", "usr/share/torcx")),
        ("a URL that climbs", good.replace("\"docker_17", "\"../docker_17")),
        ("a URL that climbs in disguise", good.replace("\"docker_17", "\"%2e%2E/docker_17")),
        ("a URL with a hidden slash", good.replace("\"docker_17", "\"a%2fdocker_17")),
        ("a URL with a backslash", good.replace("\"docker_17", "\"\\\\docker_17")),
        ("an empty location", good.replace("\"path\": \"/usr/share/torcx/store/docker:17.06.torcx.tgz\"", "")),
        ("deep nesting", good.replace("[1, 2]", &deep)),
        ("too much", good.replace("[1, 2]", &format!("\"{}\"", "x".repeat(2 << 20)))),
        ("another field in our object", stamped(|s| s.replace("\"board\"", "\"more\": 1, \"board\""))),
        ("a field less in our object", stamped(|s| s.replace("\"version\": 7,", ""))),
        ("a negative version", stamped(|s| s.replace("7", "-7"))),
        ("a version that is no number", stamped(|s| s.replace("\"version\": 7", "\"version\": \"7\""))),
        ("a time in no format", stamped(|s| s.replace("2026-12-16T12:00:00Z", "tomorrow"))),
        ("a board that climbs", stamped(|s| s.replace("amd64-usr", ".."))),
        ("a missing length", stamped(|s| s.replace(&hash("a"), &hash("c")))),
        ("our object as a list", stamped(|s| s.replace("{\"version\"", "[{\"version\"").replace("}},", "}}],"))),
    ];
    for (what, json) in cases {
        let error = Manifest::parse(json.as_bytes()).expect_err(what);
        assert!(error.is_trust(), "{what}: {error:?}");
    }
    assert!(Manifest::parse(stamped(same).as_bytes()).is_ok());
}

#[test]
fn a_machine_follows_only_what_is_meant_for_it_and_not_older() {
    let manifest = Manifest::parse(stamped(same).as_bytes()).unwrap();
    let judged = judge(&manifest, &expected()).unwrap();
    assert_eq!(judged.rollback, Rollback::Protected(7));
    assert!(judge(&manifest, &Expected { highest_seen: None, ..expected() }).is_ok());
    assert!(judge(&manifest, &Expected { highest_seen: Some(6), ..expected() }).is_ok());
    let other_board = Expected { board: Board::parse("arm64-usr").unwrap(), ..expected() };
    let other_os = Expected { os_version: OsVersion::parse("base-2").unwrap(), ..expected() };
    let late = Expected { now: NOW + Duration::days(30), ..expected() };
    let seen = Expected { highest_seen: Some(8), ..expected() };
    type Wanted = fn(&AddonError) -> bool;
    let refused: [(Expected, Wanted); 4] = [
        (other_board, |e| matches!(e, AddonError::MatchBoard { .. })),
        (other_os, |e| matches!(e, AddonError::MatchOsVersion { .. })),
        (late, |e| matches!(e, AddonError::UseExpired { .. })),
        (seen, |e| matches!(e, AddonError::RollBack { seen: 8, found: 7 })),
    ];
    for (expected, wanted) in refused {
        let error = judge(&manifest, &expected).unwrap_err();
        assert!(wanted(&error) && error.is_trust(), "{error:?}");
    }
}

#[test]
fn a_foreign_manifest_is_followed_with_protection_off_unless_there_was_protection() {
    let manifest = Manifest::parse(foreign().as_bytes()).unwrap();
    let judged = judge(&manifest, &Expected { highest_seen: None, ..expected() }).unwrap();
    assert!(matches!(judged.rollback, Rollback::Off(_)));
    let error = judge(&manifest, &expected()).unwrap_err();
    assert!(matches!(error, AddonError::LoseVersion { seen: 7 }) && error.is_trust());
}

#[test]
fn packages_come_from_the_manifests_own_server() {
    let manifest = Url::parse("https://bucket.example/a/base-1/torcx_manifest.json").unwrap();
    let resolve = |text: &str, origins: &Origins| match Location::parse_url(text) {
        Ok(Location::Url(url)) => url.resolve(&manifest, origins).map(String::from),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    let own = Origins::SameAsManifest;
    let good = [
        ("packages/c/c.tgz", "https://bucket.example/a/base-1/packages/c/c.tgz"),
        ("/c.tgz", "https://bucket.example/c.tgz"),
        ("https://bucket.example/c.tgz?token=1", "https://bucket.example/c.tgz?token=1"),
        ("https://bucket.example:443/c.tgz", "https://bucket.example/c.tgz"),
    ];
    for (text, want) in good {
        assert_eq!(resolve(text, &own).unwrap(), want);
    }
    let bad = [
        "https://other.example/c.tgz",
        "//other.example/c.tgz",
        "http://bucket.example/c.tgz",
        "https://bucket.example:8443/c",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "ftp://bucket.example/c",
        "data:,x",
        "https://user@bucket.example/c",
        "https://bucket.example@evil.example/c",
        "c#x",
        "../c",
        "a/../../c",
        "./c",
        "a/%2E%2e/c",
        "a b",
        "a\nb",
        "",
        "https:other.example",
        "gopher://bucket.example/",
        "https://bucket.example.evil/c",
    ];
    for text in bad {
        let error = resolve(text, &own).expect_err(text);
        assert!(error.is_trust(), "{text}: {error:?}");
    }
    let also = Origins::AlsoFrom(vec![
        Url::parse("https://mirror.example").unwrap(),
        Url::parse("http://plain.example").unwrap(),
    ]);
    assert!(resolve("https://mirror.example/c.tgz", &also).is_ok());
    assert!(resolve("https://other.example/c.tgz", &also).is_err());
    assert!(resolve("http://plain.example/c.tgz", &also).is_err(), "from https to http");
}

#[test]
fn templates_are_expanded_and_bad_ones_are_refused() {
    let expand = |template: &str| {
        let template = ManifestUrl::parse(template)?;
        template.expand(&Board::amd64(), &OsVersion::parse("1520.5.0").unwrap()).map(String::from)
    };
    let seed = "https://tectonic-torcx.release.core-os.net/manifests/{{.Board}}/{{ .OSVersion }}/torcx_manifest.json";
    let want = "https://tectonic-torcx.release.core-os.net/manifests/amd64-usr/1520.5.0/torcx_manifest.json";
    assert_eq!(expand(seed).unwrap(), want);
    assert_eq!(expand("http://10.0.0.1:9000/m.json").unwrap(), "http://10.0.0.1:9000/m.json");
    let bad = [
        "",
        "m.json",
        "file:///{{.Board}}",
        "https://{{.Board}}.example/m",
        "{{.Board}}://x/m",
        "https://x/{{.Other}}",
        "https://x/{{.Board}",
        "https://x/{{.Board",
        "https://x/}}",
        "https://u@x/m",
        "https://x/../m",
        "https://x/m#f",
        "https://x:{{.OSVersion}}/m",
    ];
    for template in bad {
        assert!(expand(template).is_err(), "{template}");
    }
}

fn put(path: &Path, content: &[u8]) -> PathBuf {
    fs::File::create(path).unwrap().write_all(content).unwrap();
    path.to_owned()
}

fn runtime(dir: &Path) -> Runtime {
    let file = |name: &str| put(&dir.join(name), format!("program {name}").as_bytes());
    Runtime { containerd: file("containerd"), shim: file("shim"), ctr: file("ctr"), runc: file("runc") }
}

#[test]
fn an_extension_is_a_tree_that_names_its_system() {
    let dir = tempfile::tempdir().unwrap();
    let (version, os) = (AddonVersion::parse("2.2.9").unwrap(), OsVersion::parse("12").unwrap());
    let extension = Extension::containerd(version, os.clone(), &runtime(dir.path()));
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let packed = pack_extension(&extension, &mut one).unwrap();
    assert_eq!(packed, pack_extension(&extension, &mut two).unwrap());
    assert_eq!(one, two);
    assert_eq!((packed.length, packed.hash), (one.len() as u64, Digest::of(Algorithm::Sha512, &one)));
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    extract(one.as_slice(), &Limits::default(), &out).unwrap();
    let release = out.join("usr/lib/extension-release.d/extension-release.containerd-2.2.9-os12");
    assert_eq!(fs::read_to_string(release).unwrap(), "ID=debian\nVERSION_ID=12\n");
    for name in ["containerd", "containerd-shim-runc-v2", "ctr", "runc"] {
        let mode = out.join("usr/bin").join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{name}");
    }
    let kubelet = Extension::kubelet(&KubeVersion::parse("1.36.3").unwrap(), os, dir.path().join("ctr")).unwrap();
    assert_eq!((kubelet.package.as_str(), kubelet.directory().as_str()), ("kubelet", "kubelet-1.36.3-os12"));
    assert!(pack_extension(&kubelet, Vec::new()).is_ok());
}

#[test]
fn an_extension_carries_programs_only() {
    let dir = tempfile::tempdir().unwrap();
    let source = put(&dir.path().join("x"), b"x");
    let (version, os) = (AddonVersion::parse("1").unwrap(), OsVersion::parse("12").unwrap());
    let good = Extension::containerd(version, os, &runtime(dir.path()));
    let with = |path: &str| Extension {
        files: vec![ExtensionFile { path: path.to_owned(), source: source.clone(), mode: FileMode::Program }],
        ..good.clone()
    };
    assert!(pack_extension(&with("bin/x"), Vec::new()).is_ok());
    for path in [
        "lib/systemd/system/x.service",
        "bin/../../etc/x",
        "/bin/x",
        "etc/x",
        "lib/extension-release.d/x",
        "bin//x",
        "bin/",
    ] {
        assert!(pack_extension(&with(path), Vec::new()).is_err(), "{path}");
    }
    let bad = [
        Extension { os_id: "debian\nSYSEXT_LEVEL=1".to_owned(), ..good.clone() },
        Extension { os_id: String::new(), ..good.clone() },
        Extension { files: Vec::new(), ..good.clone() },
        Extension { files: [good.files.clone(), good.files.clone()].concat(), ..good.clone() },
    ];
    for extension in bad {
        assert!(pack_extension(&extension, Vec::new()).is_err(), "{extension:?}");
    }
}

fn keys() -> SigningKeys {
    SigningKeys::generate(&mut ChaCha20Rng::from_seed([1; 32]), "bucket", NOW - Duration::DAY).unwrap()
}

fn publication<'a>(keys: &'a SigningKeys, archives: &[(&str, &str, &Path)]) -> Publication<'a> {
    let package = |(name, version, archive): &(&str, &str, &Path)| PublishedPackage {
        name: PackageName::parse(name).unwrap(),
        version: AddonVersion::parse(version).unwrap(),
        archive: archive.to_path_buf(),
        digest: Digest::of(Algorithm::Sha256, &fs::read(archive).unwrap_or_default()),
    };
    Publication {
        board: Board::amd64(),
        os_version: OsVersion::parse("base-1").unwrap(),
        packages: archives.iter().map(package).collect(),
        expires: NOW + Duration::days(30),
        at_least: 0,
        keys,
        now: NOW,
    }
}

#[test]
fn a_bucket_holds_what_a_machine_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    let keys = keys();
    let (old, new) = (put(&dir.path().join("a"), b"old runtime"), put(&dir.path().join("b"), b"new runtime"));
    let kubelet = put(&dir.path().join("c"), b"kubelet");
    let archives = [
        ("containerd", "1.7.29", old.as_path()),
        ("containerd", "2.2.9", new.as_path()),
        ("kubelet", "1.36.3", kubelet.as_path()),
    ];
    let published = publish(&bucket, &publication(&keys, &archives)).unwrap();
    let base = bucket.join("amd64-usr/base-1");
    assert_eq!((published.version, &published.manifest), (1, &base.join("torcx_manifest.json")));
    let json = fs::read(&published.manifest).unwrap();
    let (asc, minisig) = (
        fs::read(base.join("torcx_manifest.json.asc")).unwrap(),
        fs::read(base.join("torcx_manifest.json.minisig")).unwrap(),
    );
    let signatures = Signatures { asc: Some(&asc), minisig: Some(&minisig) };
    let checked = check(Verification::Required, &keys.trusted(), "m", &json, signatures, NOW).unwrap();
    assert!(matches!(checked, Checked::Signed(_)));
    let manifest = Manifest::parse(&json).unwrap();
    let expected = Expected { highest_seen: None, ..expected() };
    assert_eq!(judge(&manifest, &expected).unwrap().rollback, Rollback::Protected(1));
    let offered =
        manifest.find(&PackageName::parse("containerd").unwrap(), &AddonVersion::parse("2.2.9").unwrap()).unwrap();
    assert_eq!(manifest.length(&offered.hash), Some(11));
    let Location::Url(url) = &offered.locations[0] else { panic!() };
    let asked = url
        .resolve(&Url::parse("http://store/b/amd64-usr/base-1/torcx_manifest.json").unwrap(), &Origins::SameAsManifest)
        .unwrap();
    assert_eq!(fs::read(bucket.join(asked.path().strip_prefix("/b/").unwrap())).unwrap(), b"new runtime");
    assert!(asked.path().starts_with("/b/amd64-usr/base-1/packages/containerd/2.2.9/containerd-2.2.9-"));
}

#[test]
fn publishing_again_raises_the_version_and_keeps_old_packages() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let archive = dir.path().join("a");
    let mut seen = Vec::new();
    for (content, at_least, version) in [("one", 0, 1), ("two", 0, 2), ("two", 40, 40), ("three", 0, 41)] {
        put(&archive, content.as_bytes());
        let archives = [("containerd", "2.2.9", archive.as_path())];
        let publication = Publication { at_least, ..publication(&keys, &archives) };
        let published = publish(dir.path(), &publication).unwrap();
        assert_eq!(published.version, version);
        let manifest = Manifest::parse(&fs::read(&published.manifest).unwrap()).unwrap();
        let Location::Url(url) = &manifest.packages[0].versions[0].locations[0] else { panic!() };
        seen.push((published.manifest.parent().unwrap().join(url.as_str()), content));
        for (path, content) in &seen {
            assert_eq!(fs::read_to_string(path).unwrap(), *content);
        }
    }
}

#[test]
fn a_publication_that_cannot_be_right_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys();
    let archive = put(&dir.path().join("a"), b"x");
    let archives = [("containerd", "2.2.9", archive.as_path())];
    let good = publication(&keys, &archives);
    let manifest = publish(dir.path(), &good).unwrap().manifest;
    let before = fs::read(&manifest).unwrap();
    let twice = [archives[0], archives[0]];
    let missing = [("containerd", "2.2.9", Path::new("/no/such/file"))];
    for bad in [Publication { expires: NOW, ..good.clone() }, publication(&keys, &twice), publication(&keys, &missing)]
    {
        assert!(publish(dir.path(), &bad).is_err());
        assert_eq!(fs::read(&manifest).unwrap(), before);
    }
    put(&manifest, b"damaged");
    assert!(publish(dir.path(), &good).is_err(), "a damaged manifest is not taken for none");
}

#[test]
fn an_archive_that_is_not_what_it_should_be_is_neither_offered_nor_signed() {
    let dir = tempfile::tempdir().unwrap();
    let (keys, bucket) = (keys(), dir.path().join("bucket"));
    let archive = put(&dir.path().join("a"), b"runtime");
    let publication = publication(&keys, &[("containerd", "2.2.9", archive.as_path())]);
    put(&archive, b"runtimf");
    let error = publish(&bucket, &publication).unwrap_err();
    assert!(matches!(error, AddonError::DistrustPackage { .. }) && error.is_trust(), "{error}");
    let base = bucket.join("amd64-usr/base-1");
    assert!(!base.join("torcx_manifest.json").exists(), "something was signed");
    assert_eq!(fs::read_dir(base.join("packages/containerd/2.2.9")).unwrap().count(), 0, "something was offered");
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Manifest::parse(&bytes).map(|_| ());
        let _ = OsRelease::parse(&bytes).map(|_| ());
        let _ = ManifestUrl::parse(&String::from_utf8_lossy(&bytes)).map(|_| ());
    }
}
