//! Measuring against the limits that we promise. `bench` builds this program in release mode and runs it again; what
//! runs then is [`measure`].

pub mod cloud;
mod journal;
mod launch;
mod spec;

use std::fmt;
use std::path::Path;

use windlass_steps::host::cmd;

use crate::args::Measure;
use crate::report::{Failure, say};
use crate::session::Session;

/// Everything in one build, as `drill` has it: another choice of packages would be another choice of features.
const BUILD: &[&str] = &["build", "--release", "--workspace", "--bins", "--test", "machines"];
/// The machine-config server's, whose limit of time holds only in a release build.
const CROWD: &[&str] = &["--release", "--workspace", "--test", "machines", "--", "--nocapture", "crowd::"];
/// The test with the limit that a release build has to keep.
const RETURN: &[&str] = &[
    "--release",
    "-p",
    "windlass-cloud",
    "--test",
    "simulated",
    "--",
    "--ignored",
    "--exact",
    "--nocapture",
    "killed::with_ten_thousand_of_everything_it_is_usable_within_half_a_second_of_a_kill",
];

/// One promise and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was measured, with its number.
    pub measured: String,
    /// The promise.
    pub limit: String,
    /// Whether it is kept.
    pub kept: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.kept { "ok" } else { "OVER" };
        write!(f, "{word:4}  {}  (limit: {})", self.measured, self.limit)
    }
}

/// Builds this program in release mode and lets it measure.
pub fn run(session: &mut Session, what: Measure, artifacts: &Path) -> Result<(), Failure> {
    if what == Measure::Launch {
        session.stage("build", |s| s.run(s.cargo(BUILD)))?;
        session.stage("a thousand machines that boot at once", |s| s.run_tests(CROWD, &[]))?;
        let windlass = cmd(session.built().join("release/windlass")).args(["artifacts", "fetch", "--cache"]);
        session.stage("artifacts", |s| s.run(windlass.arg(artifacts)))?;
        let inner = cmd(session.built().join("release/xtask")).args(["bench-inner", what.word(), "--artifacts"]);
        let inner = inner.arg(artifacts).current_dir(&session.root);
        return session.stage("bench", |session| session.run(inner));
    }
    if what == Measure::Cloud {
        let env = [("WINDLASS_TEST_CACHE", artifacts.as_os_str())];
        session.stage("the daemon's return after a kill", |s| s.run_tests(RETURN, &env))?;
        let machine = session.cargo(&["bench", "-p", "windlass-cloud", "--bench", "machine"]);
        session.stage("a machine's boot", |s| s.run(machine.env("WINDLASS_TEST_CACHE", artifacts)))?;
    }
    let inner = ["run", "--quiet", "--release", "--package", "xtask", "--", "bench-inner", what.word(), "--artifacts"];
    session.stage("bench", |session| session.run(session.cargo(&inner).arg(artifacts)))
}

/// Measures in this process, and fails if a promise is broken.
pub fn measure(session: &Session, what: Measure, artifacts: &Path) -> Result<(), Failure> {
    let findings = match what {
        Measure::Spec => {
            // The memory first: what the process once took, it took.
            let dir = session.built().join("bench");
            let mut findings = spec::measure(&dir.join("a directory that is never made"))?;
            findings.push(journal::measure(&dir)?);
            findings
        }
        Measure::Cloud => cloud::measure()?,
        Measure::Launch => launch::measure(session, artifacts)?,
    };
    findings.iter().for_each(|finding| say(format_args!("    {finding}")));
    match findings.iter().filter(|finding| !finding.kept).count() {
        0 => Ok(()),
        count => Err(Failure::new(
            format_args!("{count} limits are exceeded"),
            "repeat it on an idle machine, then find out what became slower",
        )),
    }
}
