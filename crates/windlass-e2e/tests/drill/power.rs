//! Five times in a row, every machine loses its power at once.

use windlass_e2e::power::cut_of_every_machine;

use crate::prepared;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_cluster_returns_from_every_loss_of_power() {
    let cluster = prepared("power").await;
    cluster.windlass(&["launch"]).await.ended(0);
    for number in 1..=5 {
        let took = cut_of_every_machine(&cluster).await;
        eprintln!("power cut {number}: usable again after {:.1} s", took.as_secs_f64());
    }
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}
