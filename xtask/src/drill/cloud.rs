//! The local cloud's tests of sudden ends, with more of them: its daemon killed at two hundred moments of a mixed workload
//! on simulated machines. Everything else about them is as in `cargo xtask test`, so that a drill finds nothing that a
//! test could not show again.

use super::Chance;
use crate::report::Failure;
use crate::session::Session;

/// How often the daemon is killed.
const KILLS: usize = 200;
const TEST: &str = "killed::what_was_acknowledged_survives_every_kill";

pub(super) fn run(session: &mut Session, chance: &Chance) -> Result<(), Failure> {
    let (seed, kills) = (format!("seed={}", chance.0), format!("kills={KILLS}"));
    // Words that are no option are names of tests to the harness; the test takes its numbers from those that name none.
    let arguments = ["-p", "windlass-cloud", "--test", "simulated", "--", "--ignored", "--exact", "--nocapture", TEST];
    let arguments = [&arguments[..], &[&seed, &kills]].concat();
    session.stage("kills of the daemon, simulated machines", |session| session.run_tests(&arguments, &[]))?;
    match session.tally.passed {
        0 => Err(Failure::new("no test ran", "see what the test is called now")),
        _ => Ok(()),
    }
}
