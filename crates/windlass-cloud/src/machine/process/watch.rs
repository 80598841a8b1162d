//! The end of a process that is not our child, by a descriptor of it: the kernel tells, and no number is mistaken.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::machine::error::{MachineError, change};
use crate::machine::record::Identity;

/// A hold on one process.
#[derive(Clone, Debug)]
pub(super) struct Watch(Arc<OwnedFd>);

impl Watch {
    /// Nothing if the process has ended.
    pub(super) fn on(identity: &Identity) -> Option<Self> {
        let opened = pidfd_open(Pid::from_raw(identity.pid)?, PidfdFlags::empty()).ok()?;
        // Asked after opening: the descriptor is of the process that has the number now.
        identity.is_alive().then(|| Self(Arc::new(opened)))
    }

    /// Returns when the process has ended.
    pub(super) async fn ended(&self) -> Result<(), MachineError> {
        let failed = |source: std::io::Error| change("watch", Path::new("/proc"))(source);
        let copy = self.0.try_clone().map_err(failed)?;
        #[expect(deprecated, reason = "the replacement is unsafe, for types that are not as owned as this one is")]
        let readable = AsyncFd::with_interest(copy, Interest::READABLE).map_err(failed)?;
        readable.readable().await.map(drop).map_err(failed)
    }
}
