//! The `Done` condition of an add-on: what its workloads show, in the form that the API keeps conditions in.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::criterion::Observation;

const DONE: &str = "Done";

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: String,
}

impl Condition {
    /// What an add-on's object says about being done, if it says anything.
    pub(super) fn of(addon: &DynamicObject) -> Option<Self> {
        let all = addon.data.pointer("/status/conditions")?.as_array()?;
        let mut all = all.iter().filter_map(|written| Condition::deserialize(written).ok());
        all.find(|condition| condition.r#type == DONE)
    }

    /// What it is to say after this was seen. The time is that of the last change between done and not done.
    pub(super) fn after(seen: &Observation, said: Option<&Self>, now: OffsetDateTime) -> Self {
        let (status, reason, message) = match seen {
            Observation::Holds => ("True", "RolledOut", "everything it is made of has rolled out".to_owned()),
            Observation::NotYet(why) => ("False", "RollingOut", why.to_string()),
            Observation::Never(why) => ("False", "Failed", why.to_string()),
        };
        let since = said.filter(|said| said.status == status).map(|said| said.last_transition_time.clone());
        Condition {
            r#type: DONE.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or_else(|| rfc3339_millis(now)),
        }
    }

    /// The patch that says it, of this condition alone.
    pub(super) fn patch(&self, addon: &DynamicObject) -> Value {
        let mut condition = json!(self);
        if let Some(generation) = addon.metadata.generation {
            condition["observedGeneration"] = generation.into();
        }
        json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "Addon",
            "metadata": { "name": addon.name_any() },
            "status": { "conditions": [condition] },
        })
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use windlass_steps::reason;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-16 03:00:00 UTC);
    const LATER: OffsetDateTime = datetime!(2026-11-16 03:01:00 UTC);

    #[test]
    fn the_time_is_that_of_the_last_change_between_done_and_not_done() {
        let first = Condition::after(&Observation::NotYet(reason!("0 of 1")), None, NOW);
        assert_eq!((first.status.as_str(), first.message.as_str()), ("False", "0 of 1"));
        let second = Condition::after(&Observation::NotYet(reason!("1 of 2")), Some(&first), LATER);
        assert_ne!(second, first);
        assert_eq!(second.last_transition_time, "2026-11-16T03:00:00.000Z");
        let done = Condition::after(&Observation::Holds, Some(&second), LATER);
        assert_eq!((done.status.as_str(), done.reason.as_str()), ("True", "RolledOut"));
        assert_eq!(done.last_transition_time, "2026-11-16T03:01:00.000Z");
        assert_eq!(Condition::after(&Observation::Holds, Some(&done), NOW), done);
    }

    #[test]
    fn what_was_patched_is_what_is_read() {
        let mut addon: DynamicObject =
            serde_json::from_value(json!({"metadata": {"name": "dns", "generation": 3}})).unwrap();
        assert_eq!(Condition::of(&addon), None);
        let done = Condition::after(&Observation::Holds, None, NOW);
        let patch = done.patch(&addon);
        assert_eq!(patch["status"]["conditions"][0]["observedGeneration"], 3);
        addon.data = json!({"status": patch["status"]});
        assert_eq!(Condition::of(&addon), Some(done));
        for other in [json!({"conditions": "Done"}), json!({"conditions": [{"type": "Done", "status": true}]})] {
            addon.data = json!({"status": other});
            assert_eq!(Condition::of(&addon), None);
        }
    }
}
