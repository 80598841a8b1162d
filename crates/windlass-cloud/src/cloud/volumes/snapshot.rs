//! Copying a volume. The name of the copy and the volume itself are spoken for while the bytes are copied, so that
//! nobody makes, attaches or removes either of them meanwhile.

use windlass_cloud_api::{Label, Volume};

use super::{Cloud, known, volume_row};
use crate::model::{ClusterModel, Edit, Row, VolumeRow};
use crate::refused::{Class, Refused};

impl Cloud {
    /// Copies a volume that nobody has.
    pub async fn snapshot(&self, cluster: &Label, name: &Label, copy: &Label) -> Result<Volume, Refused> {
        self.adopted(cluster).await?;
        let row = self.spoken_for(cluster, name, copy)?;
        let new = VolumeRow { name: copy.clone(), ..row.clone() };
        let copying = Copying { cloud: self.clone(), new: new.clone() };
        // It goes on if whoever asked hangs up: a copy half made would stay behind under a name that is free again.
        let copied = tokio::spawn(async move { copying.carry_out(&row).await }).await;
        copied.unwrap_or_else(|error| Err(Refused::failed(format!("volume {name} was not copied"), &error)))?;
        self.made(&new).await
    }

    /// Makes sure of both names, and answers with what is to be copied.
    fn spoken_for(&self, cluster: &Label, name: &Label, copy: &Label) -> Result<VolumeRow, Refused> {
        self.with_both(|model, live, _| {
            let row = volume_row(model, cluster, name)?;
            let live = live.clusters.entry(cluster.clone()).or_default();
            let conflict = |why: String| Err(Refused::new(Class::Conflict, why));
            if let Some(holder) = &row.holder {
                let refused = Refused::new(Class::Conflict, format!("volume {name} is in use by {holder}"));
                return Err(refused.next("detach it first: a copy of a volume in use would be torn"));
            }
            if row.leaving {
                return conflict(format!("volume {name} is being removed"));
            }
            if live.volumes.get(name).is_some_and(|volume| volume.facts.open) {
                return conflict(format!("volume {name} is still being closed"));
            }
            is_free(known(model, cluster)?, copy)?;
            if live.copying.contains_key(copy) {
                return conflict(format!("volume {copy} is being made as a copy"));
            }
            live.copying.insert(copy.clone(), name.clone());
            Ok(row.clone())
        })
    }
}

/// A copy under way; its names are free again when it is over.
struct Copying {
    cloud: Cloud,
    new: VolumeRow,
}

impl Copying {
    async fn carry_out(self, row: &VolumeRow) -> Result<(), Refused> {
        let (cloud, new) = (&self.cloud, &self.new);
        cloud.world().copy_volume(cloud.places(), row, new).await?;
        let recorded = cloud.edit(|model| {
            is_free(known(model, &new.cluster)?, &new.name)?;
            Ok((vec![Edit::Put(Row::Volume(new.clone()))], ()))
        });
        let Err(refused) = recorded else { return Ok(()) };
        // The bytes are of no use without their row, unless the name is somebody else's by now.
        let taken = cloud.read(|model| volume_row(model, &new.cluster, &new.name).is_ok());
        let removed = if taken { Ok(()) } else { cloud.world().remove_volume(cloud.places(), new).await };
        Err(match removed {
            Ok(()) => refused,
            Err(trouble) => refused.because(format!("and its bytes are left: {trouble}")),
        })
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let (cluster, copy) = (&self.new.cluster, &self.new.name);
        self.cloud.learn(|live| live.clusters.get_mut(cluster).and_then(|live| live.copying.remove(copy)));
    }
}

fn is_free(cluster: &ClusterModel, copy: &Label) -> Result<(), Refused> {
    match cluster.volumes.contains_key(copy) {
        true => Err(Refused::new(Class::Conflict, format!("there is a volume {copy} already"))),
        false => Ok(()),
    }
}
