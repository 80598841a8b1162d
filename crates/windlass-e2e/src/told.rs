//! Faults are told: the step, the machine and the reason, within seconds of the stall.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::process::Child;

use crate::Installation;

/// Within this time of a stall it is told.
pub const LIMIT: Duration = Duration::from_secs(30);
/// A launch that has observed nothing new for this long has stalled.
const STALL: Duration = Duration::from_secs(8);
/// No launch takes longer to get to where a fault stops it.
const PATIENCE: Duration = Duration::from_secs(240);
const LOOK: Duration = Duration::from_millis(500);

/// What is to be said about a fault.
#[derive(Debug, Clone, Copy)]
pub struct Want<'a> {
    /// The step that waits; empty if it may be one or another.
    pub step: &'a str,
    /// How the name of the machine may begin that it happens on; nothing if it is no machine's.
    pub machines: &'a [&'a str],
    /// One of these is in the reason.
    pub words: &'a [&'a str],
}

/// How it was said.
#[derive(Debug)]
pub struct Told {
    /// How long after the last thing that the launch had observed.
    pub after: Duration,
    /// The line.
    pub line: String,
    /// The exit code, if the launch had ended by then.
    pub ended: Option<i32>,
}

/// Waits until a launch that meets a fault says so, by itself or, once it has stalled, through `why`.
pub async fn told(cluster: &Installation, launch: &mut Child, want: &Want<'_>) -> Told {
    let (begun, mut events, mut progress) = (Instant::now(), 0, Instant::now());
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        ticks.tick().await;
        let now = cluster.journal().len();
        if now != events {
            (events, progress) = (now, Instant::now());
        }
        if let Some(status) = launch.try_wait().expect("a child can be asked") {
            let said = cluster.said();
            assert!(!status.success(), "the launch did not meet the fault:\n{said}");
            let line = said.lines().find(|line| has(line, want.words)).map(str::to_owned);
            let named = want.machines.is_empty() || has(&said, want.machines);
            assert!(named && said.contains(want.step), "{want:?}:\n{said}");
            let line = line.unwrap_or_else(|| panic!("{want:?}:\n{said}"));
            return Told { after: progress.elapsed(), line, ended: status.code() };
        }
        assert!(begun.elapsed() < PATIENCE, "there is no stall:\n{}", cluster.said());
        if progress.elapsed() < STALL {
            continue;
        }
        let why = cluster.windlass(&["why", "-o", "json"]).await;
        if let Some(line) = named(&why.stdout, want) {
            return Told { after: progress.elapsed(), line, ended: None };
        }
        let after = progress.elapsed();
        assert!(after < LIMIT, "{want:?} is not named {after:?} after the stall:\n{}\n{}", why.stdout, cluster.said());
    }
}

/// The finding that names machine and reason, if one also names the step.
fn named(why: &str, want: &Want<'_>) -> Option<String> {
    let why: Value = serde_json::from_str(why).ok()?;
    let findings = why["findings"].as_array()?;
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let waits = |step: &str| !step.is_empty() && (want.step.is_empty() || step == want.step);
    findings.iter().find(|finding| waits(&text(finding, "step")))?;
    let fits = |finding: &&Value| {
        let machine = text(finding, "machine");
        let is_meant = want.machines.is_empty() || want.machines.iter().any(|begin| machine.starts_with(begin));
        is_meant && has(&format!("{} {}", text(finding, "subject"), text(finding, "reason")), want.words)
    };
    let found = findings.iter().find(fits)?;
    Some(format!("{} {}: {}", text(found, "machine"), text(found, "subject"), text(found, "reason")))
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_with_its_step_its_machine_and_its_reason() {
        let why = r#"{"findings":[
            {"step":"form-etcd-quorum","subject":"etcd has a quorum","reason":"1 of 3"},
            {"machine":"master-1","subject":"etcd runs","reason":"it has ended: disk full"}]}"#;
        let want = Want { step: "form-etcd-quorum", machines: &["worker-", "master-1"], words: &["full", "space"] };
        assert_eq!(named(why, &want).unwrap(), "master-1 etcd runs: it has ended: disk full");
        for other in [
            Want { step: "pivot-control-plane", ..want },
            Want { machines: &["master-0"], ..want },
            Want { machines: &["etcd", "aster-"], ..want },
            Want { words: &["memory"], ..want },
        ] {
            assert_eq!(named(why, &other), None, "{other:?}");
        }
        assert!(named(why, &Want { machines: &[], ..want }).is_some());
        assert_eq!(named("not JSON", &want), None);
    }
}
