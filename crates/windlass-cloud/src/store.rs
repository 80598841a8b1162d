//! The state file. What is acknowledged is in it: a commit returns after the bytes are on the disk, and a commit is
//! whole or not there. A file that cannot be read is kept aside, never repaired by guessing: clusters can be destroyed
//! without it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use thiserror::Error;
use windlass_steps::host::{HostError, Mode, make_dir};

use crate::model::{Edit, Row};

const ROWS: TableDefinition<&str, &[u8]> = TableDefinition::new("rows");

/// The open state file.
pub struct Store {
    /// Nothing after a change that could not be written: the database takes no more then, and is opened again.
    database: Mutex<Option<Database>>,
    path: PathBuf,
}

/// What came of opening it.
#[derive(Debug)]
pub enum Opened {
    /// It was read, or is new.
    Whole(Vec<Row>),
    /// It could not be read and is aside now; the cloud starts with nothing.
    Damaged {
        /// Where it is now.
        aside: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
}

/// Why the state file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Its directory or the file itself cannot be made.
    #[error("cannot make {path}")]
    Make {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another daemon has it.
    #[error("{path} is in use by another daemon")]
    Share {
        /// The file.
        path: PathBuf,
    },
    /// A damaged file could not be put aside.
    #[error("cannot put the damaged {path} aside")]
    PutAside {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A change could not be written.
    #[error("cannot write to {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        let StoreError::Write { source, .. } = self else { return false };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(source.as_ref());
        while let Some(error) = cause {
            if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::StorageFull) {
                return true;
            }
            cause = error.source();
        }
        source.to_string().contains("No space left")
    }
}

impl Store {
    /// Opens the state file, or makes it.
    pub fn open(path: &Path) -> Result<(Store, Opened), StoreError> {
        let make = |source: HostError| StoreError::Make { path: path.to_owned(), source: Box::new(source) };
        make_dir(path.parent().unwrap_or(Path::new("/")), Mode::PRIVATE_DIR).map_err(make)?;
        match Store::read(path) {
            Ok((store, rows)) => Ok((store, Opened::Whole(rows))),
            Err(Unreadable::Shared) => Err(StoreError::Share { path: path.to_owned() }),
            Err(Unreadable::Damaged(reason)) => {
                let aside = put_aside(path)?;
                let (store, _) = Store::read(path).map_err(|error| error.told(path))?;
                Ok((store, Opened::Damaged { aside, reason }))
            }
            Err(error @ Unreadable::Unreachable(_)) => Err(error.told(path)),
        }
    }

    fn read(path: &Path) -> Result<(Store, Vec<Row>), Unreadable> {
        let damaged = |error: &dyn std::fmt::Display| Unreadable::Damaged(error.to_string());
        let database = database(path)?;
        let transaction = database.begin_read().map_err(|e| damaged(&e))?;
        let rows = match transaction.open_table(ROWS) {
            Err(redb::TableError::TableDoesNotExist(_)) => Vec::new(),
            Err(error) => return Err(damaged(&error)),
            Ok(table) => {
                let mut rows = Vec::new();
                for entry in table.iter().map_err(|e| damaged(&e))? {
                    let (_, value) = entry.map_err(|e| damaged(&e))?;
                    rows.push(serde_json::from_slice(value.value()).map_err(|e| damaged(&e))?);
                }
                rows
            }
        };
        Ok((Store { database: Mutex::new(Some(database)), path: path.to_owned() }, rows))
    }

    /// Writes these changes, all or none; they are on the disk when it returns.
    pub fn commit(&self, edits: &[Edit]) -> Result<(), StoreError> {
        self.write(edits).map_err(|source| StoreError::Write { path: self.path.clone(), source })
    }

    fn write(&self, edits: &[Edit]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut held = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let database = match held.take() {
            Some(database) => database,
            None => database(&self.path).map_err(|error| error.told(&self.path))?,
        };
        let written = put(&database, edits);
        if written.is_ok() {
            *held = Some(database);
        }
        written
    }
}

/// All of these changes or none.
fn put(database: &Database, edits: &[Edit]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(ROWS)?;
        for edit in edits {
            match edit {
                Edit::Put(row) => drop(table.insert(row.key().as_str(), serde_json::to_vec(row)?.as_slice())?),
                Edit::Drop(row) => drop(table.remove(row.key().as_str())?),
            }
        }
    }
    Ok(transaction.commit()?)
}

/// Why a state file cannot be read.
enum Unreadable {
    Shared,
    /// What is in it makes no sense.
    Damaged(String),
    /// Nothing is known about what is in it, because the disk is full or does not answer.
    Unreachable(std::io::Error),
}

impl Unreadable {
    fn told(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Unreadable::Shared => StoreError::Share { path },
            Unreadable::Damaged(reason) => StoreError::Make { path, source: reason.into() },
            Unreadable::Unreachable(error) => StoreError::Make { path, source: error.into() },
        }
    }
}

fn database(path: &Path) -> Result<Database, Unreadable> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(Unreadable::Unreachable)?;
    Database::builder().create_file(file).map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => Unreadable::Shared,
        redb::DatabaseError::Storage(redb::StorageError::Io(error)) if !tells_of_damage(&error) => {
            Unreadable::Unreachable(error)
        }
        error => Unreadable::Damaged(error.to_string()),
    })
}

/// A file that is too short or says something else is damaged; a disk that is full or fails says nothing about the file.
fn tells_of_damage(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof)
}

/// Keeps every damaged file: the lowest number that is free.
fn put_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let mut number = 1;
    let aside = loop {
        let aside = path.with_extension(format!("damaged-{number}"));
        if !aside.exists() {
            break aside;
        }
        number += 1;
    };
    fs::rename(path, &aside).map_err(|source| StoreError::PutAside { path: path.to_owned(), source })?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::model::Model;
    use crate::model::tests::{cluster, machine};

    fn open(path: &Path) -> (Store, Vec<Row>) {
        match Store::open(path).unwrap() {
            (store, Opened::Whole(rows)) => (store, rows),
            (_, damaged) => panic!("{damaged:?}"),
        }
    }

    #[test]
    fn what_was_committed_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/cloud.redb");
        let rows = [Row::Cluster(cluster("a")), Row::Machine(machine("a", "m")), Row::Machine(machine("a", "n"))];
        let (store, before) = open(&path);
        assert!(before.is_empty());
        store.commit(&rows.clone().map(Edit::Put)).unwrap();
        store.commit(&[Edit::Drop(rows[1].clone())]).unwrap();
        drop(store);
        let (_, after) = open(&path);
        assert_eq!(Model::of(after), Model::of([rows[0].clone(), rows[2].clone()]));
    }

    #[test]
    fn a_second_daemon_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cloud.redb");
        let (_store, _) = open(&path);
        assert!(matches!(Store::open(&path), Err(StoreError::Share { .. })));
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cloud.redb");
        for number in 1..3 {
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(&[7; 4096 * 3]).unwrap();
            drop(file);
            let (store, Opened::Damaged { aside, reason }) = Store::open(&path).unwrap() else { panic!("it was read") };
            assert!(aside.exists() && aside.to_string_lossy().ends_with(&format!("damaged-{number}")));
            assert!(!reason.is_empty());
            store.commit(&[Edit::Put(Row::Cluster(cluster("a")))]).unwrap();
            drop(store);
            assert_eq!(open(&path).1.len(), 1);
        }
    }
}
