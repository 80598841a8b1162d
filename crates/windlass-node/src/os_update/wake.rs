//! Being woken by what is followed, and then looking for oneself.

use std::sync::Arc;

use tokio::sync::Notify;
use windlass_cluster::failure::ApiFailure;

use crate::follow::{Reader, Seen};

/// A reader that keeps nothing of what it sees.
#[derive(Debug, Clone, Default)]
pub(super) struct Waker(Arc<Notify>);

impl Waker {
    /// Returns when there was something since the last time.
    pub(super) async fn woken(&self) {
        self.0.notified().await;
    }

    /// Wakes.
    pub(super) fn wake(&self) {
        self.0.notify_one();
    }
}

impl<K: Send> Reader<K> for Waker {
    async fn read(&self, _: Seen<K>) -> Result<(), ApiFailure> {
        self.wake();
        Ok(())
    }
}
