//! Machines come up with what Ignition wrote, find each other, and keep their disks.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use windlass_cloud_api::{AttachRequest, Hold};

use crate::cloud::{CONFIG, Cloud, Cluster, LONG, hear, label, until};

const SIX: [&str; 6] = ["m0", "m1", "m2", "m3", "m4", "m5"];

async fn starts(cluster: &Cluster<'_>, machine: &str, count: usize) {
    until(&format!("{machine} has started {count} times"), LONG, async || {
        match cluster.tries(machine, "wc -l < /var/lib/starts").await?.trim() {
            text if text == count.to_string() => Ok(()),
            text => Err(text.to_owned()),
        }
    })
    .await;
    cluster.running(machine).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn six_machines_boot_at_once_find_each_other_and_keep_their_disks() {
    let cloud = Cloud::start().await;
    let cluster = cloud.cluster("six", "10.90.0.0/24").await;
    let started = Instant::now();
    join_all(SIX.map(|name| cluster.machine(name, Some(CONFIG)))).await;
    join_all(SIX.map(|name| cluster.running(name))).await;
    let took = started.elapsed();
    eprintln!("six machines at once with Ignition, the base unpacked if it was not: {took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");

    for name in SIX {
        let seen = "cat /etc/written; stat -c %a /etc/written; systemctl is-active starts says; hostname";
        assert_eq!(cluster.sh(name, seen).await, format!("hello\n600\nactive\nactive\n{name}"));
        cluster.record(name, &cluster.address(name).await).await;
    }
    until("m0 hears m5 by its name", LONG, async || match cluster.tries("m0", &hear("m5", 7000)).await? {
        said if said == "m5" => Ok(()),
        said => Err(said),
    })
    .await;
    assert_eq!(cluster.sh("m5", &hear("m0.six.example", 7000)).await, "m0");

    // Three ways to start again, and the disk is there after each.
    for name in &SIX[..3] {
        cluster.sh(name, "echo mine > /etc/mine; echo mine > /var/mine; sync /etc/mine /var/mine").await;
    }
    let (client, name) = (&cloud.client, &cluster.name);
    client.reboot(name, &label("m0")).await.unwrap();
    // It may be gone before it can answer.
    let _ = cluster.exec("m1", &["systemctl", "reboot"]).await;
    let cut = client.power_cut(name, &label("m2")).await.unwrap();
    assert!(!cut.state.is_running(), "{:?}", cut.state);
    client.start(name, &label("m2")).await.unwrap();
    for machine in &SIX[..3] {
        starts(&cluster, machine, 2).await;
        assert_eq!(cluster.sh(machine, "cat /etc/written /etc/mine /var/mine").await, "hello\nmine\nmine");
    }
    let stopped = client.stop(name, &label("m3")).await.unwrap();
    assert!(!stopped.state.is_running(), "{:?}", stopped.state);
    cluster.destroy().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn an_update_is_staged_over_the_bus_and_takes_effect_at_the_reboot() {
    let cloud = Cloud::start().await;
    let cluster = cloud.cluster("update", "10.90.0.0/24").await;
    cluster.machine("m0", Some(CONFIG)).await;
    cluster.running("m0").await;
    cluster.volume("v0").await;
    let request = AttachRequest { machine: label("m0"), hold: Hold::Respect };
    cloud.client.attach(&cluster.name, &label("v0"), &request).await.unwrap();
    cluster.sh("m0", "mkfs.ext4 -q /dev/disk/windlass/v0; mount /dev/disk/windlass/v0 /mnt; echo kept > /mnt/f").await;
    let call = |method: &str| {
        format!("busctl --json=short call com.coreos.update1 /com/coreos/update1 com.coreos.update1.Manager {method}")
    };
    let status = async || -> Value { serde_json::from_str(&cluster.sh("m0", &call("GetStatus")).await).unwrap() };
    let idle = status().await;
    assert_eq!(idle["data"][2], "UPDATE_STATUS_IDLE", "{idle}");
    cluster.sh("m0", &call("AttemptUpdate")).await;
    until("the update is staged", LONG, async || match status().await {
        now if now["data"][2] == "UPDATE_STATUS_UPDATED_NEED_REBOOT" && now["data"][3] == "2" => Ok(()),
        now => Err(now.to_string()),
    })
    .await;
    let version = ". /etc/os-release; echo $VERSION_ID";
    assert_eq!(cluster.sh("m0", version).await, "1");
    let _ = cluster.exec("m0", &["systemctl", "reboot"]).await;
    starts(&cluster, "m0", 2).await;
    assert_eq!(cluster.sh("m0", version).await, "2");
    assert_eq!(cluster.sh("m0", "cat /etc/written").await, "hello");
    until("the cloud knows which image it runs", LONG, async || {
        let machine = cloud.client.machine(&cluster.name, &label("m0")).await.unwrap();
        match machine.image == label("base-2") && machine.staged.is_none() {
            true => Ok(()),
            false => Err(format!("{} and {:?}", machine.image, machine.staged)),
        }
    })
    .await;
    // The machine's volume is there again as well, although it started again without the cloud.
    until("the machine sees its volume again", LONG, async || {
        cluster.tries("m0", "mount /dev/disk/windlass/v0 /mnt").await
    })
    .await;
    assert_eq!(cluster.sh("m0", "cat /mnt/f").await, "kept");
    let idle = status().await;
    assert_eq!(idle["data"][2], "UPDATE_STATUS_IDLE", "{idle}");
    cluster.destroy().await;
}
