//! The spec as decided: [`CompleteSpec`] has no open question left, every flag of every component
//! included. It is itself a valid spec and completes to itself.

pub mod components;
mod decide;
mod groups;
mod machines;
pub mod table;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use decide::{addon_manifest_url, complete};
pub use machines::{Machine, machines};
pub use table::{Decided, decided};

use crate::file::{AdditionalUserData, Delivery, FileAsset, Hook, Platform, Role, Topology};
use crate::name::{ClusterName, Domain, GroupName};
use crate::network::{MachineCidr, PodCidr, ServiceCidr};
use crate::version::KubeVersion;

/// A cluster with every decision made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteSpec {
    /// Always `windlass.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Cluster`.
    pub kind: String,
    /// What the cluster is called.
    pub metadata: CompleteMetadata,
    /// What the cluster is.
    pub spec: CompleteCluster,
}

/// What the cluster is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteMetadata {
    /// The cluster's name.
    pub name: ClusterName,
}

/// What the cluster is: the body of the spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteCluster {
    /// The domain under which the cluster's names lie.
    pub domain: Domain,
    /// The version of the Kubernetes components.
    pub kubernetes_version: KubeVersion,
    /// How the control plane runs.
    pub topology: Topology,
    /// How the bootstrap machine gets what it starts the control plane with.
    pub bootstrap_assets: Delivery,
    /// Where the machines come from.
    pub platform: Platform,
    /// The versions of what goes with Kubernetes.
    pub versions: Versions,
    /// The image of every container that windlass starts.
    pub images: Images,
    /// Address ranges and fixed addresses.
    pub network: Network,
    /// The machines, by group.
    pub instance_groups: Vec<InstanceGroup>,
    /// The flags and configuration of each component.
    pub components: Components,
    /// What is added to the bare cluster.
    pub addons: Addons,
    /// Whether and when machines take a new operating system.
    pub os_update: OsUpdate,
    /// Where binaries and images come from.
    pub artifacts: Artifacts,
}

/// The versions of what goes with Kubernetes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Versions {
    /// etcd's.
    pub etcd: String,
    /// containerd's.
    pub containerd: String,
    /// runc's.
    pub runc: String,
    /// The CNI plugins'.
    pub cni: String,
    /// CoreDNS'.
    #[serde(rename = "coreDNS")]
    pub core_dns: String,
    /// flannel's.
    pub flannel: String,
    /// The pause image's.
    pub pause: String,
}

/// The image of every container that windlass starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Images {
    /// kube-apiserver's.
    #[serde(rename = "kubeAPIServer")]
    pub kube_api_server: String,
    /// kube-controller-manager's.
    pub kube_controller_manager: String,
    /// kube-scheduler's.
    pub kube_scheduler: String,
    /// kube-proxy's.
    pub kube_proxy: String,
    /// etcd's.
    pub etcd: String,
    /// CoreDNS'.
    #[serde(rename = "coreDNS")]
    pub core_dns: String,
    /// flannel's.
    pub flannel: String,
    /// The sandbox image.
    pub pause: String,
    /// windlass' own program for machines.
    pub windlass_node: String,
}

/// Address ranges and fixed addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Network {
    /// What connects the pods.
    pub plugin: crate::file::NetworkPlugin,
    /// Where the machines' addresses lie.
    #[serde(rename = "machineCIDR")]
    pub machine_cidr: MachineCidr,
    /// Where pod addresses lie.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: PodCidr,
    /// The prefix length of each node's part of the pod range.
    pub node_prefix: u8,
    /// Where service addresses lie.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: ServiceCidr,
    /// The address of the `kubernetes` service.
    #[serde(rename = "apiServiceIP")]
    pub api_service_ip: Ipv4Addr,
    /// The address of the cluster's DNS service.
    #[serde(rename = "dnsServiceIP")]
    pub dns_service_ip: Ipv4Addr,
    /// The domain of services and pods.
    pub cluster_domain: Domain,
    /// The largest packet on the machines' network.
    pub mtu: u32,
    /// The gateway of the machines' network, which also answers for names.
    pub gateway: Ipv4Addr,
    /// The balancer's address, where `api.<domain>` points.
    pub balancer: Ipv4Addr,
    /// The bootstrap machine's address (topology `self-hosted`).
    pub bootstrap: Ipv4Addr,
}

/// A group of machines that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceGroup {
    /// The group's name, and the first part of its machines' names.
    pub name: GroupName,
    /// What the machines are for.
    pub role: Role,
    /// How many machines.
    pub count: u32,
    /// The address of the first; the others follow it.
    pub first_address: Ipv4Addr,
    /// The most processors a machine may use.
    pub cpus: u32,
    /// The most memory a machine may use.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u32,
    /// Files put on each machine.
    pub file_assets: Vec<FileAsset>,
    /// Ignition fragments and scripts for each machine.
    pub additional_user_data: Vec<AdditionalUserData>,
    /// Units run on each machine.
    pub hooks: Vec<Hook>,
}

/// A flag's value as the spec writes it; `null` removes the flag.
pub type Flags = BTreeMap<String, Value>;

/// The flags and configuration of each component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Components {
    /// kube-apiserver.
    #[serde(rename = "kubeAPIServer")]
    pub kube_api_server: FlagsOnly,
    /// kube-controller-manager.
    pub kube_controller_manager: FlagsOnly,
    /// kube-scheduler.
    pub kube_scheduler: FlagsOnly,
    /// The kubelet.
    pub kubelet: FlagsAndConfig,
    /// kube-proxy.
    pub kube_proxy: FlagsAndConfig,
    /// etcd.
    pub etcd: FlagsOnly,
}

/// A component that is told everything by flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlagsOnly {
    /// All flags that will be passed, by name without dashes.
    pub flags: Flags,
}

/// A component with a configuration file beside its flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlagsAndConfig {
    /// All flags that will be passed, by name without dashes.
    pub flags: Flags,
    /// All fields of the configuration file that will be set.
    pub config: Map<String, Value>,
}

/// What is added to the bare cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addons {
    /// The cluster's DNS.
    #[serde(rename = "coreDNS")]
    pub core_dns: CoreDns,
    /// The cluster's page.
    pub dashboard: Dashboard,
}

/// The cluster's DNS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoreDns {
    /// Whether it is installed.
    pub enabled: bool,
    /// How many pods answer.
    pub replicas: u32,
}

/// The cluster's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dashboard {
    /// Whether it is installed.
    pub enabled: bool,
    /// Its image.
    pub image: String,
}

/// Whether and when machines take a new operating system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OsUpdate {
    /// Whether a machine looks for an update before it joins.
    pub on_join: bool,
    /// Whether machines of a running cluster update, one at a time.
    pub reboots: crate::file::Reboots,
    /// The channel that is asked: on platform local, one of [`LocalChannel`](crate::file::LocalChannel).
    pub channel: String,
}

/// Where binaries and images come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Artifacts {
    /// How they are had.
    pub source: crate::file::ArtifactSource,
    /// The base URL of released binaries.
    pub mirror: String,
    /// Where machines find the manifest of runtime addons.
    #[serde(rename = "addonManifestURL")]
    pub addon_manifest_url: String,
}

impl CompleteSpec {
    /// The spec as YAML, the form of `complete.yaml`.
    pub fn to_yaml(&self) -> String {
        crate::yaml::emit(&self.to_json())
    }

    /// The spec as data.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("every part of a complete spec has a JSON form")
    }

    /// The outside name of the API.
    pub fn api_name(&self) -> String {
        format!("api.{}", self.spec.domain)
    }

    /// The inside name of the API.
    pub fn api_internal_name(&self) -> String {
        format!("api.internal.{}", self.spec.domain)
    }

    /// The name of an etcd member by its index.
    pub fn etcd_name(&self, index: u32) -> String {
        format!("etcd-{index}.internal.{}", self.spec.domain)
    }

    /// How many machines have a role.
    pub fn count(&self, role: Role) -> u32 {
        self.spec.instance_groups.iter().filter(|g| g.role == role).map(|g| g.count).sum()
    }
}
