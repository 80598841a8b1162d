//! The daemon: one per host (or per pair of directories), found by its socket. It takes up what runs when it starts, and
//! leaves when its last cluster is gone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use tokio::net::UnixListener;
use tokio::time::{Instant, interval};
use windlass_steps::host::{HostError, Mode, make_dir};
use windlass_steps::interrupt::Interrupt;

use crate::cloud::Cloud;
use crate::places::Places;
use crate::store::{Opened, Store, StoreError};
use crate::world::World;
use crate::{api, reconcile};

/// How long a daemon that leaves may still have the state file.
const LEAVING: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(20);

/// Why there is no daemon.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A directory cannot be made.
    #[error("cannot make the cloud's directories")]
    MakeDirectory {
        /// Why not.
        source: HostError,
    },
    /// Another one has these directories.
    #[error("another daemon has {}", .path.display())]
    BeAlone {
        /// The lock that it holds.
        path: PathBuf,
    },
    /// The lock cannot be taken.
    #[error("cannot lock {}", .path.display())]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The state file cannot be used.
    #[error("cannot take up the cloud's state")]
    Open {
        /// Why not.
        source: StoreError,
    },
    /// The socket cannot be used.
    #[error("cannot listen at {}", .path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    AwaitSignals {
        /// Why not.
        source: io::Error,
    },
}

/// Serves until the last cluster is gone, or until a signal comes; then machines go on without it.
pub async fn serve(places: Places, world: World) -> Result<(), DaemonError> {
    for dir in [&places.state, &places.run] {
        make_dir(dir, Mode::PRIVATE_DIR).map_err(|source| DaemonError::MakeDirectory { source })?;
    }
    let lock = alone(&places.lock())?;
    let interrupt = Interrupt::on_signals().map_err(|source| DaemonError::AwaitSignals { source })?;
    let state = state_of(&places.store()).await.map_err(|source| DaemonError::Open { source })?;
    let cloud = Cloud::take_up(places.clone(), world, state);
    let socket = places.socket();
    let listener = listen(&socket).map_err(|source| DaemonError::Listen { path: socket.clone(), source })?;
    tracing::info!(socket = %socket.display(), world = cloud.world().word(), "cloud listens");
    let following = tokio::spawn(reconcile::run(cloud.clone()));
    let unfinished = cloud.unfinished();
    if !unfinished.is_empty() {
        let cloud = cloud.clone();
        tokio::spawn(async move {
            if let Err(refused) = cloud.destroy(unfinished).await {
                tracing::warn!(%refused, "interrupted destruction not finished");
            }
        });
    }
    let leaving = {
        let cloud = cloud.clone();
        async move {
            tokio::select! {
                () = cloud.leaving() => tracing::info!("no cluster left"),
                () = interrupt.raised() => tracing::info!("signal; machines go on"),
            }
        }
    };
    let served = axum::serve(listener, api::router(cloud)).with_graceful_shutdown(leaving).await;
    following.abort();
    // Whoever comes next makes them again; what cannot be removed is in use by somebody.
    let _ = std::fs::remove_file(&socket);
    let _ = std::fs::remove_file(places.lock());
    let _ = std::fs::remove_dir(places.run.join("clusters"));
    let _ = std::fs::remove_dir(&places.run);
    drop(lock);
    served.map_err(|source| DaemonError::Listen { path: socket, source })
}

/// Opens the state file. Nobody else may begin while we hold the lock, so that whoever still has the file is one that has let
/// go of everything else and ends presently.
async fn state_of(path: &Path) -> Result<(Store, Opened), StoreError> {
    let (mut glance, until) = (interval(GLANCE), Instant::now() + LEAVING);
    loop {
        glance.tick().await;
        match Store::open(path) {
            Err(StoreError::Share { .. }) if Instant::now() < until => {}
            opened => return opened,
        }
    }
}

fn alone(path: &Path) -> Result<File, DaemonError> {
    let trouble = |source| DaemonError::Lock { path: path.to_owned(), source };
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(trouble)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DaemonError::BeAlone { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(trouble(source)),
    }
}

/// The directory is root's alone, so that nobody gets in between binding and the change of mode.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_starts_while_another_leaves_waits_for_the_state_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cloud.redb");
        let leaving = Store::open(&path).unwrap();
        let mut opening = Box::pin(state_of(&path));
        assert!(tokio::time::timeout(3 * GLANCE, &mut opening).await.is_err(), "it is still in use");
        drop(leaving);
        opening.await.unwrap();
    }
}
