//! Locks between runs. The kernel holds them (`flock`), so that a killed run leaves none behind.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tracing::warn;
use windlass_steps::host::{self, Mode};

use super::{Cache, CacheError};

/// Adding takes it shared, pruning exclusively.
pub(super) const STORE: &str = "store";
/// Making a temporary directory takes it shared, sweeping exclusively.
pub(super) const TEMPS: &str = "temps";

/// A lock that is held until this is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    file: File,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // By hand: a process being forked by another thread may hold the descriptor a moment longer.
        if let Err(error) = self.file.unlock() {
            warn!(%error, "lock not released, closing the file releases it");
        }
    }
}

/// Somebody else is at work on the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The other's process, if it has said so yet.
    pub pid: Option<u32>,
    /// What it makes.
    pub what: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        write!(f, "waiting for another windlass{pid} that builds {}", self.what)
    }
}

impl Cache {
    /// Takes the lock on one thing to make. If somebody else holds it, says so and waits.
    pub async fn lock(&self, name: &str, announce: impl FnOnce(&Waiting)) -> Result<Guard, CacheError> {
        let path = self.lock_path(&format!("make-{}", file_name(name)))?;
        let trouble = |source| CacheError::TakeLock { path: path.clone(), source };
        let mut file = open(&path).map_err(trouble)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                announce(&Waiting { pid: holder(&mut file), what: name.to_owned() });
                file = wait(file).await.map_err(trouble)?;
            }
            Err(TryLockError::Error(error)) => return Err(trouble(error)),
        }
        sign(&mut file).map_err(trouble)?;
        Ok(Guard { file })
    }

    pub(super) fn shared(&self, name: &str) -> Result<Guard, CacheError> {
        self.held(name, File::lock_shared)
    }

    pub(super) fn exclusive(&self, name: &str) -> Result<Guard, CacheError> {
        self.held(name, File::lock)
    }

    /// The exclusive lock if nobody holds it in any way.
    pub(super) fn try_exclusive(&self, name: &str) -> Result<Option<Guard>, CacheError> {
        let path = self.lock_path(name)?;
        let trouble = |source| CacheError::TakeLock { path: path.clone(), source };
        let file = open(&path).map_err(trouble)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Guard { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(trouble(error)),
        }
    }

    fn held(&self, name: &str, take: fn(&File) -> io::Result<()>) -> Result<Guard, CacheError> {
        let path = self.lock_path(name)?;
        let trouble = |source| CacheError::TakeLock { path: path.clone(), source };
        let file = open(&path).map_err(trouble)?;
        take(&file).map_err(trouble)?;
        Ok(Guard { file })
    }

    fn lock_path(&self, name: &str) -> Result<PathBuf, CacheError> {
        let dir = self.root().join("locks");
        host::make_dir(&dir, Mode::PUBLIC_DIR).map_err(|source| CacheError::MakeCache { path: dir.clone(), source })?;
        Ok(dir.join(name))
    }
}

/// Lock files stay for ever: one that is removed while somebody waits on it locks nothing.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Waits in a thread of its own: one of the runtime's would keep an interrupted program from ending.
async fn wait(file: File) -> io::Result<File> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("lock".to_owned()).spawn(move || {
        let locked = file.lock().map(|()| file);
        // If nobody listens any more, the file and with it the lock is dropped here.
        drop(sender.send(locked));
    })?;
    receiver.await.unwrap_or_else(|_| Err(io::Error::other("the thread that waited for the lock is gone")))
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    io::Seek::rewind(file)?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-@".contains(c) { c } else { '-' };
    name.chars().take(150).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_run_says_whom_it_waits_for_and_then_gets_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let first = cache.lock("etcd 3.6.16", |_| panic!("nobody else is there")).await.unwrap();
        let said = std::cell::RefCell::new(String::new());
        let second = cache.lock("etcd 3.6.16", |waiting| *said.borrow_mut() = waiting.to_string());
        let release = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(second, release);
        drop(second.unwrap());
        let pid = std::process::id();
        assert_eq!(*said.borrow(), format!("waiting for another windlass (pid {pid}) that builds etcd 3.6.16"));
    }

    #[tokio::test]
    async fn other_names_are_other_locks_and_an_abandoned_wait_leaves_none() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let held = cache.lock("a/b", |_| ()).await.unwrap();
        drop(cache.lock("b", |_| panic!()).await.unwrap());
        tokio::select! {
            biased;
            _ = cache.lock("a/b", |_| ()) => panic!("it is held"),
            () = async { tokio::task::yield_now().await } => {}
        }
        drop(held);
        drop(cache.lock("a/b", |_| ()).await.unwrap());
    }
}
