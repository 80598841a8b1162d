//! Add-ons and their conditions, from `windlass.dev/v1alpha1` `Addon` objects. They are read without a type of their own,
//! because a cluster may not have them, and a page about trouble should show what is there.

use std::cmp::Ordering;

use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Age, clipped, told};
use crate::dashboard::table::{Concern, Row};

const MOST_CONDITIONS: usize = 20;

/// An add-on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddonRow {
    /// Its name.
    pub name: String,
    /// Whether it is done.
    pub state: AddonState,
    /// What it reports, in its own order.
    pub conditions: Vec<Condition>,
    /// How long ago it was created.
    pub age: Option<Age>,
}

/// Whether an add-on is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddonState {
    /// It reports no `Done` condition that is true.
    NotDone,
    /// It does.
    Done,
}

/// One condition of an add-on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Its reason and message.
    pub reason: Option<String>,
}

impl Row for AddonRow {
    const MOST: usize = 100;

    fn order(&self, other: &Self) -> Ordering {
        (self.state, &self.name).cmp(&(other.state, &other.name))
    }

    fn concern(&self) -> Concern {
        match self.state {
            AddonState::NotDone => Concern::Look,
            AddonState::Done => Concern::None,
        }
    }
}

/// A row for each add-on.
pub fn addons_view(addons: &[DynamicObject], now: OffsetDateTime) -> Vec<AddonRow> {
    addons.iter().map(|addon| row(addon, now)).collect()
}

/// A condition as anybody may have written it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    r#type: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

fn row(addon: &DynamicObject, now: OffsetDateTime) -> AddonRow {
    let listed = addon.data.pointer("/status/conditions").and_then(|list| list.as_array());
    let written = listed.into_iter().flatten().filter_map(|c| Written::deserialize(c).ok());
    let conditions: Vec<_> = written.take(MOST_CONDITIONS).map(condition).collect();
    let done = conditions.iter().any(|c| c.kind == "Done" && c.status == "True");
    AddonRow {
        name: addon.metadata.name.clone().unwrap_or_default(),
        state: if done { AddonState::Done } else { AddonState::NotDone },
        conditions,
        age: addon.metadata.creation_timestamp.as_ref().map(|then| Age::at(now, then.0)),
    }
}

fn condition(written: Written) -> Condition {
    Condition {
        kind: clipped(&written.r#type),
        status: clipped(&written.status),
        reason: told(written.reason.as_deref(), written.message.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    fn view(status: Value) -> AddonRow {
        let object = json!({"metadata": {"name": "dns"}, "status": status});
        let addon: DynamicObject = serde_json::from_value(object).unwrap();
        addons_view(&[addon], datetime!(2026-11-16 03:00:00 UTC)).remove(0)
    }

    #[test]
    fn an_addon_is_done_only_when_it_says_so() {
        let cases = [
            (json!({"conditions": [{"type": "Done", "status": "True"}]}), AddonState::Done),
            (json!({"conditions": [{"type": "Done", "status": "False"}]}), AddonState::NotDone),
            (json!({"conditions": [{"type": "Done", "status": true}]}), AddonState::NotDone),
            (json!({"conditions": [{"type": "Applied", "status": "True"}]}), AddonState::NotDone),
            (json!({"conditions": "Done"}), AddonState::NotDone),
            (json!({"conditions": [17, {"type": "Done", "status": "True"}]}), AddonState::Done),
            (json!({}), AddonState::NotDone),
            (json!(null), AddonState::NotDone),
        ];
        for (status, want) in cases {
            assert_eq!(view(status.clone()).state, want, "{status}");
        }
    }

    #[test]
    fn conditions_keep_their_order_and_tell_their_reason() {
        let row = view(json!({"conditions": [
            {"type": "Applied", "status": "True", "reason": "Applied", "message": "5 objects", "extra": 1},
            {"type": "Done", "status": "False", "reason": "Waiting"},
        ]}));
        let told: Vec<_> = row.conditions.iter().map(|c| (c.kind.as_str(), c.reason.as_deref())).collect();
        assert_eq!(told, [("Applied", Some("Applied: 5 objects")), ("Done", Some("Waiting"))]);
    }
}
