//! What happened, as one stream with several readers. Steps never print: [`Run`](crate::run::Run) publishes an [`Event`],
//! and the journal, the progress display and the JSON lines each make of it what they need.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::clock::{rfc3339_millis, whole_millis};
use crate::step::StepName;

mod json;
mod progress;
mod stream;

pub use json::JsonLines;
pub use progress::{PlainProgress, TerminalProgress, progress};
pub use stream::{Reader, Stream};

/// One thing that happened to one step; this is the contract's JSON form, to which the journal may add `done`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, to the millisecond.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub time: OffsetDateTime,
    /// Which cluster.
    pub cluster: String,
    /// Which step.
    pub step: StepName,
    /// On which machine, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What happened to the step.
    pub kind: Kind,
    /// The statement that was looked at, when observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
    /// Why not yet, or why it failed; an observed criterion without a reason holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the step took, in whole milliseconds, when it finished or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "write_took", deserialize_with = "read_took")]
    pub took: Option<Duration>,
}

/// What can happen to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Its work begins.
    Started,
    /// One of its criteria changed: it holds now, or has another reason not to.
    Observed,
    /// Its work is done and every criterion holds.
    Finished,
    /// It did not finish.
    Failed,
}

/// Whom an event is about; from here events are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Which cluster.
    pub cluster: String,
    /// Which step.
    pub step: StepName,
    /// On which machine, if it is about one.
    pub machine: Option<String>,
}

impl Subject {
    /// The step's work begins.
    pub fn started(&self, time: OffsetDateTime) -> Event {
        self.event(time, Kind::Started)
    }

    /// A criterion has another reason not to hold than before; without a reason it holds now.
    pub fn observed(&self, time: OffsetDateTime, criterion: &str, reason: Option<String>) -> Event {
        Event { criterion: Some(criterion.to_owned()), reason, ..self.event(time, Kind::Observed) }
    }

    /// The step is done.
    pub fn finished(&self, time: OffsetDateTime, took: Duration) -> Event {
        Event { took: Some(whole(took)), ..self.event(time, Kind::Finished) }
    }

    /// The step did not finish, for this reason.
    pub fn failed(&self, time: OffsetDateTime, took: Duration, reason: String) -> Event {
        Event { took: Some(whole(took)), reason: Some(reason), ..self.event(time, Kind::Failed) }
    }

    fn event(&self, time: OffsetDateTime, kind: Kind) -> Event {
        let Self { cluster, step, machine } = self.clone();
        Event { time: whole_millis(time), cluster, step, machine, kind, criterion: None, reason: None, took: None }
    }
}

fn whole(took: Duration) -> Duration {
    Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

fn write_time<S: Serializer>(time: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_millis(*time))
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    OffsetDateTime::parse(&text, &Rfc3339).map(whole_millis).map_err(serde::de::Error::custom)
}

fn write_took<S: Serializer>(took: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    took.map(|took| took.as_secs_f64()).serialize(serializer)
}

fn read_took<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(seconds) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    // To the nearest: a number such as 1.001 lies a little below what it says.
    let took = Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)?;
    Ok(Some(whole(took.saturating_add(Duration::from_micros(500)))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    const TIME: OffsetDateTime = datetime!(2026-11-16 03:23:42.123_456 UTC);

    fn subject(machine: Option<&str>) -> Subject {
        let step = StepName::new("form-etcd-quorum");
        Subject { cluster: "demo".into(), step, machine: machine.map(str::to_owned) }
    }

    #[test]
    fn events_have_the_form_of_the_contract() {
        let took = Duration::from_micros(1_500_999);
        let cases = [
            (
                subject(None).started(TIME),
                r#"{"time":"2026-11-16T03:23:42.123Z","cluster":"demo","step":"form-etcd-quorum","kind":"started"}"#,
            ),
            (
                subject(Some("master-0")).observed(TIME, "a quorum answers", Some("1 of 3".into())),
                r#"{"time":"2026-11-16T03:23:42.123Z","cluster":"demo","step":"form-etcd-quorum","machine":"master-0","kind":"observed","criterion":"a quorum answers","reason":"1 of 3"}"#,
            ),
            (
                subject(None).observed(TIME, "a quorum answers", None),
                r#"{"time":"2026-11-16T03:23:42.123Z","cluster":"demo","step":"form-etcd-quorum","kind":"observed","criterion":"a quorum answers"}"#,
            ),
            (
                subject(None).finished(TIME, took),
                r#"{"time":"2026-11-16T03:23:42.123Z","cluster":"demo","step":"form-etcd-quorum","kind":"finished","took":1.5}"#,
            ),
            (
                subject(None).failed(TIME, took, "no disk".into()),
                r#"{"time":"2026-11-16T03:23:42.123Z","cluster":"demo","step":"form-etcd-quorum","kind":"failed","reason":"no disk","took":1.5}"#,
            ),
        ];
        for (event, json) in cases {
            assert_eq!(serde_json::to_string(&event).unwrap(), json);
            assert_eq!(serde_json::from_str::<Event>(json).unwrap(), event);
        }
    }

    #[test]
    fn what_is_not_an_event_is_refused() {
        let good = serde_json::to_value(subject(None).finished(TIME, Duration::ZERO)).unwrap();
        let cases = [
            ("time", "yesterday".into()),
            ("kind", "exploded".into()),
            ("step", "Not A Step".into()),
            ("took", (-1.0).into()),
            ("took", "1".into()),
            ("cluster", serde_json::Value::Null),
        ];
        for (field, value) in cases {
            let mut bad = good.clone();
            bad[field] = value;
            assert!(serde_json::from_value::<Event>(bad).is_err(), "{field}");
        }
        assert!(serde_json::from_value::<Event>(good).is_ok());
    }

    proptest! {
        #[test]
        fn every_event_reads_back_as_it_was_written(
            nanos in 0i128..4_000_000_000_000_000_000, took in 0u64..u64::from(u32::MAX) * 1000, reason in ".*",
        ) {
            let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap();
            let event = subject(Some("worker-1")).failed(time, Duration::from_micros(took), reason);
            let json = serde_json::to_string(&event).unwrap();
            prop_assert!(!json.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        }
    }
}
