//! Faults are told: what is wrong, on which machine, and why.

use std::time::Duration;

use windlass_cloud_api::Label;
use windlass_e2e::{Installation, until};

/// Within this time of a fault, `why` names it.
const TOLD: Duration = Duration::from_secs(30);

/// Before anything is made.
pub async fn a_corrupt_manifest_is_named(cluster: &Installation) {
    let manifest = "assets/manifests/control-plane/kube-scheduler.yaml";
    let good = cluster.read(manifest);
    cluster.edit(manifest, "kind: Deployment", "kind: [Deployment");
    let ran = cluster.windlass(&["launch"]).await;
    assert!(ran.code == 4 && ran.stderr.contains("kube-scheduler.yaml"), "{ran:?}");
    assert!(!cluster.journal().has_finished("preflight"), "nothing was begun");
    cluster.put(manifest, &good);
}

pub async fn a_dead_worker_is_named(cluster: &Installation) {
    let worker = Label::parse("worker-1").expect("a name");
    cluster.cloud().power_cut(&cluster.infra_id(), &worker).await.expect("power can be cut");
    why_says(cluster, &["worker-1", "is off"]).await;
    cluster.cloud().start(&cluster.infra_id(), &worker).await.expect("a machine starts");
}

pub async fn a_missing_image_is_named(cluster: &Installation) {
    let run = ["run", "lost", "--image", "registry.example/lost:1", "--restart", "Never"];
    cluster.kubectl(&run).await.ended(0);
    why_says(cluster, &["default/lost", "registry.example/lost:1"]).await;
    cluster.kubectl(&["delete", "pod", "lost", "--now"]).await.ended(0);
}

/// One line of what `why` says has all of these words.
async fn why_says(cluster: &Installation, words: &[&str]) {
    until(&format!("why says {words:?}"), TOLD, async || {
        let said = cluster.windlass(&["why"]).await.stdout;
        match said.lines().any(|line| words.iter().all(|word| line.contains(word))) {
            true => Ok(()),
            false => Err(said),
        }
    })
    .await;
}
