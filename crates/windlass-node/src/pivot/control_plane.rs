//! The self-hosted control plane: put into the temporary API, and waited for until it serves from the masters.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_cluster::apply::Applier;
use windlass_cluster::ready::many;
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::fresh::Fresh;
use super::masters::{Progress, REPLICATED, Seen, Snapshot, carries, stands_ready};
use super::site::{Master, Site};
use super::static_pods::{TemporaryApi, TemporaryControllers};
use super::still::Stillness;
use super::told::Told;
use super::{payload, reach};

/// For how long the API may refuse an object for reasons that pass.
const APPLY_LIMIT: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "kube-system";
/// Whose certificate requests are a machine's: before and after it has its first certificate.
const MACHINE_USERS: [&str; 2] = ["windlass:machine:", "system:node:"];

/// Puts the control plane into the API, with the Secrets that only this machine can make.
pub(super) struct ApplyControlPlane<'a> {
    pub site: &'a Site,
    pub told: Told,
    pub _api: &'a TemporaryApi,
}

/// The API has the control plane.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Applied {
    objects: usize,
    replicas: BTreeMap<String, usize>,
}

impl Step for ApplyControlPlane<'_> {
    const NAME: StepName = StepName::new("apply-control-plane");
    const SUMMARY: &'static str = "put the self-hosted control plane and what it needs into the API";
    const DEADLINE: Duration = Duration::from_secs(60);
    type Done = Applied;

    async fn run(&self) -> Result<Applied, StepError> {
        let places = &self.site.places;
        let mut objects = payload::own(places).attempt("make what only this machine can make")?;
        objects.extend(payload::manifests(&places.control_plane_manifests()).attempt("read the control plane")?);
        let applier = Applier::new(self.site.api.clone()).within(APPLY_LIMIT);
        let mut tell = |statement: &str, reason: Option<&str>| self.told.observe(statement, reason);
        let applied = applier.apply_and_tell(&objects, &mut tell).await.attempt("apply the control plane")?;
        Ok(Applied { objects: applied.objects.len(), replicas: replicas(&objects) })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Applied) -> Vec<Criterion<'a>> {
        vec![Criterion::by_construction(format!("the API has taken {} objects", done.objects))]
    }
}

/// How many pods each Deployment wants.
fn replicas(objects: &[Value]) -> BTreeMap<String, usize> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let wanted = deployments.filter_map(|object| {
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or(1);
        Some((object["metadata"]["name"].as_str()?.to_owned(), usize::try_from(replicas).ok()?))
    });
    wanted.collect()
}

/// Waits until the masters carry the control plane.
pub(super) struct AwaitControlPlane<'a> {
    site: &'a Site,
    applied: Applied,
    still: Stillness<Progress>,
    snapshot: Fresh<Snapshot>,
}

/// The control plane serves from the masters.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SelfHosted(());

impl<'a> AwaitControlPlane<'a> {
    pub(super) fn new(site: &'a Site, applied: Applied, _: &TemporaryControllers) -> Self {
        AwaitControlPlane { site, applied, still: Stillness::new(site.clock.clone()), snapshot: Fresh::default() }
    }

    async fn judge(&self, judge: impl Fn(&Snapshot, &[Seen<'_>]) -> Observation) -> Result<Observation, LookError> {
        let snapshot = self.snapshot.get(|| look(&self.site.api, &self.site.masters)).await?;
        let seen = self.site.masters.iter().map(|Master { name, .. }| {
            let progress = snapshot.progress(name);
            Seen { name, still: self.still.of(name, progress.clone()), progress }
        });
        Ok(judge(&snapshot, &seen.collect::<Vec<_>>()))
    }
}

impl Step for AwaitControlPlane<'_> {
    const NAME: StepName = StepName::new("await-control-plane");
    const SUMMARY: &'static str = "wait until the self-hosted control plane serves from every master that moves";
    const DEADLINE: Duration = Duration::from_secs(600);
    type Done = SelfHosted;

    async fn run(&self) -> Result<SelfHosted, StepError> {
        Ok(SelfHosted(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a SelfHosted) -> Vec<Criterion<'a>> {
        let of_master = |Master { name, .. }: &'a Master| {
            Criterion::new(format!("{name} carries the control plane, or stands still"), move || {
                self.judge(|snapshot, masters| carries(snapshot, masters, name))
            })
        };
        let of_program = |app: &'static str| {
            let replicas = self.applied.replicas.get(app).copied().unwrap_or(1);
            Criterion::new(format!("{app} stands ready on the masters"), move || {
                self.judge(move |snapshot, masters| stands_ready(snapshot, masters, app, replicas))
            })
        };
        self.site.masters.iter().map(of_master).chain(REPLICATED.map(of_program)).collect()
    }
}

/// Looks at everything that the masters are judged by.
async fn look(api: &Client, masters: &[Master]) -> Result<Snapshot, LookError> {
    let all = ListParams::default();
    let nodes = Api::<Node>::all(api.clone());
    let pods = Api::<Pod>::namespaced(api.clone(), NAMESPACE);
    let requests = Api::<CertificateSigningRequest>::all(api.clone());
    let answers = join_all(masters.iter().map(|master| reach::ready(&master.api)));
    let (nodes, pods, requests, answers) =
        tokio::join!(nodes.list(&all), pods.list(&all), requests.list(&all), answers);
    Ok(Snapshot {
        nodes: many(nodes)?,
        pods: many(pods)?,
        requests: by_machine(&many(requests)?),
        answers: masters.iter().map(|master| master.name.clone()).zip(answers).collect(),
    })
}

fn by_machine(requests: &[CertificateSigningRequest]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for user in requests.iter().filter_map(|request| request.spec.username.as_deref()) {
        if let Some(machine) = MACHINE_USERS.iter().find_map(|prefix| user.strip_prefix(prefix)) {
            *counts.entry(machine.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_asks_under_two_names() {
        let request = |user: &str| -> CertificateSigningRequest {
            serde_json::from_value(json!({"metadata": {}, "spec": {"username": user, "request": "", "signerName": ""}}))
                .unwrap()
        };
        let users =
            ["windlass:machine:masters-0", "system:node:masters-0", "windlass:machine:workers-1", "kubernetes-admin"];
        let counts = by_machine(&users.map(request));
        assert_eq!(counts, [("masters-0".to_owned(), 2), ("workers-1".to_owned(), 1)].into());
    }

    #[test]
    fn the_replicas_are_those_that_were_applied() {
        let deployment =
            |spec: Value| json!({"kind": "Deployment", "metadata": {"name": "kube-scheduler"}, "spec": spec});
        for (spec, want) in [(json!({"replicas": 3}), 3), (json!({"replicas": 5}), 5), (json!({}), 1)] {
            assert_eq!(replicas(&[deployment(spec), json!({"kind": "DaemonSet"})])["kube-scheduler"], want);
        }
    }
}
