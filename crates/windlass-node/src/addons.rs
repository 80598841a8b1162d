//! Applying the add-ons through the new control plane and seeing them done (`addons.service`), on the bootstrap machine.
//!
//! Each add-on has an `Addon` object that names its workloads (`workload`). It is done when they have rolled out, and its
//! `Done` condition says so, or why not (`condition`). Both steps may be repeated.

mod condition;
mod workload;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, ReplicationController};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use windlass_cluster::access::{Access, AccessError};
use windlass_cluster::apply::Applier;
use windlass_cluster::failure::ApiFailure;
use windlass_cluster::ready::many;
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::event::Stream;
use windlass_steps::run::Run;
use windlass_steps::step::{Attempt as _, Step, StepError, StepName, Stop};

use crate::exit::{Exit, Failure};
use crate::pivot::fresh::Fresh;
use crate::pivot::payload;
use crate::pivot::told::{Told, stopped};
use crate::places::Places;
use crate::record::Recorder;
use condition::Condition;
use workload::{Addon, Snapshot, addons, judge};

const UNIT: &str = "addons";
const MANAGER: &str = "windlass-addons";
/// For how long the API may refuse an object for reasons that pass.
const APPLY_LIMIT: Duration = Duration::from_secs(120);

/// Applies the add-ons and waits until each of them is done.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let told = Told::into(Recorder::begin(places, UNIT, "begin"));
    let ended = install(places, &told).await;
    told.ended(ended)
}

async fn install(places: &Places, told: &Told) -> Result<(), Failure> {
    let client = Access::Kubeconfig(places.kubeconfig("admin")).client().await.map_err(|error| unreachable(&error))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let run = Run::new(UNIT, Arc::clone(&clock), Stream::new().reader(told.clone()));
    flow(&run, &client, places.addon_manifests(), clock, told).await.map(drop).map_err(|stop| stopped(&stop, UNIT))
}

/// The flow itself.
async fn flow(
    run: &Run,
    client: &Client,
    manifests: PathBuf,
    clock: Arc<dyn Clock>,
    told: &Told,
) -> Result<Installed, Stop> {
    let applied = run.step(ApplyAddons { client, manifests, told: told.clone() }).await?;
    run.step(AwaitAddons { client, applied, clock, snapshot: Fresh::default() }).await
}

fn unreachable(error: &AccessError) -> Failure {
    Failure::of(Exit::TryAgain, error, "see whether Ignition and bootstrap-assets have written every file")
}

/// Puts the add-ons into the API.
struct ApplyAddons<'a> {
    client: &'a Client,
    manifests: PathBuf,
    told: Told,
}

/// The API has the add-ons.
#[derive(Debug, Serialize, Deserialize)]
struct Applied {
    objects: usize,
    addons: Vec<Addon>,
}

impl Step for ApplyAddons<'_> {
    const NAME: StepName = StepName::new("apply-addons");
    const SUMMARY: &'static str = "put the add-ons into the API";
    const DEADLINE: Duration = Duration::from_secs(60);
    type Done = Applied;

    async fn run(&self) -> Result<Applied, StepError> {
        let objects = payload::manifests(&self.manifests).attempt("read the add-ons")?;
        let addons = addons(&objects).attempt("read what the add-ons are made of")?;
        let mut tell = |statement: &str, reason: Option<&str>| self.told.observe(statement, reason);
        let applier = Applier::new(self.client.clone()).within(APPLY_LIMIT);
        let applied = applier.apply_and_tell(&objects, &mut tell).await.attempt("apply the add-ons")?;
        Ok(Applied { objects: applied.objects.len(), addons })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Applied) -> Vec<Criterion<'a>> {
        vec![Criterion::by_construction(format!("the API has taken {} objects", done.objects))]
    }
}

/// Waits until every add-on has rolled out, and tells in its status how far it is.
struct AwaitAddons<'a> {
    client: &'a Client,
    applied: Applied,
    clock: Arc<dyn Clock>,
    snapshot: Fresh<Snapshot>,
}

/// Every add-on is done and says so.
#[derive(Debug, Serialize, Deserialize)]
struct Installed(());

impl Step for AwaitAddons<'_> {
    const NAME: StepName = StepName::new("await-addons");
    const SUMMARY: &'static str = "wait until every add-on is done, and say so in its status";
    const DEADLINE: Duration = Duration::from_secs(600);
    type Done = Installed;

    async fn run(&self) -> Result<Installed, StepError> {
        Ok(Installed(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a Installed) -> Vec<Criterion<'a>> {
        if self.applied.addons.is_empty() {
            return vec![Criterion::by_construction("there is no add-on to wait for")];
        }
        let of_addon =
            |addon: &'a Addon| Criterion::new(format!("the add-on {} is done", addon.name), move || self.settle(addon));
        self.applied.addons.iter().map(of_addon).collect()
    }
}

impl AwaitAddons<'_> {
    /// Looks at an add-on's workloads, and holds only once its status says what they show.
    async fn settle(&self, addon: &Addon) -> Result<Observation, LookError> {
        let snapshot = self.snapshot.get(|| look(self.client)).await?;
        let seen = judge(addon, &snapshot);
        let object = snapshot.object(&addon.name).ok_or("its object is not in the API")?;
        let said = Condition::of(object);
        let says = Condition::after(&seen, said.as_ref(), self.clock.now());
        if said.as_ref() != Some(&says) {
            let patch = Patch::Apply(says.patch(object));
            let params = PatchParams::apply(MANAGER).force();
            objects(self.client).patch_status(&addon.name, &params, &patch).await.map_err(ApiFailure::from)?;
        }
        Ok(seen)
    }
}

async fn look(client: &Client) -> Result<Snapshot, LookError> {
    let all = ListParams::default();
    let (sets, deployments) = (Api::<DaemonSet>::all(client.clone()), Api::<Deployment>::all(client.clone()));
    let controllers = Api::<ReplicationController>::all(client.clone());
    let (nodes, objects) = (Api::<Node>::all(client.clone()), objects(client));
    let (sets, deployments, controllers, nodes, objects) = tokio::join!(
        sets.list(&all),
        deployments.list(&all),
        controllers.list(&all),
        nodes.list(&all),
        objects.list(&all)
    );
    Ok(Snapshot {
        daemon_sets: many(sets)?,
        deployments: many(deployments)?,
        replication_controllers: many(controllers)?,
        nodes: many(nodes)?,
        objects: many(objects)?,
    })
}

fn objects(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Addon");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "addons"))
}

#[cfg(test)]
mod tests;
