//! The files of the store and the map of them. Content lies at `content/<digest>`, and beside it each key has a file in
//! `keys/` that says what it names, so that a store without its map is still a store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use thiserror::Error;
use time::OffsetDateTime;
use windlass_steps::host::{Batch, HostError, Mode, make_dir, read_file, sweep_temps, sync_dir, write_file};

use super::key::file_name;
use super::{Content, Deletion, NewObject, Object, ObjectDigest, ObjectKey, Remains, Shelved, Stored};

const SIDECAR_LIMIT: u64 = 16 << 10;
/// Files that are brought to the disk together; so many objects are all stored, or none is.
pub(crate) const AT_ONCE: usize = 100;

/// Objects on disk. Every change is on the disk when the call returns; callers in async code put it on a blocking thread.
#[derive(Debug)]
pub struct ObjectStore {
    dir: PathBuf,
    index: RwLock<Index>,
    changing: Mutex<()>,
    owner: Mutex<()>,
}

#[derive(Debug, Default)]
struct Index {
    objects: BTreeMap<ObjectKey, Object>,
    /// How many keys have each content.
    users: HashMap<ObjectDigest, usize>,
}

impl Index {
    fn insert(&mut self, object: Object) -> Option<Object> {
        *self.users.entry(object.digest.clone()).or_default() += 1;
        let before = self.objects.insert(object.key.clone(), object);
        before.inspect(|before| self.unuse(&before.digest))
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let before = self.objects.remove(key);
        before.inspect(|before| self.unuse(&before.digest))
    }

    fn unuse(&mut self, digest: &ObjectDigest) {
        match self.users.get_mut(digest) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.users.remove(digest)),
        }
    }
}

/// Why the store did not do what was asked.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// The directories of the store could not be made or tidied.
    #[error("cannot open the object store")]
    OpenStore {
        /// What the host said.
        source: HostError,
    },
    /// The files that describe the objects could not be read.
    #[error("cannot read what {} describes", .path.display())]
    ReadObject {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The object was not stored; what was there before is still there.
    #[error("cannot store the object {key}")]
    StoreObject {
        /// Which one.
        key: ObjectKey,
        /// What the host said.
        source: HostError,
    },
    /// The object's files could not be removed, or not be looked for.
    #[error("cannot delete the object {key}")]
    DeleteObject {
        /// Which one.
        key: ObjectKey,
        /// What the kernel said.
        source: io::Error,
    },
    /// Content that nobody names any more is still there.
    #[error("cannot remove the content {digest}")]
    ReleaseContent {
        /// Which one.
        digest: ObjectDigest,
        /// What the kernel said.
        source: io::Error,
    },
    /// Files that belong to no object are still there.
    #[error("cannot remove what is left over in {}", .path.display())]
    SweepFiles {
        /// Where they are.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no object of that name.
    #[error("there is no object {key}")]
    FindObject {
        /// The name.
        key: ObjectKey,
    },
    /// The content is missing or has another size than the map says.
    #[error("the content of the object {key} is damaged")]
    OpenContent {
        /// Which one.
        key: ObjectKey,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ObjectStore {
    /// Opens the store with a map that its owner has kept; no file is read, so it takes as long as the map is.
    pub fn with_index(dir: impl Into<PathBuf>, objects: impl IntoIterator<Item = Object>) -> Result<Self, ObjectError> {
        let dir = dir.into();
        for part in [dir.join("content"), dir.join("keys")] {
            make_dir(&part, Mode::PRIVATE_DIR).map_err(|source| ObjectError::OpenStore { source })?;
        }
        let mut index = Index::default();
        for object in objects {
            index.insert(object);
        }
        Ok(Self { dir, index: RwLock::new(index), changing: Mutex::new(()), owner: Mutex::new(()) })
    }

    /// Opens the store with the map that its own files make.
    pub fn scan(dir: impl Into<PathBuf>) -> Result<Self, ObjectError> {
        let store = Self::with_index(dir, [])?;
        for object in store.described()? {
            store.write().insert(object);
        }
        Ok(store)
    }

    /// Whoever keeps the map holds this around a change of the files together with that of the map: two who change the
    /// same key would otherwise each release what the other has just recorded.
    pub fn owned(&self) -> MutexGuard<'_, ()> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores one object.
    pub fn put(
        &self,
        key: ObjectKey,
        bytes: impl AsRef<[u8]>,
        expires: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) -> Result<Stored, ObjectError> {
        let mut stored = self.put_all([NewObject { key, content: Content::Bytes(bytes), expires }], now)?;
        Ok(stored.pop().expect("one object was stored, so one is answered"))
    }

    /// Stores many objects with much less waiting for the disk than one by one. After a failure some are stored.
    pub fn put_all<B: AsRef<[u8]>>(
        &self,
        objects: impl IntoIterator<Item = NewObject<B>>,
        now: OffsetDateTime,
    ) -> Result<Vec<Stored>, ObjectError> {
        let _turn = self.turn();
        let mut objects = objects.into_iter();
        let mut stored = Vec::new();
        loop {
            let share: Vec<_> = objects.by_ref().take(AT_ONCE).collect();
            let Some(first) = share.first().map(|new| new.key.clone()) else { return Ok(stored) };
            let share =
                self.write_share(share, now).map_err(|source| ObjectError::StoreObject { key: first, source })?;
            stored.extend(share.into_iter().map(|object| self.remember(object)));
        }
    }

    /// Removes content that a [`Stored`] object has replaced, unless a key has it again.
    pub fn release(&self, replaced: &ObjectDigest) -> Result<Remains, ObjectError> {
        let _turn = self.turn();
        self.drop_content(replaced).map_err(|source| ObjectError::ReleaseContent { digest: replaced.clone(), source })
    }

    /// Takes back what was stored but could not be recorded: the key is again what it was before.
    pub fn take_back(&self, stored: &Stored, before: Option<Object>) -> Result<(), ObjectError> {
        let _turn = self.turn();
        let key = &stored.object.key;
        let mut index = self.write();
        let text = before.as_ref().map(described_as);
        match before {
            Some(before) => drop(index.insert(before)),
            None => drop(index.remove(key)),
        }
        drop(index);
        let trouble = |source| ObjectError::StoreObject { key: key.clone(), source };
        match text {
            Some(text) => write_file(self.sidecar(key), text, Mode::PRIVATE_FILE).map_err(trouble)?,
            None => {
                remove(&self.sidecar(key)).map_err(|source| ObjectError::DeleteObject { key: key.clone(), source })?;
            }
        }
        let digest = &stored.object.digest;
        let dropped = self.drop_content(digest);
        dropped.map(drop).map_err(|source| ObjectError::ReleaseContent { digest: digest.clone(), source })
    }

    /// Removes the key, and the content unless another key has the same; then looks whether they are gone.
    pub fn delete(&self, key: &ObjectKey) -> Result<Deletion, ObjectError> {
        let _turn = self.turn();
        let trouble = |source| ObjectError::DeleteObject { key: key.clone(), source };
        let object = self.write().remove(key).ok_or_else(|| ObjectError::FindObject { key: key.clone() })?;
        let sidecar = self.sidecar(key);
        remove(&sidecar).map_err(trouble)?;
        let content = self.drop_content(&object.digest).map_err(trouble)?;
        Ok(Deletion { key: key.clone(), digest: object.digest, key_gone: !exists(&sidecar).map_err(trouble)?, content })
    }

    /// The objects that have expired by now; they are no longer served, and wait to be deleted.
    pub fn expired(&self, now: OffsetDateTime) -> Vec<ObjectKey> {
        let over = |object: &&Object| object.is_expired(now);
        self.read().objects.values().filter(over).map(|object| object.key.clone()).collect()
    }

    /// Removes the files that belong to no object of the map, and says how many there were.
    pub fn sweep(&self) -> Result<usize, ObjectError> {
        let _turn = self.turn();
        let index = self.read();
        let keys: HashSet<String> = index.objects.keys().map(file_name).collect();
        let contents: HashSet<String> = index.users.keys().map(|digest| digest.hex().to_owned()).collect();
        drop(index);
        let mut removed = 0;
        for (part, wanted) in [("keys", keys), ("content", contents)] {
            let dir = self.dir.join(part);
            removed += sweep_temps(&dir).map_err(|source| ObjectError::OpenStore { source })?.len();
            removed += sweep(&dir, &wanted).map_err(|source| ObjectError::SweepFiles { path: dir, source })?;
        }
        Ok(removed)
    }

    /// What is known of the object.
    pub fn find(&self, key: &ObjectKey) -> Option<Object> {
        self.read().objects.get(key).cloned()
    }

    /// Every object, by key.
    pub fn list(&self) -> Vec<Object> {
        self.read().objects.values().cloned().collect()
    }

    /// The object's content, whose size is the one that is known.
    pub fn open(&self, object: &Object) -> Result<File, ObjectError> {
        let trouble = |source| ObjectError::OpenContent { key: object.key.clone(), source };
        let file = File::open(self.content(&object.digest)).map_err(trouble)?;
        let size = file.metadata().map_err(trouble)?.len();
        match size == object.size {
            true => Ok(file),
            false => Err(trouble(io::Error::other(format!("{size} bytes instead of {}", object.size)))),
        }
    }

    fn write_share<B: AsRef<[u8]>>(
        &self,
        share: Vec<NewObject<B>>,
        now: OffsetDateTime,
    ) -> Result<Vec<Object>, HostError> {
        let (mut contents, mut sidecars) = (Batch::default(), Batch::default());
        let (mut objects, mut linked) = (Vec::new(), false);
        for NewObject { key, content, expires } in share {
            let (digest, size) = match content {
                Content::Bytes(bytes) => {
                    let bytes = bytes.as_ref();
                    let digest = ObjectDigest::of(bytes);
                    contents.write(self.content(&digest), bytes, Mode::PRIVATE_FILE)?;
                    (digest, bytes.len() as u64)
                }
                Content::Shelved(shelved) => {
                    self.link(&shelved)?;
                    linked = true;
                    (shelved.digest, shelved.size)
                }
            };
            let object = Object { key, digest, size, stored: now, expires };
            sidecars.write(self.sidecar(&object.key), described_as(&object), Mode::PRIVATE_FILE)?;
            objects.push(object);
        }
        // Content first: a key never names bytes that are not there.
        contents.commit()?;
        if linked {
            sync_dir(self.dir.join("content"))?;
        }
        sidecars.commit()?;
        Ok(objects)
    }

    /// Gives a file of the shelf its name here; one that is there and has its size is the same.
    fn link(&self, shelved: &Shelved) -> Result<(), HostError> {
        let to = self.content(&shelved.digest);
        let there = fs::symlink_metadata(&to).is_ok_and(|file| file.is_file() && file.len() == shelved.size);
        if there {
            return Ok(());
        }
        let linked = remove(&to).and_then(|()| fs::hard_link(&shelved.path, &to));
        linked.map_err(|source| HostError::WriteFile { path: to, source })
    }

    fn remember(&self, object: Object) -> Stored {
        let before = self.write().insert(object.clone());
        let replaced = before.map(|before| before.digest).filter(|digest| *digest != object.digest);
        Stored { object, replaced }
    }

    fn drop_content(&self, digest: &ObjectDigest) -> io::Result<Remains> {
        if let Some(keys) = self.read().users.get(digest) {
            return Ok(Remains::InUse { keys: *keys });
        }
        let path = self.content(digest);
        remove(&path)?;
        Ok(if exists(&path)? { Remains::Found } else { Remains::Gone })
    }

    fn described(&self) -> Result<Vec<Object>, ObjectError> {
        let dir = self.dir.join("keys");
        let trouble = |path: &Path, source| ObjectError::ReadObject { path: path.to_owned(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|error| trouble(&dir, error.into()))? {
            let path = entry.map_err(|error| trouble(&dir, error.into()))?.path();
            if !is_sidecar(&path) {
                continue;
            }
            let bytes = read_file(&path, SIDECAR_LIMIT).map_err(|error| trouble(&path, error.into()))?;
            found.push(serde_json::from_slice(&bytes).map_err(|error| trouble(&path, error.into()))?);
        }
        Ok(found)
    }

    fn content(&self, digest: &ObjectDigest) -> PathBuf {
        self.dir.join("content").join(digest.hex())
    }

    fn sidecar(&self, key: &ObjectKey) -> PathBuf {
        self.dir.join("keys").join(file_name(key))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of the file beside an object.
fn described_as(object: &Object) -> Vec<u8> {
    serde_json::to_vec_pretty(object).expect("an object is plain data with text for keys")
}

/// Not a temporary file, whose name begins with a dot as no key does.
fn is_sidecar(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && name.ends_with(".json")
}

/// Removes every file that is not wanted, other than temporary ones.
fn sweep(dir: &Path, wanted: &HashSet<String>) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    sync_dir(dir).map_err(io::Error::other)?;
    Ok(removed)
}

/// Removes the file for good; one that is not there is no error.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_dir(path.parent().unwrap_or(path)).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn exists(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
