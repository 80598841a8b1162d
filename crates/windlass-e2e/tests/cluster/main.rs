//! One cluster of three masters and two workers, and everything that must hold of it, in the order in which it can be
//! seen: coming up through a killed installer, use, loss of all power, faults that are told, going without a trace.

#![expect(clippy::print_stderr, reason = "what was measured is read in the test's output")]

mod apart;
mod bounded;
mod burnt;
mod handover;
mod images;
mod order;
mod told;
mod units;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use windlass_e2e::host::Traces;
use windlass_e2e::poll::Poller;
use windlass_e2e::{Installation, Shape, additions, etcd, power, until};

/// How long the last of a cluster may take to go.
const TRACES: Duration = Duration::from_secs(20);
/// Longer than a launch takes on a host that is busy with something else.
const LONG: Duration = Duration::from_secs(600);
/// Containers of the control plane, which wait for what they need and have no reason to begin twice.
const CONTROL_PLANE: [&str; 7] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "etcd",
    "machine-config-server",
    "csr-approver",
    "checkpointer",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_spec_becomes_a_cluster_that_survives_what_happens_to_it() {
    let before = Traces::take();
    let cluster = additions::prepared("e2e", Shape { masters: 3, workers: 2 }).await;
    let ca = cluster.read("assets/pki/ca.crt");

    told::a_corrupt_manifest_is_named(&cluster).await;
    let members = killed_after(&cluster, "form-etcd-quorum").await;
    let pollers = poll_from_the_first_answer(&cluster);
    let mut resumed = cluster.start(&["resume", "--killed-at", "apply-addons/finished"]);
    let (pollers, hand_over) = tokio::join!(pollers, handover::watched(&cluster));
    let status = tokio::time::timeout(LONG, resumed.wait()).await.expect("resume ends").expect("resume was started");
    assert_eq!(status.signal(), Some(9), "{}", cluster.said());
    units::served_every_master(&cluster).await;
    units::started_in_the_order_of_their_document(&cluster).await;
    units::run_once(&cluster).await;
    cluster.windlass(&["resume"]).await.ended(0);
    let [version, reads] = pollers;
    let (version, reads) = tokio::join!(version.stop(), reads.stop());
    hand_over.was_in_order();
    hand_over.was_seen_in_time(&cluster);
    for (what, answers) in [("version", version), ("reads", reads)] {
        eprintln!("through the pivot, {what}: {answers:?}");
        assert_eq!(answers.failed, [], "{what}: of {} requests", answers.good);
        assert!(answers.good > 50, "{what}: {answers:?}");
    }
    assert_eq!(cluster.read("assets/pki/ca.crt"), ca);
    assert_eq!(etcd::members(&cluster).await, members, "resuming keeps the members");

    order::is_that_of_the_launch_document(&cluster).await;
    burnt::every_token_is(&cluster).await;
    usable(&cluster).await;
    bounded::agents_change_nothing_but_their_own_node(&cluster).await;
    images::of_a_user_run_where_they_were_loaded(&cluster).await;
    additions::took_effect(&cluster).await;
    additions::failures_are_named(&cluster).await;
    runtime_is_configured(&cluster).await;
    apart::pods_reach_neither_metadata_nor_machine_configs(&cluster).await;
    for words in [["launch"].as_slice(), &["up"]] {
        let finished = cluster.journal().finished();
        cluster.windlass(words).await.ended(8);
        assert_eq!(cluster.journal().finished(), finished, "{words:?} changes nothing");
    }
    let took = power::cut_of_every_machine(&cluster).await;
    eprintln!("usable {:.1} s after all power was cut", took.as_secs_f64());
    units::of_machines_that_stay_ran_once(&cluster).await;
    told::a_dead_worker_is_named(&cluster).await;
    told::a_missing_image_is_named(&cluster).await;

    cluster.windlass(&["down", "--yes"]).await.ended(0);
    assert!(!cluster.directory().join("journal.jsonl").exists());
    cluster.windlass(&["down", "--yes"]).await.ended(0);
    // The daemon answers before it leaves, so that its last steps may follow the command's end.
    until("the host is as it was", TRACES, async || match Traces::take().changes(&before) {
        changes if changes.is_empty() => Ok(()),
        changes => Err(changes.join("\n")),
    })
    .await;
}

/// Launches, kills the installer as nothing else does when a step has finished, and answers the members of etcd by then.
async fn killed_after(cluster: &Installation, step: &str) -> Vec<String> {
    let mut launch = cluster.start(&["launch"]);
    until(&format!("{step} finishes"), LONG, async || match launch.try_wait() {
        Ok(Some(status)) => panic!("the launch ended with {status}:\n{}", cluster.said()),
        _ if cluster.journal().has_finished(step) => Ok(()),
        _ => Err(format!("{:?}", cluster.journal().finished())),
    })
    .await;
    launch.kill().await.expect("a child can be killed");
    etcd::members(cluster).await
}

/// From the first answer on, no request may fail: neither what a server knows by itself nor what it needs its etcd for.
async fn poll_from_the_first_answer(cluster: &Installation) -> [Poller; 2] {
    let client = cluster.api().await;
    until("the API answers", LONG, async || client.apiserver_version().await.map_err(|error| error.to_string())).await;
    let version = Poller::start(client);
    let client = cluster.api().await;
    let namespaces = Api::<Namespace>::all(client.clone());
    // A new API makes its namespaces after its first answer.
    until("the API can be read", LONG, async || namespaces.get("kube-system").await.map_err(|error| error.to_string()))
        .await;
    [version, Poller::reading(client)]
}

/// What the README promises.
async fn usable(cluster: &Installation) {
    let nodes = cluster.kubectl(&["get", "nodes", "--no-headers"]).await.ended(0).stdout;
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 5, "{nodes}");
    let pods = cluster.kubectl(&["get", "pods", "-A", "-o", "json"]).await.ended(0).stdout;
    let pods: serde_json::Value = serde_json::from_str(&pods).expect("kubectl writes JSON");
    let (mut restarts, mut seen) = (Vec::new(), BTreeSet::new());
    for pod in pods["items"].as_array().expect("a list") {
        for status in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
            assert_eq!(status["ready"], true, "{pod}");
            let name = status["name"].as_str().unwrap_or_default();
            if let Some(name) = CONTROL_PLANE.iter().find(|own| **own == name) {
                assert_eq!(status["restartCount"], 0, "{name} of {}: {status}", pod["metadata"]["name"]);
                seen.insert(*name);
            }
            if status["restartCount"] != 0 {
                restarts.push(format!("{} {}", pod["metadata"]["name"], status["restartCount"]));
            }
        }
    }
    assert_eq!(seen, BTreeSet::from(CONTROL_PLANE), "each of them was looked at");
    eprintln!("restarts: {restarts:?}");
    cluster.windlass(&["verify"]).await.ended(0);
    cluster.windlass(&["status"]).await.ended(0);
}

/// What was written for containerd is what containerd understood.
async fn runtime_is_configured(cluster: &Installation) {
    for machine in ["master-0", "worker-1"] {
        let dump = cluster.on(machine, "containerd config dump").await;
        for part in ["registry.k8s.io/pause:", "SystemdCgroup = false", "/opt/cni/bin", "snapshotter = 'overlayfs'"] {
            assert!(dump.contains(part), "{part} on {machine}: {dump}");
        }
    }
}
