//! The flow's events as the record of its unit, so that whoever asks from outside sees the stage and what it waits for.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::event::{Event, Kind, Reader};
use windlass_steps::step::Stop;

use crate::exit::{Exit, Failure};
use crate::record::Recorder;

/// A record that the stream of events writes, and that a step may add to. Clones write the same one.
#[derive(Debug, Clone)]
pub(crate) struct Told(Arc<Mutex<Recorder>>);

impl Told {
    /// Writes into this record.
    pub(crate) fn into(recorder: Recorder) -> Self {
        Told(Arc::new(Mutex::new(recorder)))
    }

    /// Something holds now, or has another reason why it does not.
    pub(crate) fn observe(&self, statement: &str, reason: Option<&str>) {
        self.recorder().observe(statement, reason);
    }

    /// The unit has done what it is for, or gave up.
    pub(crate) fn ended(&self, ended: Result<(), Failure>) -> Result<(), Failure> {
        match &ended {
            Ok(()) => self.recorder().done(),
            Err(Failure { report, .. }) => {
                let because = std::iter::once(&report.error).chain(&report.because).cloned();
                self.recorder().failed(because.collect());
            }
        }
        ended
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flow of this unit that stopped. It may be tried again: every step may be.
pub(crate) fn stopped(stop: &Stop, unit: &str) -> Failure {
    let mut report = stop.report();
    report.next = format!("read `journalctl --unit {unit}` and `windlass-node report` on this machine");
    Failure { exit: Exit::TryAgain, report }
}

impl Reader for Told {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        let mut recorder = self.recorder();
        match event.kind {
            Kind::Started => recorder.stage(event.step.as_str()),
            Kind::Observed => {
                recorder.observe(event.criterion.as_deref().unwrap_or_default(), event.reason.as_deref());
            }
            Kind::Finished => {
                let took = event.took.unwrap_or_default().as_secs_f64();
                let finished = json!({ "finished": rfc3339_millis(event.time), "took": took });
                recorder.data(event.step.as_str(), finished);
            }
            // The report of the whole flow says it better, and comes right after.
            Kind::Failed => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use time::macros::datetime;
    use windlass_steps::event::Subject;
    use windlass_steps::step::{StepError, StepName};

    use super::*;
    use crate::places::Places;
    use crate::record::{State, collect};

    #[test]
    fn the_record_tells_the_stage_what_it_waits_for_and_when_each_step_ended() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let mut told = Told::into(Recorder::begin(&places, "bootkube", "begin"));
        let subject = Subject { cluster: "demo".into(), step: StepName::new("await-quorum"), machine: None };
        let time = datetime!(2026-11-16 03:00:00 UTC);
        told.read(&subject.started(time)).unwrap();
        told.read(&subject.observed(time, "etcd has a quorum", Some("1 of 3".into()))).unwrap();
        let record = &collect(&places)["bootkube"];
        assert_eq!((record.stage.as_str(), record.unmet[0].reason.as_str()), ("await-quorum", "1 of 3"));
        told.read(&subject.observed(time, "etcd has a quorum", None)).unwrap();
        told.read(&subject.finished(time, Duration::from_millis(1500))).unwrap();
        let record = &collect(&places)["bootkube"];
        assert_eq!(record.unmet, []);
        assert_eq!(record.data["await-quorum"], json!({"finished": "2026-11-16T03:00:00.000Z", "took": 1.5}));
        let stop = Stop::Failed { step: subject.step.clone(), error: StepError::new("look", "no") };
        assert_eq!(told.ended(Err(stopped(&stop, "bootkube"))).unwrap_err().exit, Exit::TryAgain);
        let record = &collect(&places)["bootkube"];
        assert_eq!(
            (record.state, record.because.join(": ")),
            (State::Failed, "await-quorum did not finish: cannot look: no".into())
        );
        told.ended(Ok(())).unwrap();
        assert_eq!(collect(&places)["bootkube"].state, State::Done);
    }
}
