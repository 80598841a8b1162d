//! Requests about images and clusters.

use windlass_cloud_api::{Cluster, ClusterSpec, Image, ImageSpec, Label, Tag};

use super::{Cloud, Live};
use crate::model::{ClusterModel, ClusterRow, Edit, Row, gateway};
use crate::refused::{Class, Refused};
use crate::secret;

/// A network smaller than this has no room for a gateway, a balancer and machines.
const SMALLEST: u8 = 28;

impl Cloud {
    /// Names an image. Machines keep the one they have; a name may come to mean another.
    pub fn put_image(&self, name: &Label, spec: ImageSpec) -> Result<Image, Refused> {
        for tree in std::iter::once(&spec.tree).chain(spec.seeds.iter().map(|seed| &seed.tree)).chain(&spec.ignition) {
            if !tree.is_file() {
                let refused = Refused::new(Class::Impossible, format!("image {name} cannot be made"));
                return Err(refused.because(format!("there is no file {}", tree.display())).next("fetch it first"));
            }
        }
        let image = Image { name: name.clone(), spec };
        self.edit(|model| match model.images.get(name) == Some(&image) {
            true => Ok((Vec::new(), image)),
            false => Ok((vec![Edit::Put(Row::Image(image.clone()))], image)),
        })
    }

    /// Every image.
    pub fn images(&self) -> Vec<Image> {
        self.read(|model| model.images.values().cloned().collect())
    }

    /// Makes a cluster, or changes what may change of it: tags, egress and channel.
    pub fn put_cluster(&self, name: &Label, spec: ClusterSpec) -> Result<Cluster, Refused> {
        check(&spec)?;
        let fresh = secret::draw().map_err(|error| Refused::failed("cannot draw the cluster's secret", &error))?;
        let row = self.edit(|model| {
            let row = match model.clusters.get(name) {
                None => ClusterRow {
                    name: name.clone(),
                    spec,
                    secret: fresh,
                    next_index: 0,
                    next_version: 1,
                    faults: Vec::new(),
                    leaving: false,
                },
                Some(old) => changed(&old.row, spec)?,
            };
            let same = model.clusters.get(name).is_some_and(|old| old.row == row);
            let edits = if same { Vec::new() } else { vec![Edit::Put(Row::Cluster(row.clone()))] };
            Ok((edits, row))
        })?;
        self.log().note(self.clock(), Some(name), None, "cluster wanted".to_owned());
        Ok(self.with_both(|_, live, _| view(&row, live)))
    }

    /// One cluster.
    pub fn cluster(&self, name: &Label) -> Result<Cluster, Refused> {
        self.with_both(|model, live, _| {
            let cluster = model.clusters.get(name).ok_or_else(|| Refused::unknown("cluster", name))?;
            Ok(view(&cluster.row, live))
        })
    }

    /// Every cluster.
    pub fn clusters(&self) -> Vec<Cluster> {
        self.with_both(|model, live, _| model.clusters.values().map(|cluster| view(&cluster.row, live)).collect())
    }

    /// The clusters with this tag.
    pub fn tagged(&self, tag: &Tag) -> Vec<Label> {
        let of = |cluster: &&ClusterModel| tag.is_among(&cluster.row.spec.tags);
        self.read(|model| model.clusters.values().filter(of).map(|cluster| cluster.row.name.clone()).collect())
    }
}

fn changed(old: &ClusterRow, spec: ClusterSpec) -> Result<ClusterRow, Refused> {
    if old.leaving {
        return Err(Refused::new(Class::Conflict, format!("cluster {} is being destroyed", old.name)));
    }
    let fixed = |spec: &ClusterSpec| (spec.domain.clone(), spec.subnet, spec.mtu);
    match fixed(&old.spec) == fixed(&spec) {
        true => Ok(ClusterRow { spec, ..old.clone() }),
        false => {
            let refused = Refused::new(Class::Conflict, format!("cluster {} is there and is another one", old.name));
            Err(refused
                .because("its domain, subnet and MTU stay as they are")
                .next("destroy it, or choose another name"))
        }
    }
}

fn check(spec: &ClusterSpec) -> Result<(), Refused> {
    let impossible = |why: String| Err(Refused::new(Class::Impossible, why));
    if windlass_cloud_api::RecordName::parse(&spec.domain).is_err() {
        return impossible(format!("{:?} is no domain", spec.domain));
    }
    if spec.subnet.prefix_len() > SMALLEST || spec.subnet.prefix_len() < 12 {
        return impossible(format!("{} is no subnet between a /12 and a /{SMALLEST}", spec.subnet));
    }
    let address = spec.subnet.network();
    if !address.is_private() {
        return impossible(format!("{} is not one of the private networks", spec.subnet));
    }
    if spec.subnet.addr() != address {
        return impossible(format!("{} has bits set behind its prefix; {} is meant", spec.subnet, spec.subnet.trunc()));
    }
    match (1280..=9000).contains(&spec.mtu) {
        true => Ok(()),
        false => impossible(format!("an MTU of {} is not between 1280 and 9000", spec.mtu)),
    }
}

fn view(row: &ClusterRow, live: &Live) -> Cluster {
    let live = live.clusters.get(&row.name);
    Cluster {
        name: row.name.clone(),
        spec: row.spec.clone(),
        gateway: gateway(row),
        token_key: secret::token_public_key(&row.secret),
        ready: live.is_some_and(|live| live.network.is_some()),
        trouble: live.and_then(|live| live.setback.as_ref()).map(|setback| setback.reason.clone()),
    }
}
