//! What the server remembers: who was served, and whose token was used up. On the bootstrap machine that is files; from
//! the pivot on it is a ConfigMap, which the server's twins share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use thiserror::Error;
use time::OffsetDateTime;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};
use windlass_spec::MachineName;
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::host::HostError;

use crate::machine_token::{Marks, Purpose, TokenFiles};
use crate::record::Recorder;

/// Where burnt tokens are listed.
pub const BURNT_NAMESPACE: &str = "kube-system";
/// The ConfigMap that lists them.
pub const BURNT_TOKENS: &str = "windlass-burnt-tokens";

const API_LIMIT: Duration = Duration::from_secs(3);
const API_REQUESTS: usize = 32;

/// Why the book cannot be read or written.
#[derive(Debug, Error)]
pub enum BookError {
    /// A mark was not written.
    #[error("cannot write a mark")]
    Mark {
        /// Why not.
        source: HostError,
    },
    /// The API did not answer, or not in time.
    #[error("{0}")]
    AskApi(String),
    /// The writing task went away.
    #[error("cannot write in the background")]
    Background,
}

/// What the server remembers.
pub enum Book {
    /// On this machine's disk.
    Files(FileBook),
    /// In the cluster.
    Api(Box<ApiBook>),
}

impl Book {
    /// Whether the machine's config token was used up.
    pub async fn is_burnt(&self, machine: &MachineName) -> Result<bool, BookError> {
        match self {
            Book::Files(book) => Ok(book.files.has(Marks::Burnt, &Purpose::Config.burnt_name(machine))),
            Book::Api(book) => book.is_burnt(machine).await,
        }
    }

    /// Whether the machine is a working node already. While there is no API, none is.
    pub async fn is_ready(&self, machine: &MachineName) -> Result<bool, BookError> {
        match self {
            Book::Files(_) => Ok(false),
            Book::Api(book) => book.is_ready(machine).await,
        }
    }

    /// The machine was given its config. Nothing depends on this but what is told about the launch, so it is not
    /// waited for.
    pub fn served(&self, machine: &MachineName, now: OffsetDateTime) {
        match self {
            Book::Files(book) => book.served(machine, now),
            Book::Api(_) => info!(%machine, "config served"),
        }
    }

    /// Uses the machine's config token up, for good once this returns.
    pub async fn burn(&self, machine: &MachineName, now: OffsetDateTime) -> Result<(), BookError> {
        match self {
            Book::Files(book) => book.burn(machine, now).await,
            Book::Api(book) => book.burn(machine, now).await,
        }
    }

    /// Nobody is served any more.
    pub fn close(&self) {
        match self {
            Book::Files(book) => book.recorder.lock().unwrap_or_else(PoisonError::into_inner).done(),
            // What is in the API is there for the next server.
            Book::Api(_) => {}
        }
    }
}

/// Marks on the disk, and the record of them.
#[derive(Clone)]
pub struct FileBook {
    files: TokenFiles,
    served: Arc<Mutex<BTreeSet<String>>>,
    recorder: Arc<Mutex<Recorder>>,
}

impl FileBook {
    /// Goes on with the marks that are there.
    pub fn open(files: TokenFiles, recorder: Recorder) -> Self {
        let served = Arc::new(Mutex::new(files.list(Marks::Served)));
        let book = FileBook { files, served, recorder: Arc::new(Mutex::new(recorder)) };
        book.record();
        book
    }

    fn served(&self, machine: &MachineName, now: OffsetDateTime) {
        let is_new = self.served.lock().unwrap_or_else(PoisonError::into_inner).insert(machine.to_string());
        if is_new {
            info!(%machine, "config served");
            drop(self.mark(Marks::Served, machine.to_string(), now));
        }
    }

    async fn burn(&self, machine: &MachineName, now: OffsetDateTime) -> Result<(), BookError> {
        let name = Purpose::Config.burnt_name(machine);
        if self.files.has(Marks::Burnt, &name) {
            return Ok(());
        }
        info!(%machine, "config acknowledged");
        self.mark(Marks::Burnt, name, now).await.map_err(|_| BookError::Background)?
    }

    /// Writes a mark where syncing a disk keeps nobody else waiting.
    fn mark(&self, marks: Marks, name: String, now: OffsetDateTime) -> tokio::task::JoinHandle<Result<(), BookError>> {
        let book = self.clone();
        tokio::task::spawn_blocking(move || {
            let marked = book.files.mark(marks, &name, now);
            if let Err(error) = &marked {
                warn!(%error, "cannot write a mark");
            }
            book.record();
            marked.map_err(|source| BookError::Mark { source })
        })
    }

    fn record(&self) {
        // Taken first, so that a later list is also the later record.
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let acknowledged = self.files.list(Marks::Burnt);
        let prefix = format!("{}.", Purpose::Config.as_str());
        let acknowledged = acknowledged.iter().filter_map(|name| name.strip_prefix(&prefix));
        recorder.data("acknowledged", acknowledged.map(str::to_owned).collect::<Vec<_>>());
        recorder.data("served", self.files.list(Marks::Served).into_iter().collect::<Vec<_>>());
    }
}

/// A list of burnt tokens in the cluster, and its Nodes.
pub struct ApiBook {
    burnt: Api<ConfigMap>,
    nodes: Api<Node>,
    requests: Semaphore,
    last: AsyncMutex<Option<Reading>>,
}

/// A list that was read, or why it could not be, and when the reading began.
struct Reading {
    began: Instant,
    names: Result<BTreeSet<String>, String>,
}

impl ApiBook {
    /// Asks through this client.
    pub fn new(client: kube::Client) -> Self {
        ApiBook {
            burnt: Api::namespaced(client.clone(), BURNT_NAMESPACE),
            nodes: Api::all(client),
            requests: Semaphore::new(API_REQUESTS),
            last: AsyncMutex::new(None),
        }
    }

    /// Many ask at once, and one reading answers all who asked before it began, also if it fails; nobody gets an older
    /// answer.
    async fn is_burnt(&self, machine: &MachineName) -> Result<bool, BookError> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        let reading = match last.take() {
            Some(reading) if reading.began >= asked => reading,
            Some(_) | None => self.read().await,
        };
        let names = &last.insert(reading).names;
        let names = names.as_ref().map_err(|error| BookError::AskApi(error.clone()))?;
        Ok(names.contains(&Purpose::Config.burnt_name(machine)))
    }

    async fn read(&self) -> Reading {
        let began = Instant::now();
        // A list that is not there is not an empty one: it has not been moved here yet.
        let names = match within(self.burnt.get(BURNT_TOKENS)).await {
            Ok(list) => Ok(list.data.unwrap_or_default().into_keys().collect()),
            Err(error) => Err(error.to_string()),
        };
        Reading { began, names }
    }

    async fn is_ready(&self, machine: &MachineName) -> Result<bool, BookError> {
        let _turn = self.requests.acquire().await.map_err(|_| BookError::Background)?;
        let node = within(self.nodes.get_opt(machine.as_str())).await?;
        let conditions = node.and_then(|node| node.status).and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    }

    async fn burn(&self, machine: &MachineName, now: OffsetDateTime) -> Result<(), BookError> {
        if self.is_burnt(machine).await? {
            return Ok(());
        }
        let data = json!({"data": {Purpose::Config.burnt_name(machine): rfc3339_millis(now)}});
        within(self.burnt.patch(BURNT_TOKENS, &PatchParams::default(), &Patch::Merge(data))).await?;
        info!(%machine, "config acknowledged");
        Ok(())
    }
}

async fn within<T>(asking: impl Future<Output = Result<T, kube::Error>>) -> Result<T, BookError> {
    match timeout(API_LIMIT, asking).await {
        Ok(answer) => answer.map_err(|error| BookError::AskApi(format!("cannot ask the API: {error}"))),
        Err(_) => Err(BookError::AskApi(format!("the API gave no answer within {API_LIMIT:?}"))),
    }
}
