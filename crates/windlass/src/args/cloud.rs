//! The arguments of `windlass cloud`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use windlass_cloud_api::Label;

/// `windlass cloud …`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Cloud {
    /// Where the cloud is.
    #[command(flatten)]
    pub place: CloudPlace,
    /// What to do.
    #[command(subcommand)]
    pub command: CloudCommand,
}

/// Where the cloud is, and what its machines are; another place than the usual one is for tests.
#[derive(Debug, Clone, Args)]
pub struct CloudPlace {
    /// What does not outlive the host's reboot; the socket is in it
    #[arg(long, global = true, hide = true, value_name = "DIR", default_value = "/run/windlass")]
    pub cloud_run: PathBuf,
    /// What does
    #[arg(long, global = true, hide = true, value_name = "DIR", default_value = "/var/lib/windlass")]
    pub cloud_state: PathBuf,
    /// A cloud that is started has processes that do nothing instead of machines
    #[arg(long, global = true, hide = true, alias = "simulated")]
    pub cloud_simulated: bool,
}

/// What to do with the local cloud.
#[derive(Debug, Subcommand)]
pub enum CloudCommand {
    /// Say whether the local cloud runs, what it has, and what is wrong; this starts nothing
    Status,
    /// Print what the local cloud did lately, or the console of a machine
    Logs {
        /// The cluster.
        #[command(flatten)]
        scope: CloudScope,
        /// The end of this machine's console instead
        #[arg(long, value_name = "NAME")]
        machine: Option<Label>,
    },
    /// List machines, switch them, run commands in them
    #[command(subcommand)]
    Machine(CloudMachine),
}

/// Which cluster is meant.
#[derive(Debug, Clone, Args)]
pub struct CloudScope {
    /// The cluster, by its infra-id [default: every cluster]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<Label>,
}

/// `windlass cloud machine …`.
#[derive(Debug, Subcommand)]
pub enum CloudMachine {
    /// List machines and what they are doing
    List(CloudScope),
    /// Switch machines on; this starts the local cloud if it does not run, as after a reboot of the host
    Start(Machines),
    /// Ask machines to power off, and switch them off if they do not
    Stop(Machines),
    /// Ask machines to power off, and start them again
    Reboot(Machines),
    /// Take the power of machines away
    PowerCut(Machines),
    /// Run a command in a machine
    Exec(CloudExec),
}

/// Which machines are meant.
#[derive(Debug, Clone, Args)]
pub struct Machines {
    /// The cluster.
    #[command(flatten)]
    pub scope: CloudScope,
    /// The machines
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub names: Vec<Label>,
    /// Every machine of every cluster, or of --cluster; to reboot or cut off those of several clusters is refused
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

/// `windlass cloud machine exec`.
#[derive(Debug, Clone, Args)]
pub struct CloudExec {
    /// The cluster.
    #[command(flatten)]
    pub scope: CloudScope,
    /// How long the command may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u32,
    /// The machine
    #[arg(value_name = "NAME")]
    pub name: Label,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<String>,
}
