//! The local cloud's tests of sudden ends, with more of them: its daemon killed at two hundred moments of a mixed workload
//! on simulated machines and at twenty on real ones, and twenty clusters that come and go. Everything else about them is
//! as in `cargo xtask test`, so that a drill finds nothing that a test could not show again.

use std::path::Path;

use super::Chance;
use crate::check;
use crate::report::Failure;
use crate::session::Session;

/// A test with numbers of its own.
struct Part {
    what: &'static str,
    target: &'static str,
    test: &'static str,
    number: &'static str,
}

const PARTS: [Part; 3] = [
    Part {
        what: "200 kills of the daemon, simulated machines",
        target: "simulated",
        test: "killed::what_was_acknowledged_survives_every_kill",
        number: "kills=200",
    },
    Part {
        what: "20 kills of the daemon, real machines",
        target: "machines",
        test: "kills::a_daemon_killed_at_any_moment_loses_nothing_and_doubles_nothing",
        number: "kills=20",
    },
    Part {
        what: "20 clusters come and go, real machines",
        target: "machines",
        test: "traces::five_clusters_come_and_go_some_of_them_by_halves_and_the_host_is_as_it_was",
        number: "cycles=20",
    },
];

pub(super) fn run(session: &mut Session, chance: &Chance, artifacts: &Path) -> Result<(), Failure> {
    session.stage("artifacts", |session| check::fetch_artifacts(session, artifacts))?;
    PARTS.iter().try_for_each(|part| drill(session, chance, part, artifacts))
}

fn drill(session: &mut Session, chance: &Chance, part: &Part, artifacts: &Path) -> Result<(), Failure> {
    let (seed, before) = (format!("seed={}", chance.0), session.tally.passed);
    // Words that are no option are names of tests to the harness; the test takes its numbers from those that name none.
    let arguments = ["-p", "windlass-cloud", "--test", part.target, "--", "--ignored", "--exact", "--nocapture"];
    let arguments = [&arguments[..], &[part.test, &seed, part.number]].concat();
    let env = [("WINDLASS_TEST_CACHE", artifacts.as_os_str())];
    session.stage(part.what, |session| session.run_tests(&arguments, &env))?;
    match session.tally.passed > before {
        true => Ok(()),
        false => Err(Failure::new("no test ran", "see what the test is called now")),
    }
}
