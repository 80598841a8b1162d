//! Rows: what is wanted, as it is written down. A row says what should be; what is there is looked at, never stored.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use windlass_cloud_api::{
    BalancerSpec, ClusterSpec, Fault, ForwardSpec, GroupSpec, Image, Label, MachineSpec, Power, Record, VolumeSpec,
};

use crate::group::BackOff;
use crate::object::Object;

/// The key of a row: what kind, whose, which.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    fn new(kind: &str, cluster: Option<&Label>, name: &str) -> Self {
        Key(format!("{kind}\0{}\0{name}", cluster.map_or("", Label::as_str)))
    }

    /// As the store keeps it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One thing that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Row {
    /// An image.
    Image(Image),
    /// A cluster.
    Cluster(ClusterRow),
    /// A machine.
    Machine(MachineRow),
    /// A volume.
    Volume(VolumeRow),
    /// A balancer.
    Balancer(BalancerRow),
    /// A door from the host.
    Forward(ForwardRow),
    /// A group.
    Group(GroupRow),
    /// A name.
    Record(RecordRow),
    /// An object.
    Object(ObjectRow),
}

impl Row {
    /// What it is kept under.
    pub fn key(&self) -> Key {
        match self {
            Row::Image(row) => Key::image(&row.name),
            Row::Cluster(row) => Key::cluster(&row.name),
            Row::Machine(row) => Key::machine(&row.cluster, &row.name),
            Row::Volume(row) => Key::volume(&row.cluster, &row.name),
            Row::Balancer(row) => Key::balancer(&row.cluster, &row.name),
            Row::Forward(row) => Key::forward(&row.cluster, &row.name),
            Row::Group(row) => Key::group(&row.cluster, &row.name),
            Row::Record(row) => Key::record(&row.cluster, &row.record),
            Row::Object(row) => Key::object(&row.cluster, row.object.key.as_str()),
        }
    }
}

impl Key {
    /// An image's.
    pub fn image(name: &Label) -> Self {
        Key::new("image", None, name.as_str())
    }

    /// A cluster's.
    pub fn cluster(name: &Label) -> Self {
        Key::new("cluster", None, name.as_str())
    }

    /// A machine's.
    pub fn machine(cluster: &Label, name: &Label) -> Self {
        Key::new("machine", Some(cluster), name.as_str())
    }

    /// A volume's.
    pub fn volume(cluster: &Label, name: &Label) -> Self {
        Key::new("volume", Some(cluster), name.as_str())
    }

    /// A balancer's.
    pub fn balancer(cluster: &Label, name: &Label) -> Self {
        Key::new("balancer", Some(cluster), name.as_str())
    }

    /// A door's.
    pub fn forward(cluster: &Label, name: &Label) -> Self {
        Key::new("forward", Some(cluster), name.as_str())
    }

    /// A group's.
    pub fn group(cluster: &Label, name: &Label) -> Self {
        Key::new("group", Some(cluster), name.as_str())
    }

    /// A record's: its name and kind.
    pub fn record(cluster: &Label, record: &Record) -> Self {
        Key::new("record", Some(cluster), &format!("{}\0{:?}", record.name, record.kind))
    }

    /// An object's.
    pub fn object(cluster: &Label, key: &str) -> Self {
        Key::new("object", Some(cluster), key)
    }
}

/// A cluster that is wanted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// What it is called.
    pub name: Label,
    /// What it is to be.
    pub spec: ClusterSpec,
    /// What its URLs and tokens are signed with, hex; of no use outside this cluster.
    pub secret: String,
    /// The number of the next machine.
    pub next_index: u32,
    /// The version of the next record.
    pub next_version: u64,
    /// The faults in effect.
    pub faults: Vec<Fault>,
    /// Whether it is on its way out.
    pub leaving: bool,
}

// By hand, because of the secret.
impl std::fmt::Debug for ClusterRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterRow").field("name", &self.name).field("leaving", &self.leaving).finish_non_exhaustive()
    }
}

/// A machine that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineRow {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// Who made it.
    pub group: Option<Label>,
    /// Of which generation of that group's template.
    pub generation: u64,
    /// What it is to be.
    pub spec: MachineSpec,
    /// Its number.
    pub index: u32,
    /// Its address.
    pub address: Ipv4Addr,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Whether it is to run.
    pub power: Power,
    /// Which of its boots is wanted; one that runs as an earlier one is ended.
    pub boot: u64,
    /// How it is ended when it is to end.
    pub ending: Ending,
    /// Whether it is on its way out.
    pub leaving: bool,
}

/// How a machine is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It is asked, and has some time.
    Asked,
    /// Its power is taken away.
    Cut,
}

/// A volume that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRow {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// What it is to be.
    pub spec: VolumeSpec,
    /// Who has it.
    pub holder: Option<Label>,
    /// Who is to have it once the holder is fenced.
    pub next_holder: Option<Label>,
    /// Whether the holder gives it back. It stays the holder until the host's device is closed, so that a volume of
    /// nobody's is never in use.
    #[serde(default)]
    pub letting_go: bool,
    /// Whether it is on its way out.
    pub leaving: bool,
}

/// A balancer that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BalancerRow {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// What it is to be.
    pub spec: BalancerSpec,
    /// Its address.
    pub address: Ipv4Addr,
}

/// A door that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardRow {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// What it is to be.
    pub spec: ForwardSpec,
    /// The port that it got; it keeps it over restarts of the daemon.
    pub port: u16,
}

/// A group that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRow {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// What it is to be.
    pub spec: GroupSpec,
    /// How often its template was changed.
    pub generation: u64,
    /// The highest number that one of its machines ever had.
    pub last_serial: u64,
    /// Why it makes no machine just now, if so.
    pub back_off: Option<BackOff>,
    /// Whether it is on its way out.
    pub leaving: bool,
}

/// A name that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordRow {
    /// Whose it is.
    pub cluster: Label,
    /// What it stands for.
    pub record: Record,
}

/// An object that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// Whose it is.
    pub cluster: Label,
    /// What it is.
    pub object: Object,
}
