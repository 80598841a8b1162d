//! Drills that are tests of `windlass-e2e`, in a release build, which is what users run.

use std::path::Path;

use windlass_spec::KubeVersion;
use windlass_steps::host::cmd;

use super::Chance;
use crate::report::Failure;
use crate::session::Session;

/// A part of a drill, and the tests that do it.
pub(super) struct Part {
    /// What is drilled.
    pub what: &'static str,
    /// The test binary.
    pub target: &'static str,
    /// How the tests' names begin.
    pub tests: &'static str,
}

/// Builds, fetches what clusters of these versions need, and runs one part after the other. A part that fails does not keep
/// the others from being seen.
pub(super) fn run(
    session: &mut Session,
    chance: &Chance,
    artifacts: &Path,
    versions: &[KubeVersion],
    parts: &[Part],
) -> Result<(), Failure> {
    let mut targets: Vec<&str> = parts.iter().map(|part| part.target).collect();
    targets.dedup();
    // With the tests, and for the whole workspace as they are run: another set of features would be another build.
    let mut build = vec!["build", "--release", "--workspace", "--bins"];
    build.extend(targets.iter().flat_map(|target| ["--test", target]));
    session.stage("build", |s| s.run(s.cargo(&build)))?;
    for version in versions {
        let fetch = cmd(session.built().join("release/windlass")).args(["artifacts", "fetch", "--source", "source"]);
        let fetch = fetch.args(["--kubernetes-version", version.as_str(), "--cache"]).arg(artifacts);
        session.stage(&format!("artifacts of Kubernetes {version}"), |s| s.run(fetch))?;
    }
    let outcomes: Vec<_> = parts.iter().map(|part| drill(session, chance, part, artifacts)).collect();
    outcomes.into_iter().collect()
}

fn drill(session: &mut Session, chance: &Chance, part: &Part, artifacts: &Path) -> Result<(), Failure> {
    let (seed, before) = (format!("seed={}", chance.0), session.tally.passed);
    let arguments = ["--release", "--workspace", "--test", part.target, "--", "--ignored", "--nocapture"];
    // One cluster at a time: two would have the processors of none.
    let arguments = [&arguments[..], &["--test-threads", "1", part.tests, &seed]].concat();
    let env = [("WINDLASS_TEST_CACHE", artifacts.as_os_str())];
    session.stage(part.what, |session| session.run_tests(&arguments, &env))?;
    match session.tally.passed > before {
        true => Ok(()),
        false => Err(Failure::new("no test ran", "see what the tests are called now")),
    }
}
