//! Where things lie on a machine. Everything is below one root, which is `/` except in tests.

use std::path::{Path, PathBuf};

/// The files and directories of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    root: PathBuf,
}

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident = $path:literal;)*) => {
        impl Places {
            $($(#[$doc])*
            pub fn $name(&self) -> PathBuf {
                self.root.join($path)
            })*
        }
    };
}

impl Places {
    /// The places below this root.
    pub fn below(root: impl AsRef<Path>) -> Self {
        Places { root: root.as_ref().to_owned() }
    }

    /// A key or certificate: `ca.crt`, `etcd/server.key`.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.root.join("etc/kubernetes/pki").join(file)
    }

    /// A component's kubeconfig.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.root.join(format!("etc/kubernetes/{name}.kubeconfig"))
    }

    /// What a unit of ours says about itself.
    pub fn record(&self, unit: &str) -> PathBuf {
        self.records().join(format!("{unit}.json"))
    }
}

places! {
    /// The gate: the kubelet starts when it is there.
    kubelet_env = "etc/kubernetes/kubelet.env";
    /// The second environment file, with which a master's kubelet joins.
    kubelet_join_env = "etc/kubernetes/kubelet-join.env";
    /// What the installer left for the first boot.
    installer = "etc/kubernetes/installer";
    /// The kubelet's static pods.
    manifests = "etc/kubernetes/manifests";
    /// Copies of control-plane pods that wait to be needed.
    checkpoints = "etc/kubernetes/checkpoints";
    /// Who this machine is.
    facts = "etc/windlass/machine.json";
    /// The machine's own token for its certificates.
    join_token = "etc/windlass/join-token";
    /// The machine's own token for its config, to acknowledge it with.
    config_token = "etc/windlass/config-token";
    /// The public key that machines' tokens are checked with, hex.
    token_key = "etc/windlass/token-key";
    /// What is mounted into the approver's pod.
    csr_approver = "etc/windlass/csr-approver";
    /// Where the container runtime looks for networks.
    cni = "etc/cni/net.d";
    /// The container runtime's configuration.
    containerd = "etc/containerd/config.toml";
    /// What flannel says about this machine's subnet.
    flannel_subnet = "run/flannel/subnet.env";
    /// The kubelet's own certificates.
    kubelet_pki = "var/lib/kubelet/pki";
    /// What the kubelet keeps of its pods.
    kubelet_data = "var/lib/kubelet";
    /// What the container runtime keeps.
    containerd_data = "var/lib/containerd";
    /// Where everything logs to.
    logs = "var/log";
    /// What containers of pods have said.
    pod_logs = "var/log/pods";
    /// The machine's own control groups.
    cgroups = "sys/fs/cgroup";
    /// The complete spec as JSON, on the bootstrap machine.
    cluster = "opt/windlass/cluster.json";
    /// The configs that the machine-config server serves.
    machine_config = "opt/windlass/machine-config";
    /// What the machine-config server's twin in the cluster serves, and serves with.
    machine_config_server = "etc/windlass/machine-config-server";
    /// Static pods of the temporary control plane.
    bootstrap_manifests = "opt/windlass/bootkube/bootstrap";
    /// The self-hosted control plane.
    control_plane_manifests = "opt/windlass/bootkube/manifests";
    /// The add-ons.
    addon_manifests = "opt/windlass/addons/manifests";
    /// What the kernel is to be set to.
    sysctl_conf = "etc/sysctl.d/90-windlass.conf";
    /// The kernel's settings themselves.
    sysctls = "proc/sys";
    /// What the kernel lets this process do.
    own_status = "proc/self/status";
    /// Says that the machine's config has been acknowledged.
    acknowledged = "var/lib/windlass/acknowledged";
    /// What etcd keeps.
    etcd_data = "var/lib/etcd";
    /// What the container runtime runs for Kubernetes now: a directory for each container.
    tasks = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    /// What units say about themselves.
    records = "run/windlass/records";
    /// Which machines got and acknowledged their config, and which certificates were issued.
    tokens = "var/lib/windlass/tokens";
}

impl Default for Places {
    fn default() -> Self {
        Places::below("/")
    }
}
