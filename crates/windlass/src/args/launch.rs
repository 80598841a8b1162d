//! The arguments of the commands that make, show and remove clusters.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use windlass_spec::file::{Platform, Topology};

use super::{CloudPlace, SpecSource};

/// Flags of everything that launches.
#[derive(Debug, Clone, Args)]
pub struct LaunchFlags {
    /// Where the machines are.
    #[command(flatten)]
    pub place: CloudPlace,
    /// End as if killed when the journal has this event, written STEP/started or STEP/finished: for tests
    #[arg(long, hide = true, value_name = "EVENT")]
    pub killed_at: Option<String>,
}

/// `windlass up`.
#[derive(Debug, Args)]
pub struct Up {
    /// The spec.
    #[command(flatten)]
    pub source: SpecSource,
    /// What a new spec says.
    #[command(flatten)]
    pub shape: Shape,
    /// How it is launched.
    #[command(flatten)]
    pub flags: LaunchFlags,
}

/// What a new spec says; without any of these, and without a spec, 3 masters and 2 workers on this host.
#[derive(Debug, Clone, Args)]
pub struct Shape {
    /// Where the machines come from
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Platform::WORDS))]
    pub provider: Option<String>,
    /// How many workers [default: 2]
    #[arg(long, value_name = "N")]
    pub num_nodes: Option<u32>,
    /// How many masters [default: 3]
    #[arg(long, value_name = "N")]
    pub num_masters: Option<u32>,
    /// How the control plane runs [default: self-hosted]
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Topology::WORDS))]
    pub topology: Option<String>,
    /// The Kubernetes version [default: the newest that windlass installs]
    #[arg(long, value_name = "V")]
    pub kubernetes_version: Option<String>,
}

/// `windlass down`.
#[derive(Debug, Args)]
pub struct Down {
    /// The cluster, if its directory is not here
    #[arg(long, value_name = "ID")]
    pub infra_id: Option<String>,
    /// Where the machines are.
    #[command(flatten)]
    pub place: CloudPlace,
}

/// `windlass image …`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Image {
    /// Where the machines are.
    #[command(flatten)]
    pub place: CloudPlace,
    /// What to do.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Put the images of OCI or docker archives on every machine of the cluster
    Load {
        /// The archives
        #[arg(value_name = "ARCHIVE", required = true)]
        archives: Vec<PathBuf>,
    },
}
