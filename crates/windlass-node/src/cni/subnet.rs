//! The subnet of a machine, as flannel's file or a Node tells it.

use ipnet::IpNet;
use thiserror::Error;

/// What the pods of this machine get their addresses from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// The range itself, without host bits.
    pub range: IpNet,
    /// The largest packet.
    pub mtu: u32,
}

/// Why a text tells no subnet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubnetError {
    /// There is no such line.
    #[error("there is no line {name}")]
    Find {
        /// The variable.
        name: &'static str,
    },
    /// The line says something else.
    #[error("cannot take {text:?} as {name}")]
    Take {
        /// The variable.
        name: &'static str,
        /// What it says.
        text: String,
    },
}

/// The smallest packet that IPv4 knows, and the largest.
const MTUS: std::ops::RangeInclusive<u32> = 576..=65535;

impl Subnet {
    /// A range as Nodes have it, `10.244.1.0/24`.
    pub fn of_range(text: &str, mtu: u32) -> Result<Self, SubnetError> {
        let refused = || SubnetError::Take { name: "a range of addresses", text: clipped(text) };
        let net: IpNet = text.trim().parse().map_err(|_| refused())?;
        // Smaller ones have no address left for a pod beside network, gateway and broadcast.
        let spare = u32::from(net.max_prefix_len() - net.prefix_len());
        if spare < 2 {
            return Err(refused());
        }
        Ok(Subnet { range: net.trunc(), mtu })
    }
}

/// The subnet in flannel's `subnet.env`. The address there is the gateway's, with the length of the range.
pub fn parse(text: &str) -> Result<Subnet, SubnetError> {
    let value = |name: &'static str| {
        let found = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        found.map(str::trim).ok_or(SubnetError::Find { name })
    };
    let mtu_text = value("FLANNEL_MTU")?;
    let mtu = mtu_text.parse().ok().filter(|mtu| MTUS.contains(mtu));
    let mtu = mtu.ok_or_else(|| SubnetError::Take { name: "FLANNEL_MTU", text: clipped(mtu_text) })?;
    Subnet::of_range(value("FLANNEL_SUBNET")?, mtu)
}

fn clipped(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flannels_file_is_understood() {
        let whole =
            "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        let subnet = |range: &str, mtu| Ok(Subnet { range: range.parse().unwrap(), mtu });
        let find = |name| Err(SubnetError::Find { name });
        let cases = [
            (whole, subnet("10.244.1.0/24", 1450)),
            ("FLANNEL_MTU=9000\r\n  FLANNEL_SUBNET=10.9.255.129/25  \n", subnet("10.9.255.128/25", 9000)),
            ("FLANNEL_SUBNET=fd00::1/64\nFLANNEL_MTU=1500", subnet("fd00::/64", 1500)),
            ("", find("FLANNEL_MTU")),
            ("FLANNEL_MTU=1450\n", find("FLANNEL_SUBNET")),
            ("FLANNEL_MTU=1450\nFLANNEL_SUBNETS=10.0.0.0/8\n", find("FLANNEL_SUBNET")),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_subnet_is_refused() {
        for (subnet, mtu) in [
            ("10.244.1.1", "1450"),
            ("10.244.1.1/33", "1450"),
            ("10.244.1.1/31", "1450"),
            ("10.244.1.1/32", "1450"),
            ("::/127", "1450"),
            ("x", "1450"),
            ("", "1450"),
            ("10.244.1.1/24", "0"),
            ("10.244.1.1/24", "-1"),
            ("10.244.1.1/24", "99999999999999999999"),
            ("10.244.1.1/24", "1450x"),
            ("10.244.1.1/24", ""),
        ] {
            let text = format!("FLANNEL_SUBNET={subnet}\nFLANNEL_MTU={mtu}\n");
            assert!(matches!(parse(&text), Err(SubnetError::Take { .. })), "{text:?}");
        }
    }

    #[test]
    fn any_text_is_an_answer_and_not_a_panic() {
        let mut noise = 7_u64;
        for length in 0..400 {
            let mut text = String::new();
            for _ in 0..length {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pieces = ["FLANNEL_SUBNET", "FLANNEL_MTU", "=", "\n", "10.244.1.1/24", "/", "é", "\0", "9", ":"];
                text.push_str(pieces[(noise >> 40) as usize % pieces.len()]);
            }
            if let Ok(subnet) = parse(&text) {
                assert_eq!(subnet.range, subnet.range.trunc(), "{text:?}");
                assert!(MTUS.contains(&subnet.mtu), "{text:?}");
            }
        }
    }
}
