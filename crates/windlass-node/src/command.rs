//! The commands: each calls one library function and says how it ended.

use std::io;

use crate::args::{self, Arguments, Command};
use crate::dashboard::access::Access;
use crate::dashboard::{self, DashboardError};
use crate::exit::{Exit, Failure};
use crate::{log, pause};

/// Runs a command until it is done or told to end.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        // A sandbox has nothing to say and should cost nothing: no log, no runtime.
        Command::Pause => pause::run().map_err(|error| Failure::of(Exit::TryAgain, &error, "start the sandbox again")),
        Command::Dashboard(command) => {
            log::start(arguments.log_level);
            dashboard(command)
        }
    }
}

fn dashboard(command: &args::Dashboard) -> Result<(), Failure> {
    let access = match &command.kubeconfig {
        Some(path) => Access::Kubeconfig(path.clone()),
        None => Access::InCluster,
    };
    runtime()?.block_on(dashboard::run(command.listen, &access)).map_err(|error| dashboard_failure(&error))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let made: io::Result<_> = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| Failure::of(Exit::TryAgain, &error, "see whether the machine is out of file descriptors"))
}

fn dashboard_failure(error: &DashboardError) -> Failure {
    let (exit, next) = match error {
        DashboardError::ReachApi { .. } => {
            (Exit::Permanent, "run it in a pod with a service account, or give --kubeconfig a readable file")
        }
        DashboardError::Listen { .. } => (Exit::TryAgain, "free the port, or give --listen another"),
        DashboardError::HandleSignals { .. } | DashboardError::Serve { .. } => (Exit::TryAgain, "start it again"),
    };
    Failure::of(exit, error, next)
}
