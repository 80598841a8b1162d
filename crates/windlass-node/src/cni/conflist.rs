//! The configuration that the container runtime reads: a bridge with addresses of the machine's subnet, and host ports.

use ipnet::IpNet;
use serde_json::json;

use super::Subnet;

/// The configuration. flannel masquerades what leaves the cluster, so the bridge does not; a pod may reach itself through
/// its Service, which needs hairpins.
pub fn render(subnet: &Subnet) -> String {
    let everywhere = match subnet.range {
        IpNet::V4(_) => "0.0.0.0/0",
        IpNet::V6(_) => "::/0",
    };
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "windlass",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "mtu": subnet.mtu,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": subnet.range }]],
                    "routes": [{ "dst": everywhere }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    format!("{list:#}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_bridge_has_the_machines_range_and_flannels_packet_size() {
        for (range, everywhere) in [("10.244.1.0/24", "0.0.0.0/0"), ("fd00:1::/64", "::/0")] {
            let subnet = Subnet { range: range.parse().unwrap(), mtu: 1450 };
            let list: Value = serde_json::from_str(&render(&subnet)).unwrap();
            assert_eq!(list["cniVersion"], "1.0.0");
            let bridge = &list["plugins"][0];
            assert_eq!(bridge["type"], "bridge");
            assert_eq!(bridge["bridge"], "cni0");
            assert_eq!((&bridge["isGateway"], &bridge["ipMasq"]), (&true.into(), &false.into()));
            assert_eq!((&bridge["hairpinMode"], &bridge["mtu"]), (&true.into(), &1450.into()));
            assert_eq!(bridge["ipam"]["ranges"][0][0]["subnet"], range);
            assert_eq!(bridge["ipam"]["routes"][0]["dst"], everywhere);
            assert_eq!(list["plugins"][1]["type"], "portmap");
            assert_eq!(list["plugins"][1]["capabilities"]["portMappings"], true);
        }
    }
}
