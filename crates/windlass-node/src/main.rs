//! `windlass-node`: parses the arguments, runs the command, leaves with its code.

use std::io::Write as _;
use std::process::ExitCode;

use windlass_node::args::Arguments;
use windlass_node::command;
use windlass_node::exit::Exit;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nobody is left to tell if the streams are closed; the code says it all the same.
            let _ = error.print();
            return if error.use_stderr() { Exit::Permanent.into() } else { Exit::Done.into() };
        }
    };
    match command::run(&arguments) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            let _ = write!(std::io::stderr(), "{}", failure.report);
            failure.exit.into()
        }
    }
}
