//! The real sight: machines are asked through the platform, the API through the user's own kubeconfig.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use windlass_cluster::access::Access;
use windlass_cluster::ready::Workloads;
use windlass_cluster::{ready, version};
use windlass_platform::{Backend, Platform, Task};
use windlass_steps::criterion::LookError;

use super::{Records, Sight, UnmetLine};
use crate::trial::{self, Tried, Wanted};

const REPORT: [&str; 2] = ["/opt/windlass/bin/windlass-node", "report"];
const NEWS: [&str; 3] = ["/opt/windlass/bin/windlass-node", "report", "--news"];
const HEALTH: [&str; 2] = ["/opt/windlass/bin/windlass-node", "health"];
const REPORT_LIMIT: Duration = Duration::from_secs(5);
/// Criteria of one step look at the same moment; the machine is asked once for all of them.
const FRESH: Duration = Duration::from_millis(150);

/// Looks through a platform and a kubeconfig.
pub struct Watcher<'a, P> {
    platform: &'a P,
    kubeconfig: PathBuf,
    client: Mutex<Option<Client>>,
    reports: Mutex<BTreeMap<String, Arc<Mutex<Report>>>>,
}

/// What a machine said last, and when. Only whoever asks the same machine waits for its answer.
type Report = Option<(Instant, Records)>;

impl<'a, P: Platform> Watcher<'a, P> {
    /// Looks at the cluster of this platform. The kubeconfig is read when the API is first asked.
    pub fn new(platform: &'a P, kubeconfig: impl Into<PathBuf>) -> Self {
        Watcher { platform, kubeconfig: kubeconfig.into(), client: Mutex::default(), reports: Mutex::default() }
    }

    async fn ask<T: DeserializeOwned>(&self, machine: &str, task: Task) -> Result<T, LookError> {
        let ran = self.platform.exec(machine, &task).await?;
        if ran.code != 0 {
            return Err(format!("{machine} reports nothing: exit code {}: {}", ran.code, ran.stderr.trim()).into());
        }
        Ok(serde_json::from_str(&ran.stdout)?)
    }

    /// A client of the cluster's API, made once.
    pub async fn client(&self) -> Result<Client, LookError> {
        let mut kept = self.client.lock().await;
        if let Some(client) = kept.as_ref() {
            return Ok(client.clone());
        }
        let client = Access::Kubeconfig(self.kubeconfig.clone()).client().await?;
        *kept = Some(client.clone());
        Ok(client)
    }
}

impl<P: Platform> Sight for Watcher<'_, P> {
    async fn records(&self, machine: &str) -> Result<Records, LookError> {
        let report = Arc::clone(self.reports.lock().await.entry(machine.to_owned()).or_default());
        let mut report = report.lock().await;
        if let Some((_, records)) = report.as_ref().filter(|(asked, _)| asked.elapsed() < FRESH) {
            return Ok(records.clone());
        }
        // A machine is entered by a new process each time: it is asked for news, which it tells when there are some.
        let task = match report.as_ref() {
            Some((_, known)) => Task { stdin: serde_json::to_vec(known)?, ..Task::new(NEWS, REPORT_LIMIT) },
            None => Task::new(REPORT, REPORT_LIMIT),
        };
        let records: Records = self.ask(machine, task).await?;
        *report = Some((Instant::now(), records.clone()));
        Ok(records)
    }

    async fn health(&self, machine: &str) -> Result<Vec<UnmetLine>, LookError> {
        self.ask(machine, Task::new(HEALTH, REPORT_LIMIT)).await
    }

    async fn backends(&self) -> Result<Vec<Backend>, LookError> {
        Ok(self.platform.backends().await?)
    }

    async fn api_ready(&self) -> Result<(), LookError> {
        let client = self.client().await?;
        // While a cluster starts, the signer answers in the API's place, and says that it is ready too.
        match version::ask(&client).await? {
            version::Answer::Version(_) => Ok(version::ready(&client).await?),
            version::Answer::NoApi => Err("somebody answers who serves no API".into()),
        }
    }

    async fn nodes(&self) -> Result<Vec<Node>, LookError> {
        ready::many(Api::all(self.client().await?).list(&ListParams::default()).await)
    }

    async fn pods(&self) -> Result<Vec<Pod>, LookError> {
        ready::many(Api::all(self.client().await?).list(&ListParams::default()).await)
    }

    async fn workloads(&self) -> Result<Workloads, LookError> {
        let (client, all) = (self.client().await?, ListParams::default());
        let (sets, deployments) = (Api::all(client.clone()), Api::all(client.clone()));
        let controllers = Api::all(client);
        let (sets, deployments, controllers) =
            tokio::join!(sets.list(&all), deployments.list(&all), controllers.list(&all));
        Ok(Workloads {
            daemon_sets: ready::many(sets)?,
            deployments: ready::many(deployments)?,
            replication_controllers: ready::many(controllers)?,
        })
    }

    async fn addons(&self) -> Result<Vec<DynamicObject>, LookError> {
        let kind = GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Addon");
        let resource = ApiResource::from_gvk(&kind);
        ready::many(Api::all_with(self.client().await?, &resource).list(&ListParams::default()).await)
    }

    async fn try_out(&self, expected: &Wanted) -> Result<Tried, LookError> {
        Ok(trial::try_out(self.client().await?, expected).await)
    }
}
