//! A cluster: a network with a zone, and everything in it.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::{Label, ObjectKey, Tags};

/// What a cluster is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// The domain that its zone answers for.
    pub domain: String,
    /// Its own addresses; clusters may use the same ones, they never meet.
    pub subnet: Ipv4Net,
    /// The size of its packets.
    #[serde(default = "usual_mtu")]
    pub mtu: u16,
    /// What is said of it and of everything in it.
    #[serde(default)]
    pub tags: Tags,
    /// Whether machines reach what is outside.
    #[serde(default)]
    pub egress: Egress,
    /// Which operating system machines are offered.
    #[serde(default)]
    pub channel: Channel,
    /// Below these prefixes objects are readable by every machine, without a signed URL.
    #[serde(default)]
    pub public: Vec<ObjectKey>,
}

fn usual_mtu() -> u16 {
    1500
}

/// Whether machines reach what is outside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Egress {
    /// Through a user-mode network.
    On,
    /// Not at all.
    #[default]
    Off,
}

/// The operating system that machines are offered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Channel {
    /// The image that an update leads to.
    #[serde(default)]
    pub next: Option<Label>,
}

/// A cluster as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// What it is called.
    pub name: Label,
    /// What it is to be.
    pub spec: ClusterSpec,
    /// Where names, objects and the way out are.
    pub gateway: Ipv4Addr,
    /// The key that its machines' tokens are signed with, public, hex.
    pub token_key: String,
    /// Whether its network is there.
    pub ready: bool,
    /// What went wrong last, if it still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}
