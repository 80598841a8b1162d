use std::io::{Seek, Write};
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(name: &str) -> Key {
    Key::new(Kind::Binary, name, "1.0.0").unwrap()
}

/// A cache with some entries in it, in a directory that goes with the test.
struct Filled {
    cache: Cache,
    _dir: tempfile::TempDir,
}

fn filled(contents: &[(&str, &str)]) -> Filled {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path().join("cache")).unwrap();
    for (name, content) in contents {
        add(&cache, name, content);
    }
    Filled { cache, _dir: dir }
}

fn add(cache: &Cache, name: &str, content: &str) -> Entry {
    let room = cache.temp_dir("test").unwrap();
    let file = room.path().join("file");
    host::write_file(&file, content, Mode::PRIVATE_FILE).unwrap();
    cache.add_file(&key(name), SourceKind::Source, &file, Mode::EXECUTABLE).unwrap()
}

/// Writes into a blob as a failing disk or an attacker would, past its read-only mode.
fn flip(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.rewind().unwrap();
    file.write_all(b"X").unwrap();
}

#[test]
fn what_was_added_is_found_and_listed_in_the_contract_form() {
    let Filled { cache, _dir } = filled(&[("etcd", "content")]);
    let entry = cache.find(&key("etcd")).unwrap().unwrap();
    assert_eq!(fs::read_to_string(&entry.path).unwrap(), "content");
    assert_eq!(entry.path.metadata().unwrap().permissions().mode() & 0o7777, 0o555);
    assert!(entry.path.is_absolute());
    let digest = Digest::of(Algorithm::Sha256, b"content");
    let form = json!({
        "name": "etcd", "version": "1.0.0", "kind": "binary", "digest": digest.to_string(), "size": 7,
        "path": cache.root().join("blobs/sha256").join(digest.hex()), "source": "source",
    });
    assert_eq!(serde_json::to_value(cache.list().unwrap()).unwrap(), json!([form]));
    assert_eq!(cache.find(&key("other")).unwrap(), None);
    assert_eq!(cache.verify().unwrap(), []);
}

#[test]
fn a_cache_that_is_not_there_is_empty_and_stays_so() {
    let Filled { cache, _dir } = filled(&[]);
    assert_eq!(cache.find(&key("etcd")).unwrap(), None);
    assert!(cache.list().unwrap().is_empty() && cache.verify().unwrap().is_empty());
    assert!(cache.prune(|_| true).unwrap().is_empty());
    assert!(!cache.root().exists());
}

#[test]
fn a_file_from_elsewhere_is_copied_and_one_of_ours_is_moved() {
    let Filled { cache, _dir } = filled(&[]);
    let elsewhere = _dir.path().join("precious");
    host::write_file(&elsewhere, "x", Mode::PRIVATE_FILE).unwrap();
    cache.add_file(&key("a"), SourceKind::Bundle, &elsewhere, Mode::PUBLIC).unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "x");
    let room = cache.temp_dir("test").unwrap();
    let ours = room.path().join("file");
    host::write_file(&ours, "y", Mode::PRIVATE_FILE).unwrap();
    cache.add_file(&key("b"), SourceKind::Made, &ours, Mode::PUBLIC).unwrap();
    assert!(!ours.exists());
    let link = _dir.path().join("link");
    symlink("/etc/passwd", &link).unwrap();
    for wrong in [link.as_path(), _dir.path(), Path::new("/no/such/file")] {
        let error = cache.add_file(&key("c"), SourceKind::Made, wrong, Mode::PUBLIC).unwrap_err();
        assert!(matches!(error, CacheError::AddFile { .. }), "{error}");
    }
}

#[test]
fn a_flipped_byte_is_found_by_verify_and_by_the_next_use() {
    let Filled { cache, _dir } = filled(&[("etcd", "content"), ("runc", "other")]);
    let path = cache.find(&key("etcd")).unwrap().unwrap().path;
    flip(&path);
    let findings = cache.verify().unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].to_string().contains("(binary etcd@1.0.0): changed"), "{}", findings[0]);
    let error = cache.find(&key("etcd")).unwrap_err();
    assert!(error.is_trust() && error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert!(error.hint().unwrap().contains("artifacts prune"));
    assert!(path.exists(), "nothing is removed on the way");
    assert!(cache.find(&key("runc")).unwrap().is_some());

    let removed = cache.prune(|_| true).unwrap();
    assert_eq!(removed.iter().map(|r| r.why).collect::<Vec<_>>(), [Why::NotTrusted, Why::Unnamed]);
    assert_eq!(cache.find(&key("etcd")).unwrap(), None);
    assert_eq!(cache.verify().unwrap(), []);
}

#[test]
fn adding_the_right_content_again_mends_a_spoilt_file() {
    let Filled { cache, _dir } = filled(&[("etcd", "content")]);
    flip(&cache.find(&key("etcd")).unwrap().unwrap().path);
    add(&cache, "etcd", "content");
    assert_eq!(cache.verify().unwrap(), []);
    assert!(cache.find(&key("etcd")).unwrap().is_some());
}

#[test]
fn a_new_link_to_a_file_costs_one_hash_and_no_trust() {
    let Filled { cache, _dir } = filled(&[("etcd", "content")]);
    let entry = cache.find(&key("etcd")).unwrap().unwrap();
    fs::hard_link(&entry.path, _dir.path().join("linked")).unwrap();
    let record = cache.root().join("entries").join(entry.key.record());
    let before = fs::read(&record).unwrap();
    assert_eq!(cache.find(&entry.key).unwrap().unwrap(), entry);
    assert_ne!(fs::read(&record).unwrap(), before, "the new times are recorded");
}

#[test]
fn records_that_were_tampered_with_are_not_trusted() {
    let Filled { cache, _dir } = filled(&[("etcd", "content"), ("runc", "other")]);
    let entry = |name: &str| cache.root().join("entries").join(key(name).record());
    let good = fs::read_to_string(entry("etcd")).unwrap();
    let cases = [
        ("", "no record"),
        ("{}", "no record"),
        (&good.replace("binary", "virus"), "no record"),
        (&good.replace("\"etcd\"", "\"../etcd\""), "cannot name an artifact"),
        (&good.replace("\"etcd\"", "\"other\""), "the record of binary other@1.0.0"),
        (&fs::read_to_string(entry("runc")).unwrap(), "the record of binary runc"),
        (&"x".repeat(100_000), "larger than"),
    ];
    for (text, says) in cases {
        host::write_file(entry("etcd"), text, Mode::PUBLIC).unwrap();
        let error = cache.find(&key("etcd")).unwrap_err();
        assert!(error.is_trust() && error.to_string().contains(says), "{text}: {error}");
        assert!(cache.list().unwrap_err().is_trust());
        assert!(matches!(cache.verify().unwrap()[0].fault, Fault::Unreadable { .. }));
    }
    assert!(cache.prune(|_| true).unwrap().iter().any(|r| r.why == Why::NotTrusted && r.path == entry("etcd")));
    assert_eq!(cache.list().unwrap().len(), 1);
}

#[test]
fn a_record_whose_file_is_gone_is_no_artifact_but_a_finding() {
    let Filled { cache, _dir } = filled(&[("etcd", "content")]);
    fs::remove_file(cache.find(&key("etcd")).unwrap().unwrap().path).unwrap();
    assert_eq!(cache.find(&key("etcd")).unwrap(), None);
    assert_eq!(cache.verify().unwrap()[0].fault, Fault::Missing);
}

#[test]
fn prune_takes_what_is_not_pinned_and_keeps_what_is_shared() {
    let Filled { cache, _dir } = filled(&[("new", "same"), ("old", "same"), ("gone", "alone")]);
    let alone = cache.find(&key("gone")).unwrap().unwrap().path;
    let dead = cache.root().join("tmp/dead-1-0");
    fs::create_dir_all(&dead).unwrap();
    let removed = cache.prune(|key| key.name() == "new").unwrap();
    let whys: Vec<_> = removed.iter().map(|r| r.why).collect();
    assert_eq!(whys, [Why::NotPinned, Why::NotPinned, Why::Unnamed, Why::LeftOver]);
    assert!(!alone.exists() && !dead.exists());
    assert!(cache.find(&key("new")).unwrap().is_some());
    assert!(cache.prune(|_| true).unwrap().is_empty());
}

#[test]
fn a_program_is_found_by_its_name_or_by_a_link() {
    let Filled { cache, _dir } = filled(&[("etcd", "e")]);
    let room = cache.temp_dir("test").unwrap();
    let file = room.path().join("file");
    host::write_file(&file, "k", Mode::EXECUTABLE).unwrap();
    let details = Details { links: vec!["kubelet".into(), "kubectl".into()], inputs: None };
    cache.add_with(&key("kubernetes"), SourceKind::Source, &file, Mode::EXECUTABLE, details).unwrap();
    assert_eq!(cache.program("kubelet", "1.0.0").unwrap().unwrap().key, key("kubernetes"));
    assert_eq!(cache.program("etcd", "1.0.0").unwrap().unwrap().key, key("etcd"));
    assert_eq!(cache.program("kubelet", "2.0.0").unwrap(), None);
}

#[test]
fn many_threads_may_add_the_same_and_different_things_at_once() {
    let Filled { cache, _dir } = filled(&[]);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..5 {
                    add(cache, &format!("own-{n}"), &format!("content {n} {round}"));
                    add(cache, "shared", "the same");
                    assert!(cache.find(&key("shared")).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(cache.list().unwrap().len(), 9);
    assert_eq!(cache.verify().unwrap(), []);
    assert_eq!(children(&cache.root().join("tmp")).unwrap(), [] as [PathBuf; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_key_makes_one_file_name_inside_its_kind_or_is_refused(name in "\\PC{0,90}", version in "[a-z0-9./:+@ -]{0,12}") {
        if let Ok(key) = Key::new(Kind::Image, &name, &version) {
            let record = key.record();
            let file = record.strip_prefix("image/").unwrap();
            prop_assert!(!file.contains('/') && !file.starts_with('.') && file.len() <= 255, "{}", file);
        }
    }

    #[test]
    fn different_keys_have_different_records(a in "[a-z0-9./:+-]{1,8}", b in "[a-z0-9./:+-]{1,8}", v in "[0-9]{1,2}", w in "[0-9]{1,2}") {
        if let (Ok(one), Ok(two)) = (Key::new(Kind::Image, &a, &v), Key::new(Kind::Image, &b, &w)) {
            prop_assert_eq!(one == two, one.record() == two.record());
        }
    }

    #[test]
    fn any_content_comes_back_as_it_was(contents in proptest::collection::vec(".{0,40}", 1..5)) {
        let Filled { cache, _dir } = filled(&[]);
        for (n, content) in contents.iter().enumerate() {
            add(&cache, &format!("n{n}"), content);
        }
        for (n, content) in contents.iter().enumerate() {
            let entry = cache.find(&key(&format!("n{n}"))).unwrap().unwrap();
            prop_assert_eq!(&fs::read_to_string(&entry.path).unwrap(), content);
            prop_assert_eq!(entry.size, content.len() as u64);
        }
        prop_assert!(cache.verify().unwrap().is_empty());
    }
}

#[test]
fn a_sha512_is_taken_once_and_never_of_something_else() {
    let Filled { cache, _dir } = filled(&[("containerd", "content"), ("kubelet", "other")]);
    let found = |name: &str| cache.find(&key(name)).unwrap().unwrap();
    let entry = found("containerd");
    assert_eq!(entry.sha512, None);
    let wanted = Digest::of(Algorithm::Sha512, b"content");
    assert_eq!(cache.sha512(&entry).unwrap(), wanted);
    assert_eq!(found("containerd").sha512, Some(wanted.clone()), "the record knows it");
    fs::set_permissions(&entry.path, Permissions::from_mode(0o444)).unwrap();
    assert_eq!(found("containerd").sha512, Some(wanted), "the content is still the same");
    let entry = found("kubelet");
    flip(&entry.path);
    assert!(cache.sha512(&entry).unwrap_err().is_trust());
    assert!(cache.find(&key("kubelet")).unwrap_err().is_trust(), "nothing was recorded");
}
