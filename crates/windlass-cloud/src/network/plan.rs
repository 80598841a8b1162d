//! Which address is whose in a cluster's subnet: the gateway first, balancers from the end downwards, machines in
//! between. All of it is arithmetic, so that the same number gives the same address for as long as the subnet stands.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use thiserror::Error;

const MOST_BALANCERS: u32 = 16;
const SMALLEST_MTU: u16 = 576;

/// The addresses of a cluster's network and the size of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanPlan {
    /// All addresses of the cluster.
    pub subnet: Ipv4Net,
    /// The address of the cluster's own services, and the machines' default route.
    pub gateway: Ipv4Addr,
    /// The largest packet on any link of the cluster.
    pub mtu: u16,
}

/// Numbers that do not make a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The gateway is elsewhere, or it is the address of the subnet itself or of its broadcasts.
    #[error("{gateway} is no host address of {subnet}")]
    Gateway {
        /// As it was asked for.
        gateway: Ipv4Addr,
        /// The cluster's subnet.
        subnet: Ipv4Net,
    },
    /// Smaller than what every IPv4 host must accept.
    #[error("packets of {mtu} bytes are too small for a network, {SMALLEST_MTU} is the least")]
    Mtu {
        /// As it was asked for.
        mtu: u16,
    },
}

impl LanPlan {
    /// A plan with this gateway, which must be a host address of the subnet.
    pub fn new(subnet: Ipv4Net, gateway: Ipv4Addr, mtu: u16) -> Result<Self, PlanError> {
        let subnet = subnet.trunc();
        let is_host = subnet.contains(&gateway) && gateway != subnet.network() && gateway != subnet.broadcast();
        if !is_host {
            return Err(PlanError::Gateway { gateway, subnet });
        }
        if mtu < SMALLEST_MTU {
            return Err(PlanError::Mtu { mtu });
        }
        Ok(Self { subnet, gateway, mtu })
    }

    /// The usual plan: the first host address is the gateway.
    pub fn usual(subnet: Ipv4Net, mtu: u16) -> Result<Self, PlanError> {
        Self::new(subnet, Ipv4Addr::from(u32::from(subnet.network()).saturating_add(1)), mtu)
    }

    /// The address of the machine with this number, counted from 0; nothing when the subnet is full.
    pub fn machine(&self, number: u32) -> Option<Ipv4Addr> {
        let first = u32::from(self.subnet.network()).checked_add(1)?;
        let address = first.checked_add(number)?;
        let gateway = u32::from(self.gateway);
        let address = if (first..=address).contains(&gateway) { address.checked_add(1)? } else { address };
        (address < self.first_balancer()).then(|| Ipv4Addr::from(address))
    }

    /// The address of the balancer with this number, counted from 0; nothing when the reserved range is used up.
    pub fn balancer(&self, number: u32) -> Option<Ipv4Addr> {
        let address = u32::from(self.subnet.broadcast()).checked_sub(number.checked_add(1)?)?;
        let free = address >= self.first_balancer() && address != u32::from(self.gateway);
        free.then(|| Ipv4Addr::from(address))
    }

    /// How many machines there is room for.
    pub fn machines(&self) -> u32 {
        let between = self.first_balancer().saturating_sub(u32::from(self.subnet.network())).saturating_sub(1);
        let gateway = u32::from(self.gateway);
        let inside = gateway > u32::from(self.subnet.network()) && gateway < self.first_balancer();
        between.saturating_sub(u32::from(inside))
    }

    // Without the network and broadcast addresses; a quarter of them, so that a small subnet still has machines.
    fn first_balancer(&self) -> u32 {
        let (network, broadcast) = (u32::from(self.subnet.network()), u32::from(self.subnet.broadcast()));
        let hosts = (broadcast - network).saturating_sub(1);
        broadcast - (hosts / 4).min(MOST_BALANCERS)
    }
}

/// The hardware address that goes with an address: locally administered, and the same for whichever machine has the
/// address, so that nobody's neighbour table is wrong after a machine was replaced.
pub fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x57, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{Strategy, any, proptest};

    use super::*;

    fn plans() -> impl Strategy<Value = LanPlan> {
        (any::<u32>(), 20_u8..=30, any::<proptest::sample::Index>()).prop_map(|(address, length, place)| {
            let subnet = Ipv4Net::new(Ipv4Addr::from(address), length).unwrap();
            let hosts: Vec<Ipv4Addr> = subnet.hosts().collect();
            LanPlan::new(subnet, *place.get(&hosts), 1500).unwrap()
        })
    }

    proptest! {
        #[test]
        fn addresses_never_overlap_and_never_leave_the_subnet(plan in plans()) {
            let machines: Vec<Ipv4Addr> = (0..).map_while(|n| plan.machine(n)).collect();
            let balancers: Vec<Ipv4Addr> = (0..MOST_BALANCERS).filter_map(|n| plan.balancer(n)).collect();
            let all: BTreeSet<Ipv4Addr> = machines.iter().chain(&balancers).copied().collect();
            assert_eq!(all.len(), machines.len() + balancers.len());
            assert!(!all.contains(&plan.gateway));
            assert!(!all.contains(&plan.subnet.network()) && !all.contains(&plan.subnet.broadcast()));
            assert!(all.iter().all(|address| plan.subnet.contains(address)));
            assert_eq!(u32::try_from(machines.len()).unwrap(), plan.machines());
        }
    }

    #[test]
    fn the_gateway_is_first_machines_follow_and_balancers_come_from_the_end() {
        let plan = LanPlan::usual("10.30.0.77/24".parse().unwrap(), 1500).unwrap();
        let cases = [
            (Some(plan.gateway), "10.30.0.1"),
            (plan.machine(0), "10.30.0.2"),
            (plan.machine(236), "10.30.0.238"),
            (plan.balancer(0), "10.30.0.254"),
            (plan.balancer(15), "10.30.0.239"),
        ];
        for (found, wanted) in cases {
            assert_eq!(found, Some(wanted.parse().unwrap()));
        }
        assert_eq!((plan.machine(237), plan.balancer(16), plan.machines()), (None, None, 237));
    }

    #[test]
    fn what_makes_no_network_is_refused() {
        let subnet = |text: &str| text.parse::<Ipv4Net>().unwrap();
        for text in ["10.0.0.0/31", "10.0.0.0/32", "255.255.255.255/32"] {
            assert!(matches!(LanPlan::usual(subnet(text), 1500), Err(PlanError::Gateway { .. })), "{text}");
        }
        for gateway in ["10.0.0.0", "10.0.0.255", "10.0.1.1"] {
            let refused = LanPlan::new(subnet("10.0.0.0/24"), gateway.parse().unwrap(), 1500);
            assert!(matches!(refused, Err(PlanError::Gateway { .. })), "{gateway}");
        }
        assert_eq!(LanPlan::usual(subnet("10.0.0.0/24"), 575), Err(PlanError::Mtu { mtu: 575 }));
    }

    #[test]
    fn a_hardware_address_is_locally_administered_and_not_a_group() {
        let address = hardware_address("10.30.0.2".parse().unwrap());
        assert_eq!(address, [0x02, 0x57, 10, 30, 0, 2]);
        assert_eq!(address[0] & 0b11, 0b10);
    }
}
