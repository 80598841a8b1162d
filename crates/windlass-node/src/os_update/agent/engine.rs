//! The machine's update engine: it is listened to, and now and then asked to look for an update. CoreOS' engine looks by
//! itself; others do only what they are asked, and asking one that is at work changes nothing.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{info, warn};
use windlass_steps::report::chain;

use super::AGAIN;
use crate::update_engine::{BusEngine, EngineError, Operation, Status, UpdateEngine};

/// An engine that says nothing for this long is asked for its status.
const SILENCE: Duration = Duration::from_secs(30);
/// CoreOS' engine looks this long after its start for the first time; a machine has better things to do before.
const FIRST: Duration = Duration::from_secs(7 * 60);
/// Machines that start together do not all ask their channel at the same time.
const SPREAD: Duration = Duration::from_secs(10 * 60);

/// When the engine is next asked to look.
#[derive(Debug)]
pub(super) struct Asking {
    due: Instant,
    every: Duration,
}

impl Asking {
    /// Soon, and from then on as often as this. Each Node has a delay of its own, the same after every start.
    pub(super) fn from_now(node: &str, every: Duration) -> Self {
        let mut hasher = DefaultHasher::new();
        node.hash(&mut hasher);
        #[expect(clippy::cast_precision_loss, reason = "a share of the delay, for which 53 bits are plenty")]
        let share = hasher.finish() as f64 / u64::MAX as f64;
        let delay = FIRST.min(every) + SPREAD.min(every).mul_f64(share);
        Asking { due: Instant::now() + delay, every }
    }

    /// Whether an engine that shows this is to look now. One that has an update staged waits for its reboot.
    fn is_due(&self, status: &Status) -> bool {
        status.operation == Operation::Idle && self.left().is_zero()
    }

    fn left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    fn asked(&mut self) {
        self.due = Instant::now() + self.every;
    }

    /// For how long the engine is listened to before anything else is done.
    fn patience(&self) -> Duration {
        match self.left() {
            // It is busy, and tells when it is not any more.
            Duration::ZERO => SILENCE,
            left => SILENCE.min(left),
        }
    }
}

/// Follows the update engine for ever. A machine without one needs no reboot for an update.
pub(super) async fn listen(socket: &Path, told: &watch::Sender<Option<Status>>, asking: &mut Asking) -> Infallible {
    let mut pace = interval(AGAIN);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        pace.tick().await;
        let Err(error) = listen_once(socket, told, asking).await;
        told.send_replace(None);
        let reason = chain(&error).join(": ");
        if reason != last {
            warn!(reason, "update engine not heard");
            last = reason;
        }
    }
}

async fn listen_once(
    socket: &Path,
    told: &watch::Sender<Option<Status>>,
    asking: &mut Asking,
) -> Result<Infallible, EngineError> {
    hear(&BusEngine::connect(socket).await?, told, asking).await
}

async fn hear(
    engine: &impl UpdateEngine,
    told: &watch::Sender<Option<Status>>,
    asking: &mut Asking,
) -> Result<Infallible, EngineError> {
    loop {
        // Asked first, and whenever it was silent: a signal may have been missed.
        let mut status = Some(engine.status().await?);
        while let Some(now) = status {
            if asking.is_due(&now) {
                engine.attempt_update().await?;
                asking.asked();
                info!("update engine asked to look for an update");
            }
            told.send_if_modified(|before| {
                let news = before.as_ref() != Some(&now);
                *before = Some(now);
                news
            });
            status = engine.next(asking.patience()).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update_engine::ScriptedEngine;

    const HOUR: Duration = Duration::from_secs(3600);

    fn status(operation: Operation) -> Status {
        Status { last_checked: 7, progress: 0.0, operation, new_version: "2".to_owned(), new_size: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn the_engine_is_heard_with_and_without_a_signal() {
        let engine = ScriptedEngine::idle().tells(status(Operation::Downloading));
        let engine = engine.becomes(status(Operation::UpdatedNeedReboot));
        let told: watch::Sender<Option<Status>> = watch::Sender::new(None);
        let (mut seen, mut asking) = (told.subscribe(), Asking::from_now("worker-0", HOUR));
        tokio::select! {
            ended = hear(&engine, &told, &mut asking) => panic!("{ended:?}"),
            staged = seen.wait_for(|seen| *seen == Some(status(Operation::UpdatedNeedReboot))) => drop(staged.unwrap()),
        }
    }

    /// How often an engine that shows this is asked within so many hours.
    async fn asked(engine: &ScriptedEngine, hours: u32) -> usize {
        let told = watch::Sender::new(None);
        let mut asking = Asking::from_now("worker-0", HOUR);
        let heard = hear(engine, &told, &mut asking);
        assert!(tokio::time::timeout(HOUR * hours, heard).await.is_err());
        engine.attempts()
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_looked_never_by_itself_left_a_live_machine_without_updates() {
        assert_eq!(asked(&ScriptedEngine::idle(), 3).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_at_work_or_waits_for_its_reboot_is_left_alone() {
        for operation in [Operation::Downloading, Operation::UpdatedNeedReboot] {
            assert_eq!(asked(&ScriptedEngine::showing(status(operation)), 3).await, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn machines_ask_neither_at_once_nor_together() {
        let nodes = ["master-0", "master-1", "master-2", "worker-0", "worker-1"];
        let first: Vec<Duration> = nodes.iter().map(|node| Asking::from_now(node, HOUR).left()).collect();
        assert!(first.iter().all(|left| (FIRST..=FIRST + SPREAD).contains(left)), "{first:?}");
        for (at, left) in first.iter().enumerate() {
            assert!(first[..at].iter().all(|other| other.abs_diff(*left) > Duration::from_secs(1)), "{first:?}");
        }
        let often = Asking::from_now("worker-0", Duration::from_secs(10)).left();
        assert!(often <= Duration::from_secs(20), "{often:?}");
    }
}
