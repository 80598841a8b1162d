//! The verification itself: create, see it scheduled, use it from every node, delete. What does not depend on each other
//! happens at once.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::{join, join_all, join3, try_join};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use tokio::time::Instant;
use windlass_cluster::apply::Applier;
use windlass_cluster::failure::ApiFailure;
use windlass_cluster::ready::{many, nodes_ready, one};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::reason;
use windlass_steps::report::chain;
use windlass_steps::wait::{Change, Wait, WaitError};

use super::judge::{self, Question};
use super::objects::{EVERYWHERE, LABEL, PORT, READY_PATH, SCHEDULED, objects, selector};
use super::{Finding, Wanted, talk};

/// How long a statement may go without progress.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Hears which statement waits for what, and without a reason that it holds.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&str, Option<&str>);

/// One verification.
pub(super) struct Trial<'a> {
    pub(super) client: Client,
    pub(super) request: &'a Wanted,
    /// The namespace of everything that is created.
    pub(super) namespace: String,
    pub(super) patience: Duration,
    /// Is told which statement waits for what, and that it no longer does.
    pub(super) tell: RefCell<Tell<'a>>,
}

/// Whose namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// This verification's.
    Own,
    /// Those of verifications that were killed.
    Earlier,
}

impl Trial<'_> {
    /// Does everything, and leaves nothing behind.
    pub(super) async fn run(&self) -> Vec<Finding> {
        let earlier = self.gone("nothing is left of an earlier verification", Whose::Earlier);
        let own = async {
            let made = self.made().await;
            let used = if made.holds() { self.used().await } else { Vec::new() };
            let gone = self.gone("what was created can be deleted", Whose::Own).await;
            [vec![made], used, vec![gone]].concat()
        };
        let (earlier, own) = join(earlier, own).await;
        [vec![earlier], own].concat()
    }

    async fn made(&self) -> Finding {
        let started = Instant::now();
        let statement = "workloads and services can be created".to_owned();
        let applier = Applier::new(self.client.clone()).within(self.patience);
        let mut tell = |statement: &str, reason: Option<&str>| (self.tell.borrow_mut())(statement, reason);
        let objects = objects(&self.namespace, &self.request.image);
        let applied = applier.apply_and_tell(&objects, &mut tell).await;
        let reason = applied.err().map(|error| chain(&error).join(": "));
        Finding { statement, reason, took: whole(started.elapsed()) }
    }

    async fn used(&self) -> Vec<Finding> {
        let (nodes, everywhere, scheduled) = join3(self.nodes(), self.everywhere(), self.scheduled()).await;
        let mut findings = vec![nodes, everywhere, scheduled];
        // What waited in vain for its pods need not wait for them to answer as well; one look tells what works.
        let patience = if findings.iter().all(Finding::holds) { self.patience } else { Duration::ZERO };
        let pods = match self.pods(None).await {
            Ok(pods) => pods,
            Err(error) => {
                let reason = Some(chain(error.as_ref()).join(": "));
                let statement = "the pods can be listed".to_owned();
                findings.push(Finding { statement, reason, took: Duration::ZERO });
                return findings;
            }
        };
        let seats = judge::seats(&of(&pods, EVERYWHERE));
        let questions = judge::questions(self.request, &self.namespace, &seats);
        let asked = join_all(questions.iter().map(|question| self.asked(question, &pods, patience)));
        let first = self.request.nodes.iter().find_map(|node| seats.get(node));
        let reached = self.reached(first.map(|seat| seat.pod.as_str()), &pods, patience);
        let (asked, reached) = join(asked, reached).await;
        findings.extend(asked);
        findings.extend(reached);
        findings
    }

    async fn nodes(&self) -> Finding {
        let nodes = &Api::<Node>::all(self.client.clone());
        self.find("every node is Ready", self.patience, move || async move {
            Ok(nodes_ready(&many(nodes.list(&ListParams::default()).await)?, &self.request.nodes))
        })
        .await
    }

    async fn everywhere(&self) -> Finding {
        let sets = &Api::<DaemonSet>::namespaced(self.client.clone(), &self.namespace);
        self.find("a pod serves on every node", self.patience, move || async move {
            let (set, pods) = try_join(self.one(sets, EVERYWHERE), self.pods(Some(EVERYWHERE))).await?;
            Ok(judge::on_every_node(set.as_ref(), &pods, &self.request.nodes))
        })
        .await
    }

    async fn scheduled(&self) -> Finding {
        let deployments = &Api::<Deployment>::namespaced(self.client.clone(), &self.namespace);
        self.find("the pods of a Deployment are scheduled and serve", self.patience, move || async move {
            let (deployment, pods) = try_join(self.one(deployments, SCHEDULED), self.pods(Some(SCHEDULED))).await?;
            Ok(judge::scheduled(deployment.as_ref(), &pods))
        })
        .await
    }

    /// Lets a node's pod ask, which takes exec, the cluster's DNS and the service network of that node.
    async fn asked(&self, question: &Question, pods: &[Pod], patience: Duration) -> Finding {
        let statement = &question.statement;
        let (pod, url) = match &question.asked {
            Ok(asked) => asked,
            Err(why) => return self.impossible(statement, why),
        };
        let api = &self.api();
        self.find(statement, patience, move || async move {
            let ran = talk::run(api, pod, &["/windlass-node", "probe", "get", url]).await;
            Ok(told(ran.map(|ran| judge::answered(&ran, pods))))
        })
        .await
    }

    /// Asks a pod from here through a forwarded port, then looks for the request in its log.
    async fn reached(&self, pod: Option<&str>, pods: &[Pod], patience: Duration) -> Vec<Finding> {
        let statements = ["a pod can be reached through a forwarded port", "a pod's log tells what it was asked"];
        let Some(pod) = pod else {
            return statements.map(|statement| self.impossible(statement, "there is no pod that serves")).into();
        };
        let (api, path) = (&self.api(), &format!("/{}", self.namespace));
        let forwarded = self
            .find(statements[0], patience, move || async move {
                let name = talk::ask(api, pod, PORT, path).await;
                Ok(told(name.map(|name| match judge::ours(name.trim_end(), pods) {
                    None => Observation::Holds,
                    Some(wrong) => Observation::NotYet(reason!("{wrong}")),
                })))
            })
            .await;
        // The kubelet asks too, so that a log can be read even if we could not ask.
        let sought = if forwarded.holds() { path } else { READY_PATH };
        let logged = self.find(statements[1], patience, move || async move {
            let log = talk::log(api, pod).await;
            Ok(told(log.map(|log| match log.contains(sought) {
                true => Observation::Holds,
                false => Observation::NotYet(reason!("the log of {pod} does not tell of a request for {sought}")),
            })))
        });
        let logged = logged.await;
        vec![forwarded, logged]
    }

    /// Deletes namespaces until none of them is left.
    async fn gone(&self, statement: &str, whose: Whose) -> Finding {
        let namespaces = &Api::<Namespace>::all(self.client.clone());
        let labelled = &ListParams::default().labels(&format!("{LABEL}=true"));
        self.find(statement, self.patience, move || async move {
            let is_own = |one: &Namespace| one.metadata.name.as_deref() == Some(&self.namespace);
            let mut found = many(namespaces.list(labelled).await)?;
            found.retain(|one| is_own(one) == (whose == Whose::Own));
            let standing = found.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
            for name in standing.filter_map(|one| one.metadata.name.as_deref()) {
                self.delete(namespaces, name).await?;
            }
            Ok(judge::gone(&found))
        })
        .await
    }

    /// The namespace controller looks at a namespace only 5 s after its deletion. Pods that are deleted now are gone
    /// by then, and nobody can make new ones in a namespace that is going.
    async fn delete(&self, namespaces: &Api<Namespace>, name: &str) -> Result<(), LookError> {
        let params = DeleteParams::default();
        namespaces.delete(name, &params).await.map_err(ApiFailure::from)?;
        let pods = Api::<Pod>::namespaced(self.client.clone(), name);
        pods.delete_collection(&params, &ListParams::default()).await.map_err(ApiFailure::from)?;
        Ok(())
    }

    /// Waits until a statement holds or nothing moves any more.
    async fn find<'l, L, F>(&self, statement: &str, patience: Duration, look: L) -> Finding
    where
        L: Fn() -> F + 'l,
        F: Future<Output = Result<Observation, LookError>> + 'l,
    {
        let started = Instant::now();
        let criterion = [Criterion::new(statement.to_owned(), look)];
        let observe = |change: Change<'_>| -> Result<(), Infallible> {
            (self.tell.borrow_mut())(change.statement, change.reason);
            Ok(())
        };
        let reason = match Wait::stalled_for(patience).until(&criterion, observe).await {
            Ok(()) => None,
            Err(WaitError::Observe(never)) => match never {},
            Err(WaitError::Unmet(unmet)) => Some(unmet.first().map(|one| one.reason.clone()).unwrap_or_default()),
        };
        Finding { statement: statement.to_owned(), reason, took: whole(started.elapsed()) }
    }

    fn impossible(&self, statement: &str, why: &str) -> Finding {
        (self.tell.borrow_mut())(statement, Some(why));
        Finding { statement: statement.to_owned(), reason: Some(why.to_owned()), took: Duration::ZERO }
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn one<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, LookError>
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        one(api.get_opt(name).await)
    }

    /// The pods of a workload, or all of them.
    async fn pods(&self, app: Option<&str>) -> Result<Vec<Pod>, LookError> {
        let params = ListParams::default();
        let params = match app {
            Some(app) => params.labels(&selector(app)),
            None => params,
        };
        many(self.api().list(&params).await)
    }
}

/// What could not be done to a pod is the answer to whether it can be.
fn told(seen: Result<Observation, talk::TalkError>) -> Observation {
    seen.unwrap_or_else(|error| Observation::NotYet(reason!("{}", chain(&error).join(": "))))
}

fn of(pods: &[Pod], app: &str) -> Vec<Pod> {
    let is_of = |pod: &&Pod| pod.metadata.labels.iter().any(|labels| labels.get("app").is_some_and(|one| one == app));
    pods.iter().filter(is_of).cloned().collect()
}

fn whole(took: Duration) -> Duration {
    Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}
