//! A master that is cut off while etcd forms its quorum: the others go on, and it joins when it is back.

use std::time::{Duration, Instant};

use windlass_cloud_api::{Fault, Label};
use windlass_e2e::{Installation, etcd, until};

use crate::prepared;

const LONG: Duration = Duration::from_secs(400);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_master_that_was_cut_off_joins_while_the_bootstrap_machine_is_there() {
    joins_after("start-control-plane").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_master_that_was_cut_off_joins_when_the_bootstrap_machine_is_gone() {
    joins_after("retire-bootstrap").await;
}

/// Cuts the last master off as soon as it has its config, and heals the cut when a step has finished.
async fn joins_after(step: &str) {
    let cluster = prepared("cut").await;
    let mut launch = cluster.start(&["launch"]);
    finished(&cluster, "serve-machine-config").await;
    let cut = Fault::Isolate { machines: vec![Label::parse("master-2").expect("a name")] };
    cluster.cloud().put_faults(&cluster.infra_id(), &[cut]).await.expect("faults are set");
    finished(&cluster, step).await;
    cluster.cloud().put_faults(&cluster.infra_id(), &[]).await.expect("faults are taken away");
    let healed = Instant::now();
    let status = tokio::time::timeout(LONG, launch.wait()).await.expect("the launch ends").expect("a child ends");
    assert!(status.success(), "{}", cluster.said());
    eprintln!("healed after {step}: finished {:.1} s later", healed.elapsed().as_secs_f64());
    assert_eq!(etcd::members(&cluster).await.len(), 3);
    let nodes = cluster.kubectl(&["get", "nodes", "--no-headers"]).await.ended(0).stdout;
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 5, "{nodes}");
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

async fn finished(cluster: &Installation, step: &str) {
    until(&format!("{step} finishes"), LONG, async || match cluster.journal().has_finished(step) {
        true => Ok(()),
        false => Err(cluster.said()),
    })
    .await;
}
