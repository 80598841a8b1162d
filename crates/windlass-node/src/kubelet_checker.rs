//! A watchdog (`kubelet-checker.service`, on masters and workers): it asks the kubelet and containerd every few seconds
//! whether they are well, and starts one again that has been silent for half a minute although systemd takes it for
//! running. What ends is systemd's business; what starts, or may not run yet, is left alone.
//!
//! Looking, deciding and doing are apart: `sight` looks, [`judge`] decides from what was seen, and only the watchdog itself acts.

mod healthz;
pub mod judge;
mod sight;
mod unit;

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing::{info, warn};
use windlass_steps::clock::{Clock, SystemClock, rfc3339_millis};
use windlass_steps::criterion::{Criterion, LookError, Observation, Reason};
use windlass_steps::host::{Commands, Host, HostError, cmd};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::report::chain;
use windlass_steps::wait::{Change, Wait};

use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::record::{self, Kept, Recorder};

use judge::{Decision, History, Look, Restart, Target};
use sight::Sight;

const UNIT: &str = "kubelet-checker";
const RESTARTS: &str = "restarts";
const EVERY: Duration = Duration::from_secs(5);
/// Longer than a look takes that nobody answers.
const LOOK_LIMIT: Duration = Duration::from_secs(15);
/// How long a unit may take to stop before it is killed: it did not answer for long enough.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const KILL_LIMIT: Duration = Duration::from_secs(60);

/// Why nobody watches.
#[derive(Debug, Error)]
pub enum CheckerError {
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Watches until told to end.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut watchdog = Watchdog::begin(places, Arc::clone(&clock));
    let interrupt = match Interrupt::on_signals() {
        Ok(interrupt) => interrupt,
        Err(source) => {
            let error = CheckerError::HandleSignals { source };
            watchdog.record.failed(chain(&error));
            return Err(Failure::of(Exit::TryAgain, &error, "start it again"));
        }
    };
    let sight = Sight::of(places, &Host, clock.as_ref());
    tokio::select! {
        never = watchdog.watch(&sight, &Host) => match never {},
        () = interrupt.raised() => {}
    }
    watchdog.record.done();
    Ok(())
}

/// What has been seen and done so far.
struct Watchdog {
    clock: Arc<dyn Clock>,
    record: Recorder,
    history: RefCell<History>,
}

impl Watchdog {
    /// Goes on with the restarts that the last one counted.
    fn begin(places: &Places, clock: Arc<dyn Clock>) -> Self {
        let restarts = record::last(places, UNIT).map(|record| told(record.data.get(RESTARTS))).unwrap_or_default();
        let mut recorder = Recorder::begin_by(Arc::clone(&clock), places, UNIT, "watch", Kept::UntilReboot);
        recorder.data(RESTARTS, listed(&restarts));
        Watchdog { clock, record: recorder, history: RefCell::new(History::after(restarts)) }
    }

    async fn watch(&mut self, sight: &Sight<'_, impl Commands>, commands: &impl Commands) -> Infallible {
        loop {
            let (target, why) = self.await_hang(sight).await;
            self.start_again(target, why, commands).await;
        }
    }

    /// Looks until something is to be started again. What is not well is told meanwhile.
    async fn await_hang(&mut self, sight: &Sight<'_, impl Commands>) -> (Target, String) {
        let Watchdog { clock, record, history } = self;
        let (history, found, troubles) = (&*history, RefCell::new(None), RefCell::new(Vec::new()));
        let look = || async {
            for target in Target::ALL {
                let seen = sight.look(target).await;
                history.borrow_mut().add(target, Look { at: clock.monotonic(), seen });
            }
            let decision = judge::decide(&history.borrow(), clock.now());
            Ok::<_, LookError>(match decision {
                Decision::Restart { target, why } => {
                    found.replace(Some((target, why)));
                    Observation::Holds
                }
                Decision::Wait(seen) => {
                    let lines: Vec<String> =
                        seen.iter().map(|unmet| format!("{}: {}", unmet.statement, unmet.reason)).collect();
                    troubles.replace(seen);
                    Observation::NotYet(Reason::new(lines.join("; ")).at(0))
                }
            })
        };
        let wait = Wait::stalled_for(Duration::MAX).poll_every(EVERY).look_limit(LOOK_LIMIT);
        loop {
            let mut tell = |_: Change<'_>| -> Result<(), Infallible> {
                record.unmet(troubles.take());
                Ok(())
            };
            // There is no deadline and nobody to refuse, so that it ends when the look has found something.
            let _ = wait.until(&[Criterion::new("something hangs", look)], &mut tell).await;
            if let Some(found) = found.take() {
                return found;
            }
        }
    }

    async fn start_again(&mut self, target: Target, why: String, commands: &impl Commands) {
        warn!(unit = target.unit(), why, "starting again what hangs");
        let restart = Restart { at: self.clock.now(), target, why };
        self.record.stage(&format!("restart-{target}"));
        let history = self.history.get_mut();
        // What cannot be started again counts as well: it is not tried without end.
        history.restarted(restart);
        self.record.data(RESTARTS, listed(&history.restarts));
        match restart_unit(target, commands).await {
            Ok(()) => info!(unit = target.unit(), "started again"),
            Err(error) => warn!(unit = target.unit(), because = chain(&error).join(": "), "not started again"),
        }
        self.record.stage("watch");
    }
}

/// Asks systemd, and kills what does not stop when it is told to; the start that was asked for follows. Only the process
/// itself is killed, whatever it has started stays: containers live on.
async fn restart_unit(target: Target, commands: &impl Commands) -> Result<(), HostError> {
    let restart = cmd("systemctl").args(["restart", target.unit()]);
    let stopped = commands.run(restart.clone().timeout(STOP_LIMIT)).await;
    let Err(HostError::AwaitCommand { .. }) = stopped else { return stopped.map(drop) };
    let kill = cmd("systemctl").args(["kill", "--kill-who=main", "--signal=SIGKILL", target.unit()]);
    commands.run(kill.timeout(KILL_LIMIT)).await?;
    commands.run(restart.timeout(KILL_LIMIT)).await.map(drop)
}

fn listed(restarts: &[Restart]) -> Value {
    let one = |restart: &Restart| {
        let Restart { at, target, why } = restart;
        json!({ "when": rfc3339_millis(*at), "what": target.unit(), "why": why })
    };
    restarts.iter().map(one).collect()
}

/// The same, read again.
fn told(list: Option<&Value>) -> Vec<Restart> {
    let one = |value: &Value| {
        let target = Target::ALL.into_iter().find(|target| value["what"] == target.unit())?;
        let at = OffsetDateTime::parse(value["when"].as_str()?, &Rfc3339).ok()?;
        Some(Restart { at, target, why: value["why"].as_str()?.to_owned() })
    };
    list.and_then(Value::as_array).into_iter().flatten().filter_map(one).collect()
}

#[cfg(test)]
mod tests;
