//! Whether a cluster is ready for its user.

use std::time::Duration;

use kube::api::DynamicObject;
use serde::Serialize;
use windlass_cluster::ready;
use windlass_spec::CompleteSpec;
use windlass_spec::complete::machines;
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::reason;
use windlass_steps::report::chain;
use windlass_steps::wait::{Unmet, Wait, WaitError};

use crate::sight::Sight;
use crate::trial::{Finding, Wanted};

/// How long a cluster that is being verified may go without progress.
const PATIENCE: Duration = Duration::from_secs(20);

/// What verifying found.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// Every statement that was looked at, with the reason why it does not hold.
    pub statements: Vec<Statement>,
}

/// A statement about the cluster.
#[derive(Debug, Serialize)]
pub struct Statement {
    /// What is to be true.
    pub statement: String,
    /// Why it is not; nothing if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Verified {
    /// Whether every statement holds.
    pub fn is_good(&self) -> bool {
        self.statements.iter().all(|statement| statement.reason.is_none())
    }
}

/// What using the cluster of this spec is expected to find.
pub fn expected(spec: &CompleteSpec) -> Wanted {
    Wanted {
        nodes: machines(spec).iter().map(|machine| machine.name.to_string()).collect(),
        image: spec.spec.images.windlass_node.clone(),
        cluster_domain: spec.spec.network.cluster_domain.to_string(),
    }
}

/// Verifies the cluster of this spec: how it looks, and if it looks well, what comes of using it.
pub async fn verify(sight: &impl Sight, spec: &CompleteSpec) -> Verified {
    let expected = expected(spec);
    let mut verified = looked(sight, &expected.nodes).await;
    if verified.is_good() {
        verified.statements.extend(tried(sight, &expected).await);
    }
    verified
}

async fn tried(sight: &impl Sight, expected: &Wanted) -> Vec<Statement> {
    match sight.try_out(expected).await {
        Ok(tried) => {
            let statement = |found: Finding| Statement { statement: found.statement, reason: found.reason };
            tried.findings.into_iter().map(statement).collect()
        }
        Err(error) => {
            let statement = "the cluster can be used".to_owned();
            vec![Statement { statement, reason: Some(chain(error.as_ref()).join(": ")) }]
        }
    }
}

async fn looked(sight: &impl Sight, nodes: &[String]) -> Verified {
    let criteria = criteria(sight, nodes);
    let waited = Wait::stalled_for(PATIENCE).until(&criteria, |_| Ok::<(), std::convert::Infallible>(())).await;
    let unmet: Vec<Unmet> = match waited {
        Ok(()) => Vec::new(),
        Err(WaitError::Unmet(unmet)) => unmet,
        Err(WaitError::Observe(never)) => match never {},
    };
    let reason = |criterion: &Criterion<'_>| {
        unmet.iter().find(|unmet| unmet.statement == criterion.statement()).map(|unmet| unmet.reason.clone())
    };
    let statement = |criterion: &Criterion<'_>| Statement {
        statement: criterion.statement().to_owned(),
        reason: reason(criterion),
    };
    Verified { statements: criteria.iter().map(statement).collect() }
}

/// The statements that are true of a cluster that is ready for its user.
pub(crate) fn criteria<'a, S: Sight>(sight: &'a S, nodes: &'a [String]) -> Vec<Criterion<'a>> {
    let api = Criterion::new("the API answers", || async { sight.api_ready().await.map(|()| Observation::Holds) });
    let registered =
        Criterion::new("every node is Ready", || async { Ok(ready::nodes_ready(&sight.nodes().await?, nodes)) });
    vec![api, registered, pods(sight), workloads(sight), addons(sight)]
}

/// That every pod is ready.
pub(crate) fn pods<S: Sight>(sight: &S) -> Criterion<'_> {
    Criterion::new("every pod is ready", || async { Ok(ready::every_pod_ready(&sight.pods().await?)) })
}

/// That every workload has its pods: one that could not be made is in no list of pods.
pub(crate) fn workloads<S: Sight>(sight: &S) -> Criterion<'_> {
    Criterion::new("every workload has its pods", || async {
        Ok(ready::every_workload_has_its_pods(&sight.workloads().await?))
    })
}

/// That every add-on reports that it is done.
pub(crate) fn addons<S: Sight>(sight: &S) -> Criterion<'_> {
    Criterion::new("every add-on is done", || async { Ok(addons_done(&sight.addons().await?)) })
}

/// Whether there are add-ons and each reports that it is done.
fn addons_done(addons: &[DynamicObject]) -> Observation {
    if addons.is_empty() {
        return Observation::NotYet(reason!("there is no add-on"));
    }
    let trouble = |addon: &DynamicObject| match ready::addon_done(Some(addon)) {
        Observation::Holds => None,
        Observation::NotYet(why) | Observation::Never(why) => {
            Some(format!("{}: {why}", addon.metadata.name.as_deref().unwrap_or("?")))
        }
    };
    let troubles: Vec<String> = addons.iter().filter_map(trouble).collect();
    match troubles.is_empty() {
        true => Observation::Holds,
        false => Observation::NotYet(reason!(
            "{} of {} add-ons are done; {}",
            addons.len() - troubles.len(),
            addons.len(),
            troubles.join("; ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use windlass_spec::file::read_and_complete;

    use super::*;
    use crate::sight::FakeSight;

    #[tokio::test(start_paused = true)]
    async fn a_workload_whose_pods_cannot_be_made_passed_for_ready() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let sight = FakeSight::whole(&spec);
        assert!(verify(&sight, &spec).await.is_good());
        sight.change(|shown| {
            let status = shown.workloads.daemon_sets[0].status.as_mut().unwrap();
            (status.current_number_scheduled, status.number_ready) = (0, 0);
        });
        let verified = verify(&sight, &spec).await;
        let unmet: Vec<_> = verified.statements.iter().filter(|one| one.reason.is_some()).collect();
        let [unmet] = &unmet[..] else { panic!("{unmet:?}") };
        assert_eq!(unmet.statement, "every workload has its pods");
        let reason = unmet.reason.as_deref().unwrap();
        assert!(reason.ends_with("DaemonSet kube-system/kube-proxy: 0 of 5 pods are scheduled"), "{reason}");
    }
}
