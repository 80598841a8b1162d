//! The only place that waits. It looks at all criteria until all hold in the same round, one can never hold, or nothing
//! has moved for the length of the deadline.
//!
//! Progress is defined per criterion: an observation (holds, or the reason's text or mark) that this criterion has not
//! shown before in this wait. Two states that alternate are therefore progress once each and then no more, and losing
//! sight is never progress, nor is seeing again what was seen before.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::future::pending;
use std::time::Duration;

use futures_util::future::{FutureExt, select_all};
use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::criterion::{Criterion, LookError, Observation};

const POLL: Duration = Duration::from_millis(200);
const LOOK_LIMIT: Duration = Duration::from_secs(10);
const LOOKS_AT_ONCE: usize = 16;

/// How to wait: the deadline counts stalled time, not total time.
#[derive(Clone, Debug)]
pub struct Wait {
    deadline: Duration,
    poll: Duration,
    look_limit: Duration,
}

/// A criterion that has another reason than before, or none any more because it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// What is to be true.
    pub statement: &'a str,
    /// Why it is not; without one it holds.
    pub reason: Option<&'a str>,
}

/// A criterion that did not hold when the wait was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// What was to be true.
    pub statement: String,
    /// The last reason why it was not, or why nobody could look.
    pub reason: String,
    /// For how long that reason had been the same.
    pub lasted: Duration,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { statement, reason, lasted } = self;
        write!(f, "not met: {statement}: {reason} (for {:.1} s)", lasted.as_secs_f64())
    }
}

/// Why a wait ended without success.
#[derive(Debug)]
pub enum WaitError<E> {
    /// These criteria did not hold; never empty.
    Unmet(Vec<Unmet>),
    /// The observer refused to go on.
    Observe(E),
}

impl Wait {
    /// Gives up when nothing has moved for this long.
    pub fn stalled_for(deadline: Duration) -> Self {
        Self { deadline, poll: POLL, look_limit: LOOK_LIMIT }
    }

    /// Looks this often (200 ms unless said), and at once when a criterion is woken.
    pub fn poll_every(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Takes a look that has not answered by then (10 s unless said) for one that could not look.
    pub fn look_limit(mut self, limit: Duration) -> Self {
        self.look_limit = limit;
        self
    }

    /// Waits until every criterion holds, telling the observer whenever a reason changes. An empty list never holds.
    pub async fn until<E>(
        &self,
        criteria: &[Criterion<'_>],
        mut observe: impl FnMut(Change<'_>) -> Result<(), E>,
    ) -> Result<(), WaitError<E>> {
        let started = Instant::now();
        let mut watched: Vec<Watched> = criteria.iter().map(|criterion| Watched::new(criterion, started)).collect();
        if watched.is_empty() {
            return Err(WaitError::Unmet(vec![nothing_to_look_at()]));
        }
        let mut moved = started;
        loop {
            match self.look_round(criteria, &mut watched, &mut observe).await? {
                Round::AllHold => return Ok(()),
                Round::Hopeless => return Err(WaitError::Unmet(unmet(&watched))),
                Round::Moved => moved = Instant::now(),
                Round::Still => {}
            }
            let left = self.deadline.saturating_sub(moved.elapsed());
            if left.is_zero() {
                return Err(WaitError::Unmet(unmet(&watched)));
            }
            pause(self.poll.min(left), criteria).await;
        }
    }

    async fn look_round<E>(
        &self,
        criteria: &[Criterion<'_>],
        watched: &mut [Watched],
        observe: &mut impl FnMut(Change<'_>) -> Result<(), E>,
    ) -> Result<Round, WaitError<E>> {
        let looks = criteria.iter().enumerate().map(|(n, criterion)| async move { (n, self.look(criterion).await) });
        let mut looks = stream::iter(looks).buffer_unordered(LOOKS_AT_ONCE);
        let mut round = Round::Still;
        while let Some((n, seen)) = looks.next().await {
            let news = watched[n].take(seen);
            if news.changed {
                observe(watched[n].change()).map_err(WaitError::Observe)?;
            }
            if let Sight::Never(_) = watched[n].sight {
                return Ok(Round::Hopeless);
            }
            if news.moved {
                round = Round::Moved;
            }
        }
        let all_hold = watched.iter().all(|one| one.sight == Sight::Holds);
        Ok(if all_hold { Round::AllHold } else { round })
    }

    async fn look(&self, criterion: &Criterion<'_>) -> Result<Observation, LookError> {
        match tokio::time::timeout(self.look_limit, criterion.look()).await {
            Ok(seen) => seen,
            Err(_) => Err(format!("no answer within {:?}", self.look_limit).into()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    AllHold,
    Hopeless,
    Moved,
    Still,
}

/// What the last look at one criterion found, and the fingerprints of everything it ever found.
struct Watched {
    statement: String,
    sight: Sight,
    since: Instant,
    seen: HashSet<Option<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    NotLooked,
    CouldNotLook(String),
    Holds,
    NotYet(String),
    Never(String),
}

struct News {
    changed: bool,
    moved: bool,
}

impl Watched {
    fn new(criterion: &Criterion<'_>, since: Instant) -> Self {
        Self { statement: criterion.statement().to_owned(), sight: Sight::NotLooked, since, seen: HashSet::new() }
    }

    fn take(&mut self, seen: Result<Observation, LookError>) -> News {
        let moved = match &seen {
            Ok(Observation::Holds) => self.seen.insert(None),
            Ok(Observation::NotYet(reason) | Observation::Never(reason)) => {
                self.seen.insert(Some(reason.fingerprint()))
            }
            Err(_) => false,
        };
        let sight = match seen {
            Ok(Observation::Holds) => Sight::Holds,
            Ok(Observation::NotYet(reason)) => Sight::NotYet(reason.to_string()),
            Ok(Observation::Never(reason)) => Sight::Never(format!("this can no longer become true: {reason}")),
            Err(error) => Sight::CouldNotLook(format!("could not look: {}", causes(error.as_ref()))),
        };
        let changed = sight != self.sight;
        if changed {
            self.sight = sight;
            self.since = Instant::now();
        }
        News { changed, moved }
    }

    fn change(&self) -> Change<'_> {
        Change { statement: &self.statement, reason: self.sight.reason() }
    }
}

impl Sight {
    fn reason(&self) -> Option<&str> {
        match self {
            Self::Holds => None,
            Self::NotLooked => Some("never looked at"),
            Self::CouldNotLook(reason) | Self::NotYet(reason) | Self::Never(reason) => Some(reason),
        }
    }
}

fn unmet(watched: &[Watched]) -> Vec<Unmet> {
    let is_final = |one: &&Watched| matches!(one.sight, Sight::Never(_));
    let (hopeless, rest): (Vec<&Watched>, Vec<&Watched>) = watched.iter().partition(is_final);
    let unmet = hopeless.into_iter().chain(rest).filter_map(|one| {
        let reason = one.sight.reason()?.to_owned();
        Some(Unmet { statement: one.statement.clone(), reason, lasted: one.since.elapsed() })
    });
    unmet.collect()
}

fn nothing_to_look_at() -> Unmet {
    Unmet {
        statement: "the step says how to tell that it is done".to_owned(),
        reason: "its list of criteria is empty".to_owned(),
        lasted: Duration::ZERO,
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the wait that the ban points to")]
async fn pause(longest: Duration, criteria: &[Criterion<'_>]) {
    let wakes: Vec<_> = criteria.iter().filter_map(Criterion::wake).map(|wake| wake.notified().boxed_local()).collect();
    let woken = async {
        match wakes.is_empty() {
            true => pending::<()>().await,
            false => drop(select_all(wakes).await),
        }
    };
    tokio::select! {
        () = tokio::time::sleep(longest) => {}
        () = woken => {}
    }
}

fn causes(error: &dyn Error) -> String {
    crate::report::chain(error).join(": ")
}

#[cfg(test)]
mod tests;
