//! The developer's command: everything that is done to this repository more than once, `cargo xtask --help` lists it.
//!
//! It is not shipped, and it is not for doing anything to a cluster. What it runs it shows, with the time it took.

mod args;
mod bench;
mod check;
mod deps;
mod drill;
mod fuzz;
mod generate;
mod openapi;
mod report;
mod session;
mod tally;
mod up;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use args::{Args, Task};
use report::Failure;
use session::Session;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(code) => code,
        Err(failure) => {
            report::complain(&failure);
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut session = Session::open(args.target_dir)?;
    match args.task {
        Task::Check => return Ok(check::check(&mut session)),
        Task::Test { ci, cache, artifacts } => return Ok(check::test(&mut session, ci, cache, &artifacts)),
        Task::Golden { accept } => check::golden(&mut session, accept),
        Task::Deps => session.stage("deps", deps::run),
        Task::Generate { check, upstream } => generate::run(&mut session, check, upstream),
        Task::Up { dir } => up::run(&mut session, &dir),
        Task::Fuzz { seconds, targets } => fuzz::run(&mut session, Duration::from_secs(seconds), &targets),
        Task::Drill { what, seed, place, artifacts } => drill::run(&mut session, what, seed, place, &artifacts),
        Task::Bench { what, artifacts } => bench::run(&mut session, what, &artifacts),
        Task::BenchInner { what, artifacts } => bench::measure(&session, what, &artifacts),
        Task::BenchBalancer { listen, targets } => bench::cloud::serve(listen, &targets),
    }?;
    Ok(ExitCode::SUCCESS)
}
