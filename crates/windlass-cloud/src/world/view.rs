//! What one machine may see and do, as its metadata service asks for it.

use windlass_cloud_api::{AttachRequest, Hold, Label, Record, RecordChange, RecordKind, RecordName, Volume};
use windlass_steps::clock::Clock as _;

use crate::cloud::Cloud;
use crate::metadata::{
    self, Condition, Failing, Identity, MachineView, NewRecord, OsOffer, OsView, RecordView, Role, StageOs, Tag,
    ViewError, VolumeView,
};
use crate::model::{ClusterRow, MachineRow};
use crate::refused::{Class, Refused};
use crate::secret;

/// How long a token is good for, in seconds.
const TOKEN: i64 = 2 * 3600;

/// The world as one machine sees it.
pub(super) struct View {
    cloud: Cloud,
    cluster: Label,
    machine: Label,
}

impl View {
    pub(super) fn new(cloud: Cloud, cluster: Label, machine: Label) -> Self {
        View { cloud, cluster, machine }
    }

    fn rows(&self) -> Result<(ClusterRow, MachineRow), ViewError> {
        let found = self.cloud.read_cluster(&self.cluster, |cluster| {
            let machine = cluster.machines.get(&self.machine).cloned();
            Ok((cluster.row.clone(), machine.ok_or_else(|| Refused::unknown("machine", &self.machine))?))
        });
        found.map_err(told)
    }

    fn domain(&self) -> Result<String, ViewError> {
        self.cloud.read_cluster(&self.cluster, |cluster| Ok(cluster.row.spec.domain.clone())).map_err(told)
    }

    fn identified(&self) -> Result<Identity, ViewError> {
        let (cluster, machine) = self.rows()?;
        Ok(Identity {
            name: machine.name.to_string(),
            cluster: cluster.name.to_string(),
            domain: cluster.spec.domain.clone(),
            role: role(&machine.spec.role),
            address: machine.address.into(),
            tags: cluster.spec.tags.into_iter().chain(machine.spec.tags).collect(),
            index: machine.index,
        })
    }
}

impl MachineView for View {
    async fn identity(&self) -> Result<Identity, ViewError> {
        self.identified()
    }

    async fn user_data(&self) -> Result<Option<String>, ViewError> {
        Ok(self.rows()?.1.spec.user_data)
    }

    async fn token(&self, purpose: &metadata::Label) -> Result<String, ViewError> {
        let (cluster, _) = self.rows()?;
        let expires = self.cloud.clock().now() + time::Duration::seconds(TOKEN);
        Ok(self.identified()?.token(purpose, expires).sign(&secret::token_key(&cluster.secret)))
    }

    async fn volumes(&self, tags: &[Tag]) -> Result<Vec<VolumeView>, ViewError> {
        let all = self.cloud.volumes(&self.cluster, None).map_err(told)?;
        let has = |volume: &Volume| tags.iter().all(|tag| volume.spec.tags.get(&tag.key) == Some(&tag.value));
        Ok(all.into_iter().filter(has).map(volume_view).collect())
    }

    async fn volume(&self, name: &metadata::Label) -> Result<Option<VolumeView>, ViewError> {
        Ok(self.volumes(&[]).await?.into_iter().find(|volume| volume.name == name.as_str()))
    }

    async fn attach_volume(&self, name: &metadata::Label) -> Result<VolumeView, ViewError> {
        // A machine takes what nobody uses; only the cloud's owner may have another machine's power taken away.
        let request = AttachRequest { machine: self.machine.clone(), hold: Hold::Respect };
        let attached = self.cloud.attach(&self.cluster, &label(name)?, &request).await;
        attached.map(volume_view).map_err(told)
    }

    async fn detach_volume(&self, name: &metadata::Label) -> Result<VolumeView, ViewError> {
        self.cloud.detach(&self.cluster, &label(name)?).await.map(volume_view).map_err(told)
    }

    async fn record(
        &self,
        name: &metadata::RecordName,
        kind: metadata::RecordKind,
    ) -> Result<Option<RecordView>, ViewError> {
        let domain = self.domain()?;
        let (name, kind) = (record_name(name, &domain)?, record_kind(kind)?);
        let records = self.cloud.records(&self.cluster).map_err(told)?;
        let found = records.into_iter().find(|record| record.name == name && record.kind == kind);
        Ok(found.map(|record| record_view(record, &domain)))
    }

    async fn put_record(
        &self,
        name: &metadata::RecordName,
        record: NewRecord,
        condition: Condition,
    ) -> Result<RecordView, ViewError> {
        let change = RecordChange {
            kind: record_kind(record.kind)?,
            values: record.values,
            only_if: match condition {
                Condition::Always => windlass_cloud_api::Condition::Always,
                Condition::Absent => windlass_cloud_api::Condition::Absent,
                Condition::Version(version) => windlass_cloud_api::Condition::Version(version),
            },
        };
        let domain = self.domain()?;
        let put = self.cloud.put_record(&self.cluster, &record_name(name, &domain)?, &change);
        put.map(|record| record_view(record, &domain)).map_err(|refused| conditional(refused, condition))
    }

    async fn delete_record(
        &self,
        name: &metadata::RecordName,
        kind: metadata::RecordKind,
        condition: Condition,
    ) -> Result<(), ViewError> {
        let nothing = NewRecord { kind, values: Vec::new() };
        self.put_record(name, nothing, condition).await.map(drop)
    }

    async fn os(&self) -> Result<OsView, ViewError> {
        let (cluster, row) = self.rows()?;
        let machine = self.cloud.machine(&self.cluster, &self.machine).map_err(told)?;
        self.cloud.read(|model| {
            let version = |name: &Label| model.images.get(name).map(|image| image.spec.os_version.clone());
            let current = version(&machine.image).or_else(|| version(&row.spec.image)).unwrap_or_default();
            let offered =
                cluster.spec.channel.next.as_ref().and_then(|name| model.images.get(name)).map(|image| OsOffer {
                    version: image.spec.os_version.clone(),
                    size: std::fs::metadata(&image.spec.tree).map_or(0, |found| found.len()),
                    digest: image.spec.digest.clone(),
                });
            let staged = machine.staged.as_ref().and_then(version);
            Ok(OsView { next: offered.filter(|offer| offer.version != current), current, staged })
        })
    }

    async fn stage_os(&self, wanted: StageOs) -> Result<OsView, ViewError> {
        let (cluster, row) = self.rows()?;
        let image =
            self.cloud.read(|model| cluster.spec.channel.next.as_ref().and_then(|n| model.images.get(n)).cloned());
        let none = || ViewError::new(Failing::Conflict, "the channel offers no other operating system");
        let image = image.ok_or_else(none)?;
        if wanted.version.as_ref().is_some_and(|version| *version != image.spec.os_version) {
            let because = format!("the channel offers {}", image.spec.os_version);
            return Err(ViewError::new(Failing::Conflict, "that version is not on offer").because(because));
        }
        let staged = self.cloud.world().stage(self.cloud.places(), &row, &image).await;
        staged.map_err(|trouble| {
            ViewError::new(Failing::Broken, "the operating system was not staged")
                .because(super::words(trouble.as_ref()))
        })?;
        let mut os = self.os().await?;
        os.staged = Some(image.spec.os_version);
        Ok(os)
    }
}

/// Whatever else a machine is for, to the cloud it may change nothing.
fn role(text: &str) -> Role {
    match text {
        "bootstrap" => Role::Bootstrap,
        "master" => Role::Master,
        _ => Role::Worker,
    }
}

fn told(refused: Refused) -> ViewError {
    let failing = match refused.class {
        Class::Malformed | Class::Impossible | Class::TooLarge => Failing::Senseless,
        Class::Unknown => Failing::Missing,
        Class::Conflict | Class::Forbidden => Failing::Conflict,
        Class::NotYet => Failing::Later,
        Class::Failed | Class::Full => Failing::Broken,
    };
    let because = refused.refusal.because.join(": ");
    let because = Some(because).filter(|words| !words.is_empty());
    ViewError { failing, error: refused.refusal.error, because, next: refused.refusal.next }
}

/// A conflict is the condition's only where there was one.
fn conditional(refused: Refused, condition: Condition) -> ViewError {
    let mut error = told(refused);
    if error.failing == Failing::Conflict && condition != Condition::Always {
        error.failing = Failing::Condition;
    }
    error
}

fn label(name: &metadata::Label) -> Result<Label, ViewError> {
    Label::parse(name.as_str()).map_err(|error| ViewError::new(Failing::Senseless, error.to_string()))
}

/// Machines say whole names, the cloud keeps those below the domain.
fn record_name(name: &metadata::RecordName, domain: &str) -> Result<RecordName, ViewError> {
    let below = name.as_str().strip_suffix(domain).and_then(|rest| rest.strip_suffix('.'));
    let below = below.ok_or_else(|| ViewError::new(Failing::Senseless, format!("{name} is no name below {domain}")))?;
    RecordName::parse(below).map_err(|error| ViewError::new(Failing::Senseless, error.to_string()))
}

fn record_kind(kind: metadata::RecordKind) -> Result<RecordKind, ViewError> {
    match kind {
        metadata::RecordKind::A => Ok(RecordKind::A),
        metadata::RecordKind::Cname => Ok(RecordKind::CNAME),
        metadata::RecordKind::Txt => Ok(RecordKind::TXT),
        metadata::RecordKind::Aaaa | metadata::RecordKind::Srv => {
            Err(ViewError::new(Failing::Senseless, "the zone holds A, CNAME and TXT records"))
        }
    }
}

fn record_view(record: Record, domain: &str) -> RecordView {
    let kind = match record.kind {
        RecordKind::A => metadata::RecordKind::A,
        RecordKind::CNAME => metadata::RecordKind::Cname,
        RecordKind::TXT => metadata::RecordKind::Txt,
    };
    RecordView { name: format!("{}.{domain}", record.name), kind, values: record.values, version: record.version }
}

fn volume_view(volume: Volume) -> VolumeView {
    VolumeView {
        name: volume.name.to_string(),
        cluster: volume.cluster.to_string(),
        size: volume.spec.size,
        tags: volume.spec.tags,
        holder: volume.holder.map(|holder| holder.to_string()),
        device: volume.device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{cluster, label, machine};
    use crate::model::{Edit, Row};
    use crate::places::Places;
    use crate::world::World;

    #[tokio::test]
    async fn a_machines_record_was_kept_with_the_domain_and_served_with_it_twice() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { state: dir.path().to_owned(), run: dir.path().to_owned() };
        let cloud = Cloud::open(places, World::simulated()).unwrap();
        let rows = [Row::Cluster(cluster("a")), Row::Machine(machine("a", "m"))];
        cloud.edit(|_| Ok((rows.into_iter().map(Edit::Put).collect(), ()))).unwrap();
        let view = View::new(cloud.clone(), label("a"), label("m"));
        let name = metadata::RecordName::parse("etcd-0.internal.a.example").unwrap();
        let record = NewRecord { kind: metadata::RecordKind::A, values: vec!["10.80.0.9".into()] };
        let put = view.put_record(&name, record, Condition::Absent).await.unwrap();
        assert_eq!(put.name, name.as_str());
        let kept = cloud.records(&label("a")).unwrap();
        assert_eq!(kept[0].name.as_str(), "etcd-0.internal");
        assert_eq!(view.record(&name, metadata::RecordKind::A).await.unwrap(), Some(put));
        view.delete_record(&name, metadata::RecordKind::A, Condition::Always).await.unwrap();
        assert_eq!(cloud.records(&label("a")).unwrap(), []);
        for other in ["a.example", "x.b.example", "xa.example"] {
            let other = metadata::RecordName::parse(other).unwrap();
            assert!(view.record(&other, metadata::RecordKind::A).await.is_err(), "{other}");
        }
    }
}
