//! How fast the journal takes events that last, beside a bare loop of write and fdatasync on the same disk. The two
//! take turns, so that a busy disk slows both.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::event::{Event, Subject};
use windlass_steps::host::{Mode, make_dir};
use windlass_steps::journal::Journal;
use windlass_steps::step::StepName;

use super::Finding;
use crate::report::Failure;

const TURNS: u32 = 20;
const EVENTS_PER_TURN: u32 = 100;
const LEAST_RATE: f64 = 2_000.0;
const MOST_RATIO: f64 = 1.2;

/// Appends events for a while in this directory, and judges the rate.
pub fn measure(dir: &Path) -> Result<Finding, Failure> {
    let trouble = || Failure::new("cannot measure the journal", "look at the cause");
    make_dir(dir, Mode::PUBLIC_DIR).map_err(|error| trouble().because(error))?;
    let dir = tempfile::tempdir_in(dir).map_err(|error| trouble().because(error))?;
    let mut journal =
        Journal::open(dir.path().join("journal.jsonl")).map_err(|error| trouble().because(error))?.journal;
    let mut bare = File::create(dir.path().join("bare")).map_err(|error| trouble().because(error))?;
    let line = line().map_err(|error| trouble().because(error))?;
    let event = event();
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..TURNS {
        let turn = timed(|| (0..EVENTS_PER_TURN).try_for_each(|_| journal.append(&event, None)));
        ours += turn.map_err(|error| trouble().because(error))?;
        let turn = timed(|| (0..EVENTS_PER_TURN).try_for_each(|_| append(&mut bare, &line)));
        theirs += turn.map_err(|error| trouble().because(error))?;
    }
    Ok(judge(ours, theirs))
}

fn judge(ours: Duration, theirs: Duration) -> Finding {
    let rate = |took: Duration| f64::from(TURNS * EVENTS_PER_TURN) / took.as_secs_f64();
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    let rates = (rate(ours), rate(theirs));
    Finding {
        measured: format!("journal {:.0} events/s, bare fdatasync {:.0}/s, ratio {ratio:.2}", rates.0, rates.1),
        limit: format!("{LEAST_RATE:.0} events/s, or ratio {MOST_RATIO}"),
        kept: rates.0 >= LEAST_RATE || ratio <= MOST_RATIO,
    }
}

fn timed<E>(work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

fn append(file: &mut File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    file.sync_data()
}

fn event() -> Event {
    let step = StepName::new("form-etcd-quorum");
    let subject = Subject { cluster: "large".into(), step, machine: Some("workers-7-42".into()) };
    subject.observed(SystemClock::new().now(), "every member is a voter", Some("2 of 3 members are voters".into()))
}

/// As many bytes as the journal writes for the event.
fn line() -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&event())?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_good_by_its_rate_or_by_its_ratio() {
        let cases = [(500, 100, true), (1_000, 1, true), (2_000, 1_900, true), (2_000, 1_000, false)];
        for (ours, theirs, kept) in cases {
            let finding = judge(Duration::from_millis(ours), Duration::from_millis(theirs));
            assert_eq!(finding.kept, kept, "{finding}");
        }
    }
}
