//! What running steps wait for: every criterion that does not hold, with its reason and since when.

use std::time::{Duration, Instant};

use super::super::{Event, Kind};
use super::{Key, key, one_line};

/// The criteria that do not hold now, in the order in which that was found.
#[derive(Debug, Default)]
pub(super) struct Open {
    unmet: Vec<Unmet>,
}

/// A criterion that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unmet {
    pub(super) step: Key,
    pub(super) criterion: String,
    pub(super) reason: String,
    /// Since when, whatever the reasons were.
    pub(super) since: Instant,
    /// When it was last shown to somebody who sees no clock.
    told: Instant,
}

impl Open {
    /// Takes in what has happened.
    pub(super) fn read(&mut self, event: &Event, now: Instant) {
        let step = key(event);
        let is_it = |unmet: &Unmet| unmet.step == step && Some(unmet.criterion.as_str()) == event.criterion.as_deref();
        match (event.kind, &event.criterion, event.reason.as_deref().map(one_line)) {
            (Kind::Observed, Some(criterion), Some(reason)) => match self.unmet.iter_mut().find(|unmet| is_it(unmet)) {
                Some(unmet) => (unmet.reason, unmet.told) = (reason, now),
                None => self.unmet.push(Unmet { step, criterion: criterion.clone(), reason, since: now, told: now }),
            },
            (Kind::Observed, _, None) => self.unmet.retain(|unmet| !is_it(unmet)),
            (Kind::Observed, None, Some(_)) => {}
            (Kind::Started | Kind::Finished | Kind::Failed, _, _) => self.unmet.retain(|unmet| unmet.step != step),
        }
    }

    /// What a step waits for.
    pub(super) fn of<'a>(&'a self, step: &'a Key) -> impl Iterator<Item = &'a Unmet> {
        self.unmet.iter().filter(move |unmet| unmet.step == *step)
    }

    /// What was last told this long ago; it counts as told now.
    pub(super) fn due(&mut self, every: Duration, now: Instant) -> Vec<Unmet> {
        let due = |unmet: &&mut Unmet| now.saturating_duration_since(unmet.told) >= every;
        let due = self.unmet.iter_mut().filter(due).map(|unmet| {
            unmet.told = now;
            unmet.clone()
        });
        due.collect()
    }
}
