//! The arguments of `windlass-node`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use windlass_spec::GroupName;

use crate::os_update::coordinator::Required;
use crate::os_update::protocol::ADDONS_STAGED;

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
    Bootstrap(Bootstrap),
    /// Get the addons for the OS that runs if it came without them, with the flags of bootstrap (os-addons.service)
    OsAddons(Bootstrap),
    /// Remove what another version of the container runtime has left (containerd.service)
    RuntimeData,
    /// Import the images that came with this machine (runtime-images.service)
    ImportImages,
    /// Join a master's kubelet to its cluster (kubelet-join.service)
    Join,
    /// Have this etcd member's certificates signed (the pre-start agent of the etcd pod)
    EtcdCerts,
    /// Serve the configuration of masters and workers
    MachineConfigServer(Twin),
    /// Sign the certificates of etcd members while there is no API
    EtcdSigner(EtcdSigner),
    /// Fetch what the control plane is started with, and put it where bootkube waits for it (bootstrap-assets.service)
    BootstrapAssets(BootstrapAssets),
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
    /// Restart a kubelet or a container runtime that hangs (kubelet-checker.service)
    KubeletChecker,
    /// Run a hook of the user's and record how it ends (windlass-hook-NAME.service)
    RunHook(RunHook),
    /// Run a script of the user's and record how it ends (windlass-user-data-NAME.service)
    RunUserData(RunUserData),
    /// Have OS updates looked for, say on the Node when one is staged, and drain and reboot this machine when that is allowed
    UpdateAgent(UpdateAgent),
    /// Let machines that have staged an OS update reboot, one at a time
    RebootCoordinator(RebootCoordinator),
    /// Put the addons for this machine's next OS in place before it reboots
    PreReboot(PreReboot),
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

/// `windlass-node bootstrap`.
#[derive(Debug, Clone, Args)]
pub struct Bootstrap {
    /// Look for an update of the operating system first, and boot into it
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub upgrade_os: bool,
    /// Leave the container runtime and the kubelet as they are on this machine
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub torcx_skip_setup: bool,
    /// Believe addon manifests without a look at their signatures
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub no_verify_signatures: bool,
    /// Take this version of Kubernetes and ask nobody
    #[arg(long, value_name = "VERSION")]
    pub force_kube_version: Option<String>,
    /// Where addon manifests are; {{.Board}} and {{.OSVersion}} are filled in [default: the cluster's object store]
    #[arg(long, value_name = "URL")]
    pub torcx_manifest_url: Option<String>,
    /// Ask and decide, say what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Say what was asked, what answered, what was chosen and why; before the first success as a dry run
    #[arg(long)]
    pub explain: bool,
    /// Stop for good when this stage begins, once in the life of a machine, for tests
    #[arg(long, hide = true, value_name = "STAGE")]
    pub held_at: Option<String>,
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

/// `windlass-node bootstrap-assets`.
#[derive(Debug, Clone, Args)]
pub struct BootstrapAssets {
    /// Take the assets from the standard input, as launch pushes them, instead of fetching them
    #[arg(long)]
    pub stdin: bool,
}

/// `windlass-node etcd-signer`.
#[derive(Debug, Clone, Args)]
pub struct EtcdSigner {
    /// Where to listen, for tests
    #[arg(long, hide = true, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:6443")]
    pub listen: SocketAddr,
}

/// `windlass-node run-hook`.
#[derive(Debug, Clone, Args)]
pub struct RunHook {
    /// What the hook is called
    #[arg(value_parser = GroupName::parse)]
    pub name: GroupName,
    /// Run it in a container of this image, with the machine's root at /rootfs
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "WORD")]
    pub command: Vec<OsString>,
}

/// `windlass-node run-user-data`.
#[derive(Debug, Clone, Args)]
pub struct RunUserData {
    /// What the script is called
    #[arg(value_parser = GroupName::parse)]
    pub name: GroupName,
}

/// `windlass-node update-agent`.
#[derive(Debug, Clone, Args)]
pub struct UpdateAgent {
    /// How often the update engine is asked to look for an update
    #[arg(long, value_name = "SECONDS", default_value_t = 45 * 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub check_every: u32,
}

/// `windlass-node pre-reboot`.
#[derive(Debug, Clone, Args)]
pub struct PreReboot {
    /// Where addon manifests are; {{.Board}} and {{.OSVersion}} are filled in [default: the cluster's object store]
    #[arg(long, value_name = "URL")]
    pub torcx_manifest_url: Option<String>,
}

/// `windlass-node reboot-coordinator`.
#[derive(Debug, Clone, Args)]
pub struct RebootCoordinator {
    /// Annotations that have to be "true" on a Node before it reboots, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = ADDONS_STAGED)]
    pub before_reboot_annotations: Vec<String>,
    /// Annotations that have to be "true" on a Node after it has rebooted, before the next one may begin
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub after_reboot_annotations: Vec<String>,
}

impl RebootCoordinator {
    /// What has to be said about a Node. An empty list of names is no name.
    pub fn required(&self) -> Required {
        let named = |names: &[String]| names.iter().filter(|name| !name.is_empty()).cloned().collect();
        Required { before: named(&self.before_reboot_annotations), after: named(&self.after_reboot_annotations) }
    }
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
    fn the_knobs_of_the_node_flow_are_those_of_its_document() {
        let read = |words: &[&str]| {
            let arguments = Arguments::try_parse_from([&["windlass-node", "bootstrap"], words].concat());
            match arguments.map(|arguments| arguments.command) {
                Ok(Command::Bootstrap(bootstrap)) => Ok(bootstrap),
                Ok(_) => panic!("another command"),
                Err(error) => Err(error),
            }
        };
        let plain = read(&[]).unwrap();
        assert!(plain.upgrade_os && !plain.torcx_skip_setup && !plain.no_verify_signatures);
        assert!(!read(&["--upgrade-os=false"]).unwrap().upgrade_os);
        assert!(read(&["--torcx-skip-setup"]).unwrap().torcx_skip_setup);
        assert!(read(&["--no-verify-signatures=true"]).unwrap().no_verify_signatures);
        assert!(read(&["--upgrade-os=perhaps"]).is_err());
    }

    #[test]
    fn the_words_of_a_hook_are_its_own() {
        let words = ["windlass-node", "run-hook", "warm", "--image", "a/b:1", "--", "warm", "--image", "x", "--"];
        let Command::RunHook(hook) = Arguments::try_parse_from(words).unwrap().command else { panic!("another") };
        assert_eq!((hook.name.as_str(), hook.image.as_deref()), ("warm", Some("a/b:1")));
        assert_eq!(hook.command, ["warm", "--image", "x", "--"]);
        for bad in [&["run-hook", "../x", "--", "a"][..], &["run-hook", "x"], &["run-user-data", "a/b"]] {
            assert!(Arguments::try_parse_from([&["windlass-node"], bad].concat()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_dashboard_listens_everywhere_unless_told() {
        let arguments = Arguments::try_parse_from(["windlass-node", "dashboard"]).unwrap();
        let Command::Dashboard(dashboard) = arguments.command else { panic!("another command") };
        assert_eq!(dashboard.listen, "0.0.0.0:8080".parse().unwrap());
        assert_eq!(dashboard.kubeconfig, None);
    }

    #[test]
    fn updates_are_looked_for_as_often_as_coreos_does_unless_told() {
        let read = |words: &[&str]| {
            let words = ["windlass-node", "update-agent"].iter().chain(words);
            Arguments::try_parse_from(words).map(|arguments| match arguments.command {
                Command::UpdateAgent(command) => command.check_every,
                _ => panic!("another command"),
            })
        };
        assert_eq!(read(&[]).unwrap(), 2700);
        assert_eq!(read(&["--check-every=10"]).unwrap(), 10);
        assert!(read(&["--check-every=0"]).is_err() && read(&["--check-every=soon"]).is_err());
    }

    #[test]
    fn a_reboot_waits_for_the_addons_unless_told() {
        let read = |words: &[&str]| {
            let words = ["windlass-node", "reboot-coordinator"].iter().chain(words);
            let Command::RebootCoordinator(command) = Arguments::try_parse_from(words).unwrap().command else {
                panic!("another command")
            };
            let Required { before, after } = command.required();
            (before.join(" "), after.join(" "))
        };
        assert_eq!(read(&[]), ("windlass.dev/addons-staged".to_owned(), String::new()));
        assert_eq!(read(&["--before-reboot-annotations="]).0, "");
        let both = ["--before-reboot-annotations=a,b", "--after-reboot-annotations", "c"];
        assert_eq!(read(&both), ("a b".to_owned(), "c".to_owned()));
    }
}
