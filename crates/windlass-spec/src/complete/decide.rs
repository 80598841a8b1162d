//! Completing: from what was written to what is decided, with every problem reported at once.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{
    Addons, Artifacts, CompleteCluster, CompleteMetadata, CompleteSpec, Components, CoreDns, Dashboard, FlagsAndConfig,
    FlagsOnly, Images, InstanceGroup, Network, OsUpdate, Versions, components, groups,
};
use crate::file::{
    ArtifactSource, Aws, ClusterFile, Delivery, Gce, Libvirt, Local, LocalChannel, NetworkFile, NetworkPlugin,
    Platform, PlatformFile, Reboots, Role, SpecFile, Ssh, Topology,
};
use crate::name::{ClusterName, Domain};
use crate::network::{MachineCidr, PodCidr, ServiceCidr, nth, overlap, size};
use crate::problem::{Problem, Problems};
use crate::version::KubeVersion;

/// Makes every decision that a spec leaves open, or says all that is wrong with it.
pub fn complete(file: &SpecFile) -> Result<CompleteSpec, Problems> {
    let mut problems = Vec::new();
    let name = file.metadata.name.clone().unwrap_or_else(|| {
        problems.push(Problem::at("metadata.name", "is missing: a cluster name is wanted"));
        ClusterName::parse("unnamed").expect("it is a good name")
    });
    let spec = cluster(&name, &file.spec, &mut problems);
    if problems.is_empty() {
        let api_version = "windlass.dev/v1alpha1".to_owned();
        return Ok(CompleteSpec { api_version, kind: "Cluster".to_owned(), metadata: CompleteMetadata { name }, spec });
    }
    Err(Problems::sorted(problems))
}

fn cluster(name: &ClusterName, file: &ClusterFile, problems: &mut Vec<Problem>) -> CompleteCluster {
    let domain = file.domain.clone().unwrap_or_else(|| default_domain(name));
    let kubernetes_version = file.kubernetes_version.unwrap_or(KubeVersion::DEFAULT);
    let topology = file.topology.unwrap_or(Topology::SelfHosted);
    let platform = platform(file.platform.as_ref());
    let versions = versions(kubernetes_version, file);
    let images = images(kubernetes_version, &versions, file);
    let addresses = Fixed::decide(&file.network, problems);
    let instance_groups = groups::decide(file, addresses.net, &addresses.all(), problems);
    let network = network(&file.network, &instance_groups, &addresses, problems);
    check_platform(&platform, topology, &instance_groups, problems);
    let os_update = os_update(file);
    check_channel(&platform, &os_update.channel, problems);
    let addons = addons(file, &images, &instance_groups);
    let metadata = CompleteMetadata { name: name.clone() };
    let mut spec = CompleteCluster {
        artifacts: artifacts(file, &domain),
        domain,
        kubernetes_version,
        topology,
        bootstrap_assets: file.bootstrap_assets.unwrap_or(Delivery::Pull),
        platform,
        versions,
        images,
        network,
        instance_groups,
        components: no_components(),
        addons,
        os_update,
    };
    spec.components = components::decide(&metadata, &spec, &file.components, problems);
    spec
}

fn default_domain(name: &ClusterName) -> Domain {
    Domain::parse(&format!("{name}.test")).expect("a cluster name is a label, and two labels are a domain")
}

fn platform(written: Option<&PlatformFile>) -> Platform {
    match written {
        None => Platform::Local(Local::decide(&Default::default())),
        Some(PlatformFile::Local(p)) => Platform::Local(Local::decide(&p.clone().unwrap_or_default())),
        Some(PlatformFile::Aws(p)) => Platform::Aws(Aws::decide(&p.clone().unwrap_or_default())),
        Some(PlatformFile::Gce(p)) => Platform::Gce(Gce::decide(&p.clone().unwrap_or_default())),
        Some(PlatformFile::Libvirt(p)) => Platform::Libvirt(Libvirt::decide(&p.clone().unwrap_or_default())),
        Some(PlatformFile::Ssh(p)) => Platform::Ssh(Ssh::decide(&p.clone().unwrap_or_default())),
    }
}

fn check_platform(platform: &Platform, topology: Topology, groups: &[InstanceGroup], problems: &mut Vec<Problem>) {
    if let Platform::Ssh(ssh) = platform {
        let machines: usize = groups.iter().map(|g| g.count as usize).sum();
        if ssh.hosts.len() != machines {
            let message = format!("{} addresses for {machines} machines: name one for each", ssh.hosts.len());
            problems.push(Problem::at("spec.platform.ssh.hosts", message));
        }
    }
    if topology == Topology::Volumes && matches!(platform, Platform::Ssh(_) | Platform::Libvirt(_)) {
        let message = format!("volumes that move are not to be had on platform {}: use self-hosted", platform.as_str());
        problems.push(Problem::at("spec.topology", message));
    }
}

/// Which channels there are is known of the local platform alone.
fn check_channel(platform: &Platform, channel: &str, problems: &mut Vec<Problem>) {
    if matches!(platform, Platform::Local(_)) && LocalChannel::parse(channel).is_none() {
        let channels = LocalChannel::WORDS.join(" or ");
        let message = format!("platform local has no channel {channel}: use {channels}");
        problems.push(Problem::at("spec.osUpdate.channel", message));
    }
}

fn versions(version: KubeVersion, file: &ClusterFile) -> Versions {
    let companions = version.companions();
    let pick = |key: &str, default: &str| {
        let written = file.versions.get(key).map_or(default, String::as_str);
        written.strip_prefix('v').unwrap_or(written).to_owned()
    };
    Versions {
        etcd: pick("etcd", companions.etcd),
        containerd: pick("containerd", companions.containerd),
        runc: pick("runc", companions.runc),
        cni: pick("cni", companions.cni),
        core_dns: pick("coreDNS", companions.core_dns),
        flannel: pick("flannel", companions.flannel),
        pause: pick("pause", companions.pause),
    }
}

fn images(version: KubeVersion, versions: &Versions, file: &ClusterFile) -> Images {
    let pick = |key: &str, default: String| file.images.get(key).cloned().unwrap_or(default);
    let kubernetes = |key: &str, program: &str| pick(key, format!("registry.k8s.io/{program}:v{version}"));
    Images {
        kube_api_server: kubernetes("kubeAPIServer", "kube-apiserver"),
        kube_controller_manager: kubernetes("kubeControllerManager", "kube-controller-manager"),
        kube_scheduler: kubernetes("kubeScheduler", "kube-scheduler"),
        kube_proxy: kubernetes("kubeProxy", "kube-proxy"),
        etcd: pick("etcd", format!("registry.k8s.io/etcd:{}-0", versions.etcd)),
        core_dns: pick("coreDNS", format!("registry.k8s.io/coredns/coredns:v{}", versions.core_dns)),
        flannel: pick("flannel", format!("ghcr.io/flannel-io/flannel:v{}", versions.flannel)),
        pause: pick("pause", format!("registry.k8s.io/pause:{}", versions.pause)),
        windlass_node: pick("windlassNode", format!("windlass.dev/windlass-node:v{}", env!("CARGO_PKG_VERSION"))),
    }
}

/// The machines' range and the addresses in it that are nobody's but one.
struct Fixed {
    net: Ipv4Net,
    gateway: Ipv4Addr,
    balancer: Ipv4Addr,
    bootstrap: Ipv4Addr,
}

impl Fixed {
    fn decide(file: &NetworkFile, problems: &mut Vec<Problem>) -> Self {
        let written = file.machine_cidr.map(|c| c.net());
        let mut net = written.unwrap_or_else(|| range("172.30.0.0/16"));
        if size(net) < 32 {
            problems.push(Problem::at("spec.network.machineCIDR", format!("{net} is too small: use /27 or wider")));
            net = range("172.30.0.0/16");
        }
        let pick = |written: Option<Ipv4Addr>, n| written.or_else(|| nth(net, n)).unwrap_or(net.network());
        let fixed = Fixed {
            net,
            gateway: pick(file.gateway, 1),
            balancer: pick(file.balancer, 2),
            bootstrap: pick(file.bootstrap, 3),
        };
        let mut seen = Vec::new();
        for (name, address) in
            [("gateway", fixed.gateway), ("balancer", fixed.balancer), ("bootstrap", fixed.bootstrap)]
        {
            let path = format!("spec.network.{name}");
            if !net.contains(&address) || address == net.network() || address == net.broadcast() {
                problems.push(Problem::at(path, format!("{address} is no machine's address in {net}")));
            } else if seen.contains(&address) {
                problems.push(Problem::at(
                    path,
                    format!("{address} is used by gateway, balancer or bootstrap machine already"),
                ));
            }
            seen.push(address);
        }
        fixed
    }

    fn all(&self) -> [Ipv4Addr; 3] {
        [self.gateway, self.balancer, self.bootstrap]
    }
}

fn range(text: &str) -> Ipv4Net {
    text.parse().expect("the default ranges are good ones")
}

fn network(file: &NetworkFile, groups: &[InstanceGroup], fixed: &Fixed, problems: &mut Vec<Problem>) -> Network {
    let machines: u64 = groups.iter().map(|g| u64::from(g.count)).sum();
    let node_prefix = file.node_prefix.unwrap_or(24);
    let pods = file.pod_cidr.map_or_else(|| wide_enough(machines, node_prefix), |c| c.net());
    let services = file.service_cidr.map_or_else(|| range("10.96.0.0/16"), |c| c.net());
    check_pods(pods, node_prefix, machines, problems);
    check_ranges(pods, services, fixed.net, problems);
    let first = nth(services, 1).unwrap_or(services.network());
    let api_service_ip = file.api_service_ip.unwrap_or(first);
    let dns_service_ip = file.dns_service_ip.or_else(|| nth(services, 10)).unwrap_or(first);
    check_services(services, api_service_ip, dns_service_ip, problems);
    Network {
        plugin: file.plugin.unwrap_or(NetworkPlugin::Flannel),
        machine_cidr: MachineCidr::of(fixed.net),
        pod_cidr: PodCidr::of(pods),
        node_prefix,
        service_cidr: ServiceCidr::of(services),
        api_service_ip,
        dns_service_ip,
        cluster_domain: file
            .cluster_domain
            .clone()
            .unwrap_or_else(|| Domain::parse("cluster.local").expect("it is a domain")),
        mtu: file.mtu.unwrap_or(1500),
        gateway: fixed.gateway,
        balancer: fixed.balancer,
        bootstrap: fixed.bootstrap,
    }
}

/// The default pod range: 10.244.0.0/16, or as much more around it as the machines need.
fn wide_enough(machines: u64, node_prefix: u8) -> Ipv4Net {
    let fits = |prefix: &u8| nodes(*prefix, node_prefix) >= machines.max(1);
    let prefix = (9..=16u8).rev().find(fits).unwrap_or(9);
    Ipv4Net::new(Ipv4Addr::new(10, 244, 0, 0), prefix).map(|n| n.trunc()).expect("the prefix is at most 16")
}

/// How many nodes a pod range serves.
fn nodes(prefix: u8, node_prefix: u8) -> u64 {
    if node_prefix < prefix { 0 } else { 1 << (node_prefix - prefix) }
}

fn check_pods(pods: Ipv4Net, node_prefix: u8, machines: u64, problems: &mut Vec<Problem>) {
    let room = nodes(pods.prefix_len(), node_prefix);
    let bits = node_prefix.saturating_sub(pods.prefix_len());
    if room < machines {
        let message = format!(
            "{pods} has room for {room} nodes with /{node_prefix} each, and there are {machines}: use a wider range"
        );
        problems.push(Problem::at("spec.network.podCIDR", message));
    } else if bits > 16 {
        // kube-controller-manager keeps one bit for each possible node and refuses more than 16 bits.
        let message = format!(
            "/{node_prefix} parts of {pods} are more than 65,536, which Kubernetes refuses: use a shorter nodePrefix"
        );
        problems.push(Problem::at("spec.network.nodePrefix", message));
    }
}

fn check_ranges(pods: Ipv4Net, services: Ipv4Net, machines: Ipv4Net, problems: &mut Vec<Problem>) {
    let ranges = [("podCIDR", pods), ("serviceCIDR", services), ("machineCIDR", machines)];
    for (i, (name, net)) in ranges.iter().enumerate() {
        for (other, used) in &ranges[..i] {
            if overlap(*net, *used) {
                let message = format!("{net} overlaps {other} {used}: give each its own range");
                problems.push(Problem::at(format!("spec.network.{name}"), message));
            }
        }
        for (what, used) in [
            ("link-local addresses", "169.254.0.0/16"),
            ("loopback", "127.0.0.0/8"),
            ("multicast", "224.0.0.0/3"),
            ("this network", "0.0.0.0/8"),
        ] {
            if overlap(*net, range(used)) {
                let message = format!("{net} overlaps {used}, which is for {what}");
                problems.push(Problem::at(format!("spec.network.{name}"), message));
            }
        }
    }
}

fn check_services(services: Ipv4Net, api: Ipv4Addr, dns: Ipv4Addr, problems: &mut Vec<Problem>) {
    if !(12..=28).contains(&services.prefix_len()) {
        let message = format!("{services} is not between /12 and /28, which is what Kubernetes takes");
        problems.push(Problem::at("spec.network.serviceCIDR", message));
        return;
    }
    if Some(api) != nth(services, 1) {
        let message =
            format!("{api} is not the first address of {services}, which Kubernetes gives to the kubernetes service");
        problems.push(Problem::at("spec.network.apiServiceIP", message));
    }
    if !services.contains(&dns) || dns == api || dns == services.network() || dns == services.broadcast() {
        let message = format!("{dns} is not a free address of {services}");
        problems.push(Problem::at("spec.network.dnsServiceIP", message));
    }
}

fn addons(file: &ClusterFile, images: &Images, groups: &[InstanceGroup]) -> Addons {
    let machines: u32 = groups.iter().map(|g| g.count).fold(0, u32::saturating_add);
    let workers: u32 = groups.iter().filter(|g| g.role == Role::Worker).map(|g| g.count).fold(0, u32::saturating_add);
    let replicas = if workers == 1 || machines == 1 { 1 } else { 2 };
    let written = &file.addons;
    Addons {
        core_dns: CoreDns {
            enabled: written.core_dns.enabled.unwrap_or(true),
            replicas: written.core_dns.replicas.unwrap_or(replicas),
        },
        dashboard: Dashboard {
            enabled: written.dashboard.enabled.unwrap_or(true),
            image: written.dashboard.image.clone().unwrap_or_else(|| images.windlass_node.clone()),
        },
    }
}

fn os_update(file: &ClusterFile) -> OsUpdate {
    OsUpdate {
        on_join: file.os_update.on_join.unwrap_or(true),
        reboots: file.os_update.reboots.unwrap_or(Reboots::Coordinated),
        channel: file.os_update.channel.clone().unwrap_or_else(|| "stable".to_owned()),
    }
}

/// Where a cluster's own bucket of runtime addons is, as a template.
pub fn addon_manifest_url(domain: &str) -> String {
    format!("http://objects.internal.{domain}/o/addons/{{{{.Board}}}}/{{{{.OSVersion}}}}/torcx_manifest.json")
}

fn artifacts(file: &ClusterFile, domain: &Domain) -> Artifacts {
    let bucket = || addon_manifest_url(domain.as_str());
    Artifacts {
        source: file.artifacts.source.unwrap_or(ArtifactSource::Auto),
        mirror: file.artifacts.mirror.clone().unwrap_or_else(|| "https://dl.k8s.io".to_owned()),
        addon_manifest_url: file.artifacts.addon_manifest_url.clone().unwrap_or_else(bucket),
    }
}

fn no_components() -> Components {
    let flags = || FlagsOnly { flags: Default::default() };
    let both = || FlagsAndConfig { flags: Default::default(), config: Default::default() };
    Components {
        kube_api_server: flags(),
        kube_controller_manager: flags(),
        kube_scheduler: flags(),
        kubelet: both(),
        kube_proxy: both(),
        etcd: flags(),
    }
}
