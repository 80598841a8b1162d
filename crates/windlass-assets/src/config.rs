//! Configuration files that are neither manifest nor unit: the kubelet's, the API server's, and the facts
//! that the installer leaves on a machine for its first boot.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_spec::complete::Flags;
use windlass_spec::complete::components::{arguments, without_removed};
use windlass_spec::file::Role;
use windlass_spec::{CompleteSpec, KubeVersion, yaml};

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

const FOLDER: &str = "assets/config/";

/// A configuration file of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Config {
    /// Which requests to the API are recorded.
    AuditPolicy,
    /// Who may speak to the API without a name.
    Authentication,
    /// Whom the API server asks about machines' tokens (topology `self-hosted`).
    TokenReview,
    /// What the packet filter keeps pods from.
    Guard,
    /// Kernel modules.
    Modules,
    /// Kernel settings.
    Sysctl,
    /// A master's kubelet once it has joined.
    KubeletMaster,
    /// A worker's kubelet.
    KubeletWorker,
    /// A master's kubelet while there is no API to join.
    KubeletStandalone,
    /// The version and flags of a master's kubelet, for its first boot.
    EnvMaster,
    /// The flags that a master's kubelet joins with.
    EnvJoin,
    /// The version and flags of a worker's kubelet, for its first boot.
    EnvWorker,
    /// Which container runtime goes with which version.
    RuntimeMappings,
    /// How machines that stay run the node flow.
    EnvBootstrap,
    /// How the bootstrap machine does: it does not live long enough for another operating system.
    EnvBootstrapOnce,
}

impl Config {
    const ALL: [Config; 15] = [
        Config::AuditPolicy,
        Config::Authentication,
        Config::TokenReview,
        Config::Guard,
        Config::Modules,
        Config::Sysctl,
        Config::KubeletMaster,
        Config::KubeletWorker,
        Config::KubeletStandalone,
        Config::EnvMaster,
        Config::EnvJoin,
        Config::EnvWorker,
        Config::RuntimeMappings,
        Config::EnvBootstrap,
        Config::EnvBootstrapOnce,
    ];

    /// The file's name under `assets/config`.
    pub fn file_name(self) -> &'static str {
        match self {
            Config::AuditPolicy => "audit-policy.yaml",
            Config::Authentication => "authentication.yaml",
            Config::TokenReview => "token-review.kubeconfig",
            Config::Guard => "guard.nft",
            Config::Modules => "modules.conf",
            Config::Sysctl => "sysctl.conf",
            Config::KubeletMaster => "kubelet-master.yaml",
            Config::KubeletWorker => "kubelet-worker.yaml",
            Config::KubeletStandalone => "kubelet-standalone.yaml",
            Config::EnvMaster => "kubelet-master.env",
            Config::EnvJoin => "kubelet-join.env",
            Config::EnvWorker => "kubelet-worker.env",
            Config::RuntimeMappings => "runtime-mappings.yaml",
            Config::EnvBootstrap => "bootstrap.env",
            Config::EnvBootstrapOnce => "bootstrap-once.env",
        }
    }

    fn render(self, spec: &CompleteSpec) -> String {
        match self {
            Config::AuditPolicy => include_str!("../configs/audit-policy.yaml").to_owned(),
            Config::Authentication => include_str!("../configs/authentication.yaml").to_owned(),
            Config::TokenReview => include_str!("../configs/token-review.kubeconfig").to_owned(),
            Config::Guard => include_str!("../configs/guard.nft").to_owned(),
            Config::Modules => include_str!("../configs/modules.conf").to_owned(),
            Config::Sysctl => include_str!("../configs/sysctl.conf").to_owned(),
            Config::KubeletMaster => kubelet(spec, Role::Master),
            Config::KubeletWorker => kubelet(spec, Role::Worker),
            Config::KubeletStandalone => standalone(spec),
            Config::EnvMaster => first_boot(spec, &standalone_flags(spec)),
            Config::EnvJoin => env(&spec.spec.components.kubelet.flags),
            Config::EnvWorker => first_boot(spec, &spec.spec.components.kubelet.flags),
            Config::RuntimeMappings => runtime_mappings(),
            Config::EnvBootstrap => bootstrap_env(spec, spec.spec.os_update.on_join),
            Config::EnvBootstrapOnce => bootstrap_env(spec, false),
        }
    }
}

/// The configuration files of a cluster's machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configs {
    texts: BTreeMap<Config, String>,
}

impl Configs {
    /// Renders every configuration file.
    pub fn make(spec: &CompleteSpec) -> Self {
        Configs { texts: Config::ALL.into_iter().map(|c| (c, c.render(spec))).collect() }
    }

    /// A file's text.
    pub fn text(&self, config: Config) -> &str {
        // `make` and `read` both fill in every member of the enum.
        self.texts.get(&config).map_or("", String::as_str)
    }
}

impl Asset for Configs {
    const NAME: &'static str = "configuration files";

    fn files(&self) -> Vec<AssetFile> {
        let file =
            |(c, text): (&Config, &String)| AssetFile::new(format!("{FOLDER}{}", c.file_name()), text.as_bytes());
        self.texts.iter().map(file).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let mut texts = BTreeMap::new();
        for config in Config::ALL {
            texts.insert(config, dir.require_text(&format!("{FOLDER}{}", config.file_name()), Self::NAME)?);
        }
        Ok(Configs { texts })
    }
}

fn kubelet(spec: &CompleteSpec, role: Role) -> String {
    let mut config = kubelet_config(spec);
    // A kubelet may set its own taint but not the control-plane label, which bootkube and the approver set.
    // Without workers nobody else could run the user's pods, so masters carry no taint then.
    if role == Role::Master && spec.count(Role::Worker) > 0 {
        let taint = json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
        config.entry("registerWithTaints").or_insert(taint);
    }
    yaml::emit(&config.into())
}

/// The kubelet without an API: it runs static pods, asks nobody and serves nobody.
fn standalone(spec: &CompleteSpec) -> String {
    let mut config = kubelet_config(spec);
    config
        .insert("authentication".into(), json!({ "anonymous": { "enabled": false }, "webhook": { "enabled": false } }));
    config.insert("authorization".into(), json!({ "mode": "AlwaysAllow" }));
    config.insert("enableServer".into(), false.into());
    for needs_api in ["serverTLSBootstrap", "rotateCertificates"] {
        config.remove(needs_api);
    }
    yaml::emit(&config.into())
}

fn kubelet_config(spec: &CompleteSpec) -> Map<String, Value> {
    let mut config = Map::new();
    config.insert("apiVersion".into(), "kubelet.config.k8s.io/v1beta1".into());
    config.insert("kind".into(), "KubeletConfiguration".into());
    config.extend(without_removed(&spec.spec.components.kubelet.config));
    config
}

fn standalone_flags(spec: &CompleteSpec) -> Flags {
    let mut flags = spec.spec.components.kubelet.flags.clone();
    flags.remove("kubeconfig");
    flags.remove("bootstrap-kubeconfig");
    flags.insert("config".into(), "/etc/kubernetes/kubelet-standalone.yaml".into());
    flags
}

fn first_boot(spec: &CompleteSpec, flags: &Flags) -> String {
    format!("KUBELET_VERSION=v{}\n{}", spec.spec.kubernetes_version, env(flags))
}

/// Flags as a line of a systemd environment file, which is split at spaces where it is used.
fn env(flags: &Flags) -> String {
    let words: Vec<String> = arguments(flags).iter().map(|word| quoted(word)).collect();
    format!("KUBELET_ARGS='{}'\n", words.join(" "))
}

/// A word as systemd keeps it whole when it splits a variable: in double quotes if it has to be.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !"\"'\\$".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('\'', "\\x27").replace('$', "$$");
    format!("\"{escaped}\"")
}

/// The flags of `windlass-node bootstrap`, as its unit takes them.
fn bootstrap_env(spec: &CompleteSpec, upgrade_os: bool) -> String {
    let url = format!("--torcx-manifest-url={}", spec.spec.artifacts.addon_manifest_url);
    format!("BOOTSTRAP_ARGS='--upgrade-os={upgrade_os} {}'\n", quoted(&url))
}

/// The table that seed 004 keeps in a ConfigMap and, for the first machines, on their disks; in the format of its
/// bootstrapper, where the first runtime of a list is preferred.
pub fn runtime_mappings() -> String {
    let mapping = |v: KubeVersion| {
        let minor = v.as_str().rsplit_once('.').map_or(v.as_str(), |(minor, _)| minor);
        (minor.to_owned(), json!({ "containerd": [v.companions().containerd] }))
    };
    let versions: BTreeMap<String, Value> = KubeVersion::ALL.into_iter().map(mapping).collect();
    yaml::emit(&json!({ "kind": "VersionManifestV1", "versions": { "k8s": versions } }))
}

#[cfg(test)]
mod tests {
    use windlass_spec::file::read_and_complete;

    use super::*;

    #[test]
    fn masters_keep_pods_off_only_where_there_are_workers() {
        for (workers, is_tainted) in [(0, false), (2, true)] {
            let text = format!(
                "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  masters: 1\n  workers: {workers}\n"
            );
            let (_, spec) = read_and_complete(text.as_bytes()).unwrap();
            let configs = Configs::make(&spec);
            let tainted = |config| configs.text(config).contains("node-role.kubernetes.io/control-plane");
            assert_eq!(tainted(Config::KubeletMaster), is_tainted, "{workers} workers");
            assert!(!tainted(Config::KubeletWorker) && !tainted(Config::KubeletStandalone));
        }
    }
}
