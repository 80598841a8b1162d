//! An update that every machine has staged, and none has booted into.

use std::time::{Duration, Instant};

use windlass_cloud_api::Channel;
use windlass_e2e::{Installation, until};

use super::history::{History, Stage};
use super::machines::ORDER;

/// Longer than five machines take to be asked and to stage, on a host that does nothing else.
const LONG: Duration = Duration::from_secs(240);
const PAUSED: &str = "container-linux-update.v1.coreos.com/reboot-paused";

/// A user waits for the agents' usual interval of three quarters of an hour; a drill does not. Before the launch.
pub fn ask_often(cluster: &Installation) {
    let agent = "        - update-agent\n";
    cluster.edit("assets/manifests/addons/os-update.yaml", agent, &format!("{agent}        - --check-every=10\n"));
}

/// Offers the next OS, and keeps every machine that has it from going: whoever had it first would go first. Whoever calls
/// this has the history followed.
pub async fn stage_everywhere(cluster: &Installation, history: &History) {
    for node in ORDER {
        cluster.kubectl(&["annotate", "node", node, &format!("{PAUSED}=true")]).await.ended(0);
    }
    let offered = Instant::now();
    offer(cluster, "2").await;
    until("every machine has its update", LONG, async || {
        let all = history.all();
        assert!(all.values().all(|seen| !seen.stage.is_turn()), "paused: {all:?}");
        match all.len() == ORDER.len() && all.values().all(|seen| seen.stage == Stage::Wanting) {
            true => Ok(()),
            false => Err(format!("{all:?}")),
        }
    })
    .await;
    eprintln!("staged on every machine {:.1} s after it was offered", offered.elapsed().as_secs_f64());
}

/// From here on the order is the coordinator's.
pub async fn let_them_go(cluster: &Installation) {
    for node in ORDER {
        cluster.kubectl(&["annotate", "node", node, &format!("{PAUSED}-")]).await.ended(0);
    }
}

/// What an operator does who lets a cluster follow another channel.
async fn offer(cluster: &Installation, os: &str) {
    let (cloud, name) = (cluster.cloud(), cluster.infra_id());
    let images = cloud.images().await.expect("the cloud answers");
    let image = images.into_iter().find(|image| image.spec.os_version == os).expect("there is such a system");
    let mut spec = cloud.cluster(&name).await.expect("the cluster is there").spec;
    assert_eq!(spec.channel.next, None, "nothing was offered before");
    spec.channel = Channel { next: Some(image.name) };
    cloud.put_cluster(&name, &spec).await.expect("a channel can be changed");
}
