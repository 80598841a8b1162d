//! One master and no worker: it runs its user's pods too, because nobody else could.

use windlass_e2e::{Installation, Shape};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_master_without_workers_keeps_nobody_off() {
    let cluster = Installation::new("alone", Shape { masters: 1, workers: 0 }).await;
    cluster.windlass(&["prepare"]).await.ended(0);
    cluster.windlass(&["launch"]).await.ended(0);
    let path = "jsonpath={range .items[*]}{.metadata.name}:{.spec.taints[*].key}{\"\\n\"}{end}";
    let nodes = cluster.kubectl(&["get", "nodes", "-o", path]).await.ended(0).stdout;
    assert_eq!(nodes.trim_end(), "master-0:", "it is the only one and has no taint");
    cluster.windlass(&["verify"]).await.ended(0);
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}
