//! Destroying clusters, with a receipt. It goes by what is on the host, so that it works for a cluster that the state
//! file does not know; and a destruction that was interrupted goes on when the daemon starts again.

use std::time::Duration;

use tokio::task::AbortHandle;
use windlass_cloud_api::{Label, Receipt};

use super::{Cloud, ClusterLive};
use crate::model::{ClusterRow, Edit, Model, Row};
use crate::refused::Refused;

/// How long work under way may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a task is looked at until it has ended.
const GLANCE: Duration = Duration::from_millis(5);

impl Cloud {
    /// Destroys these clusters, known or not, and says what is left of them.
    pub async fn destroy(&self, clusters: Vec<Label>) -> Result<Receipt, Refused> {
        let mut receipt = Receipt { clusters: clusters.clone(), before: Vec::new(), left: Vec::new() };
        for cluster in &clusters {
            self.edit(|model| Ok((marked(model, cluster), ())))?;
            self.log().note(self.clock(), Some(cluster), None, "destroying".to_owned());
            self.let_go(cluster).await;
            receipt.before.extend(self.world().inventory(self.places(), cluster)?);
            let left = self.world().destroy(self.places(), cluster).await?;
            if left.is_empty() {
                self.edit(|model| Ok((model.without(cluster), ())))?;
                self.learn(|live| live.clusters.remove(cluster));
            }
            receipt.left.extend(left);
        }
        // The daemon leaves with its last cluster; this answer still goes out.
        if receipt.is_clean() && self.leave().is_ok() {
            self.world().tidy(self.places());
        }
        Ok(receipt)
    }

    /// Clusters whose destruction was interrupted.
    pub fn unfinished(&self) -> Vec<Label> {
        self.read(|model| {
            model.clusters.values().filter(|cluster| cluster.row.leaving).map(|c| c.row.name.clone()).collect()
        })
    }

    /// Lets what is under way for a cluster come to its end, and ends its services; returns when nothing of them runs.
    /// Nothing new is started for a cluster that is leaving. What is cut off half-way may go on in a thread that nobody
    /// can end, and make things again after they were taken away; so that is only done to what does not end by itself.
    async fn let_go(&self, cluster: &Label) {
        let tasks = self.with_both(|_, live, _| live.clusters.get(cluster).map(ClusterLive::under_way));
        let tasks = tasks.unwrap_or_default();
        if tokio::time::timeout(PATIENCE, finished(&tasks)).await.is_err() {
            tracing::warn!(%cluster, "work under way does not end, cutting it off");
            tasks.iter().for_each(AbortHandle::abort);
            finished(&tasks).await;
        }
        // Only now: what was under way may have brought a network up.
        let network = self.learn(|live| live.clusters.get_mut(cluster).and_then(|live| live.network.take()));
        if let Some(network) = network {
            network.close().await;
        }
    }
}

async fn finished(tasks: &[AbortHandle]) {
    let mut glance = tokio::time::interval(GLANCE);
    while !tasks.iter().all(AbortHandle::is_finished) {
        glance.tick().await;
    }
}

fn marked(model: &Model, cluster: &Label) -> Vec<Edit> {
    let known = model.clusters.get(cluster).filter(|found| !found.row.leaving);
    known.map(|found| Edit::Put(Row::Cluster(ClusterRow { leaving: true, ..found.row.clone() }))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::model::tests::{cluster, label};
    use crate::places::Places;
    use crate::world::World;

    #[tokio::test]
    async fn work_that_was_cut_off_went_on_after_its_cluster_was_destroyed() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { state: dir.path().to_owned(), run: dir.path().to_owned() };
        let cloud = Cloud::open(places, World::simulated()).unwrap();
        cloud.edit(|_| Ok((vec![Edit::Put(Row::Cluster(cluster("a")))], ()))).unwrap();
        let (go_on, told) = std::sync::mpsc::channel::<()>();
        let is_done = Arc::new(AtomicBool::new(false));
        let done = is_done.clone();
        let work = tokio::task::spawn_blocking(move || {
            told.recv().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        let task = tokio::spawn(async move { work.await.unwrap() });
        cloud.learn(|live| live.clusters.entry(label("a")).or_default().busy = Some(task.abort_handle()));
        let a = label("a");
        let mut ending = Box::pin(cloud.let_go(&a));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut ending).await;
        assert!(early.is_err(), "it did not wait for what was under way");
        go_on.send(()).unwrap();
        ending.await;
        assert!(is_done.load(Ordering::SeqCst));
    }
}
