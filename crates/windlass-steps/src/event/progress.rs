//! Progress for people: spinners on a terminal, single lines anywhere else. Both say the same words.

mod open;
mod plain;
mod terminal;

pub use plain::PlainProgress;
pub use terminal::TerminalProgress;

use std::io::{self, IsTerminal};

use indicatif::MultiProgress;

use super::{Event, Kind, Reader};
use crate::step::StepName;

/// A step, on a machine if it is about one.
type Key = (StepName, Option<String>);

/// The display that suits stderr as it is now.
pub fn progress() -> Box<dyn Reader> {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        Box::new(TerminalProgress::on(MultiProgress::new()))
    } else {
        Box::new(PlainProgress::to(stderr).reminding())
    }
}

impl Reader for Box<dyn Reader> {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        self.as_mut().read(event)
    }
}

fn key(event: &Event) -> Key {
    (event.step.clone(), event.machine.clone())
}

fn title(event: &Event) -> String {
    title_of(&key(event))
}

fn title_of((step, machine): &Key) -> String {
    match machine {
        Some(machine) => format!("{step} on {machine}"),
        None => step.to_string(),
    }
}

fn words(event: &Event) -> String {
    let criterion = event.criterion.as_deref().unwrap_or("a criterion");
    let took = event.took.map(|took| format!(" after {:.1} s", took.as_secs_f64())).unwrap_or_default();
    match (event.kind, event.reason.as_deref().map(one_line)) {
        (Kind::Started, _) => "started".to_owned(),
        (Kind::Observed, None) => format!("{criterion}: yes"),
        (Kind::Observed, Some(reason)) => format!("{criterion}: not yet, {reason}"),
        (Kind::Finished, _) => format!("done{took}"),
        (Kind::Failed, None) => format!("failed{took}"),
        (Kind::Failed, Some(reason)) => format!("failed{took}, {reason}"),
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use time::macros::datetime;

    use super::super::Subject;
    use super::*;

    fn step(name: &str, machine: Option<&str>) -> Subject {
        let step = StepName::parse(name).unwrap();
        Subject { cluster: "demo".into(), step, machine: machine.map(str::to_owned) }
    }

    /// A criterion of a step was looked at.
    pub(super) fn etcd(criterion: &str, reason: Option<&str>) -> Event {
        let time = datetime!(2026-11-16 03:00:00 UTC);
        step("form-etcd-quorum", None).observed(time, criterion, reason.map(str::to_owned))
    }

    pub(super) fn story() -> Vec<Event> {
        let time = datetime!(2026-11-16 03:00:00 UTC);
        let (etcd, boot) = (step("form-etcd-quorum", None), step("boot", Some("master-0")));
        vec![
            etcd.started(time),
            boot.started(time),
            etcd.observed(time, "a quorum answers", Some("1 of 3\nmembers".into())),
            boot.failed(time, Duration::from_millis(2_340), "no disk".into()),
            etcd.observed(time, "a quorum answers", None),
            etcd.finished(time, Duration::from_secs(61)),
        ]
    }
}
