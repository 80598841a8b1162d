//! The table of fields. A row is a key, its type, its origin, its document and one sentence.

use std::net::Ipv4Addr;

use super::{Document, Field, Kind, Origin};
use crate::file::{ArtifactSource, Delivery, Egress, Encoding, NetworkPlugin, Reboots, Role, Topology, UserDataType};
use crate::flags::Component;
use crate::name::{ClusterName, Domain, GroupName};
use crate::network::PodCidr;
use crate::version::{KubeVersion, check_release};

use Document::{ClusterDeployment, KubernetesBootstrap, Launch, NodeBootstrap, RuntimeAddons};
use Kind::{Bool, Config, Flags, Integer, List, Object, OneOf, Words};
use Origin::{Default, Derived, Required, Unset};

const fn field(name: &'static str, kind: Kind, origin: Origin, serves: Document, summary: &'static str) -> Field {
    Field { name, kind, origin, serves, summary }
}

const CLUSTER_NAME: Kind = Kind::Text("a cluster name", |s| ClusterName::parse(s).map(drop).map_err(|e| e.to_string()));
const GROUP_NAME: Kind = Kind::Text("a name", |s| GroupName::parse(s).map(drop).map_err(|e| e.to_string()));
const DOMAIN: Kind = Kind::Text("a DNS domain", |s| Domain::parse(s).map(drop).map_err(|e| e.to_string()));
const KUBE_VERSION: Kind =
    Kind::Text("a Kubernetes version", |s| KubeVersion::parse(s).map(drop).map_err(|e| e.to_string()));
const RELEASE: Kind = Kind::Text("a version", |s| check_release(s).map_err(|e| e.to_string()));
const CIDR: Kind = Kind::Text("an address range", |s| PodCidr::parse(s).map(drop).map_err(|e| e.to_string()));
const ADDRESS: Kind = Kind::Text("an IPv4 address", address);
const IMAGE: Kind = Kind::Text("an image reference", image);
const URL: Kind = Kind::Text("an http or https URL", url);
const MODE: Kind = Kind::Text("octal permissions such as \"0644\"", mode);
const PATH: Kind = Kind::Text("an absolute path", path);
const UNIT: Kind = Kind::Text("a systemd unit name", unit);
const WORD: Kind = Kind::Text("a word", word);
const ANY_TEXT: Kind = Kind::Text("a text", |_| Ok(()));

/// The fields of the document itself.
pub static ROOT: &[Field] = &[
    field(
        "apiVersion",
        Words(&["windlass.dev/v1alpha1"]),
        Required,
        KubernetesBootstrap,
        "The version of this format.",
    ),
    field("kind", Words(&["Cluster"]), Required, KubernetesBootstrap, "What the document describes."),
    field("metadata", Object(METADATA), Required, KubernetesBootstrap, "What the cluster is called."),
    field("spec", Object(SPEC), Default("{}"), KubernetesBootstrap, "What the cluster is."),
];

static METADATA: &[Field] = &[field(
    "name",
    CLUSTER_NAME,
    Required,
    KubernetesBootstrap,
    "The cluster's name: the start of its infra-id and of its default domain.",
)];

static SPEC: &[Field] = &[
    field(
        "domain",
        DOMAIN,
        Derived("metadata.name: <name>.test"),
        Launch,
        "The domain under which the cluster's names lie: api.<domain> and the rest.",
    ),
    field(
        "kubernetesVersion",
        KUBE_VERSION,
        Default("1.36.3"),
        KubernetesBootstrap,
        "The version of the Kubernetes components; a leading v is allowed.",
    ),
    field(
        "topology",
        Words(Topology::WORDS),
        Default("self-hosted"),
        Launch,
        "How the control plane runs: as pods of the cluster itself, or as static pods with etcd on volumes that move.",
    ),
    field(
        "bootstrapAssets",
        Words(Delivery::WORDS),
        Default("pull"),
        NodeBootstrap,
        "How the bootstrap machine gets the control plane's files: fetched from the object store, or pushed over SSH.",
    ),
    field(
        "masters",
        Integer(0, 99),
        Unset,
        ClusterDeployment,
        "Short for instanceGroups with one group of this many masters.",
    ),
    field(
        "workers",
        Integer(0, 20_000),
        Unset,
        ClusterDeployment,
        "Short for instanceGroups with one group of this many workers.",
    ),
    field("platform", OneOf(PLATFORM), Default("local"), ClusterDeployment, "Where the machines come from."),
    field(
        "versions",
        Object(VERSIONS),
        Derived("spec.kubernetesVersion"),
        RuntimeAddons,
        "The versions of what goes with Kubernetes.",
    ),
    field(
        "images",
        Object(IMAGES),
        Derived("spec.versions"),
        KubernetesBootstrap,
        "The image of every container that windlass starts.",
    ),
    field(
        "network",
        Object(NETWORK),
        Derived("the fields below"),
        ClusterDeployment,
        "Address ranges and fixed addresses.",
    ),
    field(
        "instanceGroups",
        List(&Object(GROUP)),
        Default("3 masters and 2 workers"),
        KubernetesBootstrap,
        "The machines, by group.",
    ),
    field(
        "components",
        Object(COMPONENTS),
        Derived("the whole spec"),
        KubernetesBootstrap,
        "The flags and configuration of each component.",
    ),
    field(
        "addons",
        Object(ADDONS),
        Derived("the fields below"),
        ClusterDeployment,
        "What is added to the bare cluster.",
    ),
    field(
        "osUpdate",
        Object(OS_UPDATE),
        Derived("the fields below"),
        NodeBootstrap,
        "Whether and when machines take a new operating system.",
    ),
    field(
        "artifacts",
        Object(ARTIFACTS),
        Derived("the fields below"),
        RuntimeAddons,
        "Where binaries and images come from.",
    ),
];

static PLATFORM: &[Field] = &[
    field("local", Object(LOCAL), Unset, ClusterDeployment, "Machines on this Linux box."),
    field("aws", Object(AWS), Unset, ClusterDeployment, "Machines of Amazon EC2."),
    field("gce", Object(GCE), Unset, ClusterDeployment, "Machines of Google Compute Engine."),
    field("libvirt", Object(LIBVIRT), Unset, Launch, "Virtual machines of a libvirt host."),
    field("ssh", Object(SSH), Unset, ClusterDeployment, "Machines that exist already, over SSH."),
];

static LOCAL: &[Field] = &[
    field(
        "egress",
        Words(Egress::WORDS),
        Default("auto"),
        ClusterDeployment,
        "Whether machines may reach the outside, through a user-mode network.",
    ),
    field(
        "apiPort",
        Integer(1, 65_535),
        Default("6443"),
        Launch,
        "The port on 127.0.0.1 that reaches the API; a free one is taken if it is in use.",
    ),
];

static AWS: &[Field] = &[
    field("region", WORD, Default("us-east-1"), Launch, "The region of everything."),
    field("instanceType", WORD, Default("m6i.large"), Launch, "The type of every machine."),
];

static GCE: &[Field] = &[
    field("project", WORD, Required, ClusterDeployment, "The project that pays."),
    field("zone", WORD, Default("europe-west1-b"), ClusterDeployment, "The zone of every machine."),
    field("machineType", WORD, Default("e2-standard-2"), ClusterDeployment, "The type of every machine."),
];

static LIBVIRT: &[Field] = &[
    field("uri", ANY_TEXT, Default("qemu:///system"), Launch, "How the libvirt host is reached."),
    field("pool", WORD, Default("default"), Launch, "The storage pool of the disks."),
];

static SSH: &[Field] = &[
    field("hosts", List(&ADDRESS), Required, ClusterDeployment, "The machines' addresses, in the order of the groups."),
    field("user", WORD, Default("root"), ClusterDeployment, "The user that windlass logs in as."),
    field("port", Integer(1, 65_535), Default("22"), ClusterDeployment, "The port of the SSH server."),
];

static VERSIONS: &[Field] = &[
    field("etcd", RELEASE, Derived("spec.kubernetesVersion"), KubernetesBootstrap, "etcd's version."),
    field(
        "containerd",
        RELEASE,
        Derived("spec.kubernetesVersion"),
        RuntimeAddons,
        "The runtime that the mapping chooses for this Kubernetes version.",
    ),
    field("runc", RELEASE, Derived("spec.kubernetesVersion"), RuntimeAddons, "The version of runc beside containerd."),
    field("cni", RELEASE, Derived("spec.kubernetesVersion"), ClusterDeployment, "The CNI plugins' version."),
    field("coreDNS", RELEASE, Derived("spec.kubernetesVersion"), ClusterDeployment, "CoreDNS' version."),
    field("flannel", RELEASE, Derived("spec.kubernetesVersion"), ClusterDeployment, "flannel's version."),
    field("pause", RELEASE, Derived("spec.kubernetesVersion"), KubernetesBootstrap, "The pause image's version."),
];

static IMAGES: &[Field] = &[
    field("kubeAPIServer", IMAGE, Derived("spec.kubernetesVersion"), KubernetesBootstrap, "kube-apiserver's image."),
    field(
        "kubeControllerManager",
        IMAGE,
        Derived("spec.kubernetesVersion"),
        KubernetesBootstrap,
        "kube-controller-manager's image.",
    ),
    field("kubeScheduler", IMAGE, Derived("spec.kubernetesVersion"), KubernetesBootstrap, "kube-scheduler's image."),
    field("kubeProxy", IMAGE, Derived("spec.kubernetesVersion"), KubernetesBootstrap, "kube-proxy's image."),
    field("etcd", IMAGE, Derived("spec.versions.etcd"), KubernetesBootstrap, "etcd's image."),
    field("coreDNS", IMAGE, Derived("spec.versions.coreDNS"), ClusterDeployment, "CoreDNS' image."),
    field("flannel", IMAGE, Derived("spec.versions.flannel"), ClusterDeployment, "flannel's image."),
    field("pause", IMAGE, Derived("spec.versions.pause"), KubernetesBootstrap, "The image of every pod's sandbox."),
    field(
        "windlassNode",
        IMAGE,
        Derived("the version of windlass"),
        NodeBootstrap,
        "The image of windlass' own program for machines.",
    ),
];

static NETWORK: &[Field] = &[
    field(
        "plugin",
        Words(NetworkPlugin::WORDS),
        Default("flannel"),
        ClusterDeployment,
        "What connects the pods; with none you bring your own.",
    ),
    field("machineCIDR", CIDR, Default("172.30.0.0/16"), ClusterDeployment, "Where the machines' addresses lie."),
    field(
        "podCIDR",
        CIDR,
        Derived("the number of machines: 10.244.0.0/16, or wider around it"),
        KubernetesBootstrap,
        "Where pod addresses lie.",
    ),
    field(
        "nodePrefix",
        Integer(16, 30),
        Default("24"),
        KubernetesBootstrap,
        "The prefix length of each node's part of the pod range.",
    ),
    field("serviceCIDR", CIDR, Default("10.96.0.0/16"), KubernetesBootstrap, "Where service addresses lie."),
    field(
        "apiServiceIP",
        ADDRESS,
        Derived("spec.network.serviceCIDR: its first address"),
        KubernetesBootstrap,
        "The address of the kubernetes service.",
    ),
    field(
        "dnsServiceIP",
        ADDRESS,
        Derived("spec.network.serviceCIDR: its tenth address"),
        ClusterDeployment,
        "The address of the cluster's DNS service.",
    ),
    field("clusterDomain", DOMAIN, Default("cluster.local"), ClusterDeployment, "The domain of services and pods."),
    field(
        "mtu",
        Integer(576, 9216),
        Default("1500"),
        ClusterDeployment,
        "The largest packet on the machines' network.",
    ),
    field(
        "gateway",
        ADDRESS,
        Derived("spec.network.machineCIDR: its first address"),
        ClusterDeployment,
        "The gateway of the machines' network, which also answers for names.",
    ),
    field(
        "balancer",
        ADDRESS,
        Derived("spec.network.machineCIDR: its second address"),
        Launch,
        "The balancer's address, where api.<domain> points.",
    ),
    field(
        "bootstrap",
        ADDRESS,
        Derived("spec.network.machineCIDR: its third address"),
        Launch,
        "The bootstrap machine's address, while there is one.",
    ),
];

static GROUP: &[Field] = &[
    field(
        "name",
        GROUP_NAME,
        Required,
        KubernetesBootstrap,
        "The group's name, and the first part of its machines' names.",
    ),
    field("role", Words(Role::WORDS), Required, KubernetesBootstrap, "What the machines are for."),
    field(
        "count",
        Integer(0, 20_000),
        Default("1"),
        KubernetesBootstrap,
        "How many machines; of masters an odd number in all.",
    ),
    field(
        "firstAddress",
        ADDRESS,
        Derived("spec.network.machineCIDR and the groups before"),
        ClusterDeployment,
        "The address of the group's first machine; the others follow it.",
    ),
    field("cpus", Integer(1, 512), Default("2"), ClusterDeployment, "The most processors a machine may use."),
    field(
        "memoryMiB",
        Integer(512, 4_194_304),
        Default("4096"),
        ClusterDeployment,
        "The most memory a machine may use.",
    ),
    field(
        "fileAssets",
        List(&Object(FILE_ASSET)),
        Default("[]"),
        KubernetesBootstrap,
        "Files put on each machine, a custom static pod for example.",
    ),
    field(
        "additionalUserData",
        List(&Object(USER_DATA)),
        Default("[]"),
        KubernetesBootstrap,
        "Ignition fragments and scripts for each machine.",
    ),
    field(
        "hooks",
        List(&Object(HOOK)),
        Default("[]"),
        KubernetesBootstrap,
        "Commands run on each machine on every boot, before or after other units.",
    ),
];

static FILE_ASSET: &[Field] = &[
    field("path", PATH, Required, KubernetesBootstrap, "Where the file lies on the machine."),
    field("content", ANY_TEXT, Required, KubernetesBootstrap, "What is in the file."),
    field("encoding", Words(Encoding::WORDS), Default("text"), KubernetesBootstrap, "How content is written here."),
    field("mode", MODE, Default("\"0600\""), KubernetesBootstrap, "The file's permissions."),
];

static USER_DATA: &[Field] = &[
    field("name", GROUP_NAME, Required, KubernetesBootstrap, "What it is called in logs."),
    field(
        "type",
        Words(UserDataType::WORDS),
        Required,
        KubernetesBootstrap,
        "An Ignition config to merge, or a script to run once.",
    ),
    field("content", ANY_TEXT, Required, KubernetesBootstrap, "The fragment or script itself."),
];

static HOOK: &[Field] = &[
    field(
        "name",
        GROUP_NAME,
        Required,
        KubernetesBootstrap,
        "What it is called: the unit is windlass-hook-<name>.service, which runs on every boot.",
    ),
    field(
        "before",
        List(&UNIT),
        Default("[]"),
        KubernetesBootstrap,
        "Units that wait until it has ended, well or not.",
    ),
    field("after", List(&UNIT), Default("[]"), KubernetesBootstrap, "Units that it waits for."),
    field("exec", List(&ANY_TEXT), Required, KubernetesBootstrap, "The command and its arguments, without a shell."),
    field(
        "image",
        IMAGE,
        Unset,
        KubernetesBootstrap,
        "The image, with its registry, in whose container the command runs: with every right, on the machine's network, with the machine's root at /rootfs. Without it the machine runs it.",
    ),
];

static COMPONENTS: &[Field] = &[
    field(
        "kubeAPIServer",
        Object(&[API_SERVER_FLAGS]),
        Derived("the whole spec"),
        KubernetesBootstrap,
        "The API server of every master.",
    ),
    field(
        "kubeControllerManager",
        Object(&[CONTROLLER_MANAGER_FLAGS]),
        Derived("the whole spec"),
        KubernetesBootstrap,
        "The controllers of Kubernetes.",
    ),
    field(
        "kubeScheduler",
        Object(&[SCHEDULER_FLAGS]),
        Derived("the whole spec"),
        KubernetesBootstrap,
        "The scheduler of pods.",
    ),
    field(
        "kubelet",
        Object(&[KUBELET_FLAGS, KUBELET_CONFIG]),
        Derived("the whole spec"),
        KubernetesBootstrap,
        "The kubelet of every machine.",
    ),
    field(
        "kubeProxy",
        Object(&[PROXY_FLAGS, PROXY_CONFIG]),
        Derived("the whole spec"),
        ClusterDeployment,
        "The service proxy of every machine.",
    ),
    field(
        "etcd",
        Object(&[ETCD_FLAGS]),
        Derived("the whole spec"),
        KubernetesBootstrap,
        "The etcd member of every master.",
    ),
];

const FLAGS_SUMMARY: &str = "All flags that will be passed; add any flag of the version, null removes one.";
const CONFIG_SUMMARY: &str = "All fields of the configuration file that will be set; null removes one.";
const BY_TABLE: Origin = Derived("the decisions listed in decisions.md");

const API_SERVER_FLAGS: Field =
    field("flags", Flags(Component::ApiServer), BY_TABLE, KubernetesBootstrap, FLAGS_SUMMARY);
const CONTROLLER_MANAGER_FLAGS: Field =
    field("flags", Flags(Component::ControllerManager), BY_TABLE, KubernetesBootstrap, FLAGS_SUMMARY);
const SCHEDULER_FLAGS: Field =
    field("flags", Flags(Component::Scheduler), BY_TABLE, KubernetesBootstrap, FLAGS_SUMMARY);
const KUBELET_FLAGS: Field = field("flags", Flags(Component::Kubelet), BY_TABLE, KubernetesBootstrap, FLAGS_SUMMARY);
const KUBELET_CONFIG: Field =
    field("config", Config(Component::Kubelet), BY_TABLE, KubernetesBootstrap, CONFIG_SUMMARY);
const PROXY_FLAGS: Field = field("flags", Flags(Component::Proxy), BY_TABLE, ClusterDeployment, FLAGS_SUMMARY);
const PROXY_CONFIG: Field = field("config", Config(Component::Proxy), BY_TABLE, ClusterDeployment, CONFIG_SUMMARY);
const ETCD_FLAGS: Field = field("flags", Flags(Component::Etcd), BY_TABLE, KubernetesBootstrap, FLAGS_SUMMARY);

static ADDONS: &[Field] = &[
    field("coreDNS", Object(CORE_DNS), Derived("the fields below"), ClusterDeployment, "The cluster's DNS."),
    field(
        "dashboard",
        Object(DASHBOARD),
        Derived("the fields below"),
        ClusterDeployment,
        "A read-only page that shows the cluster.",
    ),
];

static CORE_DNS: &[Field] = &[
    field("enabled", Bool, Default("true"), ClusterDeployment, "Whether it is installed."),
    field(
        "replicas",
        Integer(1, 100),
        Derived("the number of workers: 2, or 1 for a single machine"),
        ClusterDeployment,
        "How many pods answer.",
    ),
];

static DASHBOARD: &[Field] = &[
    field("enabled", Bool, Default("true"), ClusterDeployment, "Whether it is installed."),
    field(
        "image",
        IMAGE,
        Derived("spec.images.windlassNode"),
        ClusterDeployment,
        "Its image; windlass' own page by default.",
    ),
];

static OS_UPDATE: &[Field] = &[
    field(
        "onJoin",
        Bool,
        Default("true"),
        RuntimeAddons,
        "Whether a machine looks for an update before it joins (--upgrade-os).",
    ),
    field(
        "reboots",
        Words(Reboots::WORDS),
        Default("coordinated"),
        RuntimeAddons,
        "Whether machines of a running cluster reboot into an update.",
    ),
    field(
        "channel",
        WORD,
        Default("stable"),
        NodeBootstrap,
        "The channel that is asked for updates; platform local has stable, which offers none, and beta, which offers one.",
    ),
];

static ARTIFACTS: &[Field] = &[
    field(
        "source",
        Words(ArtifactSource::WORDS),
        Default("auto"),
        RuntimeAddons,
        "Released binaries, binaries built from source, or the first if the mirror answers.",
    ),
    field(
        "mirror",
        URL,
        Default("https://dl.k8s.io"),
        RuntimeAddons,
        "The base URL of released binaries, in the official layout.",
    ),
    field(
        "addonManifestURL",
        ANY_TEXT,
        Derived("spec.domain: the cluster's own bucket"),
        RuntimeAddons,
        "Where machines find the manifest of runtime addons; {{.Board}} and {{.OSVersion}} are filled in.",
    ),
];

fn address(text: &str) -> Result<(), String> {
    let parsed: Result<Ipv4Addr, _> = text.parse();
    parsed.map(drop).map_err(|_| format!("{text:?} is not an IPv4 address: write it as 10.96.0.10"))
}

fn image(text: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let name = text.split(['@']).next().unwrap_or_default();
    let tagged = name.rsplit('/').next().is_some_and(|last| last.contains(':')) || text.contains("@sha256:");
    let edges = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && !text.ends_with([':', '/', '@']);
    if text.len() <= 512 && edges && tagged && text.chars().all(good) && !text.contains("//") {
        return Ok(());
    }
    Err(format!("{text:?} is not an image reference with a tag or digest: write it as registry.example/name:tag"))
}

fn url(text: &str) -> Result<(), String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let good = |c: char| c.is_ascii_graphic() && !"\"'<>`\\@".contains(c);
    if !host.is_empty() && text.len() <= 2048 && text.chars().all(good) {
        return Ok(());
    }
    Err(format!("{text:?} is not an http or https URL"))
}

fn mode(text: &str) -> Result<(), String> {
    let digits = text.len() == 4 && text.starts_with('0') && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if digits {
        Ok(())
    } else {
        Err(format!("{text:?} is not a file mode: write four octal digits in quotes, such as \"0644\""))
    }
}

fn path(text: &str) -> Result<(), String> {
    let parts = text.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>());
    let plain = |p: &&str| !p.is_empty() && *p != "." && *p != ".." && p.chars().all(|c| c >= ' ' && c != '\u{7f}');
    match parts {
        Some(parts) if text.len() <= 1024 && parts.iter().all(plain) => Ok(()),
        Some(_) | None => Err(format!("{text:?} is not an absolute path without . and .. in it")),
    }
}

fn unit(text: &str) -> Result<(), String> {
    let kinds = [".service", ".target", ".path", ".timer", ".socket", ".mount"];
    let good = |c: char| c.is_ascii_alphanumeric() || "._-@:\\".contains(c);
    if text.len() <= 255 && kinds.iter().any(|k| text.ends_with(k) && text.len() > k.len()) && text.chars().all(good) {
        return Ok(());
    }
    Err(format!("{text:?} is not a systemd unit name: write it as kubelet.service"))
}

fn word(text: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !text.is_empty() && text.len() <= 128 && text.chars().all(good) {
        return Ok(());
    }
    Err(format!("{text:?} is not a word of letters, digits, dots, hyphens and underscores"))
}
