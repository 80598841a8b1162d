//! Races for volumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_cloud::process::{Identity, Signal};
use windlass_cloud_api::{AttachRequest, Hold, Label, VolumeSpec};

use crate::support::{Daemon, label, machine, soon};

const MACHINES: usize = 8;
const VOLUMES: usize = 4;
const RACERS: usize = 32;
const REQUESTS: usize = 10_000;

#[ignore = "sends ten thousand requests"]
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_racing_requests_never_attach_a_volume_twice() {
    let daemon = Daemon::start().await;
    let cluster = daemon.cluster("race").await;
    for number in 0..MACHINES {
        daemon.client.put_machine(&cluster, &label(&format!("m{number}")), &machine()).await.unwrap();
    }
    for number in 0..VOLUMES {
        let spec = VolumeSpec { size: 1 << 20, tags: windlass_cloud_api::Tags::new() };
        daemon.client.put_volume(&cluster, &label(&format!("v{number}")), &spec).await.unwrap();
    }
    let all_run = async || daemon.client.machines(&cluster).await.unwrap().iter().all(|m| m.state.is_running());
    soon("the machines run", all_run).await;

    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..RACERS {
        let (client, cluster, counts) = (daemon.client.clone(), cluster.clone(), counts.clone());
        racers.spawn(async move {
            for round in 0..REQUESTS / RACERS {
                let volume = label(&format!("v{}", (racer + round) % VOLUMES));
                let me = label(&format!("m{}", racer % MACHINES));
                let request = AttachRequest { machine: me.clone(), hold: Hold::Respect };
                match client.attach(&cluster, &volume, &request).await {
                    Ok(attached) => {
                        counts[0].fetch_add(1, Ordering::Relaxed);
                        assert_eq!(attached.holder, Some(me.clone()), "{volume} was acknowledged to {me}");
                        // Another racer of the same machine may have given it back already.
                        if client.detach(&cluster, &volume).await.is_ok() {
                            counts[1].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.status(), Some(409), "{error}");
                        counts[2].fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
    }
    while let Some(done) = racers.join_next().await {
        done.unwrap();
    }
    let [attached, detached, refused] = [0, 1, 2].map(|at| counts[at].load(Ordering::Relaxed));
    println!("{attached} attached, {detached} detached, {refused} refused");
    assert_eq!(attached + refused, REQUESTS / RACERS * RACERS);
    assert!(attached > 0 && refused > 0);
    // What two machines held at once would have been seen by the file that says who has it: giving it to a second one
    // fails there, and every such failure of a volume is an event.
    let log = daemon.client.events().await.unwrap();
    let setbacks: Vec<_> = log.iter().filter(|event| event.message.contains("failed")).collect();
    assert!(setbacks.is_empty(), "{setbacks:?}");
    assert!(daemon.client.destroy(&cluster).await.unwrap().is_clean());
}

#[ignore = "starts processes"]
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_holder_is_dead_before_its_volume_moves() {
    let daemon = Daemon::start().await;
    let cluster = daemon.cluster("frozen").await;
    let (one, two, volume): (Label, Label, Label) = (label("one"), label("two"), label("v"));
    for name in [&one, &two] {
        daemon.client.put_machine(&cluster, name, &machine()).await.unwrap();
    }
    let all_run = async || daemon.client.machines(&cluster).await.unwrap().iter().all(|m| m.state.is_running());
    soon("the machines run", all_run).await;
    let spec = VolumeSpec { size: 1 << 20, tags: windlass_cloud_api::Tags::new() };
    daemon.client.put_volume(&cluster, &volume, &spec).await.unwrap();
    let ask = |machine: &Label, hold| AttachRequest { machine: machine.clone(), hold };
    daemon.client.attach(&cluster, &volume, &ask(&one, Hold::Respect)).await.unwrap();
    let holder = daemon.stubs().into_iter().find(|run| run.ends_with("one")).unwrap();
    let holder = Identity::read(&holder.join("runner.json")).unwrap().unwrap();
    holder.open().unwrap().unwrap().signal(Signal::STOP).unwrap();
    let refused = daemon.client.attach(&cluster, &volume, &ask(&two, Hold::Respect)).await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    let moved = daemon.client.attach(&cluster, &volume, &ask(&two, Hold::Fence)).await.unwrap();
    assert_eq!(moved.holder, Some(two));
    assert!(!holder.is_alive().unwrap(), "the volume moved while its holder was alive");
    let fenced = daemon.client.machine(&cluster, &one).await.unwrap();
    assert_eq!(fenced.power, windlass_cloud_api::Power::Off);
    assert!(daemon.client.destroy(&cluster).await.unwrap().is_clean());
}
