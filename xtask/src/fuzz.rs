//! `cargo xtask fuzz`: every fuzz target for a bounded time, each from its seeds. The targets are compiled by the
//! workspace's own compiler with coverage and AddressSanitizer, which needs no further tool and no other toolchain.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_steps::host::{CommandSpec, HostError, Mode, cmd, make_dir, run_blocking};

use crate::report::{Failure, say};
use crate::session::{Session, seconds};

/// What libFuzzer needs in the code that it drives, as `cargo fuzz` sets it.
const FLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Zsanitizer=address",
    "-Cdebug-assertions",
    "--cfg=fuzzing",
];
/// Inputs beyond this say nothing new and take long.
const LONGEST_INPUT: &str = "-max_len=65536";
/// One input that takes longer is a finding.
const SLOWEST_INPUT: &str = "-timeout=20";
/// What a run takes beyond its time: reading the corpus, and one slow input.
const PATIENCE: Duration = Duration::from_secs(120);

/// Builds the targets, writes their seeds, and runs each of the wanted ones; all of them if none is named.
pub fn run(session: &mut Session, time: Duration, wanted: &[String]) -> Result<(), Failure> {
    let targets = choose(&targets(session)?, wanted)?;
    let place = session.built().join("fuzz");
    let mut built = PathBuf::new();
    session.stage("build", |s| {
        let host = host_target()?;
        built = place.join(&host).join("release");
        s.run(build(s, &place, &host))
    })?;
    session.stage("seeds", |s| s.run(cmd(built.join("seeds")).arg(place.join("seeds"))))?;
    for target in &targets {
        session.stage(target, |_| fuzz(&place, &built.join(target), target, time))?;
    }
    session.summary();
    Ok(())
}

/// A target is a file.
fn targets(session: &Session) -> Result<Vec<String>, Failure> {
    let dir = session.root.join("fuzz/fuzz_targets");
    let lost =
        |error| Failure::new("cannot list the fuzz targets", "see that fuzz/fuzz_targets is there").because(error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(lost)? {
        let path = entry.map_err(lost)?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn choose(targets: &[String], wanted: &[String]) -> Result<Vec<String>, Failure> {
    if let Some(unknown) = wanted.iter().find(|name| !targets.contains(name)) {
        let list = format!("the targets are {}", targets.join(", "));
        return Err(Failure::new(format_args!("there is no fuzz target {unknown}"), list));
    }
    let all = targets.iter().filter(|name| wanted.is_empty() || wanted.contains(name));
    Ok(all.cloned().collect())
}

fn host_target() -> Result<String, Failure> {
    let failed = || Failure::new("cannot ask rustc what it compiles for", "see that rustc runs");
    let output = run_blocking(cmd("rustc").arg("-vV")).map_err(|error| failed().because(error))?;
    let text = output.text().map_err(|error| failed().because(error))?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned).ok_or_else(failed)
}

/// With `--target`, so that the flags are for the fuzzed code and not for build scripts and macros.
fn build(session: &Session, place: &Path, host: &str) -> CommandSpec {
    let manifest = session.root.join("fuzz/Cargo.toml");
    let command = cmd("cargo").args(["build", "--release", "--locked", "--bins", "--target", host]);
    let command = command.arg("--manifest-path").arg(manifest).current_dir(&session.root);
    // The sanitizer is the one flag that a stable compiler keeps to itself.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS.join(" ")).env("CARGO_TARGET_DIR", place)
}

fn fuzz(place: &Path, program: &Path, target: &str, time: Duration) -> Result<(), Failure> {
    let (corpus, findings) = (place.join("corpus").join(target), place.join("findings").join(target));
    for dir in [&corpus, &findings] {
        let failed = |error| Failure::new("cannot make a directory to fuzz in", "look at the cause").because(error);
        make_dir(dir, Mode::PUBLIC_DIR).map_err(failed)?;
    }
    let command = cmd(program).arg(format!("-max_total_time={}", time.as_secs())).args([LONGEST_INPUT, SLOWEST_INPUT]);
    let command = command.args(["-print_final_stats=1", "-detect_leaks=0", "-verbosity=1"]);
    let command = command.arg(format!("-artifact_prefix={}/", findings.display()));
    let command = command.arg(&corpus).arg(place.join("seeds").join(target)).timeout(time + PATIENCE);
    say(format_args!("    {command}"));
    let started = Instant::now();
    let ended = run_blocking(command);
    let took = started.elapsed();
    let output = ended.map_err(|error| found(&error, target, &findings).because(error))?;
    let runs = executions(&output.stderr).ok_or_else(|| {
        Failure::new(format_args!("{target} ended without saying what it did"), "run the command above by hand")
    })?;
    say(format_args!("    {target}: {runs} executions in {}, nothing found", seconds(took)));
    Ok(())
}

fn found(error: &HostError, target: &str, findings: &Path) -> Failure {
    match error {
        HostError::RunCommand { .. } => Failure::new(
            format_args!("fuzzing {target} found something"),
            format_args!("the input is the newest file in {}; make a test of it, then fix it", findings.display()),
        ),
        _ => Failure::new(format_args!("{target} did not run"), "look at the cause"),
    }
}

/// From libFuzzer's final statistics.
fn executions(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_not_there_is_refused_with_the_list() {
        let targets = ["archive", "pins"].map(str::to_owned);
        assert_eq!(choose(&targets, &[]).unwrap(), targets);
        assert_eq!(choose(&targets, &["pins".to_owned()]).unwrap(), ["pins"]);
        assert_eq!(choose(&targets, &["pin".to_owned()]).unwrap_err().to_string(), "there is no fuzz target pin");
    }

    #[test]
    fn executions_are_read_from_the_final_statistics() {
        let said = "#9 DONE\nstat::number_of_executed_units: 1234\nstat::average_exec_per_sec:     61\n";
        assert_eq!(executions(said), Some(1234));
        assert_eq!(executions("nothing"), None);
    }
}
