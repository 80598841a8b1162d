//! What a user adds to a group takes effect on real machines, what fails is named, and what hangs is started again.

use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cloud_api::Label;
use windlass_e2e::{Installation, Shape, additions, until};

/// A minute of grace, half a minute of silence, and a busy host.
const LONG: Duration = Duration::from_secs(240);
/// Within this time of a restart, `why` tells of it.
const TOLD: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn what_a_user_adds_takes_effect_and_what_hangs_is_started_again() {
    let cluster = additions::prepared("additions", Shape { masters: 1, workers: 1 }).await;
    cluster.windlass(&["launch"]).await.ended(0);

    additions::took_effect(&cluster).await;
    additions::failures_are_named(&cluster).await;
    a_failed_script_runs_again_on_the_next_boot(&cluster).await;
    what_hangs_is_started_again(&cluster).await;
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

async fn a_failed_script_runs_again_on_the_next_boot(cluster: &Installation) {
    let (cloud, id) = (cluster.cloud(), cluster.infra_id());
    let name = Label::parse("worker-0").expect("a name");
    cloud.reboot(&id, &name).await.expect("a machine can be started again");
    until("the script has run again", LONG, async || {
        cluster.tries("worker-0", "cat /opt/windlass/user-data/twice.done").await
    })
    .await;
    assert_eq!(cluster.on("worker-0", "cat /var/lib/once").await, "ran\n", "what succeeded does not run again");
    assert_eq!(cluster.on("worker-0", "cat /var/lib/twice").await, "ran\nran\n");
    let records = report(cluster).await;
    assert_eq!(records["bootstrap"]["state"], "done", "the first boot is still explained");
    assert_eq!(records["user-data-twice"]["attempt"], 2);
    assert_eq!(records["user-data-twice"]["earlier"][0]["ending"], "failed");
}

/// A process that is stopped is the purest of hangs.
async fn what_hangs_is_started_again(cluster: &Installation) {
    // The machine has just booted: containers come with their kubelet.
    until("containers run again", LONG, async || {
        match cluster.on("worker-0", "ls /run/containerd/io.containerd.runtime.v2.task/k8s.io 2>&1 || true").await {
            tasks if tasks.lines().count() >= 4 => Ok(()),
            tasks => Err(tasks),
        }
    })
    .await;
    for unit in ["containerd.service", "kubelet.service"] {
        let pid = |unit: &'static str| format!("systemctl show -P MainPID {unit}");
        let tasks = cluster.on("worker-0", "ls /run/containerd/io.containerd.runtime.v2.task/k8s.io").await;
        let kubelet = cluster.on("worker-0", &pid("kubelet.service")).await;
        let (begun, hung) =
            (Instant::now(), cluster.on("worker-0", &format!("systemctl show -P MainPID {unit}")).await);
        cluster.on("worker-0", &format!("kill -STOP {}", hung.trim())).await;
        until(&format!("{unit} is started again"), LONG, async || {
            let restarts = &report(cluster).await["kubelet-checker"]["data"]["restarts"];
            let last = restarts.as_array().and_then(|restarts| restarts.last().cloned()).unwrap_or_default();
            if last["what"] == unit { Ok(()) } else { Err(restarts.to_string()) }
        })
        .await;
        eprintln!("{unit} started again after {:.0} s", begun.elapsed().as_secs_f64());
        until(&format!("{unit} is another process"), LONG, async || {
            let now = cluster.on("worker-0", &format!("systemctl show -P MainPID {unit}")).await;
            if now != hung && now.trim() != "0" { Ok(()) } else { Err(now) }
        })
        .await;
        if unit == "containerd.service" {
            let now = cluster.on("worker-0", "ls /run/containerd/io.containerd.runtime.v2.task/k8s.io").await;
            // Others may have come since.
            let gone: Vec<_> = tasks.lines().filter(|task| !now.contains(*task)).collect();
            assert!(gone.is_empty(), "containers live on: {gone:?}");
            assert_eq!(cluster.on("worker-0", &pid("kubelet.service")).await, kubelet, "the kubelet is left alone");
        }
        // The checker tells of it with its next look.
        until(&format!("why tells of {unit}"), TOLD, async || {
            let told = cluster.windlass(&["why"]).await.ended(0).stdout;
            if told.contains(&format!("{unit} needs no help")) { Ok(()) } else { Err(told) }
        })
        .await;
    }
}

async fn report(cluster: &Installation) -> Value {
    let text = cluster.on("worker-0", "/opt/windlass/bin/windlass-node report").await;
    serde_json::from_str(&text).expect("a report is JSON")
}
