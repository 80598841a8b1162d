//! The one table of everything in a cluster that has a key: four authorities, two bare key pairs,
//! every leaf that `prepare` makes, and every leaf that machines are given while the cluster runs.

mod resolve;

use crate::template::Usages;

pub use resolve::{MachineIdentity, lifetime_days};

/// An authority: a certificate that signs leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Authority {
    /// Signs for the Kubernetes API and whoever speaks to it.
    Cluster,
    /// Signs for etcd and whoever speaks to it.
    Etcd,
    /// Signs for the API server as it speaks to extension API servers.
    FrontProxy,
    /// Signs for the machine-config server, whom new machines trust before they trust a cluster.
    MachineConfig,
}

/// An authority's row.
#[derive(Debug, Clone, Copy)]
pub struct AuthorityRow {
    /// Which one it is.
    pub authority: Authority,
    /// Its files' name.
    pub name: &'static str,
    /// Its common name; the organization is the cluster's name.
    pub common_name: &'static str,
    /// Whom it signs for.
    pub purpose: &'static str,
}

/// The authorities, in the order of [`Authority`].
pub const AUTHORITIES: [AuthorityRow; 4] = [
    AuthorityRow {
        authority: Authority::Cluster,
        name: "ca",
        common_name: "kubernetes-ca",
        purpose: "the Kubernetes API and whoever speaks to it",
    },
    AuthorityRow {
        authority: Authority::Etcd,
        name: "etcd-ca",
        common_name: "etcd-ca",
        purpose: "etcd and whoever speaks to it",
    },
    AuthorityRow {
        authority: Authority::FrontProxy,
        name: "front-proxy-ca",
        common_name: "front-proxy-ca",
        purpose: "the API server as it speaks to extension API servers",
    },
    AuthorityRow {
        authority: Authority::MachineConfig,
        name: "machine-config-ca",
        common_name: "machine-config-ca",
        purpose: "the machine-config server",
    },
];

/// A key pair without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pair {
    /// Signs the tokens of service accounts.
    ServiceAccount,
    /// Signs the machines' short tokens.
    MachineToken,
}

/// A bare key pair's row.
#[derive(Debug, Clone, Copy)]
pub struct PairRow {
    /// Which one it is.
    pub pair: Pair,
    /// Its files' name.
    pub name: &'static str,
    /// What it signs.
    pub purpose: &'static str,
}

/// The bare key pairs, in the order of [`Pair`].
pub const PAIRS: [PairRow; 2] = [
    PairRow { pair: Pair::ServiceAccount, name: "sa", purpose: "tokens of service accounts" },
    PairRow {
        pair: Pair::MachineToken,
        name: "machine-token",
        purpose: "the short tokens by which the platform tells machines apart",
    },
];

/// Who makes a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// `windlass prepare`, before there is a machine.
    Prepare,
    /// The etcd signer, from a machine's request.
    EtcdSigner,
    /// The controller manager, from a request that the approver has compared with this table.
    ControllerManager,
}

/// A rule for the names and addresses of a leaf that `prepare` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SanRule {
    /// The `kubernetes` service as pods see it: four names and the service's address.
    KubernetesService,
    /// `api.<domain>`.
    ApiName,
    /// `api.internal.<domain>`.
    ApiInternalName,
    /// `localhost` and 127.0.0.1.
    Localhost,
    /// The balancer's address.
    Balancer,
    /// The bootstrap machine's address, where there is one.
    Bootstrap,
    /// Every master's name and address.
    Masters,
}

/// A leaf that `prepare` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// The API server as a server.
    ApiServer,
    /// The API server as a client of kubelets.
    ApiServerKubeletClient,
    /// The API server as a client of etcd.
    ApiServerEtcdClient,
    /// The installer and its probes as clients of etcd.
    EtcdHealthcheckClient,
    /// The API server as a client of extension API servers.
    FrontProxyClient,
    /// The cluster's first user, who may do everything.
    Admin,
    /// The controller manager as a client of the API.
    ControllerManager,
    /// The scheduler as a client of the API.
    Scheduler,
    /// The checkpointer as a client of the API.
    Checkpointer,
    /// The machine-config server as a server.
    MachineConfigServer,
    /// The etcd signer as a server.
    EtcdSigner,
}

/// The row of a leaf that `prepare` makes.
#[derive(Debug, Clone, Copy)]
pub struct LeafRow {
    /// Which one it is.
    pub leaf: Leaf,
    /// Its files' name.
    pub name: &'static str,
    /// Who signs it.
    pub signer: Authority,
    /// Its common name: a user, for clients of the API.
    pub common_name: &'static str,
    /// Its organization: a group, for clients of the API.
    pub organization: Option<&'static str>,
    /// What it answers to.
    pub sans: &'static [SanRule],
    /// What its key may do.
    pub usages: Usages,
}

impl LeafRow {
    /// A client of the cluster's API: known by its common name, in no group.
    const fn client(leaf: Leaf, name: &'static str, signer: Authority, common_name: &'static str) -> Self {
        LeafRow { leaf, name, signer, common_name, organization: None, sans: &[], usages: Usages::Client }
    }

    /// A server: known by its alternative names.
    const fn server(leaf: Leaf, name: &'static str, signer: Authority, sans: &'static [SanRule]) -> Self {
        LeafRow { leaf, name, signer, common_name: name, organization: None, sans, usages: Usages::Server }
    }
}

const API_SANS: &[SanRule] = &[
    SanRule::KubernetesService,
    SanRule::ApiName,
    SanRule::ApiInternalName,
    SanRule::Localhost,
    SanRule::Balancer,
    SanRule::Bootstrap,
    SanRule::Masters,
];
const MACHINE_CONFIG_SANS: &[SanRule] = &[
    SanRule::ApiName,
    SanRule::ApiInternalName,
    SanRule::Localhost,
    SanRule::Balancer,
    SanRule::Bootstrap,
    SanRule::Masters,
];
const ETCD_SIGNER_SANS: &[SanRule] =
    &[SanRule::ApiName, SanRule::ApiInternalName, SanRule::Localhost, SanRule::Balancer, SanRule::Bootstrap];

/// The leaves that `prepare` makes, in the order of [`Leaf`].
#[rustfmt::skip] // A row a line: this is the table.
pub const LEAVES: [LeafRow; 11] = [
    LeafRow { common_name: "kube-apiserver", ..LeafRow::server(Leaf::ApiServer, "apiserver", Authority::Cluster, API_SANS) },
    // Not in system:masters as kubeadm has it: RBAC binds this user to system:kubelet-api-admin.
    LeafRow::client(Leaf::ApiServerKubeletClient, "apiserver-kubelet-client", Authority::Cluster, "kube-apiserver-kubelet-client"),
    LeafRow::client(Leaf::ApiServerEtcdClient, "apiserver-etcd-client", Authority::Etcd, "kube-apiserver-etcd-client"),
    LeafRow::client(Leaf::EtcdHealthcheckClient, "etcd-healthcheck-client", Authority::Etcd, "etcd-healthcheck-client"),
    LeafRow::client(Leaf::FrontProxyClient, "front-proxy-client", Authority::FrontProxy, "front-proxy-client"),
    LeafRow { organization: Some("system:masters"), ..LeafRow::client(Leaf::Admin, "admin", Authority::Cluster, "kubernetes-admin") },
    LeafRow::client(Leaf::ControllerManager, "kube-controller-manager", Authority::Cluster, "system:kube-controller-manager"),
    LeafRow::client(Leaf::Scheduler, "kube-scheduler", Authority::Cluster, "system:kube-scheduler"),
    LeafRow::client(Leaf::Checkpointer, "checkpointer", Authority::Cluster, "windlass:checkpointer"),
    LeafRow::server(Leaf::MachineConfigServer, "machine-config-server", Authority::MachineConfig, MACHINE_CONFIG_SANS),
    LeafRow::server(Leaf::EtcdSigner, "etcd-signer", Authority::Cluster, ETCD_SIGNER_SANS),
];

/// A rule for the names and addresses of a leaf that a machine is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineSanRule {
    /// `etcd-<n>.internal.<domain>`.
    EtcdName,
    /// The machine's name.
    MachineName,
    /// The machine's address.
    MachineAddress,
    /// `localhost` and 127.0.0.1.
    Localhost,
}

/// A rule for the common name of a leaf that a machine is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineCommonName {
    /// `etcd-<n>`: the full name may be longer than the 64 characters that X.509 allows here.
    EtcdMember,
    /// `system:node:<machine>`.
    Node,
}

/// A leaf that a machine is given while the cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MachineLeaf {
    /// An etcd member towards its clients.
    EtcdServer,
    /// An etcd member towards the other members.
    EtcdPeer,
    /// A kubelet as a client of the API.
    KubeletClient,
    /// A kubelet as a server.
    KubeletServing,
}

/// The row of a leaf that a machine is given.
#[derive(Debug, Clone, Copy)]
pub struct MachineLeafRow {
    /// Which one it is.
    pub leaf: MachineLeaf,
    /// Its files' name.
    pub name: &'static str,
    /// Who makes it.
    pub maker: Maker,
    /// Who signs it.
    pub signer: Authority,
    /// Its common name.
    pub common_name: MachineCommonName,
    /// Its organization: a group, for clients of the API.
    pub organization: Option<&'static str>,
    /// What it answers to.
    pub sans: &'static [MachineSanRule],
    /// What its key may do.
    pub usages: Usages,
}

/// The leaves that machines are given, in the order of [`MachineLeaf`].
pub const MACHINE_LEAVES: [MachineLeafRow; 4] = [
    MachineLeafRow {
        leaf: MachineLeaf::EtcdServer,
        name: "etcd-server",
        maker: Maker::EtcdSigner,
        signer: Authority::Etcd,
        common_name: MachineCommonName::EtcdMember,
        organization: None,
        sans: &[
            MachineSanRule::EtcdName,
            MachineSanRule::MachineName,
            MachineSanRule::MachineAddress,
            MachineSanRule::Localhost,
        ],
        // etcd's own gateway connects to its server with the server's certificate.
        usages: Usages::Both,
    },
    MachineLeafRow {
        leaf: MachineLeaf::EtcdPeer,
        name: "etcd-peer",
        maker: Maker::EtcdSigner,
        signer: Authority::Etcd,
        common_name: MachineCommonName::EtcdMember,
        organization: None,
        sans: &[MachineSanRule::EtcdName, MachineSanRule::MachineName, MachineSanRule::MachineAddress],
        usages: Usages::Both,
    },
    MachineLeafRow {
        leaf: MachineLeaf::KubeletClient,
        name: "kubelet-client",
        maker: Maker::ControllerManager,
        signer: Authority::Cluster,
        common_name: MachineCommonName::Node,
        organization: Some("system:nodes"),
        sans: &[],
        usages: Usages::Client,
    },
    MachineLeafRow {
        leaf: MachineLeaf::KubeletServing,
        name: "kubelet-serving",
        maker: Maker::ControllerManager,
        signer: Authority::Cluster,
        common_name: MachineCommonName::Node,
        organization: Some("system:nodes"),
        sans: &[MachineSanRule::MachineName, MachineSanRule::MachineAddress],
        usages: Usages::Server,
    },
];

impl Authority {
    /// Its row.
    pub fn row(self) -> &'static AuthorityRow {
        &AUTHORITIES[self as usize]
    }
}

impl Pair {
    /// Its row.
    pub fn row(self) -> &'static PairRow {
        &PAIRS[self as usize]
    }
}

impl Leaf {
    /// Its row.
    pub fn row(self) -> &'static LeafRow {
        &LEAVES[self as usize]
    }
}

impl MachineLeaf {
    /// Its row.
    pub fn row(self) -> &'static MachineLeafRow {
        &MACHINE_LEAVES[self as usize]
    }
}
