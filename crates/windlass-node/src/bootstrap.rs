//! The node flow (`k8s-node-bootstrap.service`), on every machine: who am I, acknowledge the config, set the kernel,
//! configure the runtime, then what the machine's role needs, and at last the gate (`kubelet.env`). Every act can be
//! repeated: systemd starts the unit again until all of them succeed.

pub(crate) mod acknowledge;
mod files;
mod http;
mod identity;
mod runtime;
mod sysctl;

use std::net::SocketAddr;

use thiserror::Error;
use tracing::info;
use windlass_cloud_api::Role;
use windlass_steps::host::{Commands, Host, HostError, Mode, read_file};
use windlass_steps::report::chain;

use crate::exit::{Exit, Failure};
use crate::facts::{Facts, FactsError};
use crate::join::{self, JoinError};
use crate::places::Places;
use crate::record::Recorder;

use files::FileError;
use identity::IdentityError;
use runtime::RuntimeError;

pub use acknowledge::Acknowledged;

/// Where a machine asks about itself.
const METADATA: ([u8; 4], u16) = ([169, 254, 169, 254], 80);
const STATUS_LIMIT: u64 = 64 << 10;

/// Why a machine is not ready for its kubelet.
#[derive(Debug, Error)]
pub enum BootstrapError {
    /// It does not know who it is.
    #[error("cannot learn who this machine is")]
    LearnFacts {
        /// Why not.
        source: IdentityError,
    },
    /// It cannot write that down.
    #[error("cannot keep who this machine is")]
    KeepFacts {
        /// Why not.
        source: FactsError,
    },
    /// The container runtime is not there, or not known.
    #[error("cannot configure the container runtime")]
    ConfigureRuntime {
        /// Why not.
        source: RuntimeError,
    },
    /// The kernel does not say what it allows.
    #[error("cannot tell what the kernel allows")]
    ReadStatus {
        /// Why not.
        source: HostError,
    },
    /// A file is missing or cannot be written.
    #[error("cannot prepare this machine")]
    PlaceFiles {
        /// Why not.
        source: FileError,
    },
    /// A worker has no credentials for the API.
    #[error("cannot join the cluster")]
    Join {
        /// Why not.
        source: JoinError,
    },
}

/// Runs the flow once.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let mut record = Recorder::begin(places, "bootstrap", "learn-facts");
    let done = prepare(places, METADATA.into(), &Host, &mut record).await;
    match &done {
        Ok(()) => record.done(),
        Err(error) => record.failed(chain(error)),
    }
    done.map_err(|error| failure(&error))
}

/// The flow itself.
async fn prepare(
    places: &Places,
    metadata: SocketAddr,
    commands: &impl Commands,
    record: &mut Recorder,
) -> Result<(), BootstrapError> {
    let facts = learn_facts(places, metadata, record).await?;
    record.stage("acknowledge-config");
    acknowledge::acknowledge(places, &facts, &mut join::observer(record)).await;
    record.stage("set-kernel");
    sysctl::apply(places);
    record.stage("configure-runtime");
    configure_runtime(places, commands).await?;
    match facts.role {
        Role::Bootstrap => {}
        Role::Master => place_manifests(places, &facts, record)?,
        Role::Worker => {
            join::credentials(places, &facts, record).await.map_err(|source| BootstrapError::Join { source })?
        }
    }
    record.stage("open-gate");
    files::open_gate(places, &facts).map_err(|source| BootstrapError::PlaceFiles { source })?;
    info!(machine = %facts.name, "machine prepared");
    Ok(())
}

async fn learn_facts(places: &Places, metadata: SocketAddr, record: &mut Recorder) -> Result<Facts, BootstrapError> {
    let learnt = identity::learn(metadata, &mut join::observer(record)).await;
    let facts = learnt.map_err(|source| BootstrapError::LearnFacts { source })?;
    facts.write(places).map_err(|source| BootstrapError::KeepFacts { source })?;
    record.data("machine", facts.name.clone());
    Ok(facts)
}

async fn configure_runtime(places: &Places, commands: &impl Commands) -> Result<(), BootstrapError> {
    let format = runtime::format(commands).await.map_err(|source| BootstrapError::ConfigureRuntime { source })?;
    let status =
        read_file(places.own_status(), STATUS_LIMIT).map_err(|source| BootstrapError::ReadStatus { source })?;
    let scores = runtime::oom_scores(&String::from_utf8_lossy(&status));
    let files = |source| BootstrapError::PlaceFiles { source };
    let pause = files::installer(places, "pause-image").map_err(files)?;
    let text = runtime::render(format, pause.trim(), scores);
    files::write(places.containerd(), &text, Mode::PUBLIC).map_err(files)
}

fn place_manifests(places: &Places, facts: &Facts, record: &mut Recorder) -> Result<(), BootstrapError> {
    record.stage("place-manifests");
    // Facts of a master always have the number.
    let Some(index) = facts.etcd_index else { return Ok(()) };
    files::place_manifests(places, index).map_err(|source| BootstrapError::PlaceFiles { source })
}

fn failure(error: &BootstrapError) -> Failure {
    let (exit, next) = match error {
        BootstrapError::LearnFacts { source: IdentityError::Ask { .. } } => {
            (Exit::TryAgain, "see that the platform's metadata service answers at 169.254.169.254")
        }
        BootstrapError::LearnFacts { .. } => (Exit::Permanent, "see what the platform says about this machine"),
        BootstrapError::ConfigureRuntime { source: RuntimeError::KnowVersion { .. } } => {
            (Exit::Permanent, "install a runtime that goes with the cluster's version")
        }
        BootstrapError::ConfigureRuntime { .. } => (Exit::TryAgain, "see that the runtime's extension is merged"),
        BootstrapError::PlaceFiles { source: FileError::Write { .. } }
        | BootstrapError::KeepFacts { .. }
        | BootstrapError::ReadStatus { .. } => (Exit::TryAgain, "see that the machine's disk is well"),
        BootstrapError::PlaceFiles { .. } => (Exit::Permanent, "see what Ignition wrote to /etc/kubernetes/installer"),
        BootstrapError::Join { source } => return join::failure_of(error, source),
    };
    Failure::of(exit, error, next)
}

#[cfg(test)]
mod tests;
