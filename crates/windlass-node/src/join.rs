//! Joining the kubelet to its cluster: wait for the API, have the kubelet's key certified, and leave certificate and
//! kubeconfig where the kubelet looks. Workers do it before their kubelet starts for the first time, as part of the node
//! flow; a master's kubelet runs etcd by then and is started again (`kubelet-join.service`).
//!
//! A master's etcd certificates come first. They are asked for with the token that is burnt as soon as the machine's
//! Node is there, so that a kubelet that joined before them would lock its own member out.

mod credentials;

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use thiserror::Error;
use tracing::info;
use windlass_cluster::access::{Access, AccessError};
use windlass_pki::MachineLeaf;
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::host::{Commands, Host, HostError, Mode, cmd, read_file, write_file};
use windlass_steps::reason;
use windlass_steps::report::chain;
use windlass_steps::wait::{Change, Unmet, Wait, WaitError};

use crate::bootstrap::acknowledge::acknowledge;
use crate::certificate::{CertificateError, Wanted, obtain};
use crate::etcd_certs;
use crate::exit::{Exit, Failure};
use crate::facts::{Facts, FactsError};
use crate::places::Places;
use crate::record::Recorder;

use credentials::KeepError;

/// Who hears what a wait sees.
pub type Observe<'a> = &'a mut (dyn FnMut(Change<'_>) -> Result<(), Infallible> + 'a);

const API_SERVES: &str = "the API serves";
const ETCD_CERTIFIED: &str = "this machine's etcd member has its certificates";
const ENV_LIMIT: u64 = 64 << 10;
/// The balancer holds a connection for which there is no server yet; asking anew finds one sooner.
const LOOK_LIMIT: Duration = Duration::from_secs(4);

/// Why a machine has not joined.
#[derive(Debug, Error)]
pub enum JoinError {
    /// It does not know who it is.
    #[error("cannot tell who this machine is")]
    ReadFacts {
        /// Why not.
        source: FactsError,
    },
    /// There is no way to ask the API.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// The wait for etcd's certificates ended without them.
    #[error("the etcd member is not certified: {}", listed(.unmet))]
    AwaitEtcd {
        /// What was seen last.
        unmet: Vec<Unmet>,
    },
    /// The wait for the API ended without it.
    #[error("the API does not serve: {}", listed(.unmet))]
    AwaitApi {
        /// What was seen last.
        unmet: Vec<Unmet>,
    },
    /// The key was not certified.
    #[error("cannot have the kubelet's key certified")]
    Certify {
        /// Why not.
        source: CertificateError,
    },
    /// What the kubelet needs is not on the disk.
    #[error("cannot keep the kubelet's credentials")]
    Keep {
        /// Why not.
        source: KeepError,
    },
    /// The file with which the kubelet joins is not there.
    #[error("cannot tell the kubelet to join")]
    PlaceEnv {
        /// Why not.
        source: HostError,
    },
    /// The kubelet runs on without having joined.
    #[error("cannot start the kubelet again")]
    RestartKubelet {
        /// Why not.
        source: HostError,
    },
}

/// Joins a master's kubelet.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let mut record = Recorder::begin(places, "join", "read-facts");
    let done = join(places, &Host, &mut record).await;
    match &done {
        Ok(()) => record.done(),
        Err(error) => record.failed(chain(error)),
    }
    done.map_err(|error| failure_of(&error, &error))
}

async fn join(places: &Places, commands: &impl Commands, record: &mut Recorder) -> Result<(), JoinError> {
    let facts = Facts::read(places).map_err(|source| JoinError::ReadFacts { source })?;
    record.stage("await-etcd-certificates");
    await_etcd(places, &facts, &mut observer(record)).await?;
    credentials(places, &facts, record).await?;
    record.stage("restart-kubelet");
    restart(places, commands).await?;
    info!(machine = %facts.name, "kubelet joined");
    Ok(())
}

/// What keeps the unit from running again is written by systemd after this has succeeded, so that a restart that failed or
/// was never come to is repeated. A machine that loses its power in between starts its kubelet with the second file.
async fn restart(places: &Places, commands: &impl Commands) -> Result<(), JoinError> {
    let place = |source| JoinError::PlaceEnv { source };
    let text = read_file(places.installer().join("kubelet-join.env"), ENV_LIMIT).map_err(place)?;
    write_file(places.kubelet_join_env(), text, Mode::PUBLIC).map_err(place)?;
    let restarted = commands.run(cmd("systemctl").args(["restart", "kubelet.service"])).await;
    restarted.map(drop).map_err(|source| JoinError::RestartKubelet { source })
}

/// Waits for the API as long as it takes, and leaves the kubelet's certificate and kubeconfig on the disk. Does nothing
/// but write the kubeconfig if the certificate is there already: its token may be burnt by then.
pub async fn credentials(places: &Places, facts: &Facts, record: &mut Recorder) -> Result<(), JoinError> {
    let now = SystemClock::new().now();
    let keep = |source| JoinError::Keep { source };
    if !credentials::are_held(places, facts, now) {
        record.stage("await-api");
        let access = Access::Kubeconfig(places.kubeconfig("kubelet-bootstrap"));
        let client = access.client().await.map_err(|source| JoinError::ReachApi { source })?;
        await_api(&client, &mut observer(record)).await?;
        record.stage("obtain-certificate");
        let key = credentials::pending_key(places).map_err(keep)?;
        let certify = |source| JoinError::Certify { source };
        let wanted = Wanted::of(MachineLeaf::KubeletClient, facts, &key).map_err(certify)?;
        let tell = &mut |statement: &str, reason: Option<&str>| record.observe(statement, reason);
        let certificate = beside(again(places, facts), obtain(&client, &wanted, tell)).await.map_err(certify)?;
        credentials::keep(places, &certificate, &key, SystemClock::new().now()).map_err(keep)?;
    }
    credentials::write_kubeconfig(places, facts).map_err(keep)
}

/// Acknowledges the config if nobody has heard that before: now that there is an API there may be a server again.
async fn again(places: &Places, facts: &Facts) {
    acknowledge(places, facts, &mut |_| Ok(())).await;
}

/// Does the work, and the other as far as it gets meanwhile. Its server may stand on the very machines that wait for their
/// work here to end, so that nobody may wait for it; what it leaves undone the approver does once the Node is there.
async fn beside<T>(other: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
    let other = async {
        other.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        done = work => done,
        never = other => match never {},
    }
}

async fn await_etcd(places: &Places, facts: &Facts, observe: Observe<'_>) -> Result<(), JoinError> {
    let look = || async {
        let lacking = etcd_certs::lacking(places, facts, SystemClock::new().now())?;
        Ok::<_, LookError>(match lacking.is_empty() {
            true => Observation::Holds,
            false => Observation::NotYet(reason!("{} still to come from etcd-certs", lacking.join(" and "))),
        })
    };
    wait_for(Criterion::new(ETCD_CERTIFIED, look), observe).await.map_err(|unmet| JoinError::AwaitEtcd { unmet })
}

async fn await_api(client: &Client, observe: Observe<'_>) -> Result<(), JoinError> {
    let look = || async { Ok::<_, LookError>(serves(client.apiserver_version().await.map(|v| v.git_version))) };
    wait_for(Criterion::new(API_SERVES, look), observe).await.map_err(|unmet| JoinError::AwaitApi { unmet })
}

/// No total time-out: a slow cluster is not a failed one, and the record says what is waited for.
pub(crate) async fn wait_for(criterion: Criterion<'_>, observe: Observe<'_>) -> Result<(), Vec<Unmet>> {
    let wait = Wait::stalled_for(Duration::MAX).look_limit(LOOK_LIMIT);
    match wait.until(&[criterion], observe).await {
        Ok(()) => Ok(()),
        Err(WaitError::Unmet(unmet)) => Err(unmet),
        Err(WaitError::Observe(never)) => match never {},
    }
}

/// Whether whoever answers is an API that certifies kubelets: the signer of the bootstrap machine knows no version.
fn serves(version: Result<String, kube::Error>) -> Observation {
    match version {
        Ok(version) if version.starts_with('v') => Observation::Holds,
        Ok(version) => Observation::NotYet(reason!("it says that its version is {version:?}")),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Observation::NotYet(reason!("only the signer of the bootstrap machine answers"))
        }
        Err(kube::Error::Api(status)) => Observation::NotYet(reason!("it answers {}: {}", status.code, status.reason)),
        Err(error) => Observation::NotYet(reason!("{}", chain(&error).join(": "))),
    }
}

/// Tells the record what a wait sees.
pub fn observer(record: &mut Recorder) -> impl FnMut(Change<'_>) -> Result<(), Infallible> {
    move |change| {
        let reason = change.reason.unwrap_or("it holds");
        info!(criterion = change.statement, reason, "observed");
        record.observe(change.statement, change.reason);
        Ok(())
    }
}

/// What was unmet, in one line.
pub fn listed(unmet: &[Unmet]) -> String {
    unmet.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// How a unit ends whose machine has not joined.
pub fn failure_of(error: &dyn std::error::Error, cause: &JoinError) -> Failure {
    let (exit, next) = match cause {
        JoinError::ReadFacts { .. } => (Exit::TryAgain, "see what k8s-node-bootstrap.service says"),
        JoinError::ReachApi { .. } => {
            (Exit::Permanent, "see /etc/kubernetes/kubelet-bootstrap.kubeconfig and its token")
        }
        JoinError::Certify { source: CertificateError::Refuse { .. } } => {
            (Exit::Permanent, "see why the request was refused, and give the machine a new token")
        }
        JoinError::AwaitEtcd { .. } => {
            (Exit::TryAgain, "see what etcd-certs, the first container of the etcd pod, says")
        }
        JoinError::AwaitApi { .. } | JoinError::Certify { .. } => (Exit::TryAgain, "see whether the API is well"),
        JoinError::Keep { .. } | JoinError::PlaceEnv { .. } => (Exit::TryAgain, "see that the machine's disk is well"),
        JoinError::RestartKubelet { .. } => (Exit::TryAgain, "see what kubelet.service says"),
    };
    Failure::of(exit, error, next)
}

#[cfg(test)]
mod tests;
