//! How long a machine has shown the same: the difference between one that is slow and one that stands still.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_steps::clock::Clock;

/// What each machine showed last, and since when.
pub(super) struct Stillness<T> {
    clock: Arc<dyn Clock>,
    seen: RefCell<BTreeMap<String, (T, Duration)>>,
}

impl<T: PartialEq> Stillness<T> {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Stillness { clock, seen: RefCell::default() }
    }

    /// For how long the machine has shown this; no time at all if it shows it for the first time.
    pub(super) fn of(&self, machine: &str, shows: T) -> Duration {
        let now = self.clock.monotonic();
        let mut seen = self.seen.borrow_mut();
        match seen.get(machine) {
            Some((known, since)) if *known == shows => now.saturating_sub(*since),
            _ => {
                seen.insert(machine.to_owned(), (shows, now));
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use windlass_steps::clock::ManualClock;

    use super::*;

    #[test]
    fn stillness_is_counted_from_the_last_change_of_each_machine() {
        let clock = Arc::new(ManualClock::at(datetime!(2026-11-16 03:00:00 UTC)));
        let still = Stillness::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let seconds = |machine, shows| still.of(machine, shows).as_secs();
        assert_eq!((seconds("a", 1), seconds("b", 1)), (0, 0));
        clock.advance(Duration::from_secs(4));
        assert_eq!((seconds("a", 2), seconds("b", 1)), (0, 4));
        clock.advance(Duration::from_secs(4));
        assert_eq!((seconds("a", 2), seconds("b", 1)), (4, 8));
    }
}
