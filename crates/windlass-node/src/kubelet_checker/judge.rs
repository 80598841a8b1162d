//! The decision, from nothing but what was seen and done before: a process hangs if it is silent again and again, for long
//! enough, while systemd takes it for running. The kubelet is judged only while containerd answers, because it cannot be
//! well without it and starting it again would not help. Neither is started again for ever.

use std::fmt;
use std::time::Duration;

use time::OffsetDateTime;
use windlass_steps::clock::rfc3339_millis;

use crate::record::Unmet;

/// A row of silent looks as long as this, in number and in time, is a hang.
const SILENT_LOOKS: usize = 6;
const SILENT_FOR: Duration = Duration::from_secs(30);
/// At most so many restarts of a unit in so much time.
const MOST: usize = 3;
const WINDOW: Duration = Duration::from_secs(600);
/// More looks and restarts than a decision needs.
const REMEMBERED: usize = 100;
const RESTARTS: usize = 10;

/// What is watched, in the order in which it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The container runtime.
    Containerd,
    /// The kubelet.
    Kubelet,
}

impl Target {
    /// Both.
    pub const ALL: [Target; 2] = [Target::Containerd, Target::Kubelet];

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Target::Containerd => "containerd.service",
            Target::Kubelet => "kubelet.service",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.unit().trim_end_matches(".service"))
    }
}

/// What a look saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It is well.
    Answers,
    /// It does not answer, for this reason, although it has been running for long enough to.
    Silent(String),
    /// It need not answer: it starts, does not run, or is not to run yet.
    Excused(String),
}

/// One look at one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// When, as time since some fixed moment.
    pub at: Duration,
    /// What was seen.
    pub seen: Seen,
}

/// Something was started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// When.
    pub at: OffsetDateTime,
    /// What.
    pub target: Target,
    /// Why.
    pub why: String,
}

/// What was seen and done before.
#[derive(Debug, Default)]
pub struct History {
    containerd: Vec<Look>,
    kubelet: Vec<Look>,
    /// The last of them, in order.
    pub restarts: Vec<Restart>,
}

impl History {
    /// Nothing was seen yet, but this was done.
    pub fn after(restarts: Vec<Restart>) -> Self {
        History { restarts, ..History::default() }
    }

    /// One more look.
    pub fn add(&mut self, target: Target, look: Look) {
        let looks = match target {
            Target::Containerd => &mut self.containerd,
            Target::Kubelet => &mut self.kubelet,
        };
        looks.push(look);
        let surplus = looks.len().saturating_sub(REMEMBERED);
        looks.drain(..surplus);
    }

    /// Something was started again. What was seen before says nothing about it, nor about who depends on it.
    pub fn restarted(&mut self, restart: Restart) {
        self.containerd.clear();
        self.kubelet.clear();
        self.restarts.push(restart);
        let surplus = self.restarts.len().saturating_sub(RESTARTS);
        self.restarts.drain(..surplus);
    }

    fn looks(&self, target: Target) -> &[Look] {
        match target {
            Target::Containerd => &self.containerd,
            Target::Kubelet => &self.kubelet,
        }
    }

    /// The restarts of one that still count.
    fn recent(&self, target: Target, now: OffsetDateTime) -> Vec<&Restart> {
        let counts = |restart: &&Restart| restart.target == target && now - restart.at < WINDOW;
        self.restarts.iter().filter(counts).collect()
    }
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing now; this is not as it should be.
    Wait(Vec<Unmet>),
    /// Start this again.
    Restart {
        /// What.
        target: Target,
        /// Why.
        why: String,
    },
}

/// Decides once everything has been looked at.
pub fn decide(history: &History, now: OffsetDateTime) -> Decision {
    let mut troubles = Vec::new();
    for target in Target::ALL {
        let row = silent_row(history.looks(target));
        let recent = history.recent(target, now);
        let may = recent.len() < MOST;
        if let Some(why) = row.hang()
            && may
        {
            return Decision::Restart { target, why };
        }
        troubles.extend(row.trouble(target));
        troubles.extend(help(target, &recent));
        if target == Target::Containerd && row.len() > 0 {
            break;
        }
    }
    Decision::Wait(troubles)
}

/// The looks since it last answered or was excused.
struct SilentRow<'a>(&'a [Look]);

fn silent_row(looks: &[Look]) -> SilentRow<'_> {
    let is_silent = |look: &Look| matches!(look.seen, Seen::Silent(_));
    let from = looks.iter().rposition(|look| !is_silent(look)).map_or(0, |last| last + 1);
    SilentRow(&looks[from..])
}

impl SilentRow<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn reason(&self) -> &str {
        match self.0.last().map(|look| &look.seen) {
            Some(Seen::Silent(reason)) => reason,
            Some(Seen::Answers | Seen::Excused(_)) | None => "",
        }
    }

    fn hang(&self) -> Option<String> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        let lasted = last.at.saturating_sub(first.at);
        let hangs = self.len() >= SILENT_LOOKS && lasted >= SILENT_FOR;
        hangs.then(|| format!("no answer for {} s, {} looks in a row: {}", lasted.as_secs(), self.len(), self.reason()))
    }

    fn trouble(&self, target: Target) -> Option<Unmet> {
        let statement = format!("{} answers", target.unit());
        let reason = format!("{} looks in a row without an answer: {}", self.len(), self.reason());
        (self.len() > 0).then_some(Unmet { statement, reason })
    }
}

/// That it was started again is told for as long as it counts.
fn help(target: Target, recent: &[&Restart]) -> Option<Unmet> {
    let last = recent.last()?;
    let left_alone = match recent.first().filter(|_| recent.len() >= MOST) {
        Some(first) => format!("; it is left alone until {}", rfc3339_millis(first.at + WINDOW)),
        None => String::new(),
    };
    let times = recent.len();
    let when = rfc3339_millis(last.at);
    let reason = format!("started again {times} times in 10 minutes, last at {when}: {}{left_alone}", last.why);
    Some(Unmet { statement: format!("{} needs no help", target.unit()), reason })
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-18 10:00:00 UTC);

    /// A look every five seconds: `.` answers, `x` silent, `o` excused.
    fn looks(text: &str) -> Vec<Look> {
        let seen = |c| match c {
            '.' => Seen::Answers,
            'x' => Seen::Silent("refused".into()),
            _ => Seen::Excused("it starts".into()),
        };
        let look = |(n, c)| Look { at: Duration::from_secs(5 * n as u64), seen: seen(c) };
        text.chars().enumerate().map(look).collect()
    }

    fn restart(target: Target, minutes: i64) -> Restart {
        Restart { at: NOW - time::Duration::minutes(minutes), target, why: "hung".into() }
    }

    fn history(containerd: &str, kubelet: &str, restarts: Vec<Restart>) -> History {
        History { containerd: looks(containerd), kubelet: looks(kubelet), restarts }
    }

    /// The looks at each, the restarts with the minutes since, and what is started again.
    type Case<'a> = (&'a str, &'a str, &'a [(Target, i64)], Option<Target>);

    #[test]
    fn only_a_long_row_of_silence_is_a_hang() {
        use Target::{Containerd, Kubelet};
        let cases: &[Case<'_>] = &[
            ("", "", &[], None),
            (".", ".", &[], None),
            ("........", "........", &[], None),
            (".......", "xxxxxxx", &[], Some(Kubelet)),
            (".......", "xxxxxx", &[], None),
            ("........", ".xxxxxxx", &[], Some(Kubelet)),
            (".........", "xxxxxx.xx", &[], None),
            (".........", "xxxxxxoxx", &[], None),
            (".........", "xxxxxxxx.", &[], None),
            (".......", "ooooooo", &[], None),
            ("xxxxxxx", ".......", &[], Some(Containerd)),
            ("xxxxxx", "......", &[], None),
            // The kubelet is not well without containerd, and starting it again would not help.
            ("xxxxxxx", "xxxxxxx", &[], Some(Containerd)),
            ("......x", "xxxxxxx", &[], None),
            ("ooooooo", "xxxxxxx", &[], Some(Kubelet)),
            // Three times in ten minutes, each for itself.
            (".......", "xxxxxxx", &[(Kubelet, 9), (Kubelet, 5)], Some(Kubelet)),
            (".......", "xxxxxxx", &[(Kubelet, 9), (Kubelet, 5), (Kubelet, 1)], None),
            (".......", "xxxxxxx", &[(Kubelet, 10), (Kubelet, 5), (Kubelet, 1)], Some(Kubelet)),
            (".......", "xxxxxxx", &[(Containerd, 9), (Containerd, 5), (Containerd, 1)], Some(Kubelet)),
            ("xxxxxxx", "xxxxxxx", &[(Containerd, 9), (Containerd, 5), (Containerd, 1)], None),
        ];
        for (containerd, kubelet, restarts, want) in cases {
            let restarts = restarts.iter().map(|(target, minutes)| restart(*target, *minutes)).collect();
            let decision = decide(&history(containerd, kubelet, restarts), NOW);
            let restarted = match decision {
                Decision::Restart { target, .. } => Some(target),
                Decision::Wait(_) => None,
            };
            assert_eq!(restarted, *want, "{containerd} {kubelet}");
        }
    }

    #[test]
    fn few_looks_over_a_long_time_are_no_hang() {
        let mut history = History::default();
        for n in 0..5 {
            history.add(Target::Kubelet, Look { at: Duration::from_secs(600 * n), seen: Seen::Silent("x".into()) });
        }
        assert!(matches!(decide(&history, NOW), Decision::Wait(_)));
    }

    #[test]
    fn what_is_not_well_is_told_and_what_was_done_about_it() {
        let told = |history: &History| match decide(history, NOW) {
            Decision::Wait(troubles) => {
                troubles.iter().map(|unmet| format!("{}: {}", unmet.statement, unmet.reason)).collect::<Vec<_>>()
            }
            Decision::Restart { target, why } => vec![format!("restart {target}: {why}")],
        };
        assert_eq!(told(&history("..", "..", vec![])), [""; 0]);
        assert_eq!(
            told(&history("..", ".x", vec![restart(Target::Kubelet, 1)])),
            [
                "kubelet.service answers: 1 looks in a row without an answer: refused",
                "kubelet.service needs no help: started again 1 times in 10 minutes, last at 2026-11-18T09:59:00.000Z: hung",
            ]
        );
        let often = [9, 5, 1].map(|minutes| restart(Target::Containerd, minutes)).to_vec();
        assert_eq!(
            told(&history("..", "..", often)),
            [
                "containerd.service needs no help: started again 3 times in 10 minutes, last at 2026-11-18T09:59:00.000Z: \
              hung; it is left alone until 2026-11-18T10:01:00.000Z"
            ]
        );
        assert_eq!(
            told(&history(".......", "xxxxxxx", vec![])),
            ["restart kubelet: no answer for 30 s, 7 looks in a row: refused"]
        );
    }

    #[test]
    fn a_restart_begins_a_new_history_and_old_looks_are_forgotten() {
        let mut history = history("xxxxxxx", "xxxxxxx", vec![]);
        history.restarted(restart(Target::Containerd, 0));
        assert!(matches!(decide(&history, NOW), Decision::Wait(_)));
        (0..1000).for_each(|n| history.add(Target::Kubelet, Look { at: Duration::from_secs(n), seen: Seen::Answers }));
        assert_eq!(history.kubelet.len(), REMEMBERED);
    }
}
