use std::time::Instant;

use time::macros::datetime;

use super::*;

const NOON: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

fn key(text: &str) -> ObjectKey {
    ObjectKey::parse(text).unwrap()
}

fn files(dir: &Path) -> Vec<String> {
    let list = |part: &str| -> Vec<String> {
        let entries = fs::read_dir(dir.join(part)).unwrap();
        entries.map(|entry| format!("{part}/{}", entry.unwrap().file_name().to_str().unwrap())).collect()
    };
    let mut all = [list("content"), list("keys")].concat();
    all.sort();
    all
}

fn content(store: &ObjectStore, name: &str) -> String {
    io::read_to_string(store.open(&store.find(&key(name)).unwrap()).unwrap()).unwrap()
}

#[test]
fn what_is_put_is_there_also_for_a_store_that_was_told_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    let stored = store.put(key("addons/dns.yaml"), "kind: List", Some(NOON), NOON).unwrap();
    let object = Object {
        key: key("addons/dns.yaml"),
        digest: ObjectDigest::of(b"kind: List"),
        size: 10,
        stored: NOON,
        expires: Some(NOON),
    };
    assert_eq!(stored, Stored { object: object.clone(), replaced: None });
    store.put(key("empty"), "", None, NOON).unwrap();
    for store in [&store, &ObjectStore::scan(dir.path()).unwrap()] {
        assert_eq!(store.list().len(), 2);
        assert_eq!(store.find(&key("addons/dns.yaml")), Some(object.clone()));
        assert_eq!((content(store, "addons/dns.yaml"), content(store, "empty")), ("kind: List".into(), String::new()));
        assert_eq!(store.find(&key("addons")), None);
        assert_eq!(store.expired(NOON), [key("addons/dns.yaml")]);
        assert!(store.expired(NOON - time::Duration::SECOND).is_empty());
    }
}

#[test]
fn a_deletion_is_proven_by_looking_and_spares_what_others_have() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    let digest = ObjectDigest::of(b"same");
    store.put(key("a"), "same", None, NOON).unwrap();
    store.put(key("b"), "same", None, NOON).unwrap();
    let first = store.delete(&key("a")).unwrap();
    let in_use = Remains::InUse { keys: 1 };
    assert_eq!(first, Deletion { key: key("a"), digest: digest.clone(), key_gone: true, content: in_use });
    assert!(first.is_proven());
    assert_eq!(content(&store, "b"), "same");
    let second = store.delete(&key("b")).unwrap();
    assert_eq!(second, Deletion { key: key("b"), digest, key_gone: true, content: Remains::Gone });
    assert!(second.is_proven());
    assert!(files(dir.path()).is_empty());
    assert!(matches!(store.delete(&key("b")), Err(ObjectError::FindObject { .. })));
}

#[test]
fn a_deletion_that_does_not_work_is_an_error_and_not_a_proof() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    store.put(key("a"), "x", None, NOON).unwrap();
    fs::remove_file(store.sidecar(&key("a"))).unwrap();
    make_dir(store.sidecar(&key("a")), Mode::PRIVATE_DIR).unwrap();
    assert!(matches!(store.delete(&key("a")), Err(ObjectError::DeleteObject { .. })));
}

#[test]
fn replaced_content_stays_until_it_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    let old = store.put(key("a"), "old", None, NOON).unwrap().object;
    assert_eq!(store.put(key("a"), "old", None, NOON).unwrap().replaced, None);
    let replaced = store.put(key("a"), "new", None, NOON).unwrap().replaced.unwrap();
    assert_eq!(replaced, old.digest);
    // A kill now, before the owner of the map has noted it.
    let restarted = ObjectStore::with_index(dir.path(), [old]).unwrap();
    assert_eq!(content(&restarted, "a"), "old");
    assert_eq!(restarted.release(&replaced).unwrap(), Remains::InUse { keys: 1 });
    assert_eq!(store.release(&replaced).unwrap(), Remains::Gone);
    assert_eq!(content(&store, "a"), "new");
    assert_eq!(files(dir.path()).len(), 2);
}

#[test]
fn a_sweep_removes_what_the_map_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    let kept = store.put(key("kept/x"), "kept", None, NOON).unwrap().object;
    store.put(key("lost"), "lost", None, NOON).unwrap();
    let before = files(dir.path());
    let restarted = ObjectStore::with_index(dir.path(), [kept]).unwrap();
    assert_eq!(restarted.sweep().unwrap(), 2);
    assert_eq!((before.len(), files(dir.path()).len()), (4, 2));
    assert_eq!(content(&restarted, "kept/x"), "kept");
    assert_eq!(restarted.sweep().unwrap(), 0);
}

#[test]
fn damaged_content_is_noticed_and_a_damaged_description_names_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    let object = store.put(key("a"), "four", None, NOON).unwrap().object;
    fs::File::options().append(true).open(store.content(&object.digest)).unwrap().set_len(2).unwrap();
    let error = store.open(&object).unwrap_err();
    assert_eq!(error.to_string(), "the content of the object a is damaged");
    fs::File::options().write(true).open(store.sidecar(&key("a"))).unwrap().set_len(9).unwrap();
    let error = ObjectStore::scan(dir.path()).unwrap_err();
    assert!(error.to_string().ends_with("keys/a.json describes"), "{error}");
}

#[test]
fn ten_thousand_known_objects_are_there_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let objects: Vec<Object> = (0..10_000)
        .map(|n| Object {
            key: key(&format!("objects/{n}")),
            digest: ObjectDigest::of(&[n as u8, (n >> 8) as u8]),
            size: 2,
            stored: NOON,
            expires: None,
        })
        .collect();
    // The best of a few, because other tests run beside this one.
    let open = || {
        let objects = objects.clone();
        let started = Instant::now();
        let store = ObjectStore::with_index(dir.path(), objects).unwrap();
        assert_eq!(store.list().len(), 10_000);
        started.elapsed()
    };
    let took = (0..5).map(|_| open()).min().unwrap();
    assert!(took.as_millis() < 100, "it took {took:?}");
}

#[test]
fn many_objects_are_stored_together_and_the_last_of_a_name_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::with_index(dir.path(), []).unwrap();
    let content = |n: usize| Content::Bytes(format!("{n}"));
    let new = |n: usize| NewObject { key: key(&format!("k{}", n % 150)), content: content(n), expires: None };
    let stored = store.put_all((0..250).map(new), NOON).unwrap();
    assert_eq!((stored.len(), store.list().len()), (250, 150));
    let content = |name: &str| super::tests::content(&store, name);
    assert_eq!((content("k0"), content("k149")), ("150".into(), "149".into()));
    let replaced: Vec<_> = stored.into_iter().filter_map(|one| one.replaced).collect();
    assert_eq!(replaced.len(), 100);
    assert!(replaced.iter().all(|digest| store.release(digest).unwrap() == Remains::Gone));
    assert_eq!(files(dir.path()).len(), 300);
    assert_eq!(ObjectStore::scan(dir.path()).unwrap().list(), store.list());
}

#[test]
fn a_shelved_file_is_one_file_for_all_stores_and_outlives_each() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    write_file(&file, "content", Mode::PUBLIC).unwrap();
    let digest = ObjectDigest::of(b"content");
    let shelved = super::super::take(&dir.path().join("shelf"), &file, digest.clone()).unwrap();
    let links = || std::os::unix::fs::MetadataExt::nlink(&fs::metadata(&shelved.path).unwrap());
    let stores = ["a", "b"].map(|name| ObjectStore::with_index(dir.path().join(name), []).unwrap());
    for store in &stores {
        let new = |name: &str| NewObject::<&str> {
            key: key(name),
            content: Content::Shelved(shelved.clone()),
            expires: None,
        };
        let stored = store.put_all([new("one"), new("two")], NOON).unwrap();
        assert_eq!((stored[0].object.digest.clone(), stored[1].object.size), (digest.clone(), 7));
        store.put_all([new("one")], NOON).unwrap();
        assert_eq!((content(store, "one"), content(store, "two")), ("content".into(), "content".into()));
    }
    assert_eq!(links(), 3);
    let [first, second] = &stores;
    fs::remove_file(first.content(&digest)).unwrap();
    write_file(first.content(&digest), "cont", Mode::PUBLIC).unwrap();
    let again = NewObject::<&str> { key: key("one"), content: Content::Shelved(shelved.clone()), expires: None };
    first.put_all([again], NOON).unwrap();
    assert_eq!(content(first, "one"), "content", "what a failing disk cut short");
    for name in ["one", "two"] {
        first.delete(&key(name)).unwrap();
    }
    assert_eq!((links(), content(second, "one")), (2, "content".into()));
}
