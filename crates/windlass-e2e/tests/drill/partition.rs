//! A master that is cut off while etcd forms its quorum: the others go on, and it joins when it is back.

use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cloud_api::{Fault, Label};
use windlass_e2e::{Installation, etcd, until};

use crate::prepared;

const LONG: Duration = Duration::from_secs(400);
const QUORUM: &str = "form-etcd-quorum";

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
    let master = Label::parse("master-2").expect("a name");
    let (cloud, infra_id) = (cluster.cloud(), cluster.infra_id());
    until("it has its config and runs", LONG, async || match cloud.machine(&infra_id, &master).await {
        Ok(machine) if machine.state.is_running() => Ok(()),
        Ok(machine) => Err(format!("{:?}: {}", machine.state, cluster.said())),
        Err(error) => Err(format!("{error}: {}", cluster.said())),
    })
    .await;
    let cut = Fault::Isolate { machines: vec![master] };
    cloud.put_faults(&infra_id, &[cut]).await.expect("faults are set");
    finished(&cluster, QUORUM).await;
    // Whoever healed a master that has its certificates would never see whether it can still have them.
    assert_eq!(certified(&cluster).await, ["master-0", "master-1"]);
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

/// The masters whose members have all their certificates from the bootstrap machine's signer.
async fn certified(cluster: &Installation) -> Vec<String> {
    let record = cluster.on("bootstrap", "cat /run/windlass/records/etcd-signer.json").await;
    let record: Value = serde_json::from_str(&record).expect("a record is JSON");
    let names = record["data"]["issued"].as_array().unwrap_or_else(|| panic!("nothing is issued: {record}"));
    names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
}

async fn finished(cluster: &Installation, step: &str) {
    until(&format!("{step} finishes"), LONG, async || match cluster.journal().has_finished(step) {
        true => Ok(()),
        false => Err(cluster.said()),
    })
    .await;
}
