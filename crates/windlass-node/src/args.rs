//! The arguments of `windlass-node`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// What windlass runs on every machine of a cluster.
#[derive(Debug, Parser)]
#[command(name = "windlass-node", version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    /// How much is said on stderr
    #[arg(long, global = true, value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Takes a command line. A program called `pause`, as in the sandbox image, is that command.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        if words.first().is_some_and(|name| Path::new(name).file_name() == Some("pause".as_ref())) {
            words.insert(1, "pause".into());
        }
        Arguments::try_parse_from(words)
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What makes this run fail.
    Error,
    /// What the user should know.
    Warn,
    /// A line as something starts and ends.
    Info,
    /// Every request.
    Debug,
    /// Bodies, never secrets.
    Trace,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a read-only page about the cluster
    Dashboard(Dashboard),
    /// Hold a pod's sandbox: reap its orphans until told to end
    Pause,
}

/// `windlass-node dashboard`.
#[derive(Debug, Args)]
pub struct Dashboard {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// How to reach the API [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_program_called_pause_is_that_command() {
        let read = |words: &[&str]| Arguments::read(words.iter().map(OsString::from)).map(|a| a.command);
        assert!(matches!(read(&["/pause"]), Ok(Command::Pause)));
        assert!(matches!(read(&["windlass-node", "pause"]), Ok(Command::Pause)));
        assert!(read(&["windlass-node"]).is_err());
    }

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_dashboard_listens_everywhere_unless_told() {
        let arguments = Arguments::try_parse_from(["windlass-node", "dashboard"]).unwrap();
        let Command::Dashboard(dashboard) = arguments.command else { panic!("another command") };
        assert_eq!(dashboard.listen, "0.0.0.0:8080".parse().unwrap());
        assert_eq!(dashboard.kubeconfig, None);
    }
}
