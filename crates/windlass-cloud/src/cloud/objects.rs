//! Requests about objects. Their bytes are files of the cluster's object store; which of them count is in the state file.

use std::sync::Arc;

use time::Duration;
use windlass_cloud_api::{Label, ObjectInfo, ObjectKey, ObjectUrl, ProofOfDeletion};
use windlass_steps::clock::{Clock as _, rfc3339_millis};

use super::{Cloud, known};
use crate::model::{Edit, Model, ObjectRow, Row, gateway};
use crate::object::{self, Object, ObjectError, ObjectStore, Remains};
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
        self.with_both(|model, live, _| {
            let live = live.clusters.entry(cluster.clone()).or_default();
            if live.objects.is_none() {
                live.objects = Some(open(model)?);
            }
            live.objects.clone().ok_or_else(|| Refused::unknown("object store of", cluster))
        })
    }

    /// Keeps an object, in place of one with the same key.
    pub fn put_object(&self, cluster: &Label, key: &ObjectKey, bytes: &[u8]) -> Result<ObjectInfo, Refused> {
        let store = self.object_store(cluster)?;
        let failed = |error: ObjectError| object_refusal(&error);
        let stored = store.put(inner(key), bytes, None, self.clock().now()).map_err(failed)?;
        let row = Row::Object(ObjectRow { cluster: cluster.clone(), object: stored.object.clone() });
        self.edit(|model| known(model, cluster).map(|_| (vec![Edit::Put(row)], ())))?;
        if let Some(replaced) = &stored.replaced {
            store.release(replaced).map_err(failed)?;
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
        let found = self.edit(|model| {
            let row = known(model, cluster)?.objects.get(key.as_str()).cloned();
            let edits = row.iter().cloned().map(|row| Edit::Drop(Row::Object(row))).collect();
            Ok((edits, row))
        })?;
        let known = |cloud: &Cloud| cloud.read_cluster(cluster, |found| Ok(found.objects.contains_key(key.as_str())));
        let Some(row) = found else {
            return Ok(ProofOfDeletion { key: key.clone(), digest: None, key_gone: !known(self)?, bytes_gone: true });
        };
        let deletion = store.delete(&inner(key)).map_err(|error| object_refusal(&error))?;
        Ok(ProofOfDeletion {
            key: key.clone(),
            digest: Some(row.object.digest.to_string()),
            key_gone: deletion.key_gone && !known(self)?,
            bytes_gone: deletion.content == Remains::Gone,
        })
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
            Ok(ObjectUrl { url: signer.url(&server, &inner(key), expires), expires: rfc3339_millis(expires) })
        })
    }
}

fn inner(key: &ObjectKey) -> object::ObjectKey {
    object::ObjectKey::parse(key.as_str()).expect("both take the same keys")
}

fn info(object: &Object) -> ObjectInfo {
    let key = ObjectKey::parse(object.key.as_str()).expect("both take the same keys");
    ObjectInfo { key, digest: object.digest.to_string(), size: object.size }
}

fn object_refusal(error: &ObjectError) -> Refused {
    Refused::failed("the object was not kept", error)
}
