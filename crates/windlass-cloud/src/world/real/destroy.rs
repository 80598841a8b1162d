//! Taking everything of a cluster away, by what the host shows.

use windlass_cloud_api::{Label, Residue, Thing};

use crate::inventory::{self, Inventory, Where};
use crate::machine::Hierarchies;
use crate::network::{egress, namespace};
use crate::places::Places;
use crate::refused::Refused;

/// The control group above all clusters.
const CGROUPS: &str = "windlass";

fn place(places: &Places) -> Where {
    Where { state: places.state.clone(), run: places.run.clone(), cgroup_parent: CGROUPS.to_owned() }
}

fn take(places: &Places, cluster: &Label) -> Result<Inventory, Refused> {
    let taken = Inventory::take(&place(places));
    let taken = taken.map_err(|error| Refused::failed("nobody could look at what is on this host", &error))?;
    Ok(taken.of(cluster.as_str()))
}

fn kind(thing: &inventory::Thing) -> &'static str {
    match thing {
        inventory::Thing::Process { .. } => "process",
        inventory::Thing::Mount { .. } => "mount",
        inventory::Thing::Pin { .. } => "namespace",
        inventory::Thing::Loop { .. } => "loop device",
        inventory::Thing::Cgroup { .. } => "control group",
        inventory::Thing::Directory { .. } => "directory",
    }
}

/// What of a cluster is on this host.
pub fn inventory(places: &Places, cluster: &Label) -> Result<Vec<Thing>, Refused> {
    let found = take(places, cluster)?;
    let thing = |item: &inventory::Item| Thing { kind: kind(&item.thing).to_owned(), what: item.thing.to_string() };
    Ok(found.items().iter().map(thing).collect())
}

/// Takes all of it away, and says what a second look finds.
pub async fn destroy(places: &Places, cluster: &Label) -> Result<Vec<Residue>, Refused> {
    let path = places.network(cluster);
    let carried = super::alone(move || async move { Ok(egress::end_carriers(&path).await?) }).await;
    carried.map_err(|error| Refused::failed("the way out of the cluster is still open", error.as_ref()))?;
    let receipt = inventory::remove(&take(places, cluster)?).await;
    let residue = |left: inventory::Left| Residue {
        thing: Thing { kind: "left".to_owned(), what: left.what },
        reason: Some(left.why),
    };
    Ok(receipt.left.into_iter().map(residue).collect())
}

/// Takes away what all clusters shared: parents of control groups, and the mount that kept pins to ourselves.
pub fn tidy(places: &Places) {
    let hierarchies = Hierarchies::of_host().into_iter().flat_map(|all| all.iter().cloned().collect::<Vec<_>>());
    for hierarchy in hierarchies {
        // Not there, or not empty because another daemon's clusters are below it: both are as they should be.
        let _ = std::fs::remove_dir(hierarchy.top.join(CGROUPS));
    }
    if let Err(error) = namespace::end_private(&places.run) {
        tracing::warn!(%error, "run directory still bound on itself");
    }
}
