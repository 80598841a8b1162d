//! The other version of Kubernetes goes with the other line of the container runtime. The machines of such a cluster are made
//! with it, and each chooses it all the same by the mapping; that the mapping alone brings it to a machine that was made with
//! another is seen on a lone master (`tests/node_drill/versions.rs`).

use std::time::Instant;

use windlass_e2e::Installation;

use crate::SHAPE;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts of both versions"]
async fn an_older_cluster_chooses_and_runs_the_older_line_of_the_runtime() {
    let cluster = Installation::new("older", SHAPE).await;
    cluster.edit("cluster.yaml", "spec:\n", "spec:\n  kubernetesVersion: 1.35.4\n");
    cluster.windlass(&["prepare"]).await.ended(0);
    let begun = Instant::now();
    cluster.windlass(&["launch"]).await.ended(0);
    eprintln!("Kubernetes 1.35.4 launched in {:.1} s", begun.elapsed().as_secs_f64());
    let path = "jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}{\"\\n\"}{end}";
    let nodes = cluster.kubectl(&["get", "nodes", "-o", path]).await.ended(0).stdout;
    let nodes: Vec<&str> = nodes.lines().collect();
    assert_eq!(nodes, ["v1.35.4 containerd://1.7.35"; 5]);
    for machine in ["master-0", "worker-0"] {
        let explained = cluster.on(machine, "/opt/windlass/bin/windlass-node bootstrap --explain").await;
        for part in [
            "chose   Kubernetes: v1.35.4",
            "maps them to Kubernetes 1.35",
            "chose   container runtime: containerd 1.7.35",
        ] {
            assert!(explained.contains(part), "{part} on {machine}: {explained}");
        }
        // The runtime that reads it is the one that it was written for.
        let dump = cluster.on(machine, "containerd config dump").await;
        assert!(dump.contains("io.containerd.grpc.v1.cri") && dump.contains("registry.k8s.io/pause:"), "{dump}");
    }
    cluster.windlass(&["verify"]).await.ended(0);
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}
