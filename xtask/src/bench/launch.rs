//! A cluster of three masters and two workers by windlass, beside the same by kubeadm: the same programs, machines,
//! network and add-ons, in turns within one run. Both end when every node and every pod is ready.

mod peer;
mod usage;
mod windlass;

use std::path::Path;
use std::time::Duration;

use usage::Usage;

use super::Finding;
use crate::report::{Failure, say};
use crate::session::Session;

/// What kubeadm's time is at most exceeded by.
const MOST: f64 = 1.0;
/// Each is first once: what runs second finds the host's caches warm.
const ROUNDS: [First; 2] = [First::Windlass, First::Kubeadm];

/// Who begins a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Windlass,
    Kubeadm,
}

/// How one cluster came up.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Since the start, what had happened by then.
    pub marks: Vec<(Duration, String)>,
    /// What the machines used.
    pub usage: Usage,
    /// How often containers of the control plane were started again.
    pub restarts: u64,
}

impl Timeline {
    fn wall(&self) -> Duration {
        self.marks.last().map(|(at, _)| *at).unwrap_or_default()
    }

    /// How much longer it took than the processors alone would have needed.
    fn stall(&self) -> f64 {
        let busy = self.usage.cpu.as_secs_f64() / usage::cores();
        self.wall().as_secs_f64() / busy
    }

    fn tell(&self, who: &str) {
        for (at, mark) in &self.marks {
            say(format_args!("    {who:9} {:6.1} s  {mark}", at.as_secs_f64()));
        }
        say(format_args!(
            "    {who:9} {:.1} CPU-seconds, stall ratio {:.2}, longest idle gap {:.1} s, {} restarts of control-plane containers",
            self.usage.cpu.as_secs_f64(),
            self.stall(),
            self.usage.idle.as_secs_f64(),
            self.restarts
        ));
    }
}

/// Runs both in turns, tells both timelines, and judges ours by theirs.
pub fn measure(session: &Session, artifacts: &Path) -> Result<Vec<Finding>, Failure> {
    let trouble = || Failure::new("cannot compare the installers", "look at the cause");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| trouble().because(error))?;
    let place = session.built().join("bench-launch");
    let mut findings = Vec::new();
    let ours = || {
        let ours = windlass::launch(session, &place, artifacts).map_err(|error| trouble().because(error));
        ours.inspect(|ours| ours.tell("windlass"))
    };
    let theirs = || {
        let theirs = runtime.block_on(peer::launch(session, &place, artifacts));
        theirs.map_err(|error| trouble().because(error)).inspect(|theirs| theirs.tell("kubeadm"))
    };
    for first in ROUNDS {
        let (ours, theirs) = match first {
            First::Windlass => (ours()?, theirs()?),
            First::Kubeadm => {
                let theirs = theirs()?;
                (ours()?, theirs)
            }
        };
        findings.extend(judge(&ours, &theirs));
    }
    Ok(findings)
}

fn judge(ours: &Timeline, theirs: &Timeline) -> Vec<Finding> {
    let ratio = ours.wall().as_secs_f64() / theirs.wall().as_secs_f64();
    let seconds = |timeline: &Timeline| timeline.wall().as_secs_f64();
    vec![
        Finding {
            measured: format!(
                "all pods ready after {:.1} s, kubeadm {:.1} s, ratio {ratio:.2}",
                seconds(ours),
                seconds(theirs)
            ),
            limit: format!("at most {MOST}"),
            kept: ratio <= MOST,
        },
        Finding {
            measured: format!("{} restarts of control-plane containers, kubeadm {}", ours.restarts, theirs.restarts),
            limit: "none".to_owned(),
            kept: ours.restarts == 0,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(seconds: u64, restarts: u64) -> Timeline {
        let usage = Usage { cpu: Duration::from_secs(seconds), idle: Duration::ZERO };
        Timeline { marks: vec![(Duration::from_secs(seconds), "all pods ready".to_owned())], usage, restarts }
    }

    #[test]
    fn slower_than_the_peer_and_any_restart_are_over_the_limit() {
        let kept = |ours, theirs| judge(&ours, &theirs).iter().map(|finding| finding.kept).collect::<Vec<_>>();
        assert_eq!(kept(timeline(80, 0), timeline(88, 3)), [true, true]);
        assert_eq!(kept(timeline(89, 1), timeline(88, 0)), [false, false]);
    }
}
