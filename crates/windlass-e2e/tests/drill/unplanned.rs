//! A boot into the next operating system that nobody prepared: all power goes when every machine has the update staged and
//! none has its turn, so that no hook has fetched the addons for it.

use std::time::Duration;

use windlass_e2e::power::cut_of_every_machine;
use windlass_e2e::{Installation, kubelet, until};

use crate::prepared;
use crate::rolling::history::History;
use crate::rolling::machines::{Machines, ORDER, forget_the_next_os};
use crate::rolling::staged::{ask_often, stage_everywhere};

/// The cluster is used by then; what is left is a kubelet's first seconds.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn machines_that_boot_into_a_system_whose_addons_nobody_had_staged_come_back_by_themselves() {
    let cluster = prepared("unplanned").await;
    ask_often(&cluster);
    cluster.windlass(&["launch"]).await.ended(0);
    forget_the_next_os(&cluster).await;
    let before = Machines::look(&cluster).await;
    let history = History::begin();
    tokio::select! {
        never = history.follow(cluster.api().await) => match never {},
        () = stage_everywhere(&cluster, &history) => {}
    }
    assert_eq!(Machines::look(&cluster).await, before, "an update that is staged changes nothing yet");

    let took = cut_of_every_machine(&cluster).await;
    eprintln!("usable on the next system {:.1} s after all power was cut", took.as_secs_f64());
    runtimes_and_kubelets_run(&cluster).await;
    before.came_to_the_next_os(&Machines::look(&cluster).await);
    let nodes = cluster.kubectl(&["get", "nodes", "--no-headers"]).await.ended(0).stdout;
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), ORDER.len(), "{nodes}");
    cluster.windlass(&["verify"]).await.ended(0);
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

/// What a Node shows could be left from before the cut; what a machine says cannot.
async fn runtimes_and_kubelets_run(cluster: &Installation) {
    let script = format!("systemctl is-active --quiet containerd.service; {}", kubelet::RUNS);
    for name in ORDER {
        until(&format!("{name}: runtime and kubelet run"), SOON, async || cluster.tries(name, &script).await).await;
    }
}
