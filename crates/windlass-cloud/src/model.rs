//! What is wanted, as a whole and in memory: the rows of the store by kind and cluster. It changes only by [`Edit`]s,
//! and only after the store has them.

mod row;

pub use row::{
    BalancerRow, ClusterRow, Ending, ForwardRow, GroupRow, Key, MachineRow, ObjectRow, RecordRow, Row, VolumeRow,
};

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use windlass_cloud_api::{Image, Label, RecordKind, RecordName};

/// One change of what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// This is wanted, in place of whatever had its key.
    Put(Row),
    /// This is not wanted any more.
    Drop(Row),
}

/// Everything that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// Images by name.
    pub images: BTreeMap<Label, Image>,
    /// Clusters by name.
    pub clusters: BTreeMap<Label, ClusterModel>,
}

/// A cluster and everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterModel {
    /// The cluster itself.
    pub row: ClusterRow,
    /// Its machines.
    pub machines: BTreeMap<Label, MachineRow>,
    /// Its volumes.
    pub volumes: BTreeMap<Label, VolumeRow>,
    /// Its balancers.
    pub balancers: BTreeMap<Label, BalancerRow>,
    /// Its doors.
    pub forwards: BTreeMap<Label, ForwardRow>,
    /// Its groups.
    pub groups: BTreeMap<Label, GroupRow>,
    /// Its names.
    pub records: BTreeMap<(RecordName, RecordKind), RecordRow>,
    /// Its objects.
    pub objects: BTreeMap<String, ObjectRow>,
}

impl ClusterModel {
    fn new(row: ClusterRow) -> Self {
        ClusterModel {
            row,
            machines: BTreeMap::new(),
            volumes: BTreeMap::new(),
            balancers: BTreeMap::new(),
            forwards: BTreeMap::new(),
            groups: BTreeMap::new(),
            records: BTreeMap::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Where names, objects and the way out are: the first address.
    pub fn gateway(&self) -> Ipv4Addr {
        gateway(&self.row)
    }

    /// Every address that is spoken for.
    pub fn taken(&self) -> BTreeSet<Ipv4Addr> {
        let machines = self.machines.values().map(|m| m.address);
        machines.chain(self.balancers.values().map(|b| b.address)).chain([self.gateway()]).collect()
    }

    /// The lowest address that nobody has.
    pub fn free_address(&self, besides: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let taken = self.taken();
        self.row.spec.subnet.hosts().find(|address| !taken.contains(address) && !besides.contains(address))
    }
}

/// The first address of a cluster's network.
pub fn gateway(row: &ClusterRow) -> Ipv4Addr {
    row.spec.subnet.hosts().next().unwrap_or_else(|| row.spec.subnet.addr())
}

impl Model {
    /// The model that these rows make. Rows of a cluster that is not among them are left out: a cluster's rows are
    /// dropped together with it, so there are none unless the file was tampered with.
    pub fn of(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut model = Model::default();
        let (clusters, others): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| matches!(row, Row::Cluster(_) | Row::Image(_)));
        clusters.into_iter().chain(others).for_each(|row| model.apply(&Edit::Put(row)));
        model
    }

    /// Makes one change.
    pub fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Put(row) => self.put(row.clone()),
            Edit::Drop(row) => self.drop_row(row),
        }
    }

    fn put(&mut self, row: Row) {
        match row {
            Row::Image(row) => drop(self.images.insert(row.name.clone(), row)),
            Row::Cluster(row) => match self.clusters.get_mut(&row.name) {
                Some(cluster) => cluster.row = row,
                None => drop(self.clusters.insert(row.name.clone(), ClusterModel::new(row))),
            },
            Row::Machine(row) => self.within(&row.cluster.clone(), |c| drop(c.machines.insert(row.name.clone(), row))),
            Row::Volume(row) => self.within(&row.cluster.clone(), |c| drop(c.volumes.insert(row.name.clone(), row))),
            Row::Balancer(row) => {
                self.within(&row.cluster.clone(), |c| drop(c.balancers.insert(row.name.clone(), row)));
            }
            Row::Forward(row) => self.within(&row.cluster.clone(), |c| drop(c.forwards.insert(row.name.clone(), row))),
            Row::Group(row) => self.within(&row.cluster.clone(), |c| drop(c.groups.insert(row.name.clone(), row))),
            Row::Record(row) => self.within(&row.cluster.clone(), |c| {
                drop(c.records.insert((row.record.name.clone(), row.record.kind), row));
            }),
            Row::Object(row) => {
                self.within(&row.cluster.clone(), |c| drop(c.objects.insert(row.object.key.to_string(), row)));
            }
        }
    }

    fn drop_row(&mut self, row: &Row) {
        match row {
            Row::Image(row) => drop(self.images.remove(&row.name)),
            Row::Cluster(row) => drop(self.clusters.remove(&row.name)),
            Row::Machine(row) => self.within(&row.cluster, |c| drop(c.machines.remove(&row.name))),
            Row::Volume(row) => self.within(&row.cluster, |c| drop(c.volumes.remove(&row.name))),
            Row::Balancer(row) => self.within(&row.cluster, |c| drop(c.balancers.remove(&row.name))),
            Row::Forward(row) => self.within(&row.cluster, |c| drop(c.forwards.remove(&row.name))),
            Row::Group(row) => self.within(&row.cluster, |c| drop(c.groups.remove(&row.name))),
            Row::Record(row) => {
                self.within(&row.cluster, |c| drop(c.records.remove(&(row.record.name.clone(), row.record.kind))));
            }
            Row::Object(row) => self.within(&row.cluster, |c| drop(c.objects.remove(row.object.key.as_str()))),
        }
    }

    fn within(&mut self, cluster: &Label, change: impl FnOnce(&mut ClusterModel)) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            change(cluster);
        }
    }

    /// The edits that drop a cluster with everything in it.
    pub fn without(&self, cluster: &Label) -> Vec<Edit> {
        let Some(model) = self.clusters.get(cluster) else { return Vec::new() };
        let machines = model.machines.values().cloned().map(Row::Machine);
        let volumes = model.volumes.values().cloned().map(Row::Volume);
        let balancers = model.balancers.values().cloned().map(Row::Balancer);
        let forwards = model.forwards.values().cloned().map(Row::Forward);
        let groups = model.groups.values().cloned().map(Row::Group);
        let records = model.records.values().cloned().map(Row::Record);
        let objects = model.objects.values().cloned().map(Row::Object);
        let inside = machines.chain(volumes).chain(balancers).chain(forwards).chain(groups).chain(records);
        inside.chain(objects).chain([Row::Cluster(model.row.clone())]).map(Edit::Drop).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
