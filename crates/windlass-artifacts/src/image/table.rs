//! The table of our images.

use std::fmt;

use windlass_spec::KubeVersion;

/// Images that are made, stored and imported together because they share layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImageSet {
    /// kube-apiserver, kube-controller-manager, kube-scheduler and kube-proxy.
    Kubernetes,
    /// etcd with its tools.
    Etcd,
    /// CoreDNS.
    CoreDns,
    /// flannel's daemon; its CNI plugin is not used.
    Flannel,
    /// The process that holds a pod's namespaces.
    Pause,
    /// windlass' own program for machines.
    WindlassNode,
}

/// An image: its name, its programs, and what it needs beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageRow {
    /// The set it belongs to.
    pub set: ImageSet,
    /// Its name without the tag.
    pub repository: &'static str,
    /// How the tag follows from the version.
    pub(super) tag: Tag,
    /// Where each program goes. The first one's directory also holds the file of a multi-call binary.
    pub programs: &'static [(&'static str, &'static str)],
    /// What it starts; manifests that give only arguments rely on it.
    pub entrypoint: &'static str,
    /// What else is in it.
    pub(super) extras: Extras,
    /// Whom it runs as; root if nothing is said.
    pub user: Option<&'static str>,
}

/// How upstream writes the version into the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// `3.10.2`
    Plain,
    /// `v1.36.3`
    V,
    /// `3.6.16-0`: etcd's images have a revision of their own.
    Revision0,
}

/// What an image has besides its programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extras {
    /// Nothing at all.
    Nothing,
    /// Users, name service, `/tmp`, and the certificates of public authorities.
    Support,
    /// The same, and the programs that change a machine's network.
    NetworkTools,
}

const BIN: &str = "usr/local/bin";

/// Every image that windlass makes.
pub const TABLE: &[ImageRow] = &[
    kubernetes("registry.k8s.io/kube-apiserver", &[("kube-apiserver", BIN)], Extras::Support),
    kubernetes("registry.k8s.io/kube-controller-manager", &[("kube-controller-manager", BIN)], Extras::Support),
    kubernetes("registry.k8s.io/kube-scheduler", &[("kube-scheduler", BIN)], Extras::Support),
    kubernetes("registry.k8s.io/kube-proxy", &[("kube-proxy", BIN)], Extras::NetworkTools),
    ImageRow {
        set: ImageSet::Etcd,
        repository: "registry.k8s.io/etcd",
        tag: Tag::Revision0,
        programs: &[("etcd", BIN), ("etcdctl", BIN), ("etcdutl", BIN)],
        entrypoint: "etcd",
        extras: Extras::Support,
        user: None,
    },
    ImageRow {
        set: ImageSet::CoreDns,
        repository: "registry.k8s.io/coredns/coredns",
        tag: Tag::V,
        programs: &[("coredns", "")],
        entrypoint: "/coredns",
        extras: Extras::Support,
        user: None,
    },
    ImageRow {
        set: ImageSet::Flannel,
        repository: "ghcr.io/flannel-io/flannel",
        tag: Tag::V,
        programs: &[("flanneld", "opt/bin")],
        entrypoint: "/opt/bin/flanneld",
        extras: Extras::NetworkTools,
        user: None,
    },
    ImageRow {
        set: ImageSet::Pause,
        repository: "registry.k8s.io/pause",
        tag: Tag::Plain,
        programs: &[("pause", "")],
        entrypoint: "/pause",
        extras: Extras::Nothing,
        user: Some("65535:65535"),
    },
    ImageRow {
        set: ImageSet::WindlassNode,
        repository: "windlass.dev/windlass-node",
        tag: Tag::V,
        programs: &[("windlass-node", "")],
        entrypoint: "/windlass-node",
        extras: Extras::Support,
        user: None,
    },
];

const fn kubernetes(
    repository: &'static str,
    programs: &'static [(&'static str, &'static str)],
    extras: Extras,
) -> ImageRow {
    let entrypoint = programs[0].0;
    ImageRow { set: ImageSet::Kubernetes, repository, tag: Tag::V, programs, entrypoint, extras, user: None }
}

impl ImageRow {
    /// The full name that goes with a Kubernetes version.
    pub fn name(&self, kubernetes: KubeVersion) -> String {
        let version = self.set.version(kubernetes);
        match self.tag {
            Tag::Plain => format!("{}:{version}", self.repository),
            Tag::V => format!("{}:v{version}", self.repository),
            Tag::Revision0 => format!("{}:{version}-0", self.repository),
        }
    }
}

impl ImageSet {
    /// All sets, in the order in which they are made and imported.
    pub const ALL: [ImageSet; 6] = [
        ImageSet::Kubernetes,
        ImageSet::Etcd,
        ImageSet::CoreDns,
        ImageSet::Flannel,
        ImageSet::Pause,
        ImageSet::WindlassNode,
    ];

    /// The images of the set.
    pub fn rows(self) -> impl Iterator<Item = &'static ImageRow> {
        TABLE.iter().filter(move |row| row.set == self)
    }

    /// The names of the programs that the set is made from.
    pub fn programs(self) -> impl Iterator<Item = &'static str> {
        self.rows().flat_map(|row| row.programs.iter().map(|(name, _)| *name))
    }

    /// The version of what is in the set.
    pub fn version(self, kubernetes: KubeVersion) -> &'static str {
        let companions = kubernetes.companions();
        match self {
            ImageSet::Kubernetes => kubernetes.as_str(),
            ImageSet::Etcd => companions.etcd,
            ImageSet::CoreDns => companions.core_dns,
            ImageSet::Flannel => companions.flannel,
            ImageSet::Pause => companions.pause,
            ImageSet::WindlassNode => env!("CARGO_PKG_VERSION"),
        }
    }

    /// The name of the set's archive: `etcd-3.6.16.tar`.
    pub fn file_name(self, kubernetes: KubeVersion) -> String {
        format!("{self}-{}.tar", self.version(kubernetes))
    }

    /// The set's name; also that of a multi-call binary's file, to which its programs are links.
    pub fn as_str(self) -> &'static str {
        match self {
            ImageSet::Kubernetes => "kubernetes",
            ImageSet::Etcd => "etcd",
            ImageSet::CoreDns => "coredns",
            ImageSet::Flannel => "flannel",
            ImageSet::Pause => "pause",
            ImageSet::WindlassNode => "windlass-node",
        }
    }
}

impl fmt::Display for ImageSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
