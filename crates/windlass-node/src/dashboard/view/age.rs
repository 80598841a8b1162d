//! How long ago something was, as `kubectl` says it.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use time::OffsetDateTime;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Whole seconds since something happened; as data a number, as text short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Age(u64);

impl Age {
    /// The age of that many seconds.
    pub fn seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// The time from then to now; clocks differ, so what is yet to come has happened just now.
    pub fn at(now: OffsetDateTime, then: Timestamp) -> Self {
        Self(u64::try_from(now.unix_timestamp().saturating_sub(then.as_second())).unwrap_or(0))
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s < 2 * MINUTE => write!(f, "{s} s"),
            s if s < 2 * HOUR => write!(f, "{} min", s / MINUTE),
            s if s < 2 * DAY => write!(f, "{} h", s / HOUR),
            s => write!(f, "{} d", s / DAY),
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let cases = [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (2 * HOUR - 1, "119 min"),
            (2 * HOUR, "2 h"),
            (2 * DAY - 1, "47 h"),
            (800 * DAY, "800 d"),
        ];
        for (seconds, want) in cases {
            assert_eq!(Age(seconds).to_string(), want);
        }
    }

    #[test]
    fn what_is_yet_to_come_has_happened_just_now() {
        let now = datetime!(2026-11-16 03:00:00 UTC);
        let cases = [("2026-11-16T02:59:00Z", 60), ("2026-11-16T03:00:05Z", 0), ("2025-11-16T03:00:00Z", 365 * DAY)];
        for (then, want) in cases {
            assert_eq!(Age::at(now, then.parse().unwrap()), Age(want), "{then}");
        }
    }
}
