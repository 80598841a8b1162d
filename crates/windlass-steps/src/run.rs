//! The only driver of steps: announce, run, wait until every criterion holds, write the journal, announce. A flow is
//! plain code that calls [`Run::step`]; what has finished according to the journal is answered from there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tracing::{Instrument, debug, error, info, info_span};

use crate::clock::Clock;
use crate::event::{Event, Stream, Subject};
use crate::interrupt::Interrupt;
use crate::journal::JournalError;
use crate::report::chain;
use crate::step::{Step, StepName, Stop};
use crate::wait::{Change, Wait, WaitError};

mod only;

use only::Only;

const POLL: Duration = Duration::from_millis(200);

/// One pass through a flow. Clones share the stream, so that steps may be joined.
#[derive(Clone)]
pub struct Run {
    cluster: String,
    machine: Option<String>,
    clock: Arc<dyn Clock>,
    stream: Arc<Mutex<Stream>>,
    interrupt: Interrupt,
    poll: Duration,
    only: Option<Arc<Only>>,
}

impl Run {
    /// Runs steps for this cluster and publishes what happens to this stream.
    pub fn new(cluster: impl Into<String>, clock: Arc<dyn Clock>, stream: Stream) -> Self {
        Self {
            cluster: cluster.into(),
            machine: None,
            clock,
            stream: Arc::new(Mutex::new(stream)),
            interrupt: Interrupt::default(),
            poll: POLL,
            only: None,
        }
    }

    /// Runs this step alone, for `phase run NAME`: finished steps are answered from the journal, and the first unfinished
    /// one after it stops the flow with [`Stop::Reached`]. One that stands before it stops it with [`Stop::NeedsFirst`].
    ///
    /// A named step that has already finished is not run again; its criteria are looked at again. A flow that ends with
    /// the named step, or has no such step, simply ends.
    pub fn only(mut self, step: StepName) -> Self {
        self.only = Some(Arc::new(Only::new(step)));
        self
    }

    /// Stops the running steps when this is raised.
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Looks at criteria this often (200 ms unless said).
    pub fn poll_every(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// The same run for steps on one machine; the journal tells a step on one machine from the same step on another.
    pub fn on(&self, machine: impl Into<String>) -> Self {
        Self { machine: Some(machine.into()), ..self.clone() }
    }

    /// Brings the step to its end: its result is here, every criterion holds, and the journal knows.
    pub async fn step<S: Step>(&self, step: S) -> Result<S::Done, Stop> {
        let span = info_span!("step", step = %S::NAME, cluster = self.cluster, machine = self.machine.as_deref());
        self.take_turn(step).instrument(span).await
    }

    async fn take_turn<S: Step>(&self, step: S) -> Result<S::Done, Stop> {
        let known = self.recall::<S>()?;
        match (&self.only, known) {
            (Some(only), known) if only.names(&S::NAME) => {
                let _running = only.begin();
                self.perform(&step, known).await
            }
            (_, Some(done)) => {
                info!("step answered from the journal");
                Ok(done)
            }
            (Some(only), None) => Err(only.out_of_turn(S::NAME).await),
            (None, None) => self.perform(&step, None).await,
        }
    }

    async fn perform<S: Step>(&self, step: &S, known: Option<S::Done>) -> Result<S::Done, Stop> {
        let subject = self.subject(S::NAME);
        let began = self.clock.monotonic();
        let took = || self.clock.monotonic().saturating_sub(began);
        self.publish(&subject.started(self.clock.now()), None)?;
        info!("step started");
        let work = async {
            tokio::select! {
                biased;
                () = self.interrupt.raised() => Err(Stop::Interrupted { step: S::NAME }),
                done = self.work(step, known, &subject) => done,
            }
        };
        let ended = work.await.and_then(|(done, json)| {
            self.publish(&subject.finished(self.clock.now(), took()), Some(&json))?;
            Ok(done)
        });
        match &ended {
            Ok(_) => info!(took = ?took(), "step finished"),
            Err(stop) => self.tell_failure(subject.failed(self.clock.now(), took(), reason_of(stop))),
        }
        ended
    }

    async fn work<S: Step>(
        &self,
        step: &S,
        known: Option<S::Done>,
        subject: &Subject,
    ) -> Result<(S::Done, Value), Stop> {
        let done = match known {
            Some(done) => done,
            None => step.run().await.map_err(|error| Stop::Failed { step: S::NAME, error })?,
        };
        let json = serde_json::to_value(&done)
            .map_err(|source| journal_trouble(S::NAME, JournalError::Encode { step: S::NAME, source }))?;
        self.settle(step, &done, subject).await?;
        Ok((done, json))
    }

    async fn settle<S: Step>(&self, step: &S, done: &S::Done, subject: &Subject) -> Result<(), Stop> {
        let criteria = step.exit_criteria(done);
        let observe = |change: Change<'_>| {
            debug!(criterion = change.statement, reason = change.reason, "criterion observed");
            let reason = change.reason.map(str::to_owned);
            self.publish(&subject.observed(self.clock.now(), change.statement, reason), None)
        };
        let wait = Wait::stalled_for(S::DEADLINE).poll_every(self.poll);
        wait.until(&criteria, observe).await.map_err(|ended| match ended {
            WaitError::Unmet(unmet) => Stop::Unmet { step: S::NAME, unmet },
            WaitError::Observe(stop) => stop,
        })
    }

    fn recall<S: Step>(&self) -> Result<Option<S::Done>, Stop> {
        let json = self.stream().finished(&S::NAME, self.machine.as_deref()).cloned();
        json.map(serde_json::from_value)
            .transpose()
            .map_err(|source| journal_trouble(S::NAME, JournalError::Decode { step: S::NAME, source }))
    }

    fn publish(&self, event: &Event, done: Option<&Value>) -> Result<(), Stop> {
        let published = self.stream().publish(event, done);
        published.map_err(|source| journal_trouble(event.step.clone(), source))
    }

    /// The step's own failure is what the flow returns; that it could not be journaled as well is only logged.
    fn tell_failure(&self, event: Event) {
        error!(reason = event.reason, "step failed");
        let mut stream = self.stream();
        if let Err(trouble) = stream.publish(&event, None) {
            error!(error = chain(&trouble).join(": "), "failure not journaled");
            stream.announce(&event);
        }
    }

    fn subject(&self, step: StepName) -> Subject {
        Subject { cluster: self.cluster.clone(), step, machine: self.machine.clone() }
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn journal_trouble(step: StepName, source: JournalError) -> Stop {
    Stop::Journal { step, source }
}

fn reason_of(stop: &Stop) -> String {
    match stop.report().because.as_slice() {
        [] => stop.to_string(),
        because => because.join(": "),
    }
}

#[cfg(test)]
mod tests;
