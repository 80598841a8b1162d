//! The signer that stands in for the API while there is none: it signs the certificates of etcd members and answers as
//! the API's `certificates.k8s.io/v1` does, so that whoever asks need not know which of the two it is.
//!
//! It listens on the API's port, says `ok` on `/readyz` for the balancer and 404 on `/version`, and frees the port at
//! once when systemd tells it to end. What may be signed is decided in [`judge`], which its twin in the cluster shares.

pub mod judge;

mod desk;
mod serve;
mod status;
mod wish;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tracing::info;
use windlass_pki::{Certificate, PrivateKey, RandomKeys, Signer};
use windlass_steps::clock::SystemClock;
use windlass_steps::host::{HostError, read_file};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::report::chain;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::https::{Connections, Https, HttpsError, Limits, server_config};
use crate::machine_token::{JudgeError, TokenFiles, TokenJudge, read_spec};
use crate::places::Places;
use crate::record::Recorder;
use desk::{Desk, Parts};

const UNIT: &str = "etcd-signer";
const PEM_LIMIT: u64 = 64 << 10;

const LIMITS: Limits = Limits {
    connections: 256,
    handshake: Duration::from_secs(5),
    head: Duration::from_secs(30),
    life: Duration::from_secs(600),
    // The next server on this port waits for it.
    farewell: Duration::ZERO,
};

/// Why nothing is signed.
#[derive(Debug, Error)]
pub enum SignerError {
    /// The key of tokens or the spec cannot be had.
    #[error("cannot tell machines apart")]
    TellMachines {
        /// Why not.
        source: JudgeError,
    },
    /// The authority's certificate or key cannot be had.
    #[error("cannot read the etcd authority")]
    ReadAuthority {
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// HTTPS cannot be served.
    #[error("cannot serve the signer")]
    Serve {
        /// Why not.
        source: HttpsError,
    },
    /// SIGTERM and SIGINT cannot be seen, or the address is not told.
    #[error("cannot prepare to serve")]
    Prepare {
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Signs until told to end.
pub async fn run(places: &Places, command: &args::EtcdSigner) -> Result<(), Failure> {
    let mut recorder = Recorder::begin_serving(places, UNIT, "start");
    match start(places, command).await {
        Ok((https, parts, interrupt)) => {
            recorder.stage("serve");
            recorder.data("listen", https.address().map(|address| address.to_string()).unwrap_or_default());
            info!(listen = ?https.address(), "signer started");
            let desk = Arc::new(Desk::new(parts, recorder));
            https.serve(serve::router(Arc::clone(&desk)), &interrupt).await;
            desk.close();
            info!("signer ended");
            Ok(())
        }
        Err(error) => {
            recorder.failed(chain(&error));
            Err(failure(&error))
        }
    }
}

async fn start(places: &Places, command: &args::EtcdSigner) -> Result<(Https, Parts, Interrupt), SignerError> {
    let told = |source| SignerError::TellMachines { source };
    let spec = read_spec(places.cluster()).map_err(told)?;
    let tokens = TokenJudge::read(places.token_key(), &spec).map_err(told)?;
    let signer = authority(places)?;
    let serials = RandomKeys::from_os().map_err(|source| SignerError::ReadAuthority { source: source.into() })?;
    let served = |source| SignerError::Serve { source };
    let tls = server_config(places.pki("etcd-signer.crt"), places.pki("etcd-signer.key")).map_err(served)?;
    let interrupt = Interrupt::on_signals().map_err(|source| SignerError::Prepare { source })?;
    let https = Https::listen(command.listen, tls, LIMITS, Connections::Kept).await.map_err(served)?;
    let clock = Arc::new(SystemClock::new());
    let files = TokenFiles::of(places);
    Ok((https, Parts { spec, tokens, signer, serials: Box::new(serials), clock, files }, interrupt))
}

fn authority(places: &Places) -> Result<Signer, SignerError> {
    let read = |path: PathBuf| -> Result<Vec<u8>, HostError> { read_file(path, PEM_LIMIT) };
    let made = || -> Result<Signer, Box<dyn std::error::Error + Send + Sync>> {
        let certificate = Certificate::parse_pem(&read(places.pki("etcd-ca.crt"))?)?;
        let key = PrivateKey::parse_pem(&read(places.pki("etcd-ca.key"))?)?;
        Ok(Signer::new(certificate, key)?)
    };
    made().map_err(|source| SignerError::ReadAuthority { source })
}

fn failure(error: &SignerError) -> Failure {
    let next = match error {
        SignerError::TellMachines { .. } | SignerError::ReadAuthority { .. } => {
            "see that Ignition has written /opt/windlass, /etc/windlass and /etc/kubernetes/pki"
        }
        SignerError::Serve { .. } | SignerError::Prepare { .. } => "see who else has the port, and start it again",
    };
    Failure::of(Exit::TryAgain, error, next)
}
