//! `windlass`: parses the arguments, runs the command, leaves with its code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use windlass::args::Arguments;
use windlass::{command, log};

fn main() -> ExitCode {
    let arguments = Arguments::parse().checked().unwrap_or_else(|error| error.exit());
    log::start(&arguments);
    let mut stdout = std::io::stdout().lock();
    let mut stderr = std::io::stderr();
    match command::run(&arguments, &mut stdout, &mut stderr) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            tracing::error!(error = %failure.report.error, "command failed");
            // Nobody is left to tell if stderr is closed; the code says it all the same.
            let _ = stderr.write_all(failure.told(&arguments.common.output).as_bytes());
            failure.exit.into()
        }
    }
}
