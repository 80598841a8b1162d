//! After a destruction the host is as it was, whatever happened before.

use std::fs;
use std::time::Duration;

use windlass_cloud::inventory::snapshot::{HostSnapshot, difference};
use windlass_cloud_api::{AttachRequest, ForwardSpec, Hold};
use windlass_steps::host::{Mode, write_file};

use crate::cloud::{CONFIG, Cloud, Cluster, LONG, asked, label, pass, until};
use crate::processes;

/// How many clusters come and go, unless a drill asks for more; what happens to each repeats after as many.
const CYCLES: u64 = 5;

/// A machine with everything a cluster can have around it.
async fn furnished(cluster: &Cluster<'_>) {
    let client = &cluster.cloud.client;
    cluster.machine("m0", Some(CONFIG)).await;
    cluster.volume("v0").await;
    cluster.record("m0", "10.90.0.2").await;
    client.put_object(&cluster.name, &"a/b".parse().unwrap(), b"bytes".to_vec()).await.unwrap();
    let door = ForwardSpec { port: None, address: "10.90.0.2".parse().unwrap(), to: 7000 };
    until("the door opens", LONG, async || {
        client.put_forward(&cluster.name, &label("door"), &door).await.map_err(|error| error.to_string())
    })
    .await;
}

async fn attached(cluster: &Cluster<'_>) {
    let request = AttachRequest { machine: label("m0"), hold: Hold::Respect };
    cluster.cloud.client.attach(&cluster.name, &label("v0"), &request).await.unwrap();
}

/// Kills the daemon while it destroys the cluster. The next one goes on with that by itself, and leaves.
async fn half_destroyed(cluster: &Cluster<'_>) {
    let cloud = cluster.cloud;
    let killing = async {
        until("it is being destroyed", LONG, async || match cloud.client.machines(&cluster.name).await {
            Err(error) if error.status() == Some(409) => Ok(()),
            answer => Err(format!("{answer:?}")),
        })
        .await;
        cloud.kill().await;
    };
    let (destroyed, ()) = tokio::join!(cloud.client.destroy(&cluster.name), killing);
    assert!(destroyed.is_err(), "{destroyed:?}");
    cloud.spawn();
}

/// Other people's processes come and go on a host that is in use; ours name our directories, or are in a control group,
/// and those are compared in full.
fn trace(line: &str, dir: &str) -> bool {
    let is_foreign = line.starts_with("processes: ") && !line.contains(dir) && !line.contains("nspawn");
    !is_foreign
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn five_clusters_come_and_go_some_of_them_by_halves_and_the_host_is_as_it_was() {
    let cloud = Cloud::start().await;
    cloud.client.leave().await.unwrap();
    cloud.gone().await;
    let before = HostSnapshot::take(&[cloud.dir()]);
    for cycle in 0..asked("cycles=").unwrap_or(CYCLES) {
        cloud.serve().await;
        let cluster = cloud.cluster("cycle", "10.90.0.0/24").await;
        furnished(&cluster).await;
        match cycle % CYCLES {
            // Once early and once late on the machine's way up.
            1 | 3 => {
                pass(Duration::from_millis(200 + 500 * (cycle % CYCLES))).await;
                cloud.kill().await;
                cloud.serve().await;
                cluster.destroy().await;
            }
            4 => {
                cluster.running("m0").await;
                attached(&cluster).await;
                half_destroyed(&cluster).await;
            }
            _ => {
                attached(&cluster).await;
                cluster.destroy().await;
            }
        }
        cloud.gone().await;
        assert!(!cloud.run.exists(), "cycle {cycle} left {}", cloud.run.display());
        assert_eq!(processes::naming(cloud.dir()), Vec::<String>::new(), "cycle {cycle}");
    }
    let dir = cloud.dir().display().to_string();
    until("the host is as it was", Duration::from_secs(20), async || {
        let after = HostSnapshot::take(&[cloud.dir()]);
        let traces: Vec<String> = difference(&before, &after).into_iter().filter(|line| trace(line, &dir)).collect();
        if traces.is_empty() { Ok(()) } else { Err(traces.join("\n")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_cluster_is_destroyed_by_name_when_the_state_file_is_damaged() {
    let cloud = Cloud::start().await;
    let cluster = cloud.cluster("damaged", "10.90.0.0/24").await;
    furnished(&cluster).await;
    cluster.running("m0").await;
    attached(&cluster).await;
    cluster.sh("m0", "mkfs.ext4 -q /dev/disk/windlass/v0; mount /dev/disk/windlass/v0 /mnt").await;
    cloud.kill().await;
    write_file(cloud.state.join("cloud.redb"), [0xa5; 8192], Mode::PRIVATE_FILE).unwrap();
    cloud.serve().await;

    let status = cloud.client.status().await.unwrap();
    assert_eq!((status.clusters, status.strays), (vec![], vec![label("damaged")]));
    assert!(status.troubles.iter().any(|trouble| trouble.contains("damaged")), "{:?}", status.troubles);
    assert!(!processes::of("damaged", "m0", "machine").is_empty());
    let receipt = cloud.client.destroy(&cluster.name).await.unwrap();
    assert!(receipt.is_clean(), "{:?}", receipt.left);
    for kind in ["process", "namespace", "loop device", "control group", "directory"] {
        assert!(receipt.before.iter().any(|thing| thing.kind == kind), "no {kind} in {:?}", receipt.before);
    }
    assert_eq!(processes::of("damaged", "m0", "machine"), []);
    cloud.gone().await;
    assert!(fs::read_dir(cloud.state.join("clusters")).map_or(0, Iterator::count) == 0);
}
