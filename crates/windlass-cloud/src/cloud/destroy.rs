//! Destroying clusters, with a receipt. It goes by what is on the host, so that it works for a cluster that the state
//! file does not know; and a destruction that was interrupted goes on when the daemon starts again.

use std::time::Duration;

use tokio::task::AbortHandle;
use windlass_cloud_api::{Label, Receipt};

use super::Cloud;
use crate::model::{ClusterRow, Edit, Model, Row};
use crate::refused::Refused;

/// How often an ended task is looked at until it is gone.
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

    /// Ends what is under way for a cluster, and its services; returns when nothing of them runs.
    async fn let_go(&self, cluster: &Label) {
        let (tasks, network) = self.learn(|live| match live.clusters.get_mut(cluster) {
            None => (Vec::new(), None),
            Some(live) => (live.abort(), live.network.take()),
        });
        let mut glance = tokio::time::interval(GLANCE);
        while !tasks.iter().all(AbortHandle::is_finished) {
            glance.tick().await;
        }
        if let Some(network) = network {
            network.close().await;
        }
    }
}

fn marked(model: &Model, cluster: &Label) -> Vec<Edit> {
    let known = model.clusters.get(cluster).filter(|found| !found.row.leaving);
    known.map(|found| Edit::Put(Row::Cluster(ClusterRow { leaving: true, ..found.row.clone() }))).into_iter().collect()
}
