//! The arguments of `windlass-cloud`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::guest;
use crate::places::Places;

/// The local cloud: machines, networks, names, balancers, volumes, groups and objects on one Linux box.
#[derive(Debug, Parser)]
#[command(name = "windlass-cloud", version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until the last cluster is gone; `windlass` starts this by itself
    Serve(Serve),
    /// What runs on behalf of one machine
    #[command(subcommand, hide = true)]
    Guest(guest::Command),
}

/// `windlass-cloud serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// What outlives the host's reboot
    #[arg(long, value_name = "DIR", default_value = "/var/lib/windlass")]
    pub state: PathBuf,
    /// What does not; the socket is in it
    #[arg(long, value_name = "DIR", default_value = "/run/windlass")]
    pub run: PathBuf,
    /// Processes that do nothing instead of machines, for tests of the cloud itself
    #[arg(long)]
    pub simulated: bool,
    /// Leave the session of whoever starts this, so that its end is not ours
    #[arg(long, hide = true)]
    pub detached: bool,
    /// How much is logged on stderr: error, warn, info, debug or trace
    #[arg(long, default_value = "info")]
    pub log_level: tracing::Level,
}

impl Serve {
    /// The daemon's directories.
    pub fn places(&self) -> Places {
        Places { state: self.state.clone(), run: self.run.clone() }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_directories_it_serves_where_it_is_looked_for() {
        let arguments = Arguments::try_parse_from(["windlass-cloud", "serve"]).unwrap();
        let Command::Serve(serve) = arguments.command else { panic!("another command") };
        assert_eq!(serve.places(), Places::usual());
    }
}
