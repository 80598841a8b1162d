use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use super::*;
use crate::criterion::Reason;
use crate::reason;

/// What a criterion shows, look after look; the last one is repeated.
#[derive(Clone, Copy)]
enum Show {
    Yes,
    No(&'static str),
    Never(&'static str),
    Blind(&'static str),
    Hang,
}
use Show::{Blind, Hang, Never, No, Yes};

fn script(statement: &'static str, shows: &'static [Show]) -> Criterion<'static> {
    let next = Rc::new(Cell::new(0));
    Criterion::new(statement, move || {
        let show = shows[next.get().min(shows.len() - 1)];
        next.set(next.get() + 1);
        async move {
            match show {
                Yes => Ok(Observation::Holds),
                No(reason) => Ok(Observation::NotYet(Reason::new(reason))),
                Never(reason) => Ok(Observation::Never(Reason::new(reason))),
                Blind(error) => Err(error.into()),
                Hang => pending().await,
            }
        }
    })
}

/// How it ended, after how many seconds, and what was observed on the way; polls every second, stalls after five.
async fn outcome(criteria: &[Criterion<'_>]) -> (Result<(), Vec<Unmet>>, u64, Vec<String>) {
    let (started, log) = (Instant::now(), RefCell::new(Vec::new()));
    let wait = Wait::stalled_for(Duration::from_secs(5)).poll_every(Duration::from_secs(1));
    let ended = wait.until(criteria, |change| {
        log.borrow_mut().push(format!("{}: {}", change.statement, change.reason.unwrap_or("yes")));
        Ok::<(), Infallible>(())
    });
    let ended = ended.await.map_err(|error| match error {
        WaitError::Unmet(unmet) => unmet,
        WaitError::Observe(never) => match never {},
    });
    (ended, started.elapsed().as_secs(), log.into_inner())
}

fn reasons(unmet: &[Unmet]) -> Vec<(&str, &str, u64)> {
    unmet.iter().map(|one| (one.statement.as_str(), one.reason.as_str(), one.lasted.as_secs())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_all_hold_stalls_when_nothing_moves_and_never_means_now() {
    // Seconds until the end, and the reasons at the end; none means that it held.
    type Case = (&'static str, &'static [Show], u64, Option<(&'static str, u64)>);
    let cases: &[Case] = &[
        ("holds at once", &[Yes], 0, None),
        ("holds later", &[No("a"), No("a"), Yes], 2, None),
        ("holds in the last look", &[No("a"), No("a"), No("a"), No("a"), No("a"), Yes], 5, None),
        ("stalls", &[No("a")], 5, Some(("a", 5))),
        (
            "progress resets the stall clock",
            &[No("a"), No("a"), No("a"), No("b"), No("b"), No("c")],
            10,
            Some(("c", 5)),
        ),
        ("slow but moving", &[No("1"), No("2"), No("3"), No("4"), No("5"), No("6"), No("7"), No("8"), Yes], 8, None),
        ("flapping", &[No("a"), No("b"), No("a"), No("b"), No("a"), No("b"), No("a"), No("b")], 6, Some(("a", 0))),
        ("never", &[No("a"), Never("gone")], 1, Some(("this can no longer become true: gone", 0))),
        ("could not look", &[Blind("refused")], 5, Some(("could not look: refused", 5))),
        (
            "errors are not progress",
            &[Blind("1"), Blind("2"), Blind("3"), Blind("4")],
            5,
            Some(("could not look: 4", 2)),
        ),
        (
            "losing sight is not progress",
            &[No("a"), Blind("x"), No("a"), Blind("y")],
            5,
            Some(("could not look: y", 2)),
        ),
        ("blind, then true", &[Blind("refused"), Blind("refused"), Yes], 2, None),
        ("hangs", &[Hang], 10, Some(("could not look: no answer within 10s", 0))),
    ];
    for (name, shows, seconds, want) in cases {
        let (ended, took, _) = outcome(&[script("s", shows)]).await;
        let want: Vec<_> = want.iter().map(|(reason, lasted)| ("s", *reason, *lasted)).collect();
        let got = ended.map_or_else(|unmet| unmet, |()| Vec::new());
        assert_eq!((reasons(&got), took), (want, *seconds), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_must_hold_in_the_same_round() {
    let criteria = [script("one", &[Yes, No("lost"), Yes]), script("other", &[No("a"), Yes])];
    let (ended, took, log) = outcome(&criteria).await;
    assert_eq!((ended, took), (Ok(()), 2));
    assert_eq!(log, ["one: yes", "other: a", "one: lost", "other: yes", "one: yes"]);
}

#[tokio::test(start_paused = true)]
async fn every_unmet_criterion_is_listed_with_its_last_reason_and_met_ones_are_not() {
    let criteria = [script("met", &[Yes]), script("one", &[No("a"), No("b")]), script("other", &[Blind("refused")])];
    let (ended, _, log) = outcome(&criteria).await;
    assert_eq!(reasons(&ended.unwrap_err()), [("one", "b", 5), ("other", "could not look: refused", 6)]);
    assert_eq!(log, ["met: yes", "one: a", "other: could not look: refused", "one: b"]);
}

#[tokio::test(start_paused = true)]
async fn never_does_not_wait_for_slower_looks_and_comes_first() {
    let criteria = [script("slow", &[Hang]), script("lost", &[Never("the machine is gone")])];
    let (ended, took, _) = outcome(&criteria).await;
    let want = [("lost", "this can no longer become true: the machine is gone", 0), ("slow", "never looked at", 0)];
    assert_eq!((reasons(&ended.unwrap_err()), took), (want.to_vec(), 0));
}

#[tokio::test(start_paused = true)]
async fn flapping_in_one_criterion_does_not_hide_that_another_is_stuck() {
    const FLAP: &[Show] = &[No("a"), Yes, No("a"), Yes, No("a"), Yes, No("a"), Yes, No("a"), Yes, No("a")];
    let criteria = [script("flaps", FLAP), script("flaps too", &FLAP[1..]), script("stuck", &[No("x")])];
    let (ended, took, _) = outcome(&criteria).await;
    assert_eq!(took, 6);
    assert!(ended.unwrap_err().iter().any(|one| one.statement == "stuck"));
}

#[tokio::test(start_paused = true)]
async fn a_moving_mark_keeps_a_wait_alive_without_new_events() {
    let bytes = Cell::new(0);
    let copies = Criterion::new("the image is copied", || async {
        bytes.set(bytes.get() + 1);
        Ok(if bytes.get() > 20 { Observation::Holds } else { Observation::NotYet(reason!("copying").at(bytes.get())) })
    });
    let (ended, took, log) = outcome(&[copies]).await;
    assert_eq!((ended, took), (Ok(()), 20));
    assert_eq!(log, ["the image is copied: copying", "the image is copied: yes"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_never_holds() {
    let (ended, took, _) = outcome(&[]).await;
    let want = [("the step says how to tell that it is done", "its list of criteria is empty", 0)];
    assert_eq!((reasons(&ended.unwrap_err()), took), (want.to_vec(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_notified_criterion_is_looked_at_before_the_next_poll() {
    let wake = Arc::new(Notify::new());
    let criterion = script("s", &[No("a"), Yes]).woken_by(Arc::clone(&wake));
    let wait = Wait::stalled_for(Duration::from_secs(1000)).poll_every(Duration::from_secs(100));
    let started = Instant::now();
    let criteria = [criterion];
    let (ended, ()) = tokio::join!(wait.until(&criteria, |_| Ok::<(), Infallible>(())), async {
        tokio::time::advance(Duration::from_secs(3)).await;
        wake.notify_one();
    });
    assert!(ended.is_ok());
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_refuses_ends_the_wait() {
    let wait = Wait::stalled_for(Duration::from_secs(5));
    let ended = wait.until(&[script("s", &[No("a")])], |_| Err("journal full")).await;
    assert!(matches!(ended, Err(WaitError::Observe("journal full"))));
}

#[tokio::test(start_paused = true)]
async fn many_criteria_are_looked_at_a_few_at_a_time() {
    let (now, most) = (Cell::new(0), Cell::new(0));
    let criteria: Vec<_> = (0..100)
        .map(|_| {
            Criterion::new("s", || async {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                tokio::task::yield_now().await;
                now.set(now.get() - 1);
                Ok(Observation::Holds)
            })
        })
        .collect();
    assert_eq!(outcome(&criteria).await.0, Ok(()));
    assert_eq!(most.get(), LOOKS_AT_ONCE);
}
