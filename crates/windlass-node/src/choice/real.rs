//! The sources of a real machine.
//!
//! **An API has permanently failed** when it says something that asking again does not change (403, 404 and other
//! refusals, a certificate that is not trusted, an answer that makes no sense), or when it has not answered for 20 s. A 401
//! is no answer: an API server says it also while nobody is there who knows the machine's token. The signer of a bootstrap
//! machine answers 404, so that the first machines of a cluster do not wait at all. **A bucket has permanently failed** when
//! it refuses, or has not answered for 30 s; that fails the run, and systemd starts it again. It may send us to another of
//! its paths, but not to another server.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use thiserror::Error;
use tracing::info;
use windlass_artifacts::download::{DownloadError, Downloader, Limits, Redirects, Url};
use windlass_cloud_api::Role;
use windlass_cluster::access::Access;
use windlass_cluster::failure::{ApiFailure, Outlook};
use windlass_cluster::version::{Answer, ask};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};
use windlass_steps::reason;
use windlass_steps::report::chain;
use windlass_steps::wait::{Wait, WaitError};

use super::sources::{Missing, Sources, Unanswered, UpdateTrouble, UpgradeOs};
use crate::facts::Facts;
use crate::join::{Observe, listed};
use crate::places::Places;
use crate::update_engine::{self, BusEngine, EngineError, Operation, Outcome, UpdateEngine};

const NAMESPACE: &str = "kube-system";
const MAPPINGS: &str = "tectonic-torcx-runtime-mappings";
const KEY: &str = "runtime-mappings.yaml";
const API_PATIENCE: Duration = Duration::from_secs(20);
const BUCKET_PATIENCE: Duration = Duration::from_secs(30);
/// The balancer holds a connection for which there is no server yet; asking anew finds one sooner.
const LOOK_LIMIT: Duration = Duration::from_secs(4);
const FILE_LIMIT: u64 = 1 << 20;
/// An addon is a few programs; this is several times the largest.
const ARCHIVE_LIMIT: u64 = 1 << 30;

/// Why a machine cannot even begin to ask.
#[derive(Debug, Error)]
pub enum RealError {
    /// There is no client for the bucket.
    #[error("cannot ask a bucket")]
    MakeDownloader {
        /// Why not.
        source: DownloadError,
    },
}

/// A machine's own sources.
pub struct Machine<'a> {
    places: &'a Places,
    client: Result<Client, Unanswered>,
    downloader: Downloader,
    observe: RefCell<Observe<'a>>,
}

impl<'a> Machine<'a> {
    /// As this machine: with the kubelet's credentials if it has them, else with its own token.
    pub async fn new(places: &'a Places, facts: &Facts, observe: Observe<'a>) -> Result<Self, RealError> {
        Machine::asking(places, client(places, facts).await, observe)
    }

    /// By another way to the API.
    pub fn asking(
        places: &'a Places,
        client: Result<Client, Unanswered>,
        observe: Observe<'a>,
    ) -> Result<Self, RealError> {
        let limits = Limits { size: ARCHIVE_LIMIT, stall: BUCKET_PATIENCE };
        let downloader = Downloader::following(Redirects::WithinOrigin, limits);
        let downloader = downloader.map_err(|source| RealError::MakeDownloader { source })?;
        Ok(Machine { places, client, downloader, observe: RefCell::new(observe) })
    }

    /// What downloads packages.
    pub fn downloader(&self) -> &Downloader {
        &self.downloader
    }

    /// Asks the API until it answers or has permanently failed.
    async fn ask_api<T>(
        &self,
        statement: &'static str,
        question: impl AsyncFn(&Client) -> Result<T, ApiFailure>,
    ) -> Result<T, Unanswered> {
        let client = self.client.as_ref().map_err(Unanswered::clone)?;
        let answer = RefCell::new(None);
        let look = || async {
            match question(client).await {
                Ok(said) => {
                    answer.replace(Some(said));
                    Ok(Observation::Holds)
                }
                Err(failure) if is_final(&failure) => Ok(Observation::Never(reason!("{failure}"))),
                Err(failure) => Err(Box::new(failure) as LookError),
            }
        };
        self.wait(API_PATIENCE, Criterion::new(statement, look)).await?;
        answer.into_inner().ok_or_else(|| Unanswered::new("nothing"))
    }

    async fn wait(&self, patience: Duration, criterion: Criterion<'_>) -> Result<(), Unanswered> {
        let wait = Wait::stalled_for(patience).look_limit(LOOK_LIMIT);
        match wait.until(&[criterion], |change| (self.observe.borrow_mut())(change)).await {
            Ok(()) => Ok(()),
            Err(WaitError::Unmet(unmet)) => Err(Unanswered::new(listed(&unmet))),
            Err(WaitError::Observe(never)) => match never {},
        }
    }

    fn file(&self, path: PathBuf) -> Result<Vec<u8>, Unanswered> {
        read_file(path, FILE_LIMIT).map_err(|error| Unanswered::new(chain(&error).join(": ")))
    }
}

async fn client(places: &Places, facts: &Facts) -> Result<Client, Unanswered> {
    if facts.role == Role::Bootstrap {
        return Err(Unanswered::new("this machine is the one that starts it"));
    }
    let own = places.kubeconfig("kubelet");
    let kubeconfig = if own.exists() { own } else { places.kubeconfig("kubelet-bootstrap") };
    let made = Access::Kubeconfig(kubeconfig).client().await;
    made.map_err(|error| Unanswered::new(chain(&error).join(": ")))
}

impl Sources for Machine<'_> {
    async fn api_version(&self) -> Result<String, Unanswered> {
        let question = async |client: &Client| match ask(client).await? {
            Answer::Version(version) => Ok(Some(version)),
            Answer::NoApi => Ok(None),
        };
        let answer = self.ask_api("the API says which version it has", question).await?;
        answer.ok_or_else(|| Unanswered::new("whoever answers is not an API: 404"))
    }

    async fn api_mappings(&self) -> Result<Vec<u8>, Unanswered> {
        let question = async |client: &Client| {
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
            Ok(maps.get(MAPPINGS).await?)
        };
        let map = self.ask_api("the API says which runtime goes with its version", question).await?;
        let text = map.data.unwrap_or_default().remove(KEY);
        text.map(String::into_bytes).ok_or_else(|| Unanswered::new(format!("it has no key {KEY}")))
    }

    fn installer_env(&self) -> Result<String, Unanswered> {
        let bytes = self.file(self.places.installer().join("kubelet.env"))?;
        String::from_utf8(bytes).map_err(|_| Unanswered::new("it is not text"))
    }

    fn installer_mappings(&self) -> Result<Vec<u8>, Unanswered> {
        self.file(self.places.installer().join("runtime-mappings.yaml"))
    }

    fn os_release(&self) -> Result<Vec<u8>, Unanswered> {
        self.file(self.places.os_release())
    }

    async fn next_os(&self, upgrade: UpgradeOs) -> Result<Option<String>, UpdateTrouble> {
        let asked = self.places.update_asked();
        match BusEngine::connect(&self.places.system_bus()).await {
            Ok(engine) => next_os(&engine, upgrade, &asked).await,
            Err(error) => Err(trouble(error, &asked)),
        }
    }

    async fn document(&self, url: &Url) -> Result<Vec<u8>, Missing> {
        let answer = RefCell::new(None);
        let look = || async {
            match self.downloader.bytes(url, FILE_LIMIT).await {
                Ok(bytes) => {
                    answer.replace(Some(Ok(bytes)));
                    Ok(Observation::Holds)
                }
                Err(error) if error.is_absent() => {
                    answer.replace(Some(Err(Missing::Absent)));
                    Ok(Observation::Holds)
                }
                Err(error) if is_refusal(&error) => Ok(Observation::Never(reason!("{}", chain(&error).join(": ")))),
                Err(error) => Err(Box::new(error) as LookError),
            }
        };
        let criterion = Criterion::new(format!("the bucket gives {url}"), look);
        let waited = self.wait(BUCKET_PATIENCE, criterion).await;
        waited.map_err(|unanswered| Missing::Failed(unanswered.to_string()))?;
        answer.into_inner().unwrap_or_else(|| Err(Missing::Failed("nothing".to_owned())))
    }
}

/// What an API says on purpose, and would say again. Whether a token is good is for the approver to say, which may not be
/// there yet or not for a moment, and then everybody is a stranger.
fn is_final(failure: &ApiFailure) -> bool {
    failure.outlook == Outlook::Lasting && failure.code != Some(401)
}

/// What a bucket says on purpose, and would say again.
fn is_refusal(error: &DownloadError) -> bool {
    match error {
        DownloadError::Status { status, .. } => matches!(status, 400..=407 | 409..=428 | 430..=499),
        error => error.is_trust(),
    }
}

/// An engine that was asked for an update in this boot and has not said how that ended may have staged one. The note says
/// so, also to the next run: an engine that is gone then is not one that never was.
async fn next_os(
    engine: &impl UpdateEngine,
    upgrade: UpgradeOs,
    asked: &Path,
) -> Result<Option<String>, UpdateTrouble> {
    let gone = |error| trouble(error, asked);
    let status = engine.status().await.map_err(gone)?;
    if upgrade != UpgradeOs::Yes {
        return Ok((status.operation == Operation::UpdatedNeedReboot).then_some(status.new_version));
    }
    note(asked).map_err(|error| UpdateTrouble::Stuck(chain(&error).join(": ")))?;
    let told = |status: &update_engine::Status| info!(?status, "update engine");
    let ended = update_engine::update(engine, told).await;
    if matches!(ended, Ok(Outcome::UpToDate) | Err(EngineError::Update { .. })) {
        fs::remove_file(asked).map_err(|error| UpdateTrouble::Stuck(error.to_string()))?;
    }
    match ended.map_err(gone)? {
        Outcome::UpToDate => Ok(None),
        Outcome::Staged { version } => Ok(Some(version)),
    }
}

fn note(path: &Path) -> Result<(), HostError> {
    make_dir(path.parent().unwrap_or(path), Mode::PUBLIC_DIR)?;
    write_file(path, "", Mode::PUBLIC)
}

fn trouble(error: EngineError, asked: &Path) -> UpdateTrouble {
    let reason = chain(&error).join(": ");
    match error {
        _ if error.is_absence() && asked.exists() => {
            UpdateTrouble::Stuck(format!("it was asked for an update and is gone: {reason}"))
        }
        _ if error.is_absence() => UpdateTrouble::Absent(reason),
        EngineError::Update { .. } => UpdateTrouble::Failed(reason),
        _ => UpdateTrouble::Stuck(reason),
    }
}

#[cfg(test)]
mod tests;
