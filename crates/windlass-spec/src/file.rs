//! The spec as written: every field optional, unknown ones rejected before this type is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::complete::Flags;
use crate::name::{ClusterName, Domain, GroupName};
use crate::network::{MachineCidr, PodCidr, ServiceCidr};
use crate::version::KubeVersion;

/// What a user wrote. A field that is `None` is windlass' to decide.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpecFile {
    /// What the cluster is called.
    pub metadata: MetadataFile,
    /// What the cluster is.
    pub spec: ClusterFile,
}

/// `metadata` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataFile {
    /// The cluster's name.
    pub name: Option<ClusterName>,
}

/// `spec` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterFile {
    /// The domain under which the cluster's names lie.
    pub domain: Option<Domain>,
    /// The version of the Kubernetes components.
    pub kubernetes_version: Option<KubeVersion>,
    /// How the control plane runs.
    pub topology: Option<Topology>,
    /// How the bootstrap machine gets what it starts the control plane with.
    pub bootstrap_assets: Option<Delivery>,
    /// Short for a group of masters of this size.
    pub masters: Option<u32>,
    /// Short for a group of workers of this size.
    pub workers: Option<u32>,
    /// Where the machines come from.
    pub platform: Option<PlatformFile>,
    /// The versions of what goes with Kubernetes, by name.
    pub versions: BTreeMap<String, String>,
    /// Images, by the name of what runs in them.
    pub images: BTreeMap<String, String>,
    /// Address ranges and fixed addresses.
    pub network: NetworkFile,
    /// The machines, by group.
    pub instance_groups: Option<Vec<InstanceGroupFile>>,
    /// Flags and configuration, by component.
    pub components: BTreeMap<String, ComponentFile>,
    /// What is added to the bare cluster.
    pub addons: AddonsFile,
    /// Whether and when machines take a new operating system.
    pub os_update: OsUpdateFile,
    /// Where binaries and images come from.
    pub artifacts: ArtifactsFile,
}

/// `spec.network` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of `complete::Network`, which says what they are")]
pub struct NetworkFile {
    pub plugin: Option<NetworkPlugin>,
    #[serde(rename = "machineCIDR")]
    pub machine_cidr: Option<MachineCidr>,
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<PodCidr>,
    pub node_prefix: Option<u8>,
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: Option<ServiceCidr>,
    #[serde(rename = "apiServiceIP")]
    pub api_service_ip: Option<std::net::Ipv4Addr>,
    #[serde(rename = "dnsServiceIP")]
    pub dns_service_ip: Option<std::net::Ipv4Addr>,
    pub cluster_domain: Option<Domain>,
    pub mtu: Option<u32>,
    pub gateway: Option<std::net::Ipv4Addr>,
    pub balancer: Option<std::net::Ipv4Addr>,
    pub bootstrap: Option<std::net::Ipv4Addr>,
}

/// An entry of `spec.instanceGroups` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of `complete::InstanceGroup`, which says what they are")]
pub struct InstanceGroupFile {
    pub name: Option<GroupName>,
    pub role: Option<Role>,
    pub count: Option<u32>,
    pub first_address: Option<std::net::Ipv4Addr>,
    pub cpus: Option<u32>,
    #[serde(rename = "memoryMiB")]
    pub memory_mib: Option<u32>,
    pub file_assets: Vec<FileAsset>,
    pub additional_user_data: Vec<AdditionalUserData>,
    pub hooks: Vec<Hook>,
}

/// A component's entry as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ComponentFile {
    /// Flags to add, change or (with `null`) remove.
    pub flags: Flags,
    /// Configuration to add, change or (with `null`) remove.
    pub config: Map<String, Value>,
}

/// `spec.addons` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of `complete::Addons`, which says what they are")]
pub struct AddonsFile {
    #[serde(rename = "coreDNS")]
    pub core_dns: CoreDnsFile,
    pub dashboard: DashboardFile,
}

/// `spec.addons.coreDNS` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of `complete::CoreDns`, which says what they are")]
pub struct CoreDnsFile {
    pub enabled: Option<bool>,
    pub replicas: Option<u32>,
}

/// `spec.addons.dashboard` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of `complete::Dashboard`, which says what they are")]
pub struct DashboardFile {
    pub enabled: Option<bool>,
    pub image: Option<String>,
}

/// `spec.osUpdate` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of `complete::OsUpdate`, which says what they are")]
pub struct OsUpdateFile {
    pub on_join: Option<bool>,
    pub reboots: Option<Reboots>,
    pub channel: Option<String>,
}

/// `spec.artifacts` as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of `complete::Artifacts`, which says what they are")]
pub struct ArtifactsFile {
    pub source: Option<ArtifactSource>,
    pub mirror: Option<String>,
    #[serde(rename = "addonManifestURL")]
    pub addon_manifest_url: Option<String>,
}

/// Declares a closed set of words of the spec.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $type {
            /// Every word, in the order of the reference.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word as the spec writes it.
            pub fn as_str(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }

            /// The value of a word.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some($type::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// What a machine is for.
    Role {
        /// A control-plane machine.
        Master = "master",
        /// A machine for the user's workloads.
        Worker = "worker",
    }
);
words!(
    /// How the control plane runs.
    Topology {
        /// As pods of the cluster itself, started by a bootstrap machine that goes away.
        SelfHosted = "self-hosted",
        /// As static pods, with etcd on volumes that move between masters.
        Volumes = "volumes",
    }
);
words!(
    /// How the bootstrap machine gets what it starts the control plane with.
    Delivery {
        /// The machine fetches it from the cluster's object store.
        Pull = "pull",
        /// Launch brings it over SSH.
        Push = "push",
    }
);
words!(
    /// What connects the pods.
    NetworkPlugin {
        /// flannel with its Kubernetes subnet manager.
        Flannel = "flannel",
        /// Nothing of windlass'; the user brings a plugin.
        None = "none",
    }
);
words!(
    /// Whether machines may reach the outside.
    Egress {
        /// If the host has a user-mode network program.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
);
words!(
    /// Whether machines of a running cluster reboot into a new operating system.
    Reboots {
        /// One at a time, drained, each held until its hooks agree.
        Coordinated = "coordinated",
        /// Never by themselves.
        Never = "never",
    }
);
words!(
    /// The channels of the local platform. Other platforms have their own, so the spec's field is any word.
    LocalChannel {
        /// Machines stay with the operating system that they boot first.
        Stable = "stable",
        /// The next one is offered.
        Beta = "beta",
    }
);
words!(
    /// How binaries and images are had.
    ArtifactSource {
        /// Released ones if the mirror answers, else built from source.
        Auto = "auto",
        /// Released ones from the mirror.
        Release = "release",
        /// Built from source.
        Source = "source",
    }
);
words!(
    /// How a file's content is written in the spec.
    Encoding {
        /// As it is.
        Text = "text",
        /// In base64.
        Base64 = "base64",
    }
);
words!(
    /// What kind of user data is added.
    UserDataType {
        /// An Ignition config, merged into the machine's.
        Ignition = "ignition",
        /// A script, run once.
        Shell = "shell",
    }
);

/// A file that a user puts on machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileAsset {
    /// Where it lies on the machine.
    pub path: String,
    /// What is in it.
    pub content: String,
    /// How `content` is written.
    #[serde(default = "text")]
    pub encoding: Encoding,
    /// Its permissions, in octal.
    #[serde(default = "private")]
    pub mode: String,
}

fn text() -> Encoding {
    Encoding::Text
}

fn private() -> String {
    "0600".to_owned()
}

/// An Ignition fragment or a script that a user adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdditionalUserData {
    /// What it is called in logs.
    pub name: GroupName,
    /// What kind it is.
    #[serde(rename = "type")]
    pub kind: UserDataType,
    /// The fragment or script itself.
    pub content: String,
}

/// A unit that a user has run on machines, around others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// What it is called: the unit is `windlass-hook-<name>.service`.
    pub name: GroupName,
    /// Units that wait for it.
    #[serde(default)]
    pub before: Vec<String>,
    /// Units that it waits for.
    #[serde(default)]
    pub after: Vec<String>,
    /// The command and its arguments; run on the machine, or in `image` if that is given.
    pub exec: Vec<String>,
    /// The image whose container runs the command, with the machine's root at `/rootfs`; without one the machine runs it
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// Where the machines come from, as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the variants are those of `Platform`, which says what they are")]
pub enum PlatformFile {
    Local(Option<LocalFile>),
    Aws(Option<AwsFile>),
    Gce(Option<GceFile>),
    Libvirt(Option<LibvirtFile>),
    Ssh(Option<SshFile>),
}

/// Where the machines come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Platform {
    /// Machines on this Linux box.
    Local(Local),
    /// Amazon EC2.
    Aws(Aws),
    /// Google Compute Engine.
    Gce(Gce),
    /// Virtual machines of a libvirt host.
    Libvirt(Libvirt),
    /// Machines that exist already.
    Ssh(Ssh),
}

impl Platform {
    /// The names by which `--provider` and the spec call the platforms.
    pub const WORDS: &'static [&'static str] = &["local", "aws", "gce", "libvirt", "ssh"];

    /// The platform's name in the spec.
    pub fn as_str(&self) -> &'static str {
        match self {
            Platform::Local(_) => "local",
            Platform::Aws(_) => "aws",
            Platform::Gce(_) => "gce",
            Platform::Libvirt(_) => "libvirt",
            Platform::Ssh(_) => "ssh",
        }
    }
}

/// Declares a platform's settings twice: as written, with every field optional, and as decided.
macro_rules! platform {
    ($(#[$doc:meta])* $file:ident, $type:ident { $($(#[$fdoc:meta])* $field:ident : $of:ty = $default:expr),+ $(,)? }) => {
        #[doc = concat!("[`", stringify!($type), "`] as written.")]
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $file { $($(#[$fdoc])* pub $field: Option<$of>),+ }

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $type { $($(#[$fdoc])* pub $field: $of),+ }

        impl $type {
            /// What was written, with what was not filled in.
            pub fn decide(file: &$file) -> Self {
                $type { $($field: file.$field.clone().unwrap_or_else(|| $default)),+ }
            }
        }
    };
}

platform!(
    /// Machines on this Linux box.
    LocalFile, Local {
        /// Whether machines may reach the outside.
        egress: Egress = Egress::Auto,
        /// The port on 127.0.0.1 that reaches the API.
        api_port: u16 = 6443,
    }
);
platform!(
    /// Amazon EC2.
    AwsFile, Aws {
        /// The region.
        region: String = "us-east-1".to_owned(),
        /// The type of every machine.
        instance_type: String = "m6i.large".to_owned(),
    }
);
platform!(
    /// Google Compute Engine.
    GceFile, Gce {
        /// The project.
        project: String = String::new(),
        /// The zone.
        zone: String = "europe-west1-b".to_owned(),
        /// The type of every machine.
        machine_type: String = "e2-standard-2".to_owned(),
    }
);
platform!(
    /// Virtual machines of a libvirt host.
    LibvirtFile, Libvirt {
        /// How the host is reached.
        uri: String = "qemu:///system".to_owned(),
        /// The storage pool of the disks.
        pool: String = "default".to_owned(),
    }
);
platform!(
    /// Machines that exist already.
    SshFile, Ssh {
        /// Their addresses, masters first, in the order of the groups.
        hosts: Vec<std::net::Ipv4Addr> = Vec::new(),
        /// The user that windlass logs in as.
        user: String = "root".to_owned(),
        /// The port of the SSH server.
        port: u16 = 22,
    }
);

/// A spec file that was read: the values for deciding, and the lines for speaking about them.
#[derive(Debug, Clone)]
pub struct SpecDocument {
    /// The file with its lines.
    pub node: crate::yaml::Node,
    /// The file's values.
    pub file: SpecFile,
}

/// Reads a spec and completes it, or says all that is wrong with it: shape and sense in one list.
pub fn read_and_complete(bytes: &[u8]) -> Result<(SpecDocument, crate::CompleteSpec), crate::Problems> {
    use crate::problem::{Problem, Problems};

    let node = crate::yaml::read(bytes, &crate::yaml::Budget::SPEC)?;
    let crate::schema::Checked { good, mut problems } = crate::schema::check(&node);
    let file: SpecFile = match serde_json::from_value(good) {
        Ok(file) => file,
        Err(error) => {
            problems.push(Problem::in_document(0, format!("the spec cannot be read: {error}")));
            return Err(Problems::sorted(problems));
        }
    };
    match crate::complete(&file) {
        Ok(spec) if problems.is_empty() => Ok((SpecDocument { node, file }, spec)),
        Ok(_) => Err(Problems::sorted(problems)),
        Err(Problems(more)) => {
            // What follows from a part that was left out as bad would only repeat it.
            let touches = |a: &str, b: &str| a.starts_with(b) || b.starts_with(a);
            let fresh = more.into_iter().filter(|p| problems.iter().all(|q| !touches(&p.path, &q.path)));
            let fresh: Vec<Problem> = fresh.map(|p| Problem { line: node.line_of(&p.path), ..p }).collect();
            problems.extend(fresh);
            Err(Problems::sorted(problems))
        }
    }
}
