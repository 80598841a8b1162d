//! Requests about objects. Their bytes are files of the cluster's object store; which of them count is in the state file.

use std::sync::Arc;

use time::Duration;
use windlass_cloud_api::{Label, ObjectInfo, ObjectKey, ObjectUrl, ProofOfDeletion};
use windlass_steps::clock::{Clock as _, rfc3339_millis};

use super::{Cloud, known};
use crate::model::{Edit, Model, ObjectRow, Row, gateway};
use crate::object::{Object, ObjectError, ObjectStore, Remains};
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
        let store = self.object_store(cluster)?;
        let _owned = store.owned();
        let before = store.find(key);
        let stored = store.put(key.clone(), bytes, None, self.clock().now());
        let stored = stored.map_err(|error| object_refusal(&error))?;
        let row = Row::Object(ObjectRow { cluster: cluster.clone(), object: stored.object.clone() });
        if let Err(refused) = self.edit(|model| known(model, cluster).map(|_| (vec![Edit::Put(row)], ()))) {
            return Err(match store.take_back(&stored, before) {
                Ok(()) => refused,
                Err(error) => refused.because(format!("and it could not be taken back: {error}")),
            });
        }
        // It is kept by now; what it replaced is looked for again when the store is next opened.
        if let Some(replaced) = &stored.replaced
            && let Err(error) = store.release(replaced)
        {
            tracing::warn!(%cluster, %key, %error, "replaced content not removed");
        }
        Ok(info(&stored.object))
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

fn deletion_refusal(error: &ObjectError) -> Refused {
    Refused::failed("the object is not proven to be gone", error).next("ask again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{cluster, label};
    use crate::places::Places;
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
