//! The D-Bus object: `GetStatus`, `AttemptUpdate`, and the signal `StatusUpdate` whenever the status changes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as Turn;
use tracing::warn;
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::report::chain;
use zbus::interface;
use zbus::object_server::SignalEmitter;

use super::channel::{Channel, ChannelError, Next, Progress};
use super::status::{Operation, Status};

/// What is served at the object's path.
#[derive(Clone)]
pub(super) struct Manager {
    channel: Channel,
    status: Arc<Mutex<Status>>,
    /// Held by the one attempt that is under way.
    turn: Arc<Turn<()>>,
}

#[interface(name = "com.coreos.update1.Manager")]
impl Manager {
    /// What the engine is doing.
    #[zbus(out_args("last_checked_time", "progress", "current_operation", "new_version", "new_size"))]
    fn get_status(&self) -> (i64, f64, String, String, i64) {
        fields(self.status())
    }

    /// Looks for an update and stages it, in the background; a second attempt while one is under way changes nothing.
    fn attempt_update(&self, #[zbus(signal_emitter)] emitter: SignalEmitter<'_>) {
        let (manager, emitter) = (self.clone(), emitter.to_owned());
        tokio::spawn(async move { manager.attempt(&emitter).await });
    }

    /// The status is another one now.
    #[zbus(signal)]
    async fn status_update(
        emitter: &SignalEmitter<'_>,
        last_checked_time: i64,
        progress: f64,
        current_operation: String,
        new_version: String,
        new_size: i64,
    ) -> zbus::Result<()>;
}

impl Manager {
    /// An update that was staged before the engine started again still waits for the reboot.
    pub(super) async fn new(channel: Channel) -> Self {
        let status = match channel.os().await {
            Ok(os) => os.staged.map(|version| {
                let staged = Status { new_version: version, progress: 1.0, ..Status::idle() };
                staged.doing(Operation::UpdatedNeedReboot)
            }),
            Err(error) => {
                warn!(reason = %chain(&error).join(": "), "channel not asked, the next attempt will");
                None
            }
        };
        let status = Arc::new(Mutex::new(status.unwrap_or_else(Status::idle)));
        Self { channel, status, turn: Arc::default() }
    }

    async fn attempt(&self, emitter: &SignalEmitter<'_>) {
        let Ok(_turn) = self.turn.try_lock() else { return };
        // A staged update waits for its reboot, as the real engine has it.
        if self.status().current_operation == Operation::UpdatedNeedReboot.as_str() {
            return;
        }
        if let Err(error) = self.update(emitter).await {
            warn!(reason = %chain(&error).join(": "), "update failed");
            self.show(emitter, self.status().doing(Operation::ReportingErrorEvent)).await;
            let checked = self.status().last_checked_time;
            self.show(emitter, Status { last_checked_time: checked, ..Status::idle() }).await;
        }
    }

    async fn update(&self, emitter: &SignalEmitter<'_>) -> Result<(), ChannelError> {
        self.show(emitter, self.status().doing(Operation::CheckingForUpdate)).await;
        let os = self.channel.os().await?;
        let checked = Status { last_checked_time: SystemClock::new().now().unix_timestamp(), ..Status::idle() };
        let Some(Next { version, size, .. }) = os.next else {
            self.show(emitter, checked).await;
            return Ok(());
        };
        let new_size = i64::try_from(size).unwrap_or(i64::MAX);
        let found = Status { new_version: version.clone(), new_size, ..checked };
        self.show(emitter, found.doing(Operation::UpdateAvailable)).await;
        let staging = self.channel.stage(&version, |progress| self.show(emitter, at(&found, progress, size)));
        staging.await?;
        self.show(emitter, Status { progress: 1.0, ..found }.doing(Operation::UpdatedNeedReboot)).await;
        Ok(())
    }

    fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn show(&self, emitter: &SignalEmitter<'_>, status: Status) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status.clone();
        let (checked, progress, operation, version, size) = fields(status);
        if let Err(error) = Self::status_update(emitter, checked, progress, operation, version, size).await {
            warn!(%error, "status not signalled, whoever asks still gets it");
        }
    }
}

fn fields(status: Status) -> (i64, f64, String, String, i64) {
    let Status { last_checked_time, progress, current_operation, new_version, new_size } = status;
    (last_checked_time, progress, current_operation, new_version, new_size)
}

/// The status in the middle of staging.
fn at(found: &Status, progress: Progress, size: u64) -> Status {
    let whole = |operation| Status { progress: 1.0, ..found.doing(operation) };
    match progress {
        Progress::Downloading { bytes } => {
            #[expect(clippy::cast_precision_loss, reason = "a share of bytes, for people")]
            let share = bytes.min(size) as f64 / size.max(1) as f64;
            Status { progress: share, ..found.doing(Operation::Downloading) }
        }
        Progress::Verifying => whole(Operation::Verifying),
        Progress::Finalizing | Progress::Staged | Progress::Failed { .. } => whole(Operation::Finalizing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_download_is_shown_as_a_share() {
        let found = Status { new_version: "2".to_owned(), new_size: 200, ..Status::idle() };
        let shown = at(&found, Progress::Downloading { bytes: 50 }, 200);
        assert_eq!((shown.progress, shown.current_operation.as_str()), (0.25, "UPDATE_STATUS_DOWNLOADING"));
        assert_eq!(at(&found, Progress::Downloading { bytes: 1 }, 0).progress, 0.0);
        assert_eq!(at(&found, Progress::Verifying, 200).current_operation, "UPDATE_STATUS_VERIFYING");
    }
}
