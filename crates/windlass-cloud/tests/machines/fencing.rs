//! A holder that does not react loses its power before its volume moves.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use windlass_cloud::process::Identity;
use windlass_cloud_api::{AttachRequest, Hold};

use crate::cloud::{Cloud, LONG, label, until};
use crate::processes;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_frozen_holder_is_dead_before_another_machine_sees_its_volume() {
    let cloud = Cloud::start().await;
    let cluster = cloud.cluster("fencing", "10.90.0.0/24").await;
    cluster.machine("old", None).await;
    cluster.machine("new", None).await;
    cluster.volume("v0").await;
    cluster.running("old").await;
    cluster.running("new").await;
    let to = |machine: &str, hold| AttachRequest { machine: label(machine), hold };
    let attach = async |request| cloud.client.attach(&cluster.name, &label("v0"), &request).await;
    attach(to("old", Hold::Respect)).await.unwrap();
    let used = "mkfs.ext4 -q /dev/disk/windlass/v0; mount /dev/disk/windlass/v0 /mnt; echo data > /mnt/f; sync";
    cluster.sh("old", used).await;
    assert_eq!(attach(to("new", Hold::Respect)).await.unwrap_err().status(), Some(409));

    let frozen = freeze("fencing", "old");
    assert!(frozen.len() > 3, "{frozen:?}");
    let leader = processes::leader("fencing", "new").pid;
    let device = format!("/proc/{leader}/root/dev/disk/windlass/v0");
    let (attached, ()) = tokio::join!(attach(to("new", Hold::Fence)), until_seen(Path::new(&device), "fencing", "old"));
    assert_eq!(attached.unwrap().holder, Some(label("new")));
    assert!(frozen.iter().all(|one| !one.is_alive().unwrap()));
    assert_eq!(processes::of("fencing", "old", "runner"), []);
    let old = cloud.client.machine(&cluster.name, &label("old")).await.unwrap();
    assert!(!old.state.is_running(), "{:?}", old.state);
    assert_eq!(cluster.sh("new", "mount /dev/disk/windlass/v0 /mnt; cat /mnt/f").await, "data");
    cluster.destroy().await;
}

/// Stops every process of a machine, also those that were forked while the others were stopped.
fn freeze(cluster: &str, machine: &str) -> Vec<Identity> {
    let mut frozen: Vec<Identity> = Vec::new();
    loop {
        let new: Vec<_> =
            processes::of(cluster, machine, "machine").into_iter().filter(|p| !frozen.contains(p)).collect();
        if new.is_empty() {
            return frozen;
        }
        for process in new {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGSTOP);
            frozen.push(process);
        }
    }
}

/// The look at the device comes first: whoever lives after it was seen lived when it was there.
async fn until_seen(device: &Path, cluster: &str, old: &str) {
    until("the new holder sees the volume", LONG, async || match device.exists() {
        false => Err("it does not see it".to_owned()),
        true => {
            assert_eq!(processes::of(cluster, old, "machine"), [], "two machines had the volume");
            Ok(())
        }
    })
    .await;
}
