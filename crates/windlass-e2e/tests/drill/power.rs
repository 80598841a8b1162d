//! Every machine loses its power at once: five times in a row when all is ready, and once in the middle of a launch, as soon
//! as the masters carry the control plane. And a host that is shut down as it should be and started again.

use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use windlass_cloud_api::Label;
use windlass_e2e::journal::STEPS;
use windlass_e2e::{power, until};

use crate::prepared;

/// A process that was killed is gone by then.
const GONE: Duration = Duration::from_secs(10);
const STAY: [&str; 5] = ["master-0", "master-1", "master-2", "worker-0", "worker-1"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_cluster_returns_from_every_loss_of_power() {
    let cluster = prepared("power").await;
    cluster.windlass(&["launch"]).await.ended(0);
    for number in 1..=5 {
        let took = power::cut_of_every_machine(&cluster).await;
        eprintln!("power cut {number}: usable again after {:.1} s", took.as_secs_f64());
    }
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_control_plane_returns_without_the_bootstrap_machine_right_after_the_pivot() {
    let cluster = prepared("pivot").await;
    let mut launch = cluster.start(&["launch", "--killed-at", "pivot-control-plane/finished"]);
    let status = launch.wait().await.expect("a child ends");
    assert_eq!(status.signal(), Some(9), "{}", cluster.said());
    let cut = Instant::now();
    power::taken(&cluster).await;
    let (cloud, infra_id) = (cluster.cloud(), cluster.infra_id());
    for machine in STAY {
        cloud.start(&infra_id, &Label::parse(machine).expect("a name")).await.expect("a machine starts");
    }
    let client = cluster.api().await;
    until("the API answers", power::RETURN, async || client.apiserver_version().await.map_err(|e| e.to_string())).await;
    let running = power::running(&cluster).await;
    assert!(running.iter().all(|machine| machine != "bootstrap"), "{running:?}");
    eprintln!("power cut after the pivot: the API answers again after {:.1} s", cut.elapsed().as_secs_f64());

    // The add-ons have still to be applied, which is its work.
    cloud.start(&infra_id, &Label::parse("bootstrap").expect("a name")).await.expect("a machine starts");
    cluster.windlass(&["resume"]).await.ended(0);
    assert_eq!(cluster.journal().finished(), STEPS);
    cluster.windlass(&["verify"]).await.ended(0);
    eprintln!("and the launch is finished after {:.1} s", cut.elapsed().as_secs_f64());
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_cluster_returns_after_its_host_was_shut_down() {
    let cluster = prepared("host").await;
    cluster.windlass(&["launch"]).await.ended(0);
    cluster.windlass(&["cloud", "machine", "stop", "--all"]).await.ended(0);
    assert_eq!(power::running(&cluster).await, Vec::<String>::new(), "no machine runs");
    let daemon = cluster.cloud().status().await.expect("the cloud answers").pid;
    let daemon = Pid::from_raw(daemon.try_into().expect("a process's number is small"));
    kill(daemon, Signal::SIGKILL).expect("the daemon can be killed");
    until("nobody answers for the cloud", GONE, async || match cluster.cloud().status().await {
        Ok(status) => Err(format!("{status:?}")),
        Err(_) => Ok(()),
    })
    .await;
    let begun = Instant::now();
    cluster.windlass(&["cloud", "machine", "start", "--all"]).await.ended(0);
    power::returned(&cluster).await;
    eprintln!("usable {:.1} s after the host was there again", begun.elapsed().as_secs_f64());
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}
