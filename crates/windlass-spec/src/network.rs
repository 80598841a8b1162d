//! Address ranges of a cluster: machines, pods and services, three types that cannot be mixed up,
//! and the arithmetic that deciding needs. IPv4 only; a range of another family is refused by name.

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// Why a text is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CidrError(String);

/// Declares a range type over [`Ipv4Net`].
macro_rules! cidr {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Ipv4Net);

        impl $type {
            /// Takes a text such as `10.96.0.0/16` as this range.
            pub fn parse(text: &str) -> Result<Self, CidrError> {
                parse_net(text).map($type)
            }

            /// Takes a range that is known to start at its network address.
            pub fn of(net: Ipv4Net) -> Self {
                $type(net.trunc())
            }

            /// The range itself.
            pub fn net(&self) -> Ipv4Net {
                self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = CidrError;
            fn try_from(text: String) -> Result<Self, CidrError> {
                $type::parse(&text)
            }
        }

        impl From<$type> for String {
            fn from(cidr: $type) -> String {
                cidr.to_string()
            }
        }
    };
}

cidr!(
    /// Where the machines' own addresses lie.
    MachineCidr
);
cidr!(
    /// Where pod addresses lie; each node gets a part of it.
    PodCidr
);
cidr!(
    /// Where service addresses lie.
    ServiceCidr
);

fn parse_net(text: &str) -> Result<Ipv4Net, CidrError> {
    if text.contains(':') {
        return Err(CidrError(format!(
            "{text:?} is an IPv6 range: windlass clusters are IPv4, use a range such as 10.96.0.0/16"
        )));
    }
    let net: Ipv4Net =
        text.parse().map_err(|_| CidrError(format!("{text:?} is not an address range: write it as 10.96.0.0/16")))?;
    if net.addr() != net.network() {
        return Err(CidrError(format!("{text:?} does not start at its network address: write {}", net.trunc())));
    }
    Ok(net)
}

/// Whether two ranges share an address.
pub fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b) || b.contains(&a)
}

/// How many addresses a range has, its first and last included.
pub fn size(net: Ipv4Net) -> u64 {
    1 << (32 - net.prefix_len())
}

/// The `n`-th address of a range, its network address being the 0th.
pub fn nth(net: Ipv4Net, n: u32) -> Option<Ipv4Addr> {
    let address = Ipv4Addr::from(u32::from(net.network()).checked_add(n)?);
    net.contains(&address).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_start_at_their_network_address() {
        assert!(PodCidr::parse("10.244.0.0/16").is_ok());
        for (bad, says) in [
            ("10.244.0.1/16", "write 10.244.0.0/16"),
            ("10.244.0.0", "not an address range"),
            ("10.244.0.0/33", "not an address range"),
            ("fd00::/48", "IPv6"),
            ("", "not an address range"),
        ] {
            let error = PodCidr::parse(bad).unwrap_err().to_string();
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn addresses_beyond_a_range_do_not_exist() {
        let net: Ipv4Net = "10.0.0.0/30".parse().unwrap();
        assert_eq!(nth(net, 3), Some(Ipv4Addr::new(10, 0, 0, 3)));
        assert_eq!(nth(net, 4), None);
        assert_eq!(size(net), 4);
    }

    #[test]
    fn a_range_overlaps_what_it_holds_and_what_holds_it() {
        let net = |s: &str| s.parse::<Ipv4Net>().unwrap();
        assert!(overlap(net("10.0.0.0/8"), net("10.96.0.0/16")));
        assert!(overlap(net("10.96.0.0/16"), net("10.0.0.0/8")));
        assert!(!overlap(net("10.96.0.0/16"), net("10.97.0.0/16")));
    }
}
