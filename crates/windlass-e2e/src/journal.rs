//! A journal as anybody may read it: JSON lines.

use serde_json::Value;

/// The steps of a launch in the order in which they finish, written down here because scripts rely on it.
pub const STEPS: [&str; 13] = [
    "preflight",
    "create-network",
    "start-machines",
    "deliver-assets",
    "serve-machine-config",
    "form-etcd-quorum",
    "start-control-plane",
    "pivot-control-plane",
    "apply-addons",
    "retire-bootstrap",
    "join-workers",
    "settle-addons",
    "verify",
];

/// The events of a launch, in order.
#[derive(Debug, Default)]
pub struct Journal {
    events: Vec<Value>,
}

impl Journal {
    /// Takes the whole lines; a torn last one is being written.
    pub fn parse(text: &str) -> Self {
        Journal { events: text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect() }
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The steps that have finished, in order.
    pub fn finished(&self) -> Vec<String> {
        let finished = self.events.iter().filter(|event| event["kind"] == "finished");
        finished.map(|event| event["step"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Whether a step has finished.
    pub fn has_finished(&self, step: &str) -> bool {
        self.finished().iter().any(|finished| finished == step)
    }

    /// What was observed during a step: statement, reason if unmet, time.
    pub fn observed(&self, step: &str) -> Vec<(String, Option<String>, String)> {
        let of_step = self.events.iter().filter(|event| event["kind"] == "observed" && event["step"] == step);
        let text = |event: &Value, field: &str| event[field].as_str().map(str::to_owned);
        of_step
            .map(|event| {
                (
                    text(event, "criterion").unwrap_or_default(),
                    text(event, "reason"),
                    text(event, "time").unwrap_or_default(),
                )
            })
            .collect()
    }

    /// How many seconds a finished step took, the last time that it finished.
    pub fn took(&self, step: &str) -> Option<f64> {
        let finished = self.events.iter().rfind(|event| event["kind"] == "finished" && event["step"] == step);
        finished.and_then(|event| event["took"].as_f64())
    }

    /// What a finished step promised.
    pub fn done(&self, step: &str) -> Option<&Value> {
        let finished = self.events.iter().find(|event| event["kind"] == "finished" && event["step"] == step);
        finished.map(|event| &event["done"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_took_what_it_took_when_it_finished_last() {
        let event = |kind: &str, took: &str| format!("{{\"kind\":\"{kind}\",\"step\":\"a\"{took}}}\n");
        let cases = [
            (event("started", ""), None),
            (event("failed", ",\"took\":7.5"), None),
            (event("finished", ",\"took\":0.25"), Some(0.25)),
            (event("finished", ",\"took\":3") + &event("started", "") + &event("finished", ",\"took\":1"), Some(1.0)),
            (event("finished", ""), None),
        ];
        for (text, took) in cases {
            assert_eq!(Journal::parse(&text).took("a"), took, "{text}");
        }
        assert_eq!(Journal::parse(&event("finished", ",\"took\":1")).took("b"), None);
    }

    #[test]
    fn a_torn_last_line_is_not_an_event() {
        let journal = Journal::parse("{\"kind\":\"finished\",\"step\":\"a\"}\n{\"kind\":\"fini");
        assert_eq!(journal.finished(), ["a"]);
        assert!(journal.has_finished("a") && !journal.has_finished("b"));
    }
}
