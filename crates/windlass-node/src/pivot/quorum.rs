//! Waiting for etcd: a quorum of members answers, and no master that still moves is left without its config or its
//! certificates when the servers that give them out stop.

use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tracing::warn;
use windlass_steps::criterion::{Criterion, LookError, Observation, Reason};
use windlass_steps::reason;
use windlass_steps::step::{Step, StepError, StepName};

use super::fresh::Fresh;
use super::reach;
use super::site::{Site, quorum};
use super::still::Stillness;
use crate::machine_token::{Marks, Purpose, TokenFiles};

/// A master that has shown nothing new for this long is not waited for.
const STILL: Duration = Duration::from_secs(10);

/// Waits for a quorum of etcd and for every master that still moves.
pub(super) struct AwaitQuorum<'a> {
    site: &'a Site,
    still: Stillness<Progress>,
    members: Fresh<Vec<Observation>>,
}

/// A quorum of etcd answers, and no moving master needs the bootstrap servers any more.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Quorum(());

/// How far a master has come with the servers of the bootstrap machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Silent,
    Served,
    Acknowledged,
    Certified,
}

/// A master, how far it has come, and for how long it has been there.
struct Seen<'a> {
    name: &'a str,
    progress: Progress,
    still: Duration,
}

impl<'a> AwaitQuorum<'a> {
    pub(super) fn new(site: &'a Site) -> Self {
        AwaitQuorum { site, still: Stillness::new(site.clock.clone()), members: Fresh::default() }
    }

    async fn has_quorum(&self) -> Result<Observation, LookError> {
        let masters = &self.site.masters;
        let ask = || async { Ok(join_all(masters.iter().map(|master| reach::ready(&master.etcd))).await) };
        let members = self.members.get(ask).await?;
        let named: Vec<_> = masters.iter().map(|master| master.name.as_str()).zip(members.iter()).collect();
        Ok(judge_members(&named))
    }

    async fn needs_nothing(&self) -> Result<Observation, LookError> {
        let has_quorum = self.has_quorum().await? == Observation::Holds;
        let files = TokenFiles::of(&self.site.places);
        let seen = self.site.masters.iter().map(|master| {
            let progress = Progress::read(&files, &master.name);
            Seen { name: &master.name, progress, still: self.still.of(&master.name, progress) }
        });
        Ok(judge_masters(&seen.collect::<Vec<_>>(), has_quorum))
    }
}

impl Step for AwaitQuorum<'_> {
    const NAME: StepName = StepName::new("await-quorum");
    const SUMMARY: &'static str = "wait for a quorum of etcd, and for the config and certificates of every master";
    const DEADLINE: Duration = Duration::from_secs(600);
    type Done = Quorum;

    async fn run(&self) -> Result<Quorum, StepError> {
        Ok(Quorum(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a Quorum) -> Vec<Criterion<'a>> {
        vec![
            Criterion::new("a quorum of etcd members answers", || self.has_quorum()),
            Criterion::new("every master has its config and certificates, or stands still", || self.needs_nothing()),
        ]
    }
}

impl Progress {
    fn read(files: &TokenFiles, machine: &str) -> Self {
        match files.has(Marks::Burnt, &format!("{}.{machine}", Purpose::Config.as_str())) {
            true if files.has(Marks::Issued, machine) => Progress::Certified,
            true => Progress::Acknowledged,
            false if files.has(Marks::Served, machine) => Progress::Served,
            false => Progress::Silent,
        }
    }

    /// What it lacks, in words.
    fn lacks(self) -> Option<&'static str> {
        match self {
            Progress::Silent => Some("has not asked for its config"),
            Progress::Served => Some("has not acknowledged its config"),
            Progress::Acknowledged => Some("has no etcd certificates"),
            Progress::Certified => None,
        }
    }
}

fn judge_members(members: &[(&str, &Observation)]) -> Observation {
    let ready = members.iter().filter(|(_, member)| **member == Observation::Holds).count();
    let want = quorum(members.len());
    if ready >= want {
        return Observation::Holds;
    }
    let told = members.iter().filter_map(|(name, seen)| Some(format!("{name}: {}", why(seen)?)));
    let told = told.collect::<Vec<_>>().join("; ");
    // Judged by the number alone: members that fail in turn with other words are no progress.
    Observation::NotYet(reason!("{ready} of {} answer, {want} are needed; {told}", members.len()).at(ready as u64))
}

fn why(seen: &Observation) -> Option<&Reason> {
    match seen {
        Observation::Holds => None,
        Observation::NotYet(reason) | Observation::Never(reason) => Some(reason),
    }
}

/// Whoever stands still is waited for until there is a quorum, and no longer.
fn judge_masters(masters: &[Seen<'_>], has_quorum: bool) -> Observation {
    let lacking: Vec<_> = masters.iter().filter_map(|m| Some((m, m.progress.lacks()?))).collect();
    let waited_for: Vec<String> = lacking
        .iter()
        .filter(|(master, _)| !has_quorum || master.still < STILL)
        .map(|(master, lacks)| format!("{} {lacks}", master.name))
        .collect();
    if masters.is_empty() || !waited_for.is_empty() {
        return Observation::NotYet(reason!("{}", waited_for.join("; ")));
    }
    for (master, lacks) in lacking {
        warn!(machine = master.name, lacks, "going on without a master that stands still");
    }
    Observation::Holds
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::places::Places;

    const C: Progress = Progress::Certified;

    #[test]
    fn a_master_that_stands_still_is_left_behind_only_when_there_is_a_quorum() {
        // What each master has done and for how long it has stood still, whether there is a quorum, and what is waited for.
        type Case = (&'static [(Progress, u64)], bool, Option<&'static str>);
        let cases: [Case; 9] = [
            (&[], true, Some("")),
            (&[(C, 0), (C, 0), (C, 0)], true, None),
            (&[(C, 0), (C, 0), (C, 0)], false, None),
            (&[(C, 0), (C, 0), (Progress::Silent, 9)], true, Some("m2 has not asked for its config")),
            (&[(C, 0), (C, 0), (Progress::Silent, 10)], true, None),
            (&[(C, 0), (C, 0), (Progress::Silent, 60)], false, Some("m2 has not asked for its config")),
            (&[(C, 0), (C, 0), (Progress::Served, 3)], true, Some("m2 has not acknowledged its config")),
            (&[(C, 0), (C, 0), (Progress::Acknowledged, 0)], true, Some("m2 has no etcd certificates")),
            (&[(Progress::Served, 12), (C, 0), (Progress::Acknowledged, 2)], true, Some("m2 has no etcd certificates")),
        ];
        for (masters, has_quorum, want) in cases {
            let names: Vec<String> = (0..masters.len()).map(|n| format!("m{n}")).collect();
            let seen: Vec<_> = masters
                .iter()
                .zip(&names)
                .map(|((progress, still), name)| Seen { name, progress: *progress, still: Duration::from_secs(*still) })
                .collect();
            let want = want.map_or(Observation::Holds, |text| Observation::NotYet(Reason::new(text)));
            assert_eq!(judge_masters(&seen, has_quorum), want, "{masters:?} {has_quorum}");
        }
    }

    #[test]
    fn a_quorum_is_more_than_half_of_the_masters() {
        let no = Observation::NotYet(Reason::new("refused"));
        for (masters, ready, holds) in
            [(0, 0, false), (1, 0, false), (1, 1, true), (3, 1, false), (3, 2, true), (5, 2, false), (5, 3, true)]
        {
            let seen: Vec<_> = (0..masters).map(|n| ("m", if n < ready { &Observation::Holds } else { &no })).collect();
            assert_eq!(judge_members(&seen) == Observation::Holds, holds, "{ready} of {masters}");
        }
        let Observation::NotYet(reason) = judge_members(&[("a", &Observation::Holds), ("b", &no), ("c", &no)]) else {
            panic!()
        };
        assert_eq!(reason.text(), "1 of 3 answer, 2 are needed; b: refused; c: refused");
    }

    #[test]
    fn progress_is_read_from_what_the_servers_wrote_down() {
        let dir = tempfile::tempdir().unwrap();
        let files = TokenFiles::of(&Places::below(dir.path()));
        let note = |marks, name| files.mark(marks, name, datetime!(2026-11-16 03:00:00 UTC)).unwrap();
        let progress = || Progress::read(&files, "masters-0");
        assert_eq!(progress(), Progress::Silent);
        note(Marks::Served, "masters-0");
        note(Marks::Burnt, "config.masters-1");
        assert_eq!(progress(), Progress::Served);
        note(Marks::Burnt, "join.masters-0");
        assert_eq!(progress(), Progress::Served);
        note(Marks::Burnt, "config.masters-0");
        assert_eq!(progress(), Progress::Acknowledged);
        note(Marks::Issued, "masters-0");
        assert_eq!(progress(), C);
    }
}
