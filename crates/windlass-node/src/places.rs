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

    /// A place by its absolute path, such as the document of assets knows them.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A key or certificate: `ca.crt`, `etcd/server.key`.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.root.join("etc/kubernetes/pki").join(file)
    }

    /// A component's kubeconfig.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.root.join(format!("etc/kubernetes/{name}.kubeconfig"))
    }

    /// Says that a test has held a unit at this stage.
    pub fn held_at(&self, stage: &str) -> PathBuf {
        self.root.join("var/lib/windlass").join(format!("held-at-{stage}"))
    }

    /// A program by its absolute path.
    pub fn program(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// What a unit of ours says about itself.
    pub fn record(&self, unit: &str) -> PathBuf {
        self.records().join(format!("{unit}.json"))
    }

    /// What of that survives the machine.
    pub fn kept_record(&self, unit: &str) -> PathBuf {
        self.kept_records().join(format!("{unit}.json"))
    }

    /// A script of the user's, which runs once.
    pub fn user_data(&self, name: &str) -> PathBuf {
        self.root.join("opt/windlass/user-data").join(name)
    }
}

places! {
    /// The gate: the kubelet starts when it is there.
    kubelet_env = "etc/kubernetes/kubelet.env";
    /// The second environment file, with which a master's kubelet joins.
    kubelet_join_env = "etc/kubernetes/kubelet-join.env";
    /// The configuration of a kubelet that has joined.
    kubelet_config = "etc/kubernetes/kubelet.yaml";
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
    /// Where the container runtime listens.
    containerd_socket = "run/containerd/containerd.sock";
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
    /// Where the bootstrap machine fetches its assets, and what it knows them by.
    bootstrap_assets = "etc/windlass/bootstrap-assets";
    /// The complete spec as JSON, on the bootstrap machine.
    cluster = "opt/windlass/cluster.json";
    /// The configs that the machine-config server serves.
    machine_config = "opt/windlass/machine-config";
    /// What the machine-config server's twin in the cluster serves, and serves with.
    machine_config_server = "etc/windlass/machine-config-server";
    /// Says that the bootstrap machine's servers have served their time: a boot after that does not start them again.
    servers_done = "opt/windlass/servers.done";
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
    /// Why this machine runs what it runs.
    explanation = "var/lib/windlass/explanation.json";
    /// The highest versions of addon manifests that were followed.
    addons_seen = "var/lib/windlass/addons-seen.json";
    /// Where addons are fetched and unpacked: in the folder of the extensions, so that a rename puts them in place also where
    /// that folder is a mount of its own, as in a pod. Systemd looks at no extension whose name begins so.
    addon_work = "var/lib/extensions/.#addons";
    /// Where systemd looks for extensions.
    extensions = "var/lib/extensions";
    /// Whose the container runtime's data is.
    runtime_data_note = "var/lib/windlass/runtime-data";
    /// Says that the base's images are to be imported.
    import_note = "var/lib/windlass/import-images";
    /// The image archives that came with the machine.
    base_images = "usr/share/windlass/images";
    /// Says that this boot is about to end: neither runtime nor kubelet may start any more.
    reboot_due = "run/windlass/reboot-due";
    /// Says that extensions changed and systemd has not merged them yet.
    merge_due = "run/windlass/merge-due";
    /// Says that the update engine was asked for an update in this boot and may have staged one.
    update_asked = "run/windlass/update-asked";
    /// Which operating system this is.
    os_release = "usr/lib/os-release";
    /// Whose OpenPGP signatures on addon manifests count.
    addon_keys = "etc/windlass/addon-keys.asc";
    /// Whose minisign signature on addon manifests counts.
    addon_key = "etc/windlass/addon-key.minisign";
    /// What etcd keeps.
    etcd_data = "var/lib/etcd";
    /// What the container runtime runs for Kubernetes now: a directory for each container.
    tasks = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    /// Where the system bus listens.
    system_bus = "run/dbus/system_bus_socket";
    /// What units say about themselves.
    records = "run/windlass/records";
    /// How units began and ended, also before the machine last started.
    kept_records = "var/lib/windlass/records";
    /// Which machines got and acknowledged their config, and which certificates were issued.
    tokens = "var/lib/windlass/tokens";
}

impl Default for Places {
    fn default() -> Self {
        Places::below("/")
    }
}
