//! The arguments of `windlass`.

mod cloud;
mod launch;

pub use cloud::{Cloud, CloudCommand, CloudExec, CloudMachine, CloudPlace, CloudScope, Machines};
pub use launch::{Down, Image, ImageCommand, LaunchFlags, Shape, Up};

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use windlass_spec::file::{ArtifactSource, Platform, Topology};
use windlass_spec::{ClusterName, KubeVersion};

/// Kubernetes from a ten-line spec to a verified cluster.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    /// Flags that every command takes.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The cluster directory
    #[arg(long, global = true, value_name = "DIR", default_value = "./windlass-cluster")]
    pub dir: PathBuf,
    /// The form of the answer on stdout: text or json
    #[arg(short, long, global = true, value_name = "FORM", default_value = "text", value_parser = parse_output)]
    pub output: Output,
    /// How much is said on stderr and in DIR/logs/windlass.log
    #[arg(long, global = true, value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
    /// Where binaries and images are kept
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/cache/windlass")]
    pub cache: PathBuf,
    /// Do not ask
    #[arg(long, global = true)]
    pub yes: bool,
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Into a file: only for `artifacts bundle`, whose `-o` names it.
    File(PathBuf),
}

fn parse_output(text: &str) -> Result<Output, String> {
    match text {
        "text" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        "" => Err("name a form or, for `artifacts bundle`, a file".to_owned()),
        other => Ok(Output::File(PathBuf::from(other))),
    }
}

impl Arguments {
    /// The arguments, or clap's error if they make no sense together.
    pub fn checked(self) -> Result<Self, clap::Error> {
        let bundle = matches!(self.command, Command::Artifacts(Artifacts::Bundle(_)));
        match &self.common.output {
            Output::File(path) if !bundle => {
                let message =
                    format!("invalid value '{}' for '--output <FORM>': text or json is wanted", path.display());
                Err(Arguments::command().error(clap::error::ErrorKind::InvalidValue, message))
            }
            Output::Text | Output::Json | Output::File(_) => Ok(self),
        }
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What makes this run fail.
    Error,
    /// What the user should know.
    Warn,
    /// A line as a step starts and ends.
    Info,
    /// Every command and request.
    Debug,
    /// Bodies, never secrets.
    Trace,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write, complete, check and explain specs
    #[command(subcommand)]
    Spec(Spec),
    /// Turn the spec into assets in the cluster directory
    Prepare(Prepare),
    /// Show what launch will make of the prepared directory
    Plan,
    /// Make a cluster: a spec if there is none, artifacts if something is missing, assets, launch
    Up(Up),
    /// Launch what was prepared; this is done once
    Launch(LaunchFlags),
    /// Go on with a launch that was interrupted
    Resume(LaunchFlags),
    /// Remove a cluster and everything that belongs to it
    Down(Down),
    /// Say how far the launch has come, and how machines and nodes are
    Status(CloudPlace),
    /// See whether the cluster is ready for its user
    Verify(CloudPlace),
    /// Say everything that is not as it should be, and why
    Why(CloudPlace),
    /// Bring images to the machines
    Image(Image),
    /// Look at the cluster's certificates
    #[command(subcommand)]
    Certs(Certs),
    /// Get the software of a cluster, and see to it that it is what it should be
    #[command(subcommand)]
    Artifacts(Artifacts),
    /// Look at the local cloud, and switch its machines
    Cloud(Cloud),
    /// Ready the machine that windlass runs on
    #[command(subcommand)]
    Host(Host),
}

/// Where a spec comes from.
#[derive(Debug, Clone, Default, Args)]
pub struct SpecSource {
    /// The spec; - is stdin [default: DIR/cluster.yaml]
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
}

/// `windlass spec …`.
#[derive(Debug, Subcommand)]
pub enum Spec {
    /// Print a new spec of at most ten lines
    Init(Init),
    /// Print the spec with every decision made
    Complete(SpecSource),
    /// Say all that is wrong with the spec, if anything is
    Validate(SpecSource),
    /// Say what a field is, its value, and where that came from
    Explain {
        /// The field, such as spec.network.podCIDR
        path: String,
        /// The spec.
        #[command(flatten)]
        source: SpecSource,
    },
    /// Print the JSON Schema of specs, for editors
    Schema,
}

/// `windlass spec init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The cluster's name
    #[arg(long, default_value = "windlass", value_parser = parse_name)]
    pub name: ClusterName,
    /// Where the machines come from
    #[arg(long, default_value = "local", value_parser = clap::builder::PossibleValuesParser::new(Platform::WORDS))]
    pub provider: String,
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

/// `windlass prepare`.
#[derive(Debug, Args)]
pub struct Prepare {
    /// The spec.
    #[command(flatten)]
    pub source: SpecSource,
    /// Draw keys and names from this text instead of chance: for tests only, the keys are not secret
    #[arg(long, value_name = "TEXT")]
    pub seed: Option<String>,
}

/// `windlass certs …`.
#[derive(Debug, Subcommand)]
pub enum Certs {
    /// List every certificate, and the first date on which anything breaks
    List,
}

/// `windlass artifacts …`.
#[derive(Debug, Subcommand)]
pub enum Artifacts {
    /// Build or download everything that a cluster needs
    Fetch(Fetch),
    /// List what is in the cache
    List {
        /// Hash every file and compare
        #[arg(long)]
        verify: bool,
    },
    /// Pack everything for one Kubernetes version into one signed file, named by -o FILE
    Bundle(KubernetesVersion),
    /// Lay out a signed bucket of the runtime addons in the cache
    Publish {
        /// The bucket's directory
        #[arg(value_name = "BUCKET")]
        bucket: PathBuf,
    },
    /// Remove what nothing refers to, and what is not pinned any more
    Prune,
}

/// Which Kubernetes version is meant.
#[derive(Debug, Clone, Args)]
pub struct KubernetesVersion {
    /// The Kubernetes version [default: the newest that windlass installs]
    #[arg(long, value_name = "V")]
    pub kubernetes_version: Option<String>,
}

/// `windlass artifacts fetch`.
#[derive(Debug, Args)]
pub struct Fetch {
    /// The Kubernetes version.
    #[command(flatten)]
    pub version: KubernetesVersion,
    /// Every Kubernetes version, and the tools for other platforms
    #[arg(long)]
    pub all: bool,
    /// Where binaries come from
    #[arg(long, default_value = "auto", value_parser = clap::builder::PossibleValuesParser::new(ArtifactSource::WORDS))]
    pub source: String,
    /// The base URL of released binaries, in the official layout
    #[arg(long, value_name = "URL", default_value = "https://dl.k8s.io")]
    pub mirror: String,
    /// The registry of released images, as in localhost:5000/mirror, instead of those that the images are named for
    #[arg(long, value_name = "HOST")]
    pub registry: Option<String>,
    /// Take everything from this bundle, without any network
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Public keys that may have signed the bundle, instead of this host's own
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub trusted_key: Vec<PathBuf>,
    /// Take a bundle whoever signed it: only if you know where it came from
    #[arg(long, requires = "bundle")]
    pub no_verify_signatures: bool,
}

/// `windlass host …`.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// Say what is missing on this machine
    Check(HostScope),
    /// Install what is missing from Debian's packages
    Setup(HostScope),
}

/// Which tools are meant.
#[derive(Debug, Clone, Copy, Args)]
pub struct HostScope {
    /// The tools of windlass' own tests too
    #[arg(long)]
    pub dev: bool,
}

fn parse_name(text: &str) -> Result<ClusterName, String> {
    ClusterName::parse(text).map_err(|e| e.to_string())
}

/// A version given on the command line; unknown ones are a matter of the spec, with its exit code.
pub fn parse_version(text: &str) -> Result<KubeVersion, String> {
    KubeVersion::parse(text).map_err(|e| e.to_string())
}
