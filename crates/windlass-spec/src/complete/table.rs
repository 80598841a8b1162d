//! The decisions about flags and configuration, as a table. A value may name other decisions in braces;
//! that is also how `spec explain` knows what a value was derived from.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{CompleteCluster, CompleteMetadata};
use crate::file::{Platform, Role, Topology};
use crate::flags::Component;

/// Whether a row speaks of a flag or of a configuration field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A flag, by its name.
    Flag,
    /// A configuration field, by its dotted path; the value is JSON.
    Config,
}

/// When a row applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Local,
    SelfHosted,
}

struct Row {
    component: Component,
    target: Target,
    name: &'static str,
    value: &'static str,
    when: When,
    why: &'static str,
}

const fn flag(component: Component, name: &'static str, value: &'static str, why: &'static str) -> Row {
    Row { component, target: Target::Flag, name, value, when: When::Always, why }
}

const fn config(component: Component, name: &'static str, value: &'static str, why: &'static str) -> Row {
    Row { component, target: Target::Config, name, value, when: When::Always, why }
}

impl Row {
    const fn when(self, when: When) -> Row {
        Row { when, ..self }
    }
}

use Component::{ApiServer, ControllerManager, Etcd, Kubelet, Proxy, Scheduler};

const AUDIT: &str = "what was asked of the API is kept, within bounds (CIS 1.2.16 to 1.2.19)";
const TRUST: &str = "who is trusted, and with which certificate";
const MACHINES: &str = "the approver on the same machine knows whom a machine's token speaks for";
const SHARING: &str = "a static copy and its pod may overlap while one takes over from the other";
const QUIET: &str = "profiles are not served (CIS)";
const ETCD_TLS: &str = "members and clients prove who they are";

/// Where an API server finds the etcd member of its own machine.
pub const LOCAL_ETCD: &str = "https://127.0.0.1:2379";
/// Those of the controller manager: what it has by default and two more.
pub const ALL_CONTROLLERS: &str = "*,bootstrapsigner,tokencleaner";

#[rustfmt::skip]
static ROWS: &[Row] = &[
    flag(ApiServer, "advertise-address", "$(HOST_IP)", "the machine's own address, known when the container starts"),
    flag(ApiServer, "allow-privileged", "true", "kube-proxy and the network plugin need it"),
    flag(ApiServer, "audit-log-maxage", "30", AUDIT),
    flag(ApiServer, "audit-log-maxbackup", "10", AUDIT),
    flag(ApiServer, "audit-log-maxsize", "100", AUDIT),
    flag(ApiServer, "audit-log-path", "/var/log/kubernetes/audit.log", AUDIT),
    flag(ApiServer, "audit-policy-file", "/etc/kubernetes/config/audit-policy.yaml", AUDIT),
    flag(ApiServer, "authentication-config", "/etc/kubernetes/config/authentication.yaml", "strangers may ask for the health paths and nothing else"),
    flag(ApiServer, "authentication-token-webhook-cache-ttl", "1s", "a burnt token is refused at once").when(When::SelfHosted),
    flag(ApiServer, "authentication-token-webhook-config-file", "/etc/kubernetes/config/token-review.kubeconfig", MACHINES).when(When::SelfHosted),
    flag(ApiServer, "authentication-token-webhook-version", "v1", MACHINES).when(When::SelfHosted),
    flag(ApiServer, "authorization-mode", "Node,RBAC", "kubelets see what is theirs"),
    flag(ApiServer, "client-ca-file", "/etc/kubernetes/pki/ca.crt", TRUST),
    flag(ApiServer, "enable-admission-plugins", "NodeRestriction", "a kubelet changes its own Node only"),
    flag(ApiServer, "enable-bootstrap-token-auth", "true", "the fallback by which a machine may join"),
    flag(ApiServer, "etcd-cafile", "/etc/kubernetes/pki/etcd-ca.crt", TRUST),
    flag(ApiServer, "etcd-certfile", "/etc/kubernetes/pki/apiserver-etcd-client.crt", TRUST),
    flag(ApiServer, "etcd-keyfile", "/etc/kubernetes/pki/apiserver-etcd-client.key", TRUST),
    flag(ApiServer, "etcd-servers", LOCAL_ETCD, "the member of the same machine: an API server is as ready as its member, and opens a third of the connections (each kind of object has its own)"),
    flag(ApiServer, "kubelet-certificate-authority", "/etc/kubernetes/pki/ca.crt", "the API checks that it speaks to a kubelet (CIS 1.2.5)"),
    flag(ApiServer, "kubelet-client-certificate", "/etc/kubernetes/pki/apiserver-kubelet-client.crt", TRUST),
    flag(ApiServer, "kubelet-client-key", "/etc/kubernetes/pki/apiserver-kubelet-client.key", TRUST),
    flag(ApiServer, "kubelet-preferred-address-types", "InternalIP,Hostname", "addresses are in the kubelets' certificates"),
    flag(ApiServer, "permit-port-sharing", "true", SHARING).when(When::SelfHosted),
    flag(ApiServer, "profiling", "false", QUIET),
    flag(ApiServer, "proxy-client-cert-file", "/etc/kubernetes/pki/front-proxy-client.crt", TRUST),
    flag(ApiServer, "proxy-client-key-file", "/etc/kubernetes/pki/front-proxy-client.key", TRUST),
    flag(ApiServer, "requestheader-allowed-names", "front-proxy-client", TRUST),
    flag(ApiServer, "requestheader-client-ca-file", "/etc/kubernetes/pki/front-proxy-ca.crt", TRUST),
    flag(ApiServer, "requestheader-extra-headers-prefix", "X-Remote-Extra-", TRUST),
    flag(ApiServer, "requestheader-group-headers", "X-Remote-Group", TRUST),
    flag(ApiServer, "requestheader-username-headers", "X-Remote-User", TRUST),
    flag(ApiServer, "secure-port", "6443", "the contract's port"),
    flag(ApiServer, "service-account-extend-token-expiration", "false", "a token ends when it says so (CIS 1.2.30)"),
    flag(ApiServer, "service-account-issuer", "https://kubernetes.default.svc.{clusterDomain}", "who signed a token"),
    flag(ApiServer, "service-account-key-file", "/etc/kubernetes/pki/sa.pub", TRUST),
    flag(ApiServer, "service-account-signing-key-file", "/etc/kubernetes/pki/sa.key", TRUST),
    flag(ApiServer, "service-cluster-ip-range", "{serviceCIDR}", "where service addresses lie"),
    flag(ApiServer, "shutdown-delay-duration", "2s", "longer than the balancer takes to see that the server goes"),
    flag(ApiServer, "shutdown-send-retry-after", "true", "who still has a connection is told to come again, and comes to another server"),
    flag(ApiServer, "tls-cert-file", "/etc/kubernetes/pki/apiserver.crt", TRUST),
    flag(ApiServer, "tls-min-version", "VersionTLS12", TRUST),
    flag(ApiServer, "tls-private-key-file", "/etc/kubernetes/pki/apiserver.key", TRUST),

    flag(ControllerManager, "allocate-node-cidrs", "true", "each node gets its part of the pod range"),
    flag(ControllerManager, "authentication-kubeconfig", "/etc/kubernetes/controller-manager.kubeconfig", TRUST),
    flag(ControllerManager, "authorization-kubeconfig", "/etc/kubernetes/controller-manager.kubeconfig", TRUST),
    flag(ControllerManager, "bind-address", "127.0.0.1", "only this machine asks (CIS 1.3.7)"),
    flag(ControllerManager, "client-ca-file", "/etc/kubernetes/pki/ca.crt", TRUST),
    flag(ControllerManager, "cluster-cidr", "{podCIDR}", "where pod addresses lie"),
    flag(ControllerManager, "cluster-name", "{name}", "whose controllers these are"),
    flag(ControllerManager, "cluster-signing-cert-file", "/etc/kubernetes/pki/ca.crt", TRUST),
    flag(ControllerManager, "cluster-signing-key-file", "/etc/kubernetes/pki/ca.key", TRUST),
    flag(ControllerManager, "controllers", ALL_CONTROLLERS, "the join tokens of the fallback are kept and cleaned"),
    flag(ControllerManager, "kubeconfig", "/etc/kubernetes/controller-manager.kubeconfig", TRUST),
    flag(ControllerManager, "leader-elect", "true", "one acts, the others stand by"),
    flag(ControllerManager, "node-cidr-mask-size", "{nodePrefix}", "the size of each node's part"),
    flag(ControllerManager, "permit-port-sharing", "true", SHARING).when(When::SelfHosted),
    flag(ControllerManager, "profiling", "false", QUIET),
    flag(ControllerManager, "requestheader-client-ca-file", "/etc/kubernetes/pki/front-proxy-ca.crt", TRUST),
    flag(ControllerManager, "root-ca-file", "/etc/kubernetes/pki/ca.crt", TRUST),
    flag(ControllerManager, "service-account-private-key-file", "/etc/kubernetes/pki/sa.key", TRUST),
    flag(ControllerManager, "service-cluster-ip-range", "{serviceCIDR}", "where service addresses lie"),
    flag(ControllerManager, "terminated-pod-gc-threshold", "1000", "ended pods do not pile up (CIS 1.3.1)"),
    flag(ControllerManager, "use-service-account-credentials", "true", "each controller has its own rights (CIS 1.3.3)"),

    flag(Scheduler, "authentication-kubeconfig", "/etc/kubernetes/scheduler.kubeconfig", TRUST),
    flag(Scheduler, "authorization-kubeconfig", "/etc/kubernetes/scheduler.kubeconfig", TRUST),
    flag(Scheduler, "bind-address", "127.0.0.1", "only this machine asks (CIS 1.4.2)"),
    flag(Scheduler, "kubeconfig", "/etc/kubernetes/scheduler.kubeconfig", TRUST),
    flag(Scheduler, "leader-elect", "true", "one acts, the others stand by"),
    flag(Scheduler, "permit-port-sharing", "true", SHARING).when(When::SelfHosted),
    flag(Scheduler, "profiling", "false", QUIET),

    flag(Kubelet, "bootstrap-kubeconfig", "/etc/kubernetes/kubelet-bootstrap.kubeconfig", "the fallback by which a machine gets its certificate"),
    flag(Kubelet, "cert-dir", "/var/lib/kubelet/pki", "where the certificates lie that the kubelet renews"),
    flag(Kubelet, "config", "/etc/kubernetes/kubelet.yaml", "the configuration below"),
    flag(Kubelet, "kubeconfig", "/etc/kubernetes/kubelet.kubeconfig", TRUST),
    flag(Kubelet, "v", "2", "what the kubelet does can be read later"),
    config(Kubelet, "authentication.anonymous.enabled", "false", "strangers are refused (CIS 4.2.1)"),
    config(Kubelet, "authentication.webhook.enabled", "true", "the API says who asks"),
    config(Kubelet, "authentication.x509.clientCAFile", r#""/etc/kubernetes/pki/ca.crt""#, TRUST),
    config(Kubelet, "authorization.mode", r#""Webhook""#, "the API says who may (CIS 4.2.2)"),
    config(Kubelet, "cgroupDriver", r#""cgroupfs""#, "works on cgroup v1 and v2 alike"),
    config(Kubelet, "clusterDNS", r#"["{dnsServiceIP}"]"#, "where pods ask for names"),
    config(Kubelet, "clusterDomain", r#""{clusterDomain}""#, "the domain of services"),
    config(Kubelet, "containerRuntimeEndpoint", r#""unix:///run/containerd/containerd.sock""#, "containerd's socket"),
    config(Kubelet, "crashLoopBackOff.maxContainerRestartPeriod", r#""1s""#, "nothing waits for a back-off"),
    config(Kubelet, "evictionHard", r#"{"imagefs.available":"0%","memory.available":"100Mi","nodefs.available":"0%","nodefs.inodesFree":"0%"}"#, "all machines share the host's disk, its fill level says nothing about one of them").when(When::Local),
    config(Kubelet, "failCgroupV1", "false", "hosts with cgroup v1 are supported"),
    config(Kubelet, "failSwapOn", "false", "the host decides about its swap").when(When::Local),
    config(Kubelet, "fileCheckFrequency", r#""1s""#, "a static pod is seen at once"),
    config(Kubelet, "imageGCHighThresholdPercent", "100", "preloaded images are never collected").when(When::Local),
    config(Kubelet, "imageGCLowThresholdPercent", "99", "preloaded images are never collected").when(When::Local),
    config(Kubelet, "podPidsLimit", "4096", "a pod cannot use up the machine's processes (CIS 4.2.13)"),
    config(Kubelet, "readOnlyPort", "0", "nothing is served without asking who (CIS 4.2.4)"),
    config(Kubelet, "rotateCertificates", "true", "the client certificate is renewed in time"),
    config(Kubelet, "serializeImagePulls", "false", "images do not wait for each other"),
    config(Kubelet, "serverTLSBootstrap", "true", "the serving certificate is signed by the cluster"),
    config(Kubelet, "staticPodPath", r#""/etc/kubernetes/manifests""#, "the contract's directory"),
    config(Kubelet, "tlsMinVersion", r#""VersionTLS12""#, TRUST),

    flag(Proxy, "config", "/etc/kube-proxy/config.yaml", "the configuration below"),
    flag(Proxy, "hostname-override", "$(NODE_NAME)", "the Node's name, known when the container starts"),
    config(Proxy, "clientConnection.kubeconfig", r#""/etc/kube-proxy/kubeconfig""#, TRUST),
    config(Proxy, "clusterCIDR", r#""{podCIDR}""#, "what counts as inside"),
    config(Proxy, "conntrack", r#"{"maxPerCore":0,"min":0,"tcpCloseWaitTimeout":"0s","tcpEstablishedTimeout":"0s"}"#, "conntrack's settings belong to the host, a machine cannot change them").when(When::Local),
    config(Proxy, "metricsBindAddress", r#""127.0.0.1:10249""#, "only this machine asks"),
    config(Proxy, "mode", r#""nftables""#, "today's packet filter, one table for all services"),

    flag(Etcd, "advertise-client-urls", "https://etcd-$(ETCD_INDEX).internal.{domain}:2379", "the member by its own name"),
    flag(Etcd, "cert-file", "/etc/kubernetes/pki/etcd/server.crt", ETCD_TLS),
    flag(Etcd, "client-cert-auth", "true", ETCD_TLS),
    flag(Etcd, "data-dir", "/var/lib/etcd", "the contract's directory"),
    flag(Etcd, "feature-gates", "InitialCorruptCheck=true", "a damaged member does not serve"),
    flag(Etcd, "initial-advertise-peer-urls", "https://etcd-$(ETCD_INDEX).internal.{domain}:2380", "the member by its own name"),
    flag(Etcd, "initial-cluster", "{initialCluster}", "a static cluster by name: all members start together"),
    flag(Etcd, "initial-cluster-state", "new", "a static cluster by name: all members start together"),
    flag(Etcd, "initial-cluster-token", "{name}.{domain}", "members of another cluster are refused"),
    flag(Etcd, "key-file", "/etc/kubernetes/pki/etcd/server.key", ETCD_TLS),
    flag(Etcd, "listen-client-urls", "https://127.0.0.1:2379,https://$(MACHINE_ADDRESS):2379", "this machine and the others"),
    flag(Etcd, "listen-metrics-urls", "http://127.0.0.1:2381", "health for the kubelet's probes"),
    flag(Etcd, "listen-peer-urls", "https://$(MACHINE_ADDRESS):2380", "the other members"),
    flag(Etcd, "name", "etcd-$(ETCD_INDEX)", "the member's own name"),
    flag(Etcd, "peer-cert-file", "/etc/kubernetes/pki/etcd/peer.crt", ETCD_TLS),
    flag(Etcd, "peer-client-cert-auth", "true", ETCD_TLS),
    flag(Etcd, "peer-key-file", "/etc/kubernetes/pki/etcd/peer.key", ETCD_TLS),
    flag(Etcd, "peer-trusted-ca-file", "/etc/kubernetes/pki/etcd-ca.crt", ETCD_TLS),
    flag(Etcd, "trusted-ca-file", "/etc/kubernetes/pki/etcd-ca.crt", ETCD_TLS),
    flag(Etcd, "watch-progress-notify-interval", "5s", "watchers learn that nothing happened"),
];

/// A decided flag or field: its value, what it came from and why it is so.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The value as the spec writes it.
    pub value: Value,
    /// The fields of the spec that it was derived from; empty for a plain default.
    pub from: Vec<&'static str>,
    /// Why it is decided so.
    pub why: &'static str,
}

/// What the values of rows may name: the name, its value, and the fields it stands for.
struct Fact {
    name: &'static str,
    value: String,
    from: &'static [&'static str],
}

fn facts(metadata: &CompleteMetadata, spec: &CompleteCluster) -> Vec<Fact> {
    let masters: u32 = spec.instance_groups.iter().filter(|g| g.role == Role::Master).map(|g| g.count).sum();
    let member = |i: u32| format!("etcd-{i}.internal.{}", spec.domain);
    let initial = (0..masters).map(|i| format!("etcd-{i}=https://{}:2380", member(i))).collect::<Vec<_>>().join(",");
    let fact = |name, value: String, from| Fact { name, value, from };
    let network = &spec.network;
    vec![
        fact("name", metadata.name.to_string(), &["metadata.name"]),
        fact("domain", spec.domain.to_string(), &["spec.domain"]),
        fact("podCIDR", network.pod_cidr.to_string(), &["spec.network.podCIDR"]),
        fact("serviceCIDR", network.service_cidr.to_string(), &["spec.network.serviceCIDR"]),
        fact("nodePrefix", network.node_prefix.to_string(), &["spec.network.nodePrefix"]),
        fact("dnsServiceIP", network.dns_service_ip.to_string(), &["spec.network.dnsServiceIP"]),
        fact("clusterDomain", network.cluster_domain.to_string(), &["spec.network.clusterDomain"]),
        fact("initialCluster", initial, &["spec.domain", "spec.instanceGroups"]),
    ]
}

fn applies(when: When, spec: &CompleteCluster) -> bool {
    match when {
        When::Always => true,
        When::Local => matches!(spec.platform, Platform::Local(_)),
        When::SelfHosted => spec.topology == Topology::SelfHosted,
    }
}

/// Everything that is decided about one component: flags by name, or configuration by dotted path.
pub fn decided(
    metadata: &CompleteMetadata,
    spec: &CompleteCluster,
    component: Component,
    target: Target,
) -> BTreeMap<&'static str, Decided> {
    let facts = facts(metadata, spec);
    let rows = ROWS.iter().filter(|r| r.component == component && r.target == target && applies(r.when, spec));
    rows.map(|row| {
        let mut text = row.value.to_owned();
        let mut from = Vec::new();
        for fact in &facts {
            let slot = format!("{{{}}}", fact.name);
            if text.contains(&slot) {
                text = text.replace(&slot, &fact.value);
                from.extend(fact.from);
            }
        }
        let value = match target {
            Target::Flag => flag_value(&text),
            Target::Config => serde_json::from_str(&text).expect("the table's configuration values are JSON"),
        };
        (row.name, Decided { value, from, why: row.why })
    })
    .collect()
}

/// A flag's text as the spec writes it: booleans and whole numbers as such.
fn flag_value(text: &str) -> Value {
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

/// The table as the reference page `docs/reference/decisions.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Decisions about flags and configuration\n\n\
         What windlass passes to each component unless the spec says otherwise. Names in braces are other\n\
         decisions; `$(…)` is filled in on the machine. `null` in the spec removes a row.\n",
    );
    for component in Component::ALL {
        page.push_str(&format!("\n## {}\n\n| | value | when | why |\n|---|---|---|---|\n", component.program()));
        for row in ROWS.iter().filter(|r| r.component == component) {
            let when = match row.when {
                When::Always => "always",
                When::Local => "platform local",
                When::SelfHosted => "topology self-hosted",
            };
            let name = match row.target {
                Target::Flag => format!("--{}", row.name),
                Target::Config => format!("config.{}", row.name),
            };
            page.push_str(&format!("| `{name}` | `{}` | {when} | {} |\n", row.value, row.why));
        }
    }
    page
}
