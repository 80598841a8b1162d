//! What a row of checks says about a target, without a clock and without a network: one success and it is up, two failures
//! and it is down, and between them it is doubted.

/// Failures in a row that bring a target down.
const DOWN_AFTER: u32 = 2;

/// What is thought of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Never checked; it gets nothing.
    Unchecked,
    /// It passed its last check.
    Up,
    /// It was up, and its last check failed or is still without an answer.
    Doubted {
        /// Failures in a row.
        failures: u32,
    },
    /// It failed its last checks.
    Down,
}

/// What came of a check so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target answered as it should.
    Passed,
    /// It has not answered yet, later than others do.
    Overdue,
    /// It answered wrongly, not at all, or not in time.
    Failed,
}

/// Whether an outcome changed what is thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It did not.
    Same,
    /// The target may have connections from now on.
    CameUp,
    /// Others are preferred from now on.
    BecameDoubted,
    /// It gets no more connections.
    WentDown,
}

impl Health {
    /// Takes one more outcome into account.
    pub fn observe(&mut self, outcome: Outcome) -> Transition {
        let before = *self;
        *self = before.after(outcome);
        match (before, *self) {
            (Health::Up, Health::Up) | (Health::Down, Health::Down) | (Health::Unchecked, Health::Unchecked) => {
                Transition::Same
            }
            (Health::Doubted { .. }, Health::Doubted { .. }) => Transition::Same,
            (_, Health::Up) => Transition::CameUp,
            (_, Health::Doubted { .. }) => Transition::BecameDoubted,
            (_, Health::Down | Health::Unchecked) => Transition::WentDown,
        }
    }

    fn after(self, outcome: Outcome) -> Self {
        match (self, outcome) {
            (_, Outcome::Passed) => Health::Up,
            (Health::Up, Outcome::Overdue) => Health::Doubted { failures: 0 },
            (same, Outcome::Overdue) => same,
            (Health::Unchecked | Health::Down, Outcome::Failed) => Health::Down,
            (Health::Up, Outcome::Failed) => Self::failed(1),
            (Health::Doubted { failures }, Outcome::Failed) => Self::failed(failures + 1),
        }
    }

    fn failed(failures: u32) -> Self {
        if failures >= DOWN_AFTER { Health::Down } else { Health::Doubted { failures } }
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Failed, Overdue, Passed};
    use super::Transition::{BecameDoubted, CameUp, Same, WentDown};
    use super::*;

    #[test]
    fn one_success_is_up_two_failures_are_down_and_slowness_is_doubt() {
        type Case = (&'static str, &'static [(Outcome, Transition)], Health);
        let cases: &[Case] = &[
            ("never checked", &[], Health::Unchecked),
            ("slow at first", &[(Overdue, Same)], Health::Unchecked),
            ("up at the first success", &[(Passed, CameUp)], Health::Up),
            ("down at the first failure", &[(Failed, WentDown)], Health::Down),
            ("stays up", &[(Passed, CameUp), (Passed, Same)], Health::Up),
            ("one failure", &[(Passed, CameUp), (Failed, BecameDoubted)], Health::Doubted { failures: 1 }),
            ("two failures", &[(Passed, CameUp), (Failed, BecameDoubted), (Failed, WentDown)], Health::Down),
            (
                "failures that are not in a row",
                &[(Passed, CameUp), (Failed, BecameDoubted), (Passed, CameUp), (Failed, BecameDoubted)],
                Health::Doubted { failures: 1 },
            ),
            (
                "slow is not a failure",
                &[(Passed, CameUp), (Overdue, BecameDoubted), (Overdue, Same), (Overdue, Same)],
                Health::Doubted { failures: 0 },
            ),
            ("slow, then an answer", &[(Passed, CameUp), (Overdue, BecameDoubted), (Passed, CameUp)], Health::Up),
            (
                "slow until it fails, twice",
                &[(Passed, CameUp), (Overdue, BecameDoubted), (Failed, Same), (Overdue, Same), (Failed, WentDown)],
                Health::Down,
            ),
            ("down stays down", &[(Failed, WentDown), (Failed, Same), (Overdue, Same)], Health::Down),
            ("up again", &[(Failed, WentDown), (Passed, CameUp)], Health::Up),
        ];
        for (name, steps, end) in cases {
            let mut health = Health::Unchecked;
            for (outcome, transition) in *steps {
                assert_eq!(health.observe(*outcome), *transition, "{name}");
            }
            assert_eq!(health, *end, "{name}");
        }
    }
}
