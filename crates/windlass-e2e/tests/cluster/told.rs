//! Faults are told: what is wrong, on which machine, and why.

use std::time::Duration;

use windlass_cloud_api::Label;
use windlass_e2e::{Installation, until};

/// Within this time of a fault, `why` names it.
const TOLD: Duration = Duration::from_secs(30);

pub async fn a_dead_worker_is_named(cluster: &Installation) {
    let worker = Label::parse("worker-1").expect("a name");
    cluster.cloud().power_cut(&cluster.infra_id(), &worker).await.expect("power can be cut");
    until("why names the dead worker", TOLD, async || {
        let said = cluster.windlass(&["why"]).await;
        match said.stdout.contains("worker-1") {
            true => Ok(()),
            false => Err(said.stdout),
        }
    })
    .await;
    cluster.cloud().start(&cluster.infra_id(), &worker).await.expect("a machine starts");
}
