//! The newest events. The API lists them by name, not by time, so the newest are found by looking at all.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::Event;
use serde::Serialize;
use time::OffsetDateTime;

use super::{Age, clipped};
use crate::dashboard::table::{Concern, Row};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventRow {
    /// How long ago it last happened; none if the event does not say, which is then older than all.
    pub age: Option<Age>,
    /// Whether it is a warning.
    pub kind: EventKind,
    /// Its reason, in one word.
    pub reason: String,
    /// What it is about: kind, namespace and name.
    pub object: String,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: i32,
}

/// The two types of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// For the record.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Row for EventRow {
    const MOST: usize = 50;

    fn order(&self, other: &Self) -> Ordering {
        let key = |row: &Self| (row.age.is_none(), row.age);
        key(self).cmp(&key(other)).then_with(|| self.object.cmp(&other.object))
    }

    fn concern(&self) -> Concern {
        match self.kind {
            EventKind::Warning => Concern::Look,
            EventKind::Normal => Concern::None,
        }
    }
}

/// A row for each event.
pub fn events_view(events: &[Event], now: OffsetDateTime) -> Vec<EventRow> {
    events.iter().map(|event| row(event, now)).collect()
}

fn row(event: &Event, now: OffsetDateTime) -> EventRow {
    let about = &event.involved_object;
    let name = [about.namespace.as_deref(), about.name.as_deref()].into_iter().flatten();
    let name = name.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let series = event.series.as_ref().and_then(|series| series.count);
    EventRow {
        age: age(event, now),
        kind: if event.type_.as_deref() == Some("Warning") { EventKind::Warning } else { EventKind::Normal },
        reason: clipped(event.reason.as_deref().unwrap_or_default()),
        object: clipped(&format!("{} {name}", about.kind.as_deref().unwrap_or_default())),
        message: clipped(event.message.as_deref().unwrap_or_default()),
        count: series.or(event.count).unwrap_or(1),
    }
}

/// The newest time that the event tells; old and new recorders fill in different ones.
fn age(event: &Event, now: OffsetDateTime) -> Option<Age> {
    let times = [
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.first_timestamp.as_ref().map(|time| time.0),
        event.metadata.creation_timestamp.as_ref().map(|time| time.0),
    ];
    times.into_iter().flatten().max().map(|then| Age::at(now, then))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    fn view(mut object: Value) -> EventRow {
        let fields = object.as_object_mut().unwrap();
        fields.entry("metadata").or_insert(json!({}));
        fields.entry("involvedObject").or_insert(json!({}));
        let event: Event = serde_json::from_value(object).unwrap();
        events_view(&[event], datetime!(2026-11-16 03:00:00 UTC)).remove(0)
    }

    #[test]
    fn the_newest_time_counts() {
        let cases = [
            (json!({"lastTimestamp": "2026-11-16T02:59:00Z", "firstTimestamp": "2026-11-16T02:00:00Z"}), Some(60)),
            (json!({"eventTime": "2026-11-16T02:59:30.000000Z"}), Some(30)),
            (
                json!({
                    "eventTime": "2026-11-16T02:00:00.000000Z",
                    "series": {"count": 4, "lastObservedTime": "2026-11-16T02:59:50.000000Z"},
                }),
                Some(10),
            ),
            (json!({"metadata": {"creationTimestamp": "2026-11-16T02:58:00Z"}}), Some(120)),
            (json!({}), None),
        ];
        for (object, want) in cases {
            assert_eq!(view(object.clone()).age, want.map(Age::seconds), "{object}");
        }
    }

    #[test]
    fn an_event_tells_what_it_is_about_and_how_often() {
        let row = view(json!({
            "type": "Warning", "reason": "BackOff", "message": "Back-off\nrestarting", "count": 7,
            "involvedObject": {"kind": "Pod", "namespace": "kube-system", "name": "dns-1"},
        }));
        assert_eq!((row.kind, row.count, row.concern()), (EventKind::Warning, 7, Concern::Look));
        assert_eq!((row.object.as_str(), row.message.as_str()), ("Pod kube-system/dns-1", "Back-off restarting"));
        let node = view(json!({"type": "Normal", "involvedObject": {"kind": "Node", "name": "n"}}));
        assert_eq!((node.object.as_str(), node.count, node.kind), ("Node n", 1, EventKind::Normal));
    }

    #[test]
    fn the_newest_comes_first_and_the_timeless_last() {
        let mut rows = [
            view(json!({})),
            view(json!({"lastTimestamp": "2026-11-16T01:00:00Z"})),
            view(json!({"lastTimestamp": "2026-11-16T02:59:00Z"})),
        ];
        rows.sort_by(EventRow::order);
        let ages: Vec<_> = rows.iter().map(|row| row.age).collect();
        assert_eq!(ages, [Some(Age::seconds(60)), Some(Age::seconds(7200)), None]);
    }
}
