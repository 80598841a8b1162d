//! What must not be reached is not reached, and what must is.

use crate::cloud::{Cloud, LONG, fetch, hear, until};

/// A network namespace behind a bridge of the machine's, as a container has it, with its packets forwarded and their
/// source rewritten, which is the most that could help it to look like the machine.
const CONTAINER: &str = "
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link add br0 type bridge
ip address add 10.200.0.1/24 dev br0
ip link set br0 up
ip netns add container
ip link add outside type veth peer name inside netns container
ip link set outside master br0 up
ip -n container address add 10.200.0.2/24 dev inside
ip -n container link set inside up
ip -n container link set lo up
ip -n container route add default via 10.200.0.1
nft add table ip container
nft 'add chain ip container post { type nat hook postrouting priority 100; }'
nft add rule ip container post ip saddr 10.200.0.0/24 masquerade
";
const IDENTITY: &str = "/v1/identity";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn containers_do_not_reach_the_metadata_and_clusters_do_not_reach_each_other() {
    let cloud = Cloud::start().await;
    let one = cloud.cluster("one", "10.91.0.0/24").await;
    let other = cloud.cluster("other", "10.92.0.0/24").await;
    one.machine("m0", None).await;
    other.machine("m0", None).await;
    one.running("m0").await;
    other.running("m0").await;

    let metadata = fetch("169.254.169.254", IDENTITY);
    let own = one.sh("m0", &metadata).await;
    assert!(own.contains("200 OK") && own.contains("\"one\""), "{own}");
    let its = other.sh("m0", &metadata).await;
    assert!(its.contains("\"other\"") && !its.contains("\"one\""), "{its}");

    one.sh("m0", CONTAINER).await;
    let within = |script: &str| format!("ip netns exec container {script}");
    // It has a way out: the cluster's objects answer it, even if they refuse.
    let objects = one.sh("m0", &within(&fetch("10.91.0.1", "/o/nothing"))).await;
    assert!(objects.contains("403 Forbidden"), "{objects}");
    let reached = one.tries("m0", &within(&metadata)).await;
    assert!(reached.is_err(), "a container was answered: {reached:?}");
    // Nor with a route of its own to it.
    let routed = format!("ip -n container route add 169.254.169.254 via 10.200.0.1; {}", within(&metadata));
    let reached = one.tries("m0", &routed).await;
    assert!(reached.is_err(), "a container was answered: {reached:?}");
    assert!(one.sh("m0", &metadata).await.contains("200 OK"));

    // The other cluster's machine and services answer at home and nowhere else.
    other.sh("m0", "systemd-run --quiet --unit says socat TCP-LISTEN:7000,reuseaddr,fork SYSTEM:hostname").await;
    let its_address = other.address("m0").await;
    until("it answers at home", LONG, async || other.tries("m0", &hear(&its_address, 7000)).await).await;
    for (place, port) in [(its_address.as_str(), 7000), ("10.92.0.1", 80), ("10.92.0.1", 53)] {
        let reached = one.tries("m0", &hear(place, port)).await;
        assert!(reached.is_err(), "{place}:{port} was reached from another cluster: {reached:?}");
    }
    one.destroy().await;
    other.destroy().await;
}
