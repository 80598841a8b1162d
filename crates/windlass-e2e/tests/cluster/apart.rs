//! What pods must not reach: they look like their machine, but are not given what is the machine's.

use windlass_e2e::Installation;

/// In the network namespace of a pod on the machine, if there is one: whether a connection to each place is taken.
const TRY: &str = r#"
    comm=$(grep --files-with-matches --line-regexp coredns /proc/[0-9]*/comm 2>/dev/null | head --lines 1) || true
    pid=$(echo "$comm" | cut -d / -f 3)
    [ -n "$pid" ] || exit 0
    api=$(getent hosts "api.internal.$domain" | cut -d ' ' -f 1)
    own=$(ip -oneline route get "$api" | grep --only-matching 'src [0-9.]*' | cut -d ' ' -f 2)
    for place in "$api/6443" "$api/22623" "$own/22623" 169.254.169.254/80; do
        if timeout 2 nsenter --target "$pid" --net bash -c "exec 3<>/dev/tcp/$place" 2>/dev/null; then
            echo "$place taken"
        else
            echo "$place not taken"
        fi
    done
"#;

/// The pods of the cluster's DNS, on whichever machines they are.
pub async fn pods_reach_neither_metadata_nor_machine_configs(cluster: &Installation) {
    let metadata: serde_json::Value = serde_json::from_str(&cluster.read("metadata.json")).expect("metadata is JSON");
    let domain = metadata["domain"].as_str().expect("a cluster has a domain");
    let mut tried = 0;
    for machine in ["master-0", "master-1", "master-2", "worker-0", "worker-1"] {
        let said = cluster.on(machine, &format!("domain={domain}{TRY}")).await;
        for line in said.lines() {
            let is_api = line.contains("/6443 ");
            assert_eq!(line.ends_with(" not taken"), !is_api, "from a pod on {machine}: {said}");
            tried += 1;
        }
    }
    assert!(tried >= 8, "both pods were found: {tried}");
}
