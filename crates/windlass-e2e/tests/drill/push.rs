//! A launch that pushes the bootstrap machine's assets over SSH, killed in that step: `resume` pushes again.

use std::os::unix::process::ExitStatusExt as _;

use windlass_e2e::Installation;
use windlass_e2e::journal::STEPS;

use crate::SHAPE;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn pushed_assets_make_the_same_cluster() {
    let cluster = Installation::new("push", SHAPE).await;
    cluster.edit("cluster.yaml", "spec:\n", "spec:\n  bootstrapAssets: push\n");
    cluster.windlass(&["prepare"]).await.ended(0);
    let mut launch = cluster.start(&["launch", "--killed-at", "deliver-assets/started"]);
    let status = launch.wait().await.expect("a child ends");
    assert_eq!(status.signal(), Some(9), "{}", cluster.said());
    cluster.windlass(&["resume"]).await.ended(0);
    let journal = cluster.journal();
    assert_eq!(journal.finished(), STEPS);
    let observed = journal.observed("deliver-assets");
    assert!(observed.last().is_some_and(|(_, reason, _)| reason.is_none()), "{observed:?}");
    // No machine that stays has an sshd that runs.
    for machine in ["master-0", "worker-0"] {
        assert_eq!(
            cluster.on(machine, "systemctl is-active ssh.service || true").await.trim(),
            "inactive",
            "{machine}"
        );
    }
    cluster.windlass(&["verify"]).await.ended(0);
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}
