//! Balancers, and the doors that lead to them from the host.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::Label;

/// What a balancer is to be: an address of its own with ports, each leading to the same port of every target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BalancerSpec {
    /// Its address; the next free one unless given.
    #[serde(default)]
    pub address: Option<Ipv4Addr>,
    /// Where it listens.
    pub ports: Vec<u16>,
    /// The machines behind it.
    pub targets: Vec<Label>,
    /// How it knows which of them to use.
    pub check: Check,
}

/// How a target's health is seen, for each port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Check {
    /// It accepts connections.
    Tcp,
    /// It answers this path with 200, over TLS that this authority signed.
    Https {
        /// The path.
        path: String,
        /// The authority's certificates, PEM.
        ca: String,
        /// The name that the target's certificate must be for.
        name: String,
    },
}

/// A balancer as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balancer {
    /// What it is called.
    pub name: Label,
    /// What it is to be.
    pub spec: BalancerSpec,
    /// Where it is.
    pub address: Ipv4Addr,
    /// What it thinks of each target.
    pub targets: Vec<Target>,
}

/// What a balancer thinks of one machine on one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The machine.
    pub machine: Label,
    /// The port.
    pub port: u16,
    /// Whether it gets connections.
    pub state: TargetState,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many it has.
    pub connections: usize,
}

/// Whether a target gets connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// It gets new ones.
    Up,
    /// It gets none.
    Down,
    /// It keeps those it has.
    Draining,
}

/// A door from 127.0.0.1 into a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForwardSpec {
    /// The port on 127.0.0.1; if it is taken, or not given, another.
    #[serde(default)]
    pub port: Option<u16>,
    /// Where it leads.
    pub address: Ipv4Addr,
    /// The port there.
    pub to: u16,
}

/// A door as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    /// What it is called.
    pub name: Label,
    /// What it is to be.
    pub spec: ForwardSpec,
    /// The port on 127.0.0.1 that it has.
    pub port: u16,
}
