//! Objects of the API become rows of the page. These functions only look at what they are given; every text in a row is
//! plain text, which the page escapes.

mod addon;
mod age;
mod event;
mod node;
mod pod;
mod workload;

pub use addon::{AddonRow, AddonState, Condition, addons_view};
pub use age::Age;
pub use event::{EventKind, EventRow, events_view};
pub use node::{NodeRow, NodeState, Scheduling, nodes_view};
pub use pod::{PodRow, pods_view};
pub use workload::{
    Health, WorkloadRow, daemon_sets_view, deployments_view, replication_controllers_view, stateful_sets_view,
};

const LONGEST: usize = 300;

/// A text on one line and of bounded length: messages come from anybody who may write an object.
fn clipped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A reason in one word and its message, as far as there is either.
fn told(reason: Option<&str>, message: Option<&str>) -> Option<String> {
    let words = [reason, message].into_iter().flatten().map(str::trim).filter(|text| !text.is_empty());
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| clipped(&words.join(": ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_one_short_line() {
        let long = "é".repeat(LONGEST + 1);
        let cut = format!("{}…", "é".repeat(LONGEST));
        let cases = [("a\n b\t\tc ", "a b c"), ("", ""), (long.as_str(), cut.as_str())];
        for (text, want) in cases {
            assert_eq!(clipped(text), want);
        }
    }

    #[test]
    fn a_reason_is_told_as_far_as_it_is_known() {
        let cases = [
            (Some("Evicted"), Some("low on memory"), Some("Evicted: low on memory")),
            (Some("Evicted"), Some(" "), Some("Evicted")),
            (None, Some("low on memory"), Some("low on memory")),
            (Some(""), None, None),
            (None, None, None),
        ];
        for (reason, message, want) in cases {
            assert_eq!(told(reason, message).as_deref(), want);
        }
    }
}
