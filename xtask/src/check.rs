//! The two commands that say whether the tree is good: `check`, all day, and `test`, which the build runs.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use windlass_install::host::{self, Group, Machine, ThisMachine};
use windlass_steps::host::{Mode, cmd, make_dir};

use crate::report::{Failure, complain, say};
use crate::session::Session;
use crate::{deps, generate};

/// Which rings of tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rings<'a> {
    UnitAndGolden,
    /// The upper ones use this cache of artifacts.
    All(&'a Path),
}

/// Format, clippy, tests, documents, generated files, dependencies; stops at the first that fails.
pub fn check(session: &mut Session) -> ExitCode {
    closing(session, |session| stages(session, Rings::UnitAndGolden))
}

/// Host set-up, everything in [`check`], and the tests that are otherwise ignored.
pub fn test(session: &mut Session, ci: bool, cache: Option<PathBuf>, artifacts: &Path) -> ExitCode {
    closing(session, |session| {
        session.stage("host set-up", |_| set_up_host(Group::Dev))?;
        let _lock = if ci { Some(share_target_dir(session, cache)?) } else { None };
        stages(session, Rings::All(artifacts))
    })
}

/// The golden tests alone; accepting rewrites what they expect.
pub fn golden(session: &mut Session, accept: bool) -> Result<(), Failure> {
    let env: &[_] = if accept { &[("WINDLASS_GOLDEN", OsStr::new("accept"))] } else { &[] };
    session.stage("golden", |session| session.run_tests(&["-p", "windlass-install", "--test", "golden"], env))?;
    if accept {
        say("the golden files are rewritten; `git diff crates/windlass-install/tests/golden` shows what changed");
    }
    Ok(())
}

/// Installs what is missing for the group, and says what it does.
pub fn set_up_host(group: Group) -> Result<(), Failure> {
    let announce = |line: &str| say(format_args!("    {line}"));
    let report = host::setup(&mut ThisMachine, group, announce).map_err(|error| {
        let next = error.hint();
        Failure::new("this host is not set up", next).because(error)
    })?;
    report.to_string().lines().for_each(|line| say(format_args!("    {line}")));
    Ok(())
}

/// The cheap ones first, so that a small mistake is told at once.
fn stages(session: &mut Session, rings: Rings<'_>) -> Result<(), Failure> {
    session.stage("format", |s| s.run(s.cargo(&["fmt", "--all", "--check"])))?;
    session.stage("dependency rule", deps::run)?;
    session.stage("licences, sources, duplicates", |s| deny(s))?;
    session.stage("generated files", |s| match rings {
        Rings::UnitAndGolden => generate::check(s, &[generate::Cost::Nothing]),
        Rings::All(_) => generate::check(s, &[generate::Cost::Nothing, generate::Cost::Download]),
    })?;
    session.stage("clippy", |s| s.run(s.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))?;
    session.stage("documents", |s| {
        s.run(s.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    session.stage("unit, golden and doc tests", |s| s.run_tests(&["--workspace"], &[]))?;
    match rings {
        Rings::UnitAndGolden => Ok(()),
        Rings::All(artifacts) => {
            session.stage("artifacts", |s| fetch_artifacts(s, artifacts))?;
            // Not the doc tests: an example marked `ignore` is not meant to run anywhere.
            let ignored = ["--workspace", "--lib", "--bins", "--tests", "--", "--ignored"];
            let env = [("WINDLASS_TEST_CACHE", artifacts.as_os_str())];
            session.stage("machine and cluster tests", |s| s.run_tests(&ignored, &env))
        }
    }
}

/// Everything that a cluster needs, from source so that it is the same on every host, fetched by the programs that the
/// tests use: building others, optimised ones, would take longer than they save. A changed windlass-node changes what
/// holds it, so what it was in before is thrown away.
pub fn fetch_artifacts(session: &mut Session, cache: &Path) -> Result<(), Failure> {
    // With the tests, so that cargo chooses the same features of dependencies as for them and builds nothing twice.
    session.run(session.cargo(&["build", "--workspace", "--bins", "--tests"]))?;
    let windlass = cmd(session.built().join("debug/windlass")).arg("artifacts").arg("--cache").arg(cache);
    session.run(windlass.clone().args(["fetch", "--source", "source"]))?;
    session.run(windlass.arg("prune"))
}

fn deny(session: &Session) -> Result<(), Failure> {
    if ThisMachine.tool_version("cargo-deny").is_none() {
        return Err(Failure::new(
            "cargo-deny is not installed",
            "run `windlass host setup --dev`, or `cargo xtask test`",
        ));
    }
    session.run(session.cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))
}

/// Ends with the summary and, as the very last line, the counts. A stage that is no test counts as one failure.
fn closing(session: &mut Session, work: impl FnOnce(&mut Session) -> Result<(), Failure>) -> ExitCode {
    let outcome = work(session);
    session.summary();
    let mut tally = session.tally;
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            tally.failed = tally.failed.max(1);
            ExitCode::FAILURE
        }
    };
    say(tally);
    code
}

/// Builds where earlier runs have built, for the dependencies' sake, but takes nothing of ours from there: cargo
/// compares times, and would take another clone's newer object file for this clone's older source.
fn share_target_dir(session: &mut Session, cache: Option<PathBuf>) -> Result<Option<File>, Failure> {
    if session.target_dir.is_some() {
        return Ok(None);
    }
    let no_cache = || Failure::new("cannot use the shared target directory", "set CARGO_TARGET_DIR, or unset CI");
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let cache = cache.or_else(home).ok_or_else(no_cache)?.join("windlass");
    make_dir(&cache, Mode::PUBLIC_DIR).map_err(|error| no_cache().because(error))?;
    say(format_args!("building in {}, waiting for other runs to leave it", cache.join("target").display()));
    let lock = lock(&cache.join("target.lock")).map_err(|error| no_cache().because(error))?;
    session.target_dir = Some(cache.join("target"));
    let members = deps::member_names(session)?;
    let clean = members.iter().fold(session.cargo(&["clean", "--quiet"]), |clean, name| clean.args(["-p", name]));
    session.run(clean)?;
    Ok(Some(lock))
}

fn lock(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    file.lock()?;
    Ok(file)
}
