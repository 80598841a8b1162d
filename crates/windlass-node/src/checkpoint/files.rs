//! The copies on the disk: those that wait in a folder of their own, those that run among the kubelet's static pods. Of two
//! checkpointers on one machine, the pod and its static copy, only the one that holds the lock changes them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::{info, warn};
use windlass_steps::host::{HostError, Mode, make_dir, read_file, sweep_temps, sync_dir, write_file};

use super::plan::Change;
use super::program::Program;
use crate::places::Places;

const LIMIT: u64 = 1 << 20;

/// Why the copies cannot be read or changed.
#[derive(Debug, Error)]
pub enum FilesError {
    /// A folder cannot be listed.
    #[error("cannot list {}", .path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot use a copy")]
    UseFile {
        /// What happened.
        source: HostError,
    },
    /// A file cannot be removed.
    #[error("cannot remove {}", .path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The lock cannot be used.
    #[error("cannot lock {}", .path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The copies as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    /// Those that wait.
    pub waiting: BTreeMap<Program, String>,
    /// Those that run.
    pub active: BTreeMap<Program, String>,
}

impl Copies {
    /// Reads all of them.
    pub fn read(places: &Places) -> Result<Self, FilesError> {
        Ok(Copies { waiting: read_folder(&places.checkpoints())?, active: read_folder(&places.manifests())? })
    }
}

fn read_folder(folder: &Path) -> Result<BTreeMap<Program, String>, FilesError> {
    let list = |source| FilesError::List { path: folder.to_owned(), source };
    let mut copies = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        let Some(program) = name.to_str().and_then(Program::of_file) else { continue };
        let bytes = read_file(folder.join(&name), LIMIT).map_err(|source| FilesError::UseFile { source })?;
        copies.insert(program, String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(copies)
}

/// Does one thing. Files are written beside their name and renamed, so that the kubelet never reads half of one.
pub fn apply(places: &Places, change: &Change) -> Result<(), FilesError> {
    let (action, program) = match change {
        Change::Keep(program, copy) => {
            write(places.checkpoints(), program, copy)?;
            ("kept", program)
        }
        Change::Activate(program, copy) => {
            write(places.manifests(), program, copy)?;
            ("activated", program)
        }
        Change::Deactivate(program) => {
            remove(places.manifests(), program)?;
            ("stopped", program)
        }
        Change::Forget(program) => {
            remove(places.checkpoints(), program)?;
            ("forgotten", program)
        }
    };
    info!(%program, action, "copy changed");
    Ok(())
}

fn write(folder: PathBuf, program: &Program, copy: &str) -> Result<(), FilesError> {
    let written = write_file(folder.join(program.file_name()), copy, Mode::PRIVATE_FILE);
    written.map_err(|source| FilesError::UseFile { source })
}

fn remove(folder: PathBuf, program: &Program) -> Result<(), FilesError> {
    let path = folder.join(program.file_name());
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FilesError::Remove { path, source: error });
        }
        _ => {}
    }
    sync_dir(folder).map_err(|source| FilesError::UseFile { source })
}

/// The right to change copies. It is given back when the process ends, however that happens.
#[derive(Debug)]
pub struct Lock {
    file: File,
    held: bool,
}

impl Lock {
    /// Opens the lock, and makes the folder of copies if there is none.
    pub fn open(places: &Places) -> Result<Self, FilesError> {
        let folder = places.checkpoints();
        make_dir(&folder, Mode::PRIVATE_DIR).map_err(|source| FilesError::UseFile { source })?;
        let path = folder.join(".lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(Mode::PRIVATE_FILE.bits());
        let file = options.open(&path).map_err(|source| FilesError::Lock { path, source })?;
        Ok(Lock { file, held: false })
    }

    /// Whether it is ours, now or since earlier. What a dead holder left half-written is swept away.
    pub fn take(&mut self, places: &Places) -> Result<bool, FilesError> {
        if self.held {
            return Ok(true);
        }
        match self.file.try_lock() {
            Ok(()) => self.held = true,
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(source)) => {
                return Err(FilesError::Lock { path: places.checkpoints().join(".lock"), source });
            }
        }
        info!("lock taken");
        for folder in [places.checkpoints(), places.manifests()] {
            if let Err(error) = sweep_temps(folder) {
                warn!(%error, "left-over files not removed");
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn copies_are_what_the_changes_say() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert!(Copies::read(&places).is_err());
        make_dir(places.manifests(), Mode::PRIVATE_DIR).unwrap();
        Lock::open(&places).unwrap();
        write_file(places.manifests().join("etcd.yaml"), "etcd", Mode::PRIVATE_FILE).unwrap();
        assert_eq!(Copies::read(&places).unwrap(), Copies::default());
        let name = Program::api_server();
        for change in [Change::Keep(name.clone(), "a".into()), Change::Activate(name.clone(), "a".into())] {
            apply(&places, &change).unwrap();
        }
        let copies = Copies::read(&places).unwrap();
        assert_eq!((&copies.waiting[&name], &copies.active[&name]), (&"a".to_owned(), &"a".to_owned()));
        let file = places.manifests().join("checkpoint-kube-apiserver.yaml");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        for _ in 0..2 {
            for change in [Change::Deactivate(name.clone()), Change::Forget(name.clone())] {
                apply(&places, &change).unwrap();
            }
        }
        assert_eq!(Copies::read(&places).unwrap(), Copies::default());
        assert!(places.manifests().join("etcd.yaml").exists());
    }

    #[test]
    fn one_of_two_has_the_lock_and_the_other_gets_it_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        make_dir(places.manifests(), Mode::PRIVATE_DIR).unwrap();
        let (mut one, mut other) = (Lock::open(&places).unwrap(), Lock::open(&places).unwrap());
        assert!(one.take(&places).unwrap() && one.take(&places).unwrap());
        assert!(!other.take(&places).unwrap());
        drop(one);
        assert!(other.take(&places).unwrap());
    }
}
