//! What a launch survives, on real machines: killed at each of its steps, all power lost five times, a master cut off while
//! etcd forms, and faults that must be told. The tests are those of `windlass-e2e`, in a release build, which is what users
//! launch with.

use std::path::Path;

use windlass_steps::host::cmd;

use super::Chance;
use crate::report::Failure;
use crate::session::Session;

/// What is drilled, and the tests that do it, by the beginning of their names.
const PARTS: [(&str, &str); 6] = [
    ("killed at each of its steps", "kills::"),
    ("all power lost five times", "power::"),
    ("a master cut off", "partition::"),
    ("faults that are told", "faults::"),
    ("assets that are pushed", "push::"),
    ("what a user adds, and what hangs", "additions::"),
];

pub(super) fn run(session: &mut Session, chance: &Chance, artifacts: &Path) -> Result<(), Failure> {
    // With the tests, and for the whole workspace as they are run: another set of features would be another build.
    let build = ["build", "--release", "--workspace", "--bins", "--test", "drill"];
    session.stage("build", |s| s.run(s.cargo(&build)))?;
    let fetch =
        cmd(session.built().join("release/windlass")).args(["artifacts", "fetch", "--source", "source", "--cache"]);
    session.stage("artifacts", |s| s.run(fetch.arg(artifacts)))?;
    // A part that fails does not keep the others from being seen.
    let outcomes: Vec<_> = PARTS.iter().map(|part| drill(session, chance, *part, artifacts)).collect();
    outcomes.into_iter().collect()
}

fn drill(session: &mut Session, chance: &Chance, (what, tests): (&str, &str), artifacts: &Path) -> Result<(), Failure> {
    let (seed, before) = (format!("seed={}", chance.0), session.tally.passed);
    let arguments = ["--release", "--workspace", "--test", "drill", "--", "--ignored", "--nocapture"];
    // One cluster at a time: two would have the processors of none.
    let arguments = [&arguments[..], &["--test-threads", "1", tests, &seed]].concat();
    let env = [("WINDLASS_TEST_CACHE", artifacts.as_os_str())];
    session.stage(what, |session| session.run_tests(&arguments, &env))?;
    match session.tally.passed > before {
        true => Ok(()),
        false => Err(Failure::new("no test ran", "see what the tests are called now")),
    }
}
