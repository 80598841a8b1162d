//! `windlass-cloud`: parses the arguments, serves or becomes a guest, leaves with a code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use windlass_cloud::args::{Arguments, Command, Serve};
use windlass_cloud::world::World;
use windlass_cloud::{daemon, guest};
use windlass_steps::report::Report;

fn main() -> ExitCode {
    match Arguments::parse().command {
        // Guests enter namespaces, for which a process must have one thread.
        Command::Guest(command) => guest::main(&command),
        Command::Serve(serve) => served(&serve),
    }
}

fn served(serve: &Serve) -> ExitCode {
    if serve.detached
        && let Err(error) = nix::unistd::setsid()
    {
        return told(&error, "start this by another program, or without --detached");
    }
    tracing_subscriber::fmt().with_max_level(serve.log_level).with_writer(std::io::stderr).with_ansi(false).init();
    let world = if serve.simulated { World::simulated() } else { World::real() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return told(&error, "see how many threads this host allows"),
    };
    match runtime.block_on(daemon::serve(serve.places(), world)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => told(&error, "look at the cause; `windlass cloud status` shows a daemon that runs"),
    }
}

fn told(error: &dyn std::error::Error, next: &str) -> ExitCode {
    // Nobody to tell when stderr is closed; the code says it all the same.
    let _ = write!(std::io::stderr(), "{}", Report::of(error, next));
    ExitCode::FAILURE
}
