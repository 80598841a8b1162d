//! The pods of the machine, and telling them to end. Eviction respects disruption budgets: a refusal is asked again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use tracing::info;
use windlass_cluster::failure::ApiFailure;
use windlass_steps::clock::Clock;

use super::plan::{PodId, PodState};
use crate::follow::ask;

/// What is known of the pods that have to go.
pub(super) struct Drain {
    client: Client,
    node: String,
    refused: BTreeMap<PodId, String>,
}

impl Drain {
    pub(super) fn new(client: Client, node: &str) -> Self {
        Drain { client, node: node.to_owned(), refused: BTreeMap::new() }
    }

    /// The pods that have to go.
    pub(super) async fn look(&mut self, clock: &dyn Clock) -> Result<Vec<PodState>, ApiFailure> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let list = ask(pods.list(&on(&self.node))).await?;
        let mut left: Vec<PodState> = list.items.iter().filter_map(|pod| PodState::of(pod, clock.now())).collect();
        self.refused.retain(|id, _| left.iter().any(|pod| pod.id == *id && !pod.ending));
        for pod in &mut left {
            pod.refused = self.refused.get(&pod.id).cloned();
        }
        Ok(left)
    }

    /// Tells one to end. That it may not yet is no failure.
    pub(super) async fn evict(&mut self, pod: &PodState) {
        let PodId { namespace, name, uid } = &pod.id;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let (params, eviction) = (PostParams::default(), eviction(pod));
        // The client library's own way spells the options so that the API does not see them.
        let told = ask(pods.create_subresource::<_, Value>("eviction", name, &params, &eviction)).await;
        match told {
            Ok(_) => info!(pod = format!("{namespace}/{name}"), "pod evicted"),
            // It is gone, or another one has its name.
            Err(failure) if matches!(failure.code, Some(404 | 409)) => {}
            Err(failure) => {
                let why = failure.to_string();
                if self.refused.get(&pod.id) != Some(&why) {
                    info!(pod = format!("{namespace}/{name}"), uid, reason = why, "pod not evicted yet");
                }
                self.refused.insert(pod.id.clone(), why);
                return;
            }
        }
        self.refused.remove(&pod.id);
    }
}

/// The pods of this node.
pub(super) fn on(node: &str) -> ListParams {
    ListParams::default().fields(&format!("spec.nodeName={node}"))
}

fn eviction(pod: &PodState) -> Eviction {
    let PodId { namespace, name, uid } = &pod.id;
    let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: None };
    Eviction {
        metadata: ObjectMeta { name: Some(name.clone()), namespace: Some(namespace.clone()), ..ObjectMeta::default() },
        delete_options: Some(DeleteOptions {
            grace_period_seconds: pod.grace,
            preconditions: Some(preconditions),
            ..DeleteOptions::default()
        }),
    }
}
