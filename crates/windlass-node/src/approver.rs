//! What a cluster decides about machines that come to it, on every master and, until they take over, on the bootstrap
//! machine:
//!
//! - certificate requests of expected machines are approved, and those of strangers denied ([`judge`]);
//! - certificates of etcd members are signed, as the bootstrap machine's signer did before there was an API;
//! - Nodes of masters get their label, and a machine's tokens are burnt once its Node is there;
//! - the API server asks whose a join token is (`/token-review` on loopback).
//!
//! Each part follows the API by a watch, and looks at everything again after any failure, so that several approvers may
//! run at once and each may die at any time.

pub mod judge;

mod burnt;
mod expected;
mod node;
mod request;
mod review;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use thiserror::Error;
use tracing::info;
use windlass_cluster::access::{Access, AccessError};
use windlass_pki::{Certificate, PrivateKey, RandomKeys, Signer};
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::host::read_file;
use windlass_steps::interrupt::Interrupt;

use crate::exit::{Exit, Failure};
use crate::https::{Connections, Https, HttpsError, Limits, server_config};
use crate::machine_token::{JudgeError, TokenJudge};
use crate::places::Places;
use burnt::Burnt;
use expected::Roster;
use request::Desk;
use review::Reviewer;

/// Where the API servers of these machines ask about tokens.
pub const REVIEW_PORT: u16 = 10270;

const PEM_LIMIT: u64 = 64 << 10;
const LIMITS: Limits = Limits {
    connections: 64,
    handshake: Duration::from_secs(5),
    head: Duration::from_secs(5),
    life: Duration::from_secs(30),
    farewell: Duration::from_secs(1),
};

/// The files an approver works with, and where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The complete spec as JSON; it is read again when it has changed.
    pub cluster: PathBuf,
    /// The public key of machines' tokens.
    pub token_key: PathBuf,
    /// The certificate of etcd's authority.
    pub etcd_ca: PathBuf,
    /// The key of etcd's authority.
    pub etcd_ca_key: PathBuf,
    /// The certificate that token reviews are served with.
    pub serving: PathBuf,
    /// Its key.
    pub serving_key: PathBuf,
    /// Where token reviews are served.
    pub listen: SocketAddr,
}

impl Settings {
    /// As they are mounted into the approver's pod.
    pub fn in_pod(places: &Places) -> Self {
        let mounted = places.csr_approver();
        Settings {
            cluster: mounted.join("cluster.json"),
            token_key: mounted.join("token-key"),
            etcd_ca: mounted.join("etcd-ca.crt"),
            etcd_ca_key: mounted.join("etcd-ca.key"),
            ..Settings::on_bootstrap_machine(places)
        }
    }

    /// As Ignition wrote them on the bootstrap machine.
    pub fn on_bootstrap_machine(places: &Places) -> Self {
        Settings {
            cluster: places.cluster(),
            token_key: places.token_key(),
            etcd_ca: places.pki("etcd-ca.crt"),
            etcd_ca_key: places.pki("etcd-ca.key"),
            serving: places.pki("apiserver.crt"),
            serving_key: places.pki("apiserver.key"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, REVIEW_PORT)),
        }
    }
}

/// Why nothing is approved.
#[derive(Debug, Error)]
pub enum ApproverError {
    /// The key of tokens or the spec cannot be had.
    #[error("cannot tell machines apart")]
    TellMachines {
        /// Why not.
        source: JudgeError,
    },
    /// The authority's certificate or key cannot be had.
    #[error("cannot use the etcd authority")]
    UseAuthority {
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Token reviews cannot be served.
    #[error("cannot serve token reviews")]
    Serve {
        /// Why not.
        source: HttpsError,
    },
    /// There are no usable credentials for the API.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Approves, signs and reviews until SIGTERM or SIGINT.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let approve = async {
        let interrupt = Interrupt::on_signals().map_err(|source| ApproverError::HandleSignals { source })?;
        let client = Access::InCluster.client().await.map_err(|source| ApproverError::ReachApi { source })?;
        serve(client, &Settings::in_pod(places), interrupt).await
    };
    approve.await.map_err(|error| failure(&error))
}

/// Approves, signs and reviews until interrupted. The API need not answer yet.
pub async fn serve(client: Client, settings: &Settings, interrupt: Interrupt) -> Result<(), ApproverError> {
    Approver::start(client, settings, Arc::new(SystemClock::new())).await?.serve(&interrupt).await;
    Ok(())
}

/// An approver that listens and does nothing else yet.
pub struct Approver {
    client: Client,
    roster: Arc<Roster>,
    burnt: Arc<Burnt>,
    desk: Desk,
    reviewer: Arc<Reviewer>,
    https: Https,
}

impl Approver {
    /// Reads the files and listens.
    pub async fn start(client: Client, settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, ApproverError> {
        let told = |source| ApproverError::TellMachines { source };
        let roster = Arc::new(Roster::read(settings.cluster.clone()).map_err(told)?);
        let tokens = TokenJudge::read(settings.token_key.clone(), &roster.now().spec).map_err(told)?;
        let served = |source| ApproverError::Serve { source };
        let tls = server_config(settings.serving.clone(), settings.serving_key.clone()).map_err(served)?;
        let https = Https::listen(settings.listen, tls, LIMITS, Connections::ForOneRequest).await.map_err(served)?;
        let burnt = Arc::new(Burnt::new(client.clone(), Arc::clone(&clock)));
        let (signer, serials) = authority(settings).map_err(|source| ApproverError::UseAuthority { source })?;
        let desk = Desk::new(client.clone(), Arc::clone(&clock), Arc::clone(&roster), signer, Box::new(serials));
        let reviewer = Arc::new(Reviewer::new(tokens, Arc::clone(&burnt), desk.sight(), Arc::clone(&clock)));
        Ok(Approver { client, roster, burnt, desk, reviewer, https })
    }

    /// Where token reviews are served.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.https.address()
    }

    /// Does everything until interrupted.
    pub async fn serve(self, interrupt: &Interrupt) {
        let Approver { client, roster, burnt, desk, reviewer, https } = self;
        info!(listen = ?https.address(), "approver started");
        let nodes = node::Keeper::new(client, roster, Arc::clone(&burnt));
        let following = async { tokio::join!(desk.follow(), nodes.follow(), burnt.follow()) };
        tokio::join!(https.serve(review::router(reviewer), interrupt), async {
            tokio::select! {
                _never = following => {}
                () = interrupt.raised() => {}
            }
        });
        info!("approver ended");
    }
}

type Trouble = Box<dyn std::error::Error + Send + Sync>;

fn authority(settings: &Settings) -> Result<(Signer, RandomKeys), Trouble> {
    let certificate = Certificate::parse_pem(&read_file(&settings.etcd_ca, PEM_LIMIT)?)?;
    let key = PrivateKey::parse_pem(&read_file(&settings.etcd_ca_key, PEM_LIMIT)?)?;
    Ok((Signer::new(certificate, key)?, RandomKeys::from_os()?))
}

fn failure(error: &ApproverError) -> Failure {
    let next = match error {
        ApproverError::TellMachines { .. } | ApproverError::UseAuthority { .. } => {
            "see that the pod has its Secret at /etc/windlass/csr-approver"
        }
        ApproverError::Serve { .. } => "see who else has the port, and that the pod has the API server's certificate",
        ApproverError::ReachApi { .. } => "run it in a pod with a service account",
        ApproverError::HandleSignals { .. } => "start it again",
    };
    Failure::of(Exit::TryAgain, error, next)
}

#[cfg(test)]
mod tests;
