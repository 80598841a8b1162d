//! Loss of all power.

use std::time::{Duration, Instant};

use crate::{Installation, until};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

/// Far longer than it takes: a host with two processors starts everything of five machines at once.
pub const RETURN: Duration = Duration::from_secs(600);

/// Every machine loses its power at once and gets it back; the cluster returns by itself. Answers how long that took.
pub async fn cut_of_every_machine(cluster: &Installation) -> Duration {
    let cut = Instant::now();
    taken(cluster).await;
    cluster.windlass(&["cloud", "machine", "start", "--all"]).await.ended(0);
    returned(cluster).await;
    cut.elapsed()
}

/// Every machine loses its power at once; none runs any more.
pub async fn taken(cluster: &Installation) {
    let (cloud, name) = (cluster.cloud(), cluster.infra_id());
    for machine in cloud.machines(&name).await.expect("the cloud answers") {
        cloud.power_cut(&name, &machine.name).await.expect("power can be cut");
    }
    assert_eq!(running(cluster).await, Vec::<String>::new(), "no machine runs");
}

/// A cluster of five machines, all of which run again, can be used as before.
pub async fn returned(cluster: &Installation) {
    let client = cluster.api().await;
    until("five nodes are ready again", RETURN, async || {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let ready = |node: &&Node| {
            let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
        };
        match nodes.items.iter().filter(ready).count() {
            5 => Ok(()),
            count => Err(format!("{count} of 5")),
        }
    })
    .await;
    until("the cluster can be used again", RETURN, async || match cluster.windlass(&["verify"]).await {
        ran if ran.code == 0 => Ok(()),
        ran => Err(format!("{}{}", ran.stdout, ran.stderr)),
    })
    .await;
}

/// The machines that run.
pub async fn running(cluster: &Installation) -> Vec<String> {
    let (cloud, name) = (cluster.cloud(), cluster.infra_id());
    let machines = cloud.machines(&name).await.expect("the cloud answers");
    machines.into_iter().filter(|machine| machine.state.is_running()).map(|machine| machine.name.to_string()).collect()
}
