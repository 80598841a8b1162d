//! The wires of a cluster: a bridge `lan0` in the cluster's namespace, and per machine a pair of links, `m<index>` on
//! the bridge and `eth0` in the machine. Each function can be repeated and finishes what an interrupted one began.
//!
//! A cluster's network is IPv4 only. IPv6 is off in the cluster's namespace and on `eth0`, so that nothing waits for
//! duplicate address detection and no packet takes a path that faults do not cover; on the machine's other links,
//! its loopback among them, it is as the host has it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use ipnet::Ipv4Net;
use rtnetlink::packet_route::link::{BridgeStpState, InfoData, InfoVeth, LinkMessage};
use rtnetlink::{LinkBridge, LinkUnspec, LinkVeth};
use thiserror::Error;

use super::metadata::METADATA;
use super::namespace::{Namespace, NamespaceError};
use super::netlink::{Link, Netlink, set, within};
use super::plan::{LanPlan, hardware_address};

/// The bridge of a cluster, inside the cluster's namespace.
pub const BRIDGE: &str = "lan0";
/// The link of a machine, inside the machine's namespace.
pub const MACHINE_LINK: &str = "eth0";

/// A cluster's bridge, which machines are plugged into.
#[derive(Clone, Debug)]
pub struct Lan {
    namespace: Namespace,
    plan: LanPlan,
}

/// What connects a machine.
#[derive(Clone, Copy, Debug)]
pub struct Plug<'a> {
    /// The machine's own namespace.
    pub machine: &'a Namespace,
    /// The number of its port on the bridge, unique in the cluster.
    pub index: u32,
    /// Its address, from the plan.
    pub address: Ipv4Addr,
}

/// What could not be done to the links of a namespace.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The namespace is not there or cannot be entered.
    #[error("cannot work on the links of a cluster")]
    Enter {
        /// Why not.
        source: NamespaceError,
    },
    /// No netlink socket.
    #[error("cannot ask the kernel about the links in {}", .path.display())]
    Connect {
        /// The namespace.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("cannot {what} in {}", .path.display())]
    Change {
        /// The attempt.
        what: String,
        /// The namespace.
        path: PathBuf,
        /// What the kernel said.
        source: Box<rtnetlink::Error>,
    },
    /// A link that another one needs does not exist.
    #[error("there is no link {name} in {}", .path.display())]
    Missing {
        /// The link.
        name: &'static str,
        /// The namespace.
        path: PathBuf,
    },
    /// A kernel setting kept its value.
    #[error("cannot set {} to {value}", .path.display())]
    Setting {
        /// The file of the setting.
        path: PathBuf,
        /// What it was to be.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Lan {
    /// Makes the bridge with the gateway's address in the cluster's namespace.
    pub fn make(namespace: &Namespace, plan: LanPlan) -> Result<Self, LinkError> {
        within(namespace, async |net| {
            quieten()?;
            net.loopback_up().await?;
            if net.link(BRIDGE).await?.is_none() {
                net.add(BRIDGE, bridge(&plan)).await?;
            }
            let index = bridge_index(net, namespace).await?;
            let up = LinkUnspec::new_with_index(index).mtu(plan.mtu.into()).up().build();
            net.change(BRIDGE, up).await?;
            net.add_address(index, within_subnet(&plan, plan.gateway)).await
        })?;
        Ok(Self { namespace: namespace.clone(), plan })
    }

    /// The cluster's namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The addresses it was made with.
    pub fn plan(&self) -> &LanPlan {
        &self.plan
    }

    /// Gives the bridge one more address, for a balancer to listen on.
    pub fn add_address(&self, address: Ipv4Addr) -> Result<(), LinkError> {
        within(&self.namespace, async |net| {
            net.add_address(bridge_index(net, &self.namespace).await?, Ipv4Net::from(address)).await
        })
    }

    /// Takes an added address away; the gateway's own stays, because it was added with its subnet.
    pub fn remove_address(&self, address: Ipv4Addr) -> Result<(), LinkError> {
        within(&self.namespace, async |net| {
            net.remove_address(bridge_index(net, &self.namespace).await?, Ipv4Net::from(address)).await
        })
    }

    /// The addresses that were added for balancers, whoever added them.
    pub fn added_addresses(&self) -> Result<Vec<Ipv4Addr>, LinkError> {
        within(&self.namespace, async |net| net.lone_addresses(bridge_index(net, &self.namespace).await?).await)
    }

    /// Connects a machine: link, address, default route, loopback and the address of the metadata service on it.
    pub fn plug(&self, plug: &Plug<'_>) -> Result<(), LinkError> {
        self.pair_up(plug)?;
        self.set_up_machine(plug)
    }

    /// Disconnects whatever is plugged in under this number; the machine's end goes with it.
    pub fn unplug(&self, index: u32) -> Result<(), LinkError> {
        within(&self.namespace, async |net| match net.link(&port_name(index)).await? {
            Some(port) => net.delete(&port).await,
            None => Ok(()),
        })
    }

    /// The numbers of the machines that are connected to the bridge and up.
    pub fn ports(&self) -> Result<Vec<u32>, LinkError> {
        within(&self.namespace, async |net| {
            let bridge = bridge_index(net, &self.namespace).await?;
            let links = net.links().await?.into_iter();
            let plugged = links.filter(|link| link.controller == Some(bridge) && link.up);
            let mut ports: Vec<u32> = plugged.filter_map(|link| port_index(&link.name)).collect();
            ports.sort_unstable();
            Ok(ports)
        })
    }

    fn pair_up(&self, plug: &Plug<'_>) -> Result<(), LinkError> {
        let name = port_name(plug.index);
        let end = within(plug.machine, async |net| net.link(MACHINE_LINK).await)?;
        within(&self.namespace, async |net| {
            let bridge = bridge_index(net, &self.namespace).await?;
            let port = net.link(&name).await?;
            if !is_pair(port.as_ref(), end.as_ref(), plug.address) {
                remove(net, port.as_ref()).await?;
                // Unless it went with its port just now.
                within(plug.machine, async |net| remove(net, net.link(MACHINE_LINK).await?.as_ref()).await)?;
                net.add(&name, pair(&name, plug, self.plan.mtu)).await?;
            }
            let up = LinkUnspec::new_with_name(&name).mtu(self.plan.mtu.into()).controller(bridge).up().build();
            net.change(&name, up).await
        })
    }

    fn set_up_machine(&self, plug: &Plug<'_>) -> Result<(), LinkError> {
        within(plug.machine, async |net| {
            set("ipv6/conf/eth0/disable_ipv6", "1")?;
            let lo = net.loopback_up().await?;
            net.add_address(lo, Ipv4Net::from(METADATA)).await?;
            let found = net.link(MACHINE_LINK).await?;
            let missing = || LinkError::Missing { name: MACHINE_LINK, path: plug.machine.path().to_owned() };
            let eth0 = found.ok_or_else(missing)?.index;
            let up = LinkUnspec::new_with_index(eth0).mtu(self.plan.mtu.into()).up().build();
            net.change(MACHINE_LINK, up).await?;
            net.add_address(eth0, within_subnet(&self.plan, plug.address)).await?;
            net.default_route(eth0, self.plan.gateway).await
        })
    }
}

/// The name of a machine's port on the bridge.
pub fn port_name(index: u32) -> String {
    format!("m{index}")
}

fn port_index(name: &str) -> Option<u32> {
    name.strip_prefix('m')?.parse().ok()
}

// Bridged packets are the machines' own affair: they must not pass the cluster namespace's address translation.
fn quieten() -> Result<(), LinkError> {
    for scope in ["all", "default"] {
        set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1")?;
    }
    ["iptables", "ip6tables", "arptables"]
        .iter()
        .try_for_each(|tables| set(&format!("bridge/bridge-nf-call-{tables}"), "0"))
}

// With a hardware address of its own: otherwise the bridge takes one from its ports, and changes it as they come and go.
fn bridge(plan: &LanPlan) -> LinkMessage {
    LinkBridge::new(BRIDGE)
        .address(hardware_address(plan.gateway).to_vec())
        .mtu(plan.mtu.into())
        .stp_state(BridgeStpState::Disabled)
        .forward_delay(0)
        .build()
}

// The machine's end is made in the machine's namespace at once, so that no half of a pair ever lies in another one.
fn pair(name: &str, plug: &Plug<'_>, mtu: u16) -> LinkMessage {
    let end = LinkUnspec::new_with_name(MACHINE_LINK)
        .address(hardware_address(plug.address).to_vec())
        .mtu(mtu.into())
        .setns_by_fd(plug.machine.as_fd().as_raw_fd())
        .build();
    LinkVeth::new(name, MACHINE_LINK).mtu(mtu.into()).set_info_data(InfoData::Veth(InfoVeth::Peer(end))).build()
}

fn is_pair(port: Option<&Link>, end: Option<&Link>, address: Ipv4Addr) -> bool {
    let (Some(port), Some(end)) = (port, end) else { return false };
    port.peer == Some(end.index) && end.peer == Some(port.index) && end.hardware == hardware_address(address)
}

async fn remove(net: &Netlink, link: Option<&Link>) -> Result<(), LinkError> {
    match link {
        Some(link) => net.delete(link).await,
        None => Ok(()),
    }
}

async fn bridge_index(net: &Netlink, namespace: &Namespace) -> Result<u32, LinkError> {
    let missing = || LinkError::Missing { name: BRIDGE, path: namespace.path().to_owned() };
    Ok(net.link(BRIDGE).await?.ok_or_else(missing)?.index)
}

fn within_subnet(plan: &LanPlan, address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::new_assert(address, plan.subnet.prefix_len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_known_by_its_name_alone() {
        for (name, index) in [("m0", Some(0)), ("m17", Some(17)), ("lan0", None), ("m", None), ("mx1", None)] {
            assert_eq!(port_index(name), index, "{name}");
        }
        assert_eq!(port_index(&port_name(4711)), Some(4711));
    }

    #[test]
    fn two_ends_are_a_pair_only_if_each_names_the_other_and_the_address_fits() {
        let address: Ipv4Addr = "10.0.0.2".parse().unwrap();
        let link = |index, peer| Link {
            index,
            name: String::new(),
            hardware: hardware_address(address).to_vec(),
            controller: None,
            peer: Some(peer),
            up: true,
        };
        let (port, end) = (link(7, 2), link(2, 7));
        assert!(is_pair(Some(&port), Some(&end), address));
        assert!(!is_pair(Some(&port), None, address));
        assert!(!is_pair(None, Some(&end), address));
        assert!(!is_pair(Some(&port), Some(&link(2, 8)), address));
        assert!(!is_pair(Some(&port), Some(&link(3, 7)), address));
        assert!(!is_pair(Some(&port), Some(&end), "10.0.0.3".parse().unwrap()));
    }
}
