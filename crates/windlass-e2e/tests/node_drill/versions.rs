//! Installer files of the other version on the same base, and no API: the installer's word counts, and with it the other
//! line of the container runtime. That an API's word would win is seen on a live cluster (`tests/drill/worker.rs`).

use windlass_e2e::ground::Ground;

use crate::{Blow, LONG, STAY, strike};

const OLDER: &str = "1.35.4";
const RUNTIME: &str = "1.7.35";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts of both versions"]
async fn the_installers_version_brings_its_runtime_to_the_same_base() {
    let ground = Ground::with_channel("stable").await;
    // A cluster's own bucket has its own version alone; this host's has whatever is in its cache.
    ground.put_bucket("both", &ground.publish().await).await;
    let keys = ground.own_keys();
    let config = |machine: windlass_e2e::ground::Config| {
        machine.arguments(STAY).bucket("addons/both").trusts(&keys).installer_says(OLDER).with_token()
    };
    let blow = Blow::new("installer files of 1.35 and no API", "older", config, async |machine| {
        machine.kubelet_runs(LONG).await;
        let explained = machine.sh("windlass-node bootstrap --explain").await;
        for part in [
            "chose   Kubernetes: v1.35.4, the installer says so and the API gave no answer",
            "the installer's runtime-mappings.yaml maps them to Kubernetes 1.35",
            "chose   container runtime: containerd 1.7.35",
            "did     fetched containerd-1.7.35-os1",
        ] {
            assert!(explained.contains(part), "{part}: {explained}");
        }
        assert_eq!(machine.boots().await, 2, "one boot for the runtime");
        machine.has_only(&["containerd-1.7.35", "kubelet-1.35.4"], "1").await;
        machine.runs_with_data_of(RUNTIME).await;
        machine.kubelet_never_started_before_its_gate().await;
        let versions = machine.sh("containerd --version; kubelet --version").await;
        assert!(versions.contains("1.7.35") && versions.contains("v1.35.4"), "{versions}");
        "containerd 1.7.35 and kubelet 1.35.4, one boot".to_owned()
    });
    strike(&ground, vec![blow]).await;
    ground.leave().await;
}
