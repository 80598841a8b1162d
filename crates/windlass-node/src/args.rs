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
    /// Where the machine's files begin, for tests
    #[arg(long, global = true, hide = true, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
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
    /// Prepare this machine for its kubelet (k8s-node-bootstrap.service)
    Bootstrap,
    /// Join a master's kubelet to its cluster (kubelet-join.service)
    Join,
    /// Have this etcd member's certificates signed (the pre-start agent of the etcd pod)
    EtcdCerts,
    /// Serve the configuration of masters and workers
    MachineConfigServer(Twin),
    /// Sign the certificates of etcd members while there is no API
    EtcdSigner(EtcdSigner),
    /// Start the control plane and hand it over to the masters (bootkube.service)
    Bootkube,
    /// Apply the add-ons and see them done (addons.service)
    Addons,
    /// Approve the certificate requests of expected machines, sign those of etcd members, review machines' tokens
    CsrApprover,
    /// Keep static copies of the control plane's pods on this master
    Checkpoint,
    /// Write the machine's pod network configuration when its subnet is known
    Cni,
    /// Try a cluster from inside, for `windlass verify`
    #[command(subcommand)]
    Probe(Probe),
    /// Say which stage each unit of this machine is in, as JSON
    Report(Report),
    /// Say what is wrong with this machine that no unit says: static pods, kubelet, disk and memory, as JSON
    Health,
    /// Serve a read-only page about the cluster
    Dashboard(Dashboard),
    /// Hold a pod's sandbox: reap its orphans until told to end
    Pause,
}

/// `windlass-node machine-config-server`.
#[derive(Debug, Clone, Args)]
pub struct Twin {
    /// Serve from inside the cluster: burnt tokens and Nodes are looked up in the API
    #[arg(long)]
    pub in_cluster: bool,
    /// Where to listen, for tests
    #[arg(long, hide = true, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:22623")]
    pub listen: SocketAddr,
}

/// `windlass-node etcd-signer`.
#[derive(Debug, Clone, Args)]
pub struct EtcdSigner {
    /// Where to listen, for tests
    #[arg(long, hide = true, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:6443")]
    pub listen: SocketAddr,
}

/// `windlass-node report`.
#[derive(Debug, Clone, Args)]
pub struct Report {
    /// Read an earlier report from the standard input, and answer when there is another, at the latest after half a second
    #[arg(long)]
    pub news: bool,
}

/// `windlass-node probe …`.
#[derive(Debug, Subcommand)]
pub enum Probe {
    /// Answer every request with this host's name
    Serve {
        /// Where to listen
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080")]
        listen: SocketAddr,
    },
    /// Resolve the name in a URL, ask it, and print the answer
    Get {
        /// The URL, http only
        url: String,
    },
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
