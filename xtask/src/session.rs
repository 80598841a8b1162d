//! A run of xtask: where the workspace is, the commands that run in it, and what came of them so far.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;
use windlass_steps::host::{CommandSpec, cmd, read_file, run_blocking};

use crate::report::{Failure, say};
use crate::tally::Tally;

const LOG_LIMIT: u64 = 1 << 30;

/// The workspace, and the stages that are behind us.
#[derive(Debug)]
pub struct Session {
    /// The workspace's directory.
    pub root: PathBuf,
    /// Where cargo builds, if not in the workspace.
    pub target_dir: Option<PathBuf>,
    /// Every test that ran.
    pub tally: Tally,
    stages: Vec<(String, Duration)>,
}

impl Session {
    /// Finds the workspace around the working directory.
    pub fn open(target_dir: Option<PathBuf>) -> Result<Self, Failure> {
        let lost = || Failure::new("cannot find the workspace", "run this inside a clone of windlass");
        // Asked at run time: a binary in a shared target directory may have been built in another clone.
        let locate = cmd("cargo").args(["locate-project", "--workspace", "--message-format", "plain"]);
        let output = run_blocking(locate).map_err(|error| lost().because(error))?;
        let manifest = output.text().map_err(|error| lost().because(error))?;
        let root = Path::new(manifest).parent().ok_or_else(lost)?.to_owned();
        let target_dir = target_dir.map(std::path::absolute).transpose().map_err(|error| lost().because(error))?;
        Ok(Self { root, target_dir, tally: Tally::default(), stages: Vec::new() })
    }

    /// Where cargo leaves what it builds.
    pub fn built(&self) -> PathBuf {
        self.target_dir.clone().unwrap_or_else(|| self.root.join("target"))
    }

    /// A cargo command in the workspace.
    pub fn cargo(&self, args: &[&str]) -> CommandSpec {
        let command = cmd("cargo").args(args).current_dir(&self.root);
        match &self.target_dir {
            Some(dir) => command.env("CARGO_TARGET_DIR", dir),
            None => command,
        }
    }

    /// Does one named part of a task, and says how long it took.
    pub fn stage(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Result<(), Failure>) -> Result<(), Failure> {
        say(format_args!("==> {name}"));
        let started = Instant::now();
        work(self).inspect_err(|_| say(format_args!("==> {name}: FAILED after {}", seconds(started.elapsed()))))?;
        let took = started.elapsed();
        say(format_args!("==> {name}: ok, {}", seconds(took)));
        self.stages.push((name.to_owned(), took));
        Ok(())
    }

    /// Runs a command with its output in plain sight.
    pub fn run(&self, command: CommandSpec) -> Result<(), Failure> {
        say(format_args!("    {command}"));
        let failed = || Failure::new("a command failed", "look at its output above");
        run_blocking(command.inherit()).map(drop).map_err(|error| failed().because(error))
    }

    /// Runs `cargo test` with these arguments and these variables, in plain sight, and counts.
    pub fn run_tests(&mut self, args: &[&str], env: &[(&str, &OsStr)]) -> Result<(), Failure> {
        let failed = || Failure::new("the tests failed", "look for `failures:` and `error` in the output above");
        let log = NamedTempFile::new().map_err(|error| failed().because(error))?;
        // Tests tell on stdout, builds on stderr; only the former is counted, the latter keeps its terminal.
        let command = cmd("bash").args(["-c", r#"set -o pipefail; "$@" | tee "$0""#]).arg(log.path());
        let command = command.args(["cargo", "test", "--no-fail-fast"]).args(args).current_dir(&self.root).inherit();
        let dir = self.target_dir.iter().map(|dir| ("CARGO_TARGET_DIR", dir.as_os_str()));
        let env = env.iter().copied().chain(dir);
        let command = env.fold(command, |command, (name, value)| command.env(name, value));
        say(format_args!("    {}", cmd("cargo").args(["test", "--no-fail-fast"]).args(args)));
        let ended = run_blocking(command);
        let output = read_file(log.path(), LOG_LIMIT).map_err(|error| failed().because(error))?;
        let tally = Tally::of(&String::from_utf8_lossy(&output));
        self.tally += tally;
        ended.map_err(|error| failed().because(error))?;
        match tally.results {
            0 => Err(failed().because("cargo printed no test result, so nothing was tested")),
            _ => Ok(()),
        }
    }

    /// Prints each stage that is behind us with its time.
    pub fn summary(&self) {
        for (name, took) in &self.stages {
            say(format_args!("{:>9}  {name}", seconds(*took)));
        }
    }
}

/// A duration as people read it.
pub fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}
