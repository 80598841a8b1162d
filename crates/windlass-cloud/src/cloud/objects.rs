//! Requests about objects. Their bytes are files of the cluster's object store; which of them count is in the state file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use time::Duration;
use windlass_cloud_api::{Label, ObjectContent, ObjectInfo, ObjectKey, ObjectUrl, ProofOfDeletion};
use windlass_steps::clock::{Clock as _, rfc3339_millis};

use super::{Cloud, known};
use crate::model::{Edit, Model, ObjectRow, Row, gateway};
use crate::object::{
    AT_ONCE, Content, NewObject, Object, ObjectDigest, ObjectError, ObjectStore, Remains, ShelfError, Shelved, Stored,
    take,
};
use crate::refused::{Class, Refused};
use crate::secret;

/// The longest that a URL may work.
const LONGEST: u32 = 7 * 24 * 3600;

impl Cloud {
    /// The store of a cluster's objects, opened once.
    pub(crate) fn object_store(&self, cluster: &Label) -> Result<Arc<ObjectStore>, Refused> {
        let open = |model: &Model| {
            let found = known(model, cluster)?;
            let objects: Vec<Object> = found.objects.values().map(|row| row.object.clone()).collect();
            let opened = ObjectStore::with_index(self.places().objects(cluster), objects);
            opened.map(Arc::new).map_err(|error| Refused::failed("the object store cannot be opened", &error))
        };
        let (store, is_new) = self.with_both(|model, live, _| {
            let live = live.clusters.entry(cluster.clone()).or_default();
            match &live.objects {
                Some(store) => Ok((store.clone(), false)),
                None => {
                    let store = open(model)?;
                    live.objects = Some(store.clone());
                    Ok((store, true))
                }
            }
        })?;
        // A daemon that was killed may have left files of no object. They harm nobody if they stay: whoever asks for
        // their deletion has them looked for again.
        if is_new && let Err(error) = swept(&store) {
            tracing::warn!(%cluster, %error, "left-over objects not removed");
        }
        Ok(store)
    }

    /// Keeps an object, in place of one with the same key.
    pub fn put_object(&self, cluster: &Label, key: &ObjectKey, bytes: &[u8]) -> Result<ObjectInfo, Refused> {
        let new = NewObject { key: key.clone(), content: Content::Bytes(bytes), expires: None };
        let mut kept = self.keep(cluster, vec![new])?;
        Ok(kept.pop().expect("one object was kept, so one is answered"))
    }

    /// Keeps several objects, in place of those with the same keys: all of them, or none. A file of this host is taken by
    /// its path; that takes as long as copying and hashing it, once.
    pub fn put_objects(
        &self,
        cluster: &Label,
        objects: Vec<windlass_cloud_api::NewObject>,
    ) -> Result<Vec<ObjectInfo>, Refused> {
        if objects.len() > AT_ONCE {
            return Err(Refused::new(Class::Impossible, format!("more than {AT_ONCE} objects at once")));
        }
        self.read_cluster(cluster, |_| Ok(()))?;
        let new = |object: windlass_cloud_api::NewObject| {
            let content = match object.content {
                ObjectContent::Text(text) => Content::Bytes(text.into_bytes()),
                ObjectContent::File { path, digest } => Content::Shelved(self.shelved(&path, &digest)?),
            };
            Ok(NewObject { key: object.key, content, expires: None })
        };
        let objects: Vec<NewObject<Vec<u8>>> = objects.into_iter().map(new).collect::<Result<_, Refused>>()?;
        self.keep(cluster, objects)
    }

    fn shelved(&self, path: &Path, digest: &str) -> Result<Shelved, Refused> {
        let digest = ObjectDigest::parse(digest);
        let digest = digest.map_err(|error| Refused::new(Class::Impossible, error.to_string()))?;
        take(&self.places().shelf(), path, digest).map_err(|error| shelf_refusal(&error))
    }

    fn keep<B: AsRef<[u8]>>(&self, cluster: &Label, objects: Vec<NewObject<B>>) -> Result<Vec<ObjectInfo>, Refused> {
        let store = self.object_store(cluster)?;
        let _owned = store.owned();
        let before: BTreeMap<ObjectKey, Option<Object>> =
            objects.iter().map(|new| (new.key.clone(), store.find(&new.key))).collect();
        let stored = store.put_all(objects, self.clock().now());
        let stored = stored.map_err(|error| object_refusal(&error))?;
        let row = |stored: &Stored| Row::Object(ObjectRow { cluster: cluster.clone(), object: stored.object.clone() });
        let edits = stored.iter().map(|stored| Edit::Put(row(stored))).collect();
        if let Err(refused) = self.edit(|model| known(model, cluster).map(|_| (edits, ()))) {
            let take_back = |refused: Refused, stored: &Stored| {
                let before = before.get(&stored.object.key).cloned().flatten();
                match store.take_back(stored, before) {
                    Ok(()) => refused,
                    Err(error) => refused.because(format!("and it could not be taken back: {error}")),
                }
            };
            return Err(stored.iter().fold(refused, take_back));
        }
        // They are kept by now; what they replaced is looked for again when the store is next opened.
        for Stored { object, replaced } in &stored {
            if let Some(replaced) = replaced
                && let Err(error) = store.release(replaced)
            {
                tracing::warn!(%cluster, key = %object.key, %error, "replaced content not removed");
            }
        }
        Ok(stored.iter().map(|stored| info(&stored.object)).collect())
    }

    /// Every object of a cluster.
    pub fn objects(&self, cluster: &Label) -> Result<Vec<ObjectInfo>, Refused> {
        self.read_cluster(cluster, |found| Ok(found.objects.values().map(|row| info(&row.object)).collect()))
    }

    /// Deletes an object and looks whether it is gone.
    pub fn delete_object(&self, cluster: &Label, key: &ObjectKey) -> Result<ProofOfDeletion, Refused> {
        let store = self.object_store(cluster)?;
        let _owned = store.owned();
        let found = self.edit(|model| {
            let row = known(model, cluster)?.objects.get(key.as_str()).cloned();
            let edits = row.iter().cloned().map(|row| Edit::Drop(Row::Object(row))).collect();
            Ok((edits, row))
        })?;
        let deleted = match found.is_some() {
            true => store.delete(key).map(|deletion| (deletion.key_gone, deletion.content == Remains::Gone)),
            // An earlier attempt may have got half-way. Whatever belongs to no object is gone after this, or it fails.
            false => store.sweep().map(|_| (true, true)),
        };
        let (key_gone, bytes_gone) = deleted.map_err(|error| deletion_refusal(&error))?;
        let is_unknown = self.read_cluster(cluster, |found| Ok(!found.objects.contains_key(key.as_str())))?;
        let digest = found.map(|row| row.object.digest.to_string());
        Ok(ProofOfDeletion { key: key.clone(), digest, key_gone: key_gone && is_unknown, bytes_gone })
    }

    /// A URL that works inside the cluster's network for a while.
    pub fn object_url(&self, cluster: &Label, key: &ObjectKey, seconds: u32) -> Result<ObjectUrl, Refused> {
        if seconds == 0 || seconds > LONGEST {
            return Err(Refused::new(Class::Impossible, format!("a URL works for 1 to {LONGEST} seconds")));
        }
        let expires = self.clock().now() + Duration::seconds(seconds.into());
        self.read_cluster(cluster, |found| {
            if !found.objects.contains_key(key.as_str()) {
                return Err(Refused::unknown("object", key));
            }
            let signer = secret::url_signer(&found.row.secret);
            let server = format!("http://{}", gateway(&found.row));
            Ok(ObjectUrl { url: signer.url(&server, key, expires), expires: rfc3339_millis(expires) })
        })
    }
}

fn swept(store: &ObjectStore) -> Result<usize, ObjectError> {
    let _owned = store.owned();
    store.sweep()
}

fn info(object: &Object) -> ObjectInfo {
    ObjectInfo { key: object.key.clone(), digest: object.digest.to_string(), size: object.size }
}

fn object_refusal(error: &ObjectError) -> Refused {
    Refused::failed("the object was not kept", error)
}

fn shelf_refusal(error: &ShelfError) -> Refused {
    let refused = Refused::failed("the object was not kept", error);
    match error {
        ShelfError::OpenFile { .. } | ShelfError::TrustFile { .. } => {
            Refused { class: Class::Impossible, ..refused }.next("fetch the file again")
        }
        ShelfError::CopyFile { .. } | ShelfError::KeepShelf { .. } => refused,
    }
}

fn deletion_refusal(error: &ObjectError) -> Refused {
    Refused::failed("the object is not proven to be gone", error).next("ask again")
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::{Mode, write_file};

    use super::*;
    use crate::model::tests::{cluster, label};
    use crate::places::Places;
    use crate::testing::Web;
    use crate::world::World;

    fn cloud(dir: &std::path::Path) -> Cloud {
        let places = Places { state: dir.to_owned(), run: dir.to_owned() };
        let cloud = Cloud::open(places, World::simulated()).unwrap();
        cloud.edit(|_| Ok((vec![Edit::Put(Row::Cluster(cluster("a")))], ()))).unwrap();
        cloud
    }

    fn contents(cloud: &Cloud) -> usize {
        std::fs::read_dir(cloud.places().objects(&label("a")).join("content")).unwrap().count()
    }

    /// The state of a daemon that was killed between dropping the row and removing the bytes.
    fn half_deleted(cloud: &Cloud, key: &ObjectKey) {
        cloud.put_object(&label("a"), key, b"secret").unwrap();
        let row = cloud.read(|model| model.clusters[&label("a")].objects[key.as_str()].clone());
        cloud.edit(|_| Ok((vec![Edit::Drop(Row::Object(row))], ()))).unwrap();
    }

    #[test]
    fn bytes_that_a_killed_deletion_left_were_said_to_be_gone() {
        let (dir, a, key) = (tempfile::tempdir().unwrap(), label("a"), ObjectKey::parse("k").unwrap());
        let first = cloud(dir.path());
        half_deleted(&first, &key);
        drop(first);
        let second = cloud(dir.path());
        assert_eq!(contents(&second), 1);
        let proof = second.delete_object(&a, &key).unwrap();
        assert_eq!((proof.key_gone, proof.bytes_gone, contents(&second)), (true, true, 0));
    }

    #[test]
    fn a_new_daemon_removes_what_a_killed_deletion_left() {
        let (dir, a, key) = (tempfile::tempdir().unwrap(), label("a"), ObjectKey::parse("k").unwrap());
        half_deleted(&cloud(dir.path()), &key);
        let second = cloud(dir.path());
        second.put_object(&a, &ObjectKey::parse("other").unwrap(), b"kept").unwrap();
        assert_eq!((contents(&second), second.objects(&a).unwrap().len()), (1, 1));
    }

    #[test]
    fn of_two_who_put_one_key_the_last_recorded_one_lost_its_bytes() {
        let (dir, a, key) = (tempfile::tempdir().unwrap(), label("a"), ObjectKey::parse("k").unwrap());
        let cloud = cloud(dir.path());
        for round in 0..50 {
            std::thread::scope(|scope| {
                for racer in 0..4 {
                    let (cloud, a, key) = (&cloud, &a, &key);
                    scope.spawn(move || cloud.put_object(a, key, format!("{round}-{racer}").as_bytes()).unwrap());
                }
            });
            let row = cloud.read(|model| model.clusters[&a].objects[key.as_str()].clone());
            let store = cloud.object_store(&a).unwrap();
            assert!(store.open(&row.object).is_ok(), "what is recorded is not there: {row:?}");
            assert_eq!((store.find(&key), contents(&cloud)), (Some(row.object), 1));
        }
    }

    fn text(key: &str, text: &str) -> windlass_cloud_api::NewObject {
        let content = ObjectContent::Text(text.to_owned());
        windlass_cloud_api::NewObject { key: ObjectKey::parse(key).unwrap(), content }
    }

    fn file(key: &str, path: &Path, digest: &str) -> windlass_cloud_api::NewObject {
        let content = ObjectContent::File { path: path.to_owned(), digest: digest.to_owned() };
        windlass_cloud_api::NewObject { key: ObjectKey::parse(key).unwrap(), content }
    }

    #[test]
    fn texts_and_files_of_the_host_are_kept_together_and_again() {
        let (dir, a) = (tempfile::tempdir().unwrap(), label("a"));
        let (cloud, archive) = (cloud(dir.path()), dir.path().join("archive"));
        write_file(&archive, "bytes", Mode::PUBLIC).unwrap();
        let digest = ObjectDigest::of(b"bytes").to_string();
        let objects = |manifest: &str| vec![file("b/archive", &archive, &digest), text("b/manifest", manifest)];
        for manifest in ["one", "one", "two"] {
            let kept = cloud.put_objects(&a, objects(manifest)).unwrap();
            assert_eq!(kept[0].digest, digest);
            assert_eq!(kept[1].digest, ObjectDigest::of(manifest.as_bytes()).to_string());
            assert_eq!((contents(&cloud), cloud.objects(&a).unwrap()), (2, kept));
        }
        drop(cloud);
        let again = self::cloud(dir.path());
        let store = again.object_store(&a).unwrap();
        for row in again.read(|model| model.clusters[&a].objects.values().cloned().collect::<Vec<_>>()) {
            assert!(store.open(&row.object).is_ok(), "{row:?}");
        }
        assert_eq!(again.put_objects(&a, objects("two")).unwrap().len(), 2);
    }

    #[test]
    fn of_several_objects_none_is_kept_if_one_cannot_be() {
        let (dir, a) = (tempfile::tempdir().unwrap(), label("a"));
        let (cloud, archive) = (cloud(dir.path()), dir.path().join("archive"));
        write_file(&archive, "bytes", Mode::PUBLIC).unwrap();
        let (good, wrong) = (ObjectDigest::of(b"bytes").to_string(), ObjectDigest::of(b"other").to_string());
        let many = (0..=AT_ONCE).map(|n| text(&format!("k{n}"), "x")).collect();
        let cases = [
            (vec![text("a", "x"), file("b", &archive, &wrong)], "should be sha256:"),
            (vec![text("a", "x"), file("b", &archive, "md5:00")], "is not a SHA-256 digest"),
            (vec![text("a", "x"), file("b", Path::new("archive"), &good)], "absolute path"),
            (vec![text("a", "x"), file("b", &dir.path().join("none"), &good)], "No such file"),
            (many, "more than 100 objects"),
        ];
        for (objects, word) in cases {
            let refused = cloud.put_objects(&a, objects).unwrap_err();
            assert_eq!(refused.class, Class::Impossible, "{refused}");
            assert!(refused.to_string().contains(word), "{refused}");
            assert!(cloud.objects(&a).unwrap().is_empty());
        }
        let unknown = cloud.put_objects(&label("none"), vec![file("b", &archive, &good)]).unwrap_err();
        assert_eq!(unknown.class, Class::Unknown);
        assert!(!cloud.places().shelf().join(&good[7..]).exists(), "nothing was taken for nobody");
    }

    #[tokio::test]
    async fn objects_are_kept_as_a_client_sends_them() {
        let (dir, a) = (tempfile::tempdir().unwrap(), label("a"));
        let (cloud, archive) = (cloud(dir.path()), dir.path().join("archive"));
        write_file(&archive, "bytes", Mode::PUBLIC).unwrap();
        let digest = ObjectDigest::of(b"bytes").to_string();
        let web = Web::serve(crate::api::router(cloud.clone())).await;
        let body = serde_json::to_vec(&[file("b/archive", &archive, &digest), text("b/manifest", "x")]).unwrap();
        let answer = web.ask("POST", "/v1/clusters/a/objects", "", &body).await;
        assert_eq!(answer.status, 200);
        let kept: Vec<ObjectInfo> = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((kept.len(), &kept), (2, &cloud.objects(&a).unwrap()));
        let file = r#"[{"key":"a","content":{"file":{"path":"/etc/passwd","digest":"sha256:00"}}}]"#;
        for (body, status) in [
            ("{}", 400),
            (r#"[{"key":"../a","content":{"text":"x"}}]"#, 400),
            (r#"[{"key":"a","content":{"bytes":"x"}}]"#, 400),
            (r#"[{"key":"a","content":{"file":{"path":"/x","digest":"x","mode":1}}}]"#, 400),
            (file, 422),
        ] {
            let answer = web.ask("POST", "/v1/clusters/a/objects", "", body.as_bytes()).await;
            assert_eq!(answer.status, status, "{body}");
        }
        assert_eq!(cloud.objects(&a).unwrap(), kept);
    }

    #[test]
    fn an_object_that_could_not_be_recorded_leaves_the_one_before_it() {
        let (dir, a, key) = (tempfile::tempdir().unwrap(), label("a"), ObjectKey::parse("k").unwrap());
        let cloud = cloud(dir.path());
        cloud.put_object(&a, &key, b"one").unwrap();
        let store = cloud.object_store(&a).unwrap();
        let before = store.find(&key);
        let stored = store.put(key.clone(), b"two", None, cloud.clock().now()).unwrap();
        store.take_back(&stored, before.clone()).unwrap();
        assert_eq!((store.find(&key), contents(&cloud)), (before.clone(), 1));
        assert!(store.open(&before.unwrap()).is_ok());
        let scanned = ObjectStore::scan(cloud.places().objects(&a)).unwrap();
        assert_eq!(scanned.list(), store.list());
    }
}
