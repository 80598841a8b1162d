//! The configs of the bootstrap machine, of masters and of workers: which files and units each gets.

use windlass_pki::{Authority, CertificateName, KeyName, Leaf, Pair, Pki};
use windlass_spec::file::Topology;

use super::config::Config;
use super::{Parts, ssh};
use crate::bootstrap_assets::{DocumentFile, Folder};
use crate::config::Config as ConfigFile;
use crate::manifest::Group;
use crate::unit::Host;

/// A key or certificate as a file of `/etc/kubernetes/pki`.
enum PkiEntry {
    Certificate(CertificateName, &'static str),
    Key(KeyName, &'static str),
    PublicKey(Pair, &'static str),
}

use PkiEntry::{Certificate, Key, PublicKey};

const CA: PkiEntry = Certificate(CertificateName::Authority(Authority::Cluster), "ca.crt");
const CA_KEY: PkiEntry = Key(KeyName::Authority(Authority::Cluster), "ca.key");
const ETCD_CA: PkiEntry = Certificate(CertificateName::Authority(Authority::Etcd), "etcd-ca.crt");
const ETCD_CA_KEY: PkiEntry = Key(KeyName::Authority(Authority::Etcd), "etcd-ca.key");
const FRONT_PROXY_CA: PkiEntry = Certificate(CertificateName::Authority(Authority::FrontProxy), "front-proxy-ca.crt");
const MACHINE_CONFIG_CA: PkiEntry =
    Certificate(CertificateName::Authority(Authority::MachineConfig), "machine-config-ca.crt");
const SA_KEY: PkiEntry = Key(KeyName::Pair(Pair::ServiceAccount), "sa.key");
const SA_PUB: PkiEntry = PublicKey(Pair::ServiceAccount, "sa.pub");

/// Whom the bootstrap machine and masters trust from their first boot on.
const TRUSTED: &[PkiEntry] = &[CA, ETCD_CA];
/// What an API server and its controllers need, on the bootstrap machine and on masters.
const CONTROL_PLANE: &[PkiEntry] = &[CA_KEY, FRONT_PROXY_CA, SA_KEY, SA_PUB];
const CONTROL_PLANE_LEAVES: &[(Leaf, &str)] = &[
    (Leaf::ApiServer, "apiserver"),
    (Leaf::ApiServerKubeletClient, "apiserver-kubelet-client"),
    (Leaf::ApiServerEtcdClient, "apiserver-etcd-client"),
    (Leaf::EtcdHealthcheckClient, "etcd-healthcheck-client"),
    (Leaf::FrontProxyClient, "front-proxy-client"),
];
const BOOTSTRAP: &[PkiEntry] = &[ETCD_CA_KEY, MACHINE_CONFIG_CA];
const BOOTSTRAP_LEAVES: &[(Leaf, &str)] =
    &[(Leaf::MachineConfigServer, "machine-config-server"), (Leaf::EtcdSigner, "etcd-signer")];

/// The bootstrap machine's: it serves the other configs and signs. What it starts the control plane with follows.
pub(super) fn bootstrap(parts: Parts<'_>, master: &str, worker: &str, groups: &[(String, String)]) -> Config {
    let mut config = with_api_config(common(parts, Host::Bootstrap), parts);
    config = with_pki(config, parts.pki, TRUSTED, &[]);
    config = with_pki(config, parts.pki, BOOTSTRAP, BOOTSTRAP_LEAVES);
    config = config
        .file("/etc/kubernetes/kubelet-standalone.yaml", parts.configs.text(ConfigFile::KubeletStandalone))
        .file("/etc/kubernetes/installer/kubelet.env", parts.configs.text(ConfigFile::EnvMaster))
        .file("/opt/windlass/cluster.json", serde_json::to_string(parts.spec).expect("a spec is plain data"))
        .file("/opt/windlass/machine-config/master.ign", master)
        .file("/opt/windlass/machine-config/worker.ign", worker);
    for (name, text) in groups {
        config = config.file(format!("/opt/windlass/machine-config/groups/{name}.ign"), text);
    }
    if let Some(keys) = parts.ssh {
        config = ssh::open(config, keys);
    }
    with_units(config, parts, Host::Bootstrap)
}

/// The keys and kubeconfigs that the bootstrap machine needs only once it starts a control plane.
pub(crate) fn bootkube_secrets(parts: Parts<'_>) -> Vec<DocumentFile> {
    let file = |folder| move |(name, text): (String, String)| DocumentFile::private(folder, name, text);
    let keys = pki_files(parts.pki, CONTROL_PLANE, CONTROL_PLANE_LEAVES).into_iter().map(file(Folder::Keys));
    let kubeconfigs = kubeconfig_files(parts, &["admin", "controller-manager", "scheduler"]);
    keys.chain(kubeconfigs.into_iter().map(file(Folder::Kubeconfigs))).collect()
}

/// A master's.
pub(super) fn master(parts: Parts<'_>) -> Config {
    let mut config = with_api_config(common(parts, Host::Master), parts);
    config = with_pki(config, parts.pki, TRUSTED, &[]);
    config = with_pki(config, parts.pki, CONTROL_PLANE, CONTROL_PLANE_LEAVES);
    config = with_machine_config_ca(config, parts);
    config = with_kubeconfigs(config, parts, &["controller-manager", "scheduler", "checkpointer", "kubelet-bootstrap"]);
    config = config
        .file("/etc/kubernetes/kubelet.yaml", parts.configs.text(ConfigFile::KubeletMaster))
        .file("/etc/kubernetes/kubelet-standalone.yaml", parts.configs.text(ConfigFile::KubeletStandalone))
        .file("/etc/kubernetes/installer/kubelet.env", parts.configs.text(ConfigFile::EnvMaster))
        .file("/etc/kubernetes/installer/kubelet-join.env", parts.configs.text(ConfigFile::EnvJoin));
    for (name, text) in parts.manifests.group(Group::Master) {
        // The node flow fills in the machine's own facts and moves them to the kubelet's directory.
        config = config.file(format!("/etc/kubernetes/installer/manifests/{name}"), text);
    }
    with_units(config, parts, Host::Master)
}

/// A worker's: whom to trust and how to ask, and nothing secret.
pub(super) fn worker(parts: Parts<'_>) -> Config {
    let mut config = with_pki(common(parts, Host::Worker), parts.pki, &[CA], &[]);
    config = with_machine_config_ca(config, parts);
    config = with_kubeconfigs(config, parts, &["kubelet-bootstrap"]);
    config = config
        .file("/etc/kubernetes/kubelet.yaml", parts.configs.text(ConfigFile::KubeletWorker))
        .file("/etc/kubernetes/installer/kubelet.env", parts.configs.text(ConfigFile::EnvWorker));
    with_units(config, parts, Host::Worker)
}

/// What every machine gets. The kubelet sees new static pods at once only if their directory was there
/// before it started.
fn common(parts: Parts<'_>, host: Host) -> Config {
    let mut config = Config::new()
        .directory("/etc/kubernetes", 0o700)
        .directory("/etc/kubernetes/manifests", 0o700)
        .directory("/etc/kubernetes/pki", 0o700)
        .file("/etc/kubernetes/installer/runtime-mappings.yaml", parts.configs.text(ConfigFile::RuntimeMappings))
        .file("/etc/kubernetes/installer/bootstrap.env", parts.configs.text(bootstrap_env(host)))
        .file("/etc/kubernetes/installer/pause-image", format!("{}\n", parts.spec.spec.images.pause))
        .file_with_mode("/etc/windlass/addon-keys.asc", &parts.addon_keys.openpgp.public, 0o644)
        .file_with_mode("/etc/windlass/addon-key.minisign", &parts.addon_keys.minisign.public, 0o644)
        .file_with_mode("/etc/windlass/guard.nft", parts.configs.text(ConfigFile::Guard), 0o644)
        .file_with_mode("/etc/modules-load.d/windlass.conf", parts.configs.text(ConfigFile::Modules), 0o644)
        .file_with_mode("/etc/sysctl.d/90-windlass.conf", parts.configs.text(ConfigFile::Sysctl), 0o644);
    if host == Host::Master {
        config = config.directory("/var/lib/etcd", 0o700);
    }
    config
}

fn bootstrap_env(host: Host) -> ConfigFile {
    match host {
        Host::Bootstrap => ConfigFile::EnvBootstrapOnce,
        Host::Master | Host::Worker => ConfigFile::EnvBootstrap,
    }
}

/// What API servers are configured with beside their flags.
fn with_api_config(config: Config, parts: Parts<'_>) -> Config {
    let config = config
        .file("/etc/kubernetes/config/audit-policy.yaml", parts.configs.text(ConfigFile::AuditPolicy))
        .file("/etc/kubernetes/config/authentication.yaml", parts.configs.text(ConfigFile::Authentication));
    match parts.spec.spec.topology {
        Topology::SelfHosted => {
            config.file("/etc/kubernetes/config/token-review.kubeconfig", parts.configs.text(ConfigFile::TokenReview))
        }
        Topology::Volumes => config,
    }
}

/// Whom a machine trusts when it acknowledges its config, where there is a server that takes it.
fn with_machine_config_ca(config: Config, parts: Parts<'_>) -> Config {
    match parts.spec.spec.topology {
        Topology::SelfHosted => with_pki(config, parts.pki, &[MACHINE_CONFIG_CA], &[]),
        Topology::Volumes => config,
    }
}

fn with_pki(config: Config, pki: &Pki, entries: &[PkiEntry], leaves: &[(Leaf, &str)]) -> Config {
    let files = pki_files(pki, entries, leaves).into_iter();
    files.fold(config, |config, (name, text)| config.file(format!("{}/{name}", Folder::Keys.path()), text))
}

/// Keys and certificates by their names.
fn pki_files(pki: &Pki, entries: &[PkiEntry], leaves: &[(Leaf, &str)]) -> Vec<(String, String)> {
    let entry = |entry: &PkiEntry| match entry {
        Certificate(name, file) => ((*file).to_owned(), pki.certificate(*name).to_pem()),
        Key(name, file) => ((*file).to_owned(), pki.key(*name).to_pem().expose().clone()),
        PublicKey(pair, file) => ((*file).to_owned(), pki.key(*pair).public().to_pem()),
    };
    let leaf = |(leaf, file): &(Leaf, &str)| {
        let key = pki.key(*leaf).to_pem();
        [(format!("{file}.crt"), pki.certificate(*leaf).to_pem()), (format!("{file}.key"), key.expose().clone())]
    };
    entries.iter().map(entry).chain(leaves.iter().flat_map(leaf)).collect()
}

fn with_kubeconfigs(config: Config, parts: Parts<'_>, names: &[&str]) -> Config {
    let files = kubeconfig_files(parts, names).into_iter();
    files.fold(config, |config, (name, text)| config.file(format!("{}/{name}", Folder::Kubeconfigs.path()), text))
}

fn kubeconfig_files(parts: Parts<'_>, names: &[&str]) -> Vec<(String, String)> {
    let file = |name: &&str| {
        let text = parts.kubeconfigs.component(name)?;
        Some((format!("{name}.kubeconfig"), text.expose().clone()))
    };
    names.iter().filter_map(file).collect()
}

fn with_units(mut config: Config, parts: Parts<'_>, host: Host) -> Config {
    for unit in parts.units.of(host) {
        config = config.unit(unit.name, unit.text, unit.is_enabled().then_some(true));
    }
    config
}
