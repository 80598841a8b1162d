//! Reading the cluster through its API, with bounds: so many lists at once, so many objects at a time and in all, and one
//! deadline for everything. What cannot be read is part of the answer, with the reason. Readers that come while one
//! reads share its answer, so that a page full of visitors costs the API no more than one.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod, ReplicationController};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api as Objects, Client};
use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};
use windlass_steps::clock::{Clock, rfc3339_millis};

use super::summary::{Api, Summary, Workloads};
use super::table::{Extent, Row, Section, Table};
use super::view::{
    AddonRow, addons_view, daemon_sets_view, deployments_view, events_view, nodes_view, pods_view,
    replication_controllers_view, stateful_sets_view,
};

/// How much is asked of the API.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For all of one reading.
    pub deadline: Duration,
    /// How long a reading answers further visitors.
    pub fresh: Duration,
    /// How many lists run at once.
    pub lists: usize,
    /// How many objects one request asks for.
    pub page: u32,
    /// How many objects of a kind are looked at.
    pub objects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(8), fresh: Duration::from_secs(2), lists: 3, page: 250, objects: 10_000 }
    }
}

/// The cluster as the API tells it.
pub struct Reader {
    client: Client,
    clock: Arc<dyn Clock>,
    limits: Limits,
    slots: Semaphore,
    last: Mutex<Option<Kept>>,
    answered: AtomicBool,
}

/// A reading and when it was made, in monotonic time.
struct Kept {
    at: Duration,
    summary: Arc<Summary>,
}

impl Reader {
    /// Reads through this client.
    pub fn new(client: Client, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let slots = Semaphore::new(limits.lists.max(1));
        Self { client, clock, limits, slots, last: Mutex::new(None), answered: AtomicBool::new(false) }
    }

    /// The cluster now, or a moment ago.
    pub async fn summary(&self) -> Arc<Summary> {
        // Held while reading, so that everybody else waits for this reading and then shares it.
        let mut last = self.last.lock().await;
        if let Some(kept) = &*last
            && self.clock.monotonic().saturating_sub(kept.at) < self.limits.fresh
        {
            return Arc::clone(&kept.summary);
        }
        let summary = Arc::new(self.read().await);
        tell_change(last.as_ref().map(|kept| &kept.summary.api), &summary.api);
        *last = Some(Kept { at: self.clock.monotonic(), summary: Arc::clone(&summary) });
        summary
    }

    /// Whether the API has ever answered; asks it if not. A page that has worked stays in service when the API fails,
    /// because it then tells what fails.
    pub async fn answered(&self) -> Result<(), String> {
        if self.answered.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.version(Instant::now() + self.limits.deadline.min(Duration::from_secs(2))).await {
            Api::Answers { .. } => Ok(()),
            Api::Failed { reason } => Err(reason),
        }
    }

    async fn read(&self) -> Summary {
        let now = self.clock.now();
        let deadline = Instant::now() + self.limits.deadline;
        let (api, nodes, addons, workloads, pods, events) = tokio::join!(
            self.version(deadline),
            self.section::<Node, _>(deadline, |page| nodes_view(page, now)),
            self.addons(deadline, now),
            self.workloads(deadline, now),
            self.section::<Pod, _>(deadline, |page| pods_view(page, now)),
            self.section::<Event, _>(deadline, |page| events_view(page, now)),
        );
        Summary { time: rfc3339_millis(now), api, nodes, addons, workloads, pods, events }
    }

    async fn workloads(&self, deadline: Instant, now: OffsetDateTime) -> Workloads {
        let (deployments, daemon_sets, stateful_sets, replication_controllers) = tokio::join!(
            self.section::<Deployment, _>(deadline, |page| deployments_view(page, now)),
            self.section::<DaemonSet, _>(deadline, |page| daemon_sets_view(page, now)),
            self.section::<StatefulSet, _>(deadline, |page| stateful_sets_view(page, now)),
            self.section::<ReplicationController, _>(deadline, |page| replication_controllers_view(page, now)),
        );
        Workloads { deployments, daemon_sets, stateful_sets, replication_controllers }
    }

    async fn version(&self, deadline: Instant) -> Api {
        match self.bounded(deadline, self.client.apiserver_version()).await {
            Ok(info) => {
                self.answered.store(true, Ordering::Relaxed);
                Api::Answers { version: info.git_version }
            }
            Err(failed) => Api::Failed { reason: failed.reason("version") },
        }
    }

    async fn section<K, R>(&self, deadline: Instant, view: impl Fn(&[K]) -> Vec<R>) -> Section<R>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
        R: Row,
    {
        let objects = Objects::<K>::all(self.client.clone());
        match self.bounded(deadline, self.list(&objects, view)).await {
            Ok(table) => Section::Listed(table),
            Err(failed) => Section::Failed { reason: failed.reason(&K::plural(&())) },
        }
    }

    async fn addons(&self, deadline: Instant, now: OffsetDateTime) -> Section<AddonRow> {
        let kind =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Addon"), "addons");
        let objects = Objects::<DynamicObject>::all_with(self.client.clone(), &kind);
        match self.bounded(deadline, self.list(&objects, |page| addons_view(page, now))).await {
            Ok(table) => Section::Listed(table),
            // The cluster has no such kind.
            Err(Failed::Api(error)) if matches!(&*error, kube::Error::Api(status) if status.code == 404) => {
                Section::Absent
            }
            Err(failed) => Section::Failed { reason: failed.reason("addons") },
        }
    }

    /// Lists page by page; only the rows of earlier pages are kept.
    async fn list<K, R>(&self, objects: &Objects<K>, view: impl Fn(&[K]) -> Vec<R>) -> kube::Result<Table<R>>
    where
        K: Clone + Debug + DeserializeOwned,
        R: Row,
    {
        let mut table = Table::new();
        let mut params = ListParams::default().limit(self.limits.page);
        loop {
            let page = objects.list(&params).await?;
            table.add(page.items.len(), view(&page.items));
            let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else { break };
            if table.objects >= self.limits.objects {
                table.extent = Extent::Part;
                break;
            }
            params = params.continue_token(&token);
        }
        Ok(table)
    }

    /// Waits for its turn and its answer, but not beyond the deadline.
    async fn bounded<T>(&self, deadline: Instant, ask: impl Future<Output = kube::Result<T>>) -> Result<T, Failed> {
        let turn = async {
            let _slot = self.slots.acquire().await.expect("nobody closes the slots");
            ask.await
        };
        match timeout_at(deadline, turn).await {
            Ok(answer) => answer.map_err(|error| Failed::Api(Box::new(error))),
            Err(_) => Err(Failed::Late),
        }
    }
}

/// Why something was not read.
enum Failed {
    /// The API said no, or could not be reached.
    Api(Box<kube::Error>),
    /// It did not answer in time.
    Late,
}

impl Failed {
    /// The words for the page.
    fn reason(self, asked: &str) -> String {
        let reason = match self {
            Failed::Late => "the API did not answer in time".to_owned(),
            Failed::Api(error) => told(&error),
        };
        debug!(asked, reason, "cannot read from the api");
        reason
    }
}

/// Logs when the API begins or ceases to answer, and not each time that somebody looks.
fn tell_change(before: Option<&Api>, now: &Api) {
    if before == Some(now) {
        return;
    }
    match now {
        Api::Answers { version } => info!(version, "api answers"),
        Api::Failed { reason } => warn!(reason, "api does not answer"),
    }
}

/// An answer's own message, or the chain of causes: this library puts a cause's text into its own message, so only what
/// a message adds is told.
fn told(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let said = if status.message.is_empty() { &status.reason } else { &status.message };
        return format!("the API answered {}: {said}", status.code);
    }
    let first = error.source().unwrap_or(error);
    let mut words: Vec<String> = Vec::new();
    for cause in std::iter::successors(Some(first), |&cause| cause.source()) {
        let text = cause.to_string();
        if !words.iter().any(|known| known.contains(&text)) {
            words.push(text);
        }
    }
    words.join(": ")
}
