use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use time::macros::datetime;

use super::*;
use crate::clock::ManualClock;
use crate::criterion::{Criterion, Observation};
use crate::event::{Kind, Reader};
use crate::journal::Journal;
use crate::reason;
use crate::step::StepError;

type Log = RefCell<Vec<&'static str>>;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Machines {
    names: Vec<String>,
}

/// Does its work, after which its criterion holds on the given look.
struct Provision<'a> {
    log: &'a Log,
    holds_on_look: u32,
    looks: Cell<u32>,
}

impl<'a> Provision<'a> {
    fn new(log: &'a Log, holds_on_look: u32) -> Self {
        Self { log, holds_on_look, looks: Cell::new(0) }
    }
}

impl Step for Provision<'_> {
    const NAME: StepName = StepName::new("provision-machines");
    const SUMMARY: &'static str = "make the machines";
    const DEADLINE: Duration = Duration::from_secs(5);
    type Done = Machines;

    async fn run(&self) -> Result<Machines, StepError> {
        self.log.borrow_mut().push("provision");
        Ok(Machines { names: vec!["master-0".into()] })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Machines) -> Vec<Criterion<'a>> {
        vec![Criterion::new("every machine answers", move || async move {
            self.log.borrow_mut().push("look");
            self.looks.set(self.looks.get() + 1);
            Ok(match self.looks.get() >= self.holds_on_look {
                true => Observation::Holds,
                false => Observation::NotYet(reason!("0 of {}", done.names.len())),
            })
        })]
    }
}

/// Needs the machines; with a failure to give it fails.
struct Quorum<'a> {
    log: &'a Log,
    machines: &'a Machines,
    failure: Option<&'static str>,
}

impl Step for Quorum<'_> {
    const NAME: StepName = StepName::new("form-etcd-quorum");
    const SUMMARY: &'static str = "start etcd";
    const DEADLINE: Duration = Duration::from_secs(5);
    type Done = ();

    async fn run(&self) -> Result<(), StepError> {
        assert_eq!(self.machines.names, ["master-0"]);
        self.log.borrow_mut().push("quorum");
        self.failure.map_or(Ok(()), |failure| Err(StepError::new("start the member", failure)))
    }

    // The short form of the house style, for looks that borrow from the step alone.
    fn exit_criteria(&self, _: &()) -> Vec<Criterion<'_>> {
        vec![Criterion::by_construction("a quorum answers")]
    }
}

/// Never ends, stands for anything that is interrupted or cancelled.
struct Endless;

impl Step for Endless {
    const NAME: StepName = StepName::new("endless");
    const SUMMARY: &'static str = "go on for ever";
    const DEADLINE: Duration = Duration::from_secs(5);
    type Done = ();

    async fn run(&self) -> Result<(), StepError> {
        std::future::pending().await
    }

    fn exit_criteria(&self, (): &()) -> Vec<Criterion<'_>> {
        Vec::new()
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Event>>>);

impl Reader for Seen {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        self.0.lock().unwrap().push(event.clone());
        Ok(())
    }
}

impl Seen {
    fn lines(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let line = |event: &Event| {
            let parts =
                [Some(event.step.to_string()), event.machine.clone(), event.criterion.clone(), event.reason.clone()];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            format!("{:?} {}", event.kind, parts.join(", "))
        };
        events.iter().map(line).collect()
    }
}

fn run_in(dir: &Path) -> (Run, Seen) {
    let seen = Seen::default();
    let journal = Journal::open(dir.join("journal.jsonl")).unwrap().journal;
    let clock = Arc::new(ManualClock::at(datetime!(2026-11-16 03:00:00 UTC)));
    (Run::new("demo", clock, Stream::new().journal(journal).reader(seen.clone())), seen)
}

async fn flow(run: &Run, log: &Log, failure: Option<&'static str>) -> Result<(), Stop> {
    let machines = run.step(Provision::new(log, 1)).await?;
    run.step(Quorum { log, machines: &machines, failure }).await
}

#[tokio::test(start_paused = true)]
async fn a_step_is_announced_run_waited_for_and_announced() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (run, seen) = run_in(dir.path());
    run.step(Provision::new(&log, 3)).await.unwrap();
    assert_eq!(*log.borrow(), ["provision", "look", "look", "look"]);
    let lines = [
        "Started provision-machines",
        "Observed provision-machines, every machine answers, 0 of 1",
        "Observed provision-machines, every machine answers",
        "Finished provision-machines",
    ];
    assert_eq!(seen.lines(), lines);
    let history = Journal::read(dir.path().join("journal.jsonl")).unwrap();
    let events: Vec<_> = history.entries.iter().map(|entry| entry.event.clone()).collect();
    assert_eq!(events, *seen.0.lock().unwrap());
    assert_eq!(history.entries[3].done, Some(serde_json::json!({"names": ["master-0"]})));
}

#[tokio::test(start_paused = true)]
async fn a_finished_step_is_answered_from_the_journal() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (run, _) = run_in(dir.path());
    flow(&run, &log, Some("no disk")).await.unwrap_err();
    drop(run);
    let (run, seen) = run_in(dir.path());
    flow(&run, &log, None).await.unwrap();
    assert_eq!(*log.borrow(), ["provision", "look", "quorum", "quorum"]);
    assert_eq!(seen.lines()[0], "Started form-etcd-quorum");
    drop(run);
    let (run, seen) = run_in(dir.path());
    flow(&run, &log, None).await.unwrap();
    assert_eq!((log.borrow().len(), seen.lines().len()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_says_why_in_the_stream_and_in_the_stop() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (run, seen) = run_in(dir.path());
    let stop = flow(&run, &log, Some("no disk")).await.unwrap_err();
    assert!(matches!(&stop, Stop::Failed { step, .. } if step.as_str() == "form-etcd-quorum"));
    assert_eq!(stop.report().because, ["cannot start the member", "no disk"]);
    assert_eq!(seen.lines().last().unwrap(), "Failed form-etcd-quorum, cannot start the member: no disk");
}

#[tokio::test(start_paused = true)]
async fn criteria_unmet_at_the_deadline_fail_the_step_and_the_next_run_repeats_it() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (run, seen) = run_in(dir.path());
    let stop = run.step(Provision::new(&log, u32::MAX)).await.unwrap_err();
    let Stop::Unmet { unmet, .. } = &stop else { panic!("{stop}") };
    assert_eq!((unmet.len(), unmet[0].reason.as_str()), (1, "0 of 1"));
    let last = seen.lines().pop().unwrap();
    assert_eq!(last, "Failed provision-machines, not met: every machine answers: 0 of 1 (for 5.0 s)");
    run.step(Provision::new(&log, 1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_named_step_runs_alone() {
    let names = [Provision::NAME, Quorum::NAME];
    let [provision, quorum] = names;
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let only = async |name: &StepName| {
        log.borrow_mut().clear();
        let ended = flow(&run_in(dir.path()).0.only(name.clone()), &log, None).await;
        (ended.map_err(|stop| stop.to_string()), log.borrow().clone())
    };
    let reached = "provision-machines has finished and nothing else was asked for".to_owned();
    assert_eq!(only(&quorum).await, (Err("form-etcd-quorum cannot run yet".into()), vec![]));
    assert_eq!(only(&provision).await, (Err(reached.clone()), vec!["provision", "look"]));
    // Done once is done: only the criteria are looked at again.
    assert_eq!(only(&provision).await, (Err(reached), vec!["look"]));
    assert_eq!(only(&quorum).await, (Ok(()), vec!["quorum"]));
    assert_eq!(only(&quorum).await, (Ok(()), vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_missing_input_names_the_step_to_run_first() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let run = run_in(dir.path()).0.only(Quorum::NAME);
    let stop = flow(&run, &log, None).await.unwrap_err();
    assert!(
        matches!(&stop, Stop::NeedsFirst { wanted, first } if (wanted, first) == (&Quorum::NAME, &Provision::NAME))
    );
    assert_eq!(stop.report().next, "windlass phase run provision-machines");
}

#[tokio::test(start_paused = true)]
async fn a_step_joined_with_the_named_one_neither_blocks_nor_cancels_it() {
    for named_first in [true, false] {
        let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
        let run = run_in(dir.path()).0.only(Provision::NAME);
        let (named, other) = (run.step(Provision::new(&log, 3)), run.step(Endless));
        let ended = match named_first {
            true => tokio::try_join!(named, other).map(drop),
            false => tokio::try_join!(other, named).map(drop),
        };
        assert!(matches!(ended, Err(Stop::Reached { .. })), "{ended:?}");
        assert_eq!(*log.borrow(), ["provision", "look", "look", "look"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_step_on_two_machines_is_two_steps() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (run, seen) = run_in(dir.path());
    for machine in ["a", "b", "a"] {
        run.on(machine).step(Provision::new(&log, 1)).await.unwrap();
    }
    assert_eq!(*log.borrow(), ["provision", "look", "provision", "look"]);
    assert_eq!(seen.lines()[0], "Started provision-machines, a");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_the_running_step_and_every_later_one() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    let interrupt = Interrupt::default();
    let (run, seen) = run_in(dir.path());
    let run = run.interrupted_by(interrupt.clone());
    let (ended, ()) = tokio::join!(run.step(Endless), async { interrupt.raise() });
    assert!(matches!(ended, Err(Stop::Interrupted { .. })));
    assert_eq!(seen.lines(), ["Started endless", "Failed endless, endless was interrupted"]);
    assert!(matches!(run.step(Provision::new(&log, 1)).await, Err(Stop::Interrupted { .. })));
    assert!(log.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_this_version_does_not_understand_stops_the_run() {
    let (dir, log) = (tempfile::tempdir().unwrap(), Log::default());
    flow(&run_in(dir.path()).0, &log, None).await.unwrap();
    let path = dir.path().join("journal.jsonl");
    let changed = fs::read_to_string(&path).unwrap().replace("\"names\"", "\"hosts\"");
    crate::host::write_file(&path, changed, crate::host::Mode::PRIVATE_FILE).unwrap();
    let stop = flow(&run_in(dir.path()).0, &log, None).await.unwrap_err();
    assert!(matches!(stop, Stop::Journal { source: JournalError::Decode { .. }, .. }), "{stop:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_journal_every_step_runs_every_time() {
    let log = Log::default();
    let clock = Arc::new(ManualClock::at(datetime!(2026-11-16 03:00:00 UTC)));
    let run = Run::new("demo", clock, Stream::new());
    for _ in 0..2 {
        flow(&run, &log, None).await.unwrap();
    }
    assert_eq!(log.borrow().iter().filter(|line| **line == "provision").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn took_is_measured_by_the_injected_clock() {
    struct Slow(Arc<ManualClock>);
    impl Step for Slow {
        const NAME: StepName = StepName::new("slow");
        const SUMMARY: &'static str = "take two seconds";
        const DEADLINE: Duration = Duration::from_secs(1);
        type Done = ();
        async fn run(&self) -> Result<(), StepError> {
            self.0.advance(Duration::from_secs(2));
            Ok(())
        }
        fn exit_criteria(&self, (): &()) -> Vec<Criterion<'_>> {
            vec![Criterion::by_construction("two seconds have passed")]
        }
    }
    let (clock, seen) = (Arc::new(ManualClock::at(datetime!(2026-11-16 03:00:00 UTC))), Seen::default());
    let run = Run::new("demo", clock.clone(), Stream::new().reader(seen.clone()));
    run.step(Slow(clock)).await.unwrap();
    let last = seen.0.lock().unwrap().pop().unwrap();
    assert_eq!((last.kind, last.took), (Kind::Finished, Some(Duration::from_secs(2))));
    assert_eq!(last.time, datetime!(2026-11-16 03:00:02 UTC));
}
