//! Time as a parameter. Whatever ends up in an event or a certificate asks a [`Clock`], so that a test can say what time
//! it is; only [`SystemClock`] asks the machine.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};
use tokio::time::Instant;

const RFC3339_MILLIS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// The time of day, in UTC; it may jump.
    fn now(&self) -> OffsetDateTime;
    /// Time since some fixed moment; it never goes back, so differences of it are durations.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Counts the monotonic time from here on.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that the ban points to")]
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from(SystemTime::now())
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A double that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    start: OffsetDateTime,
    passed: Mutex<Duration>,
}

impl ManualClock {
    /// Stands still at this time.
    pub fn at(start: OffsetDateTime) -> Self {
        Self { start, passed: Mutex::new(Duration::ZERO) }
    }

    /// Moves both the time of day and the monotonic time.
    pub fn advance(&self, by: Duration) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        self.start + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 3339 in UTC with milliseconds, the one form in which windlass writes a time: `2026-11-16T03:23:42.123Z`.
pub fn rfc3339_millis(time: OffsetDateTime) -> String {
    let utc = time.to_offset(UtcOffset::UTC);
    utc.format(RFC3339_MILLIS).expect("a date and a time have every component of the format")
}

/// Cuts a time to what [`rfc3339_millis`] can say, so that writing and reading it back changes nothing.
pub fn whole_millis(time: OffsetDateTime) -> OffsetDateTime {
    let utc = time.to_offset(UtcOffset::UTC);
    utc.replace_millisecond(utc.millisecond()).expect("a millisecond taken from a time is in range")
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        let cases = [
            (datetime!(2026-11-16 03:23:42.123 UTC), "2026-11-16T03:23:42.123Z"),
            (datetime!(2026-11-16 03:23:42.123_999_999 UTC), "2026-11-16T03:23:42.123Z"),
            (datetime!(2026-01-01 00:00:00 +02:00), "2025-12-31T22:00:00.000Z"),
            (datetime!(1969-12-31 23:59:59.999 UTC), "1969-12-31T23:59:59.999Z"),
        ];
        for (time, text) in cases {
            assert_eq!(rfc3339_millis(time), text);
            assert_eq!(rfc3339_millis(whole_millis(time)), text);
        }
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::at(datetime!(2026-11-16 03:00:00 UTC));
        assert_eq!((clock.now(), clock.monotonic()), (datetime!(2026-11-16 03:00:00 UTC), Duration::ZERO));
        clock.advance(Duration::from_secs(90));
        assert_eq!((clock.now(), clock.monotonic()), (datetime!(2026-11-16 03:01:30 UTC), Duration::from_secs(90)));
    }

    #[test]
    fn the_system_clock_is_in_this_century_and_does_not_go_back() {
        let clock = SystemClock::new();
        assert!(clock.now() > datetime!(2024-01-01 00:00:00 UTC));
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
    }
}
