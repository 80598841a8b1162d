//! The node flow on real machines: masters without a cluster, each with something of its own in the way. They share one
//! network, in which no API answers, so that each of them falls back to what the installer left.

#![expect(clippy::print_stderr, reason = "what was measured is read in the test's output")]

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use windlass_e2e::ground::{Ground, Lone};

/// Longer than a first boot with its fall-back takes on a host that is busy with something else.
const LONG: Duration = Duration::from_secs(300);

const ARGS: &str = "/etc/kubernetes/installer/bootstrap.env";
/// What every machine is to have in the end.
const WANTED: [&str; 2] = ["containerd-2.2.9", "kubelet-1.36.3"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn machines_reach_their_kubelet_or_say_why_not() {
    let ground = Ground::with_channel("beta").await;
    let begun = Instant::now();
    let (plain, gone, forged, cut, other, update) = tokio::join!(
        ground.machine("plain", |machine| machine.arguments("--upgrade-os=false").with_token()),
        ground.machine("gone", |machine| machine.arguments("--upgrade-os=false").bucket("nowhere")),
        ground.machine("forged", |machine| machine.arguments("--upgrade-os=false").trusts(&ground.stranger())),
        ground.machine("cut", |machine| machine.arguments("--upgrade-os=false --held-at=install-addons")),
        ground.machine("other", |machine| machine.arguments("--upgrade-os=false --held-at=choose-versions")),
        ground.machine("update", |machine| machine.arguments("--upgrade-os=true").without_next_os()),
    );
    let seen = async |what: &str| eprintln!("{what} after {:.1} s", begun.elapsed().as_secs_f64());
    let parts: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = vec![
        Box::pin(async {
            is_plain(&plain).await;
            seen("a plain machine").await;
        }),
        Box::pin(async {
            waits_for_its_bucket(&gone).await;
            seen("one without a bucket").await;
        }),
        Box::pin(async {
            trusts_no_stranger(&forged).await;
            seen("one with a stranger's bucket").await;
        }),
        Box::pin(async {
            survives_a_power_cut(&cut).await;
            seen("one without power in between").await;
        }),
        Box::pin(async {
            changes_its_runtime(&other).await;
            seen("one with another runtime").await;
        }),
        Box::pin(async {
            updates_its_system(&update).await;
            seen("one with an update").await;
        }),
    ];
    join_all(parts).await;
    ground.leave().await;
}

/// Nothing in the way: one boot, nothing fetched, the kubelet after the gate.
async fn is_plain(machine: &Lone<'_>) {
    machine.kubelet_runs(LONG).await;
    assert_eq!(machine.boots().await, 1);
    let gate = machine.sh("cat /etc/kubernetes/kubelet.env").await;
    assert!(gate.contains("KUBELET_VERSION=v1.36.3"), "{gate}");
    let explained = machine.sh("windlass-node bootstrap --explain").await;
    for part in [
        "the cluster's version: the API: no answer",
        "chose   Kubernetes: v1.36.3, the installer says so and the API gave no answer",
        "chose   container runtime: containerd 2.2.9",
        "did     changed no addon: what is wanted is there",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    machine.kubelet_never_started_before_its_gate().await;
    // The flow never runs again, and the second boot is as good as the first, with the same data.
    machine.mark_data().await;
    machine.reboot().await;
    machine.kubelet_runs(LONG).await;
    machine.has_marked_data().await;
    let condition = machine.sh("systemctl show --property ConditionResult --value k8s-node-bootstrap.service").await;
    assert_eq!(condition.trim(), "no");
}

/// A bucket that does not answer keeps the gate closed; as soon as it does, the machine goes on by itself.
async fn waits_for_its_bucket(machine: &Lone<'_>) {
    machine.record_says("torcx_manifest.json", LONG).await;
    machine.has_no_gate().await;
    machine.sh(&format!("sed -i s/nowhere/addons/ {ARGS}")).await;
    machine.kubelet_runs(LONG).await;
    machine.kubelet_never_started_before_its_gate().await;
}

async fn trusts_no_stranger(machine: &Lone<'_>) {
    machine.record_says("cannot trust the manifest", LONG).await;
    machine.has_no_gate().await;
    machine.has_ended_with(78, LONG).await;
    assert_eq!(machine.ends_with(75).await, 0, "it is reported as permanent each time");
}

/// Power goes between getting the addons and putting them in place; the next boot ends what the first began.
async fn survives_a_power_cut(machine: &Lone<'_>) {
    machine.is_held_at("install-addons", LONG).await;
    machine.has_no_gate().await;
    machine.lose_power().await;
    machine.kubelet_runs(LONG).await;
    assert_eq!(machine.boots().await, 2);
    machine.kubelet_never_started_before_its_gate().await;
}

/// A machine that was made with another version of the runtime: it fetches the right one, boots once, and the data that the
/// other version left is gone, with the images imported again.
async fn changes_its_runtime(machine: &Lone<'_>) {
    machine.is_held_at("choose-versions", LONG).await;
    machine
        .sh("cd /var/lib/extensions; mv containerd-2.2.9-os1 containerd-2.2.8-os1; cd containerd-2.2.8-os1/usr/lib/extension-release.d; \
             mv extension-release.containerd-2.2.9-os1 extension-release.containerd-2.2.8-os1; touch /var/lib/containerd/left; sync")
        .await;
    machine.lose_power().await;
    machine.kubelet_runs(LONG).await;
    assert_eq!(machine.boots().await, 3, "the power cut, and one boot for the runtime");
    let extensions = machine.sh("ls /var/lib/extensions").await;
    assert!(extensions.contains("containerd-2.2.9-os1") && !extensions.contains("2.2.8"), "{extensions}");
    assert_eq!(machine.sh("ls /var/lib/containerd/left 2>/dev/null || echo gone").await.trim(), "gone");
    let images = machine.sh("ctr --namespace k8s.io images list --quiet").await;
    assert!(images.contains("etcd") && images.contains("pause"), "{images}");
    machine.kubelet_never_started_before_its_gate().await;
}

/// The channel has another system, for which the machine has no addons: both are staged, the machine boots once, and the
/// runtime is there, its data untouched because it is the same.
async fn updates_its_system(machine: &Lone<'_>) {
    machine.kubelet_runs(LONG).await;
    assert_eq!(machine.boots().await, 2, "one boot for the system");
    assert_eq!(machine.sh(". /usr/lib/os-release; echo $VERSION_ID").await.trim(), "2");
    let explained = machine.sh("windlass-node bootstrap --explain").await;
    for part in [
        "did     fetched containerd-2.2.9-os2",
        "did     fetched kubelet-1.36.3-os2",
        "did     booted into OS version 2",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    machine.has_only(&WANTED, "2").await;
    machine.runs_with_data_of("2.2.9").await;
    machine.has_marked_data().await;
    let starts =
        machine.sh("journalctl --no-pager --output cat --unit kubelet.service | grep -c '^Started' || true").await;
    assert_eq!(starts.trim(), "1", "the kubelet started once");
    machine.kubelet_never_started_before_its_gate().await;
}
