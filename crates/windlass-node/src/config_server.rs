//! The machine-config server: gives masters and workers their Ignition configs on 22623, each only its own, and only by
//! the token that the platform has signed for it.
//!
//! On the bootstrap machine it serves what Ignition has written and keeps its marks in `/var/lib/windlass/tokens`. Its
//! twin in the cluster (`--in-cluster`) finds all it needs in `/etc/windlass/machine-config-server`, mounted from
//! Secrets: `master.ign`, `worker.ign`, `group-<name>.ign` for groups that have a config of their own, `cluster.json`,
//! `token-key`, `tls.crt` and `tls.key`. It lists burnt tokens in the ConfigMap `kube-system/windlass-burnt-tokens`,
//! which must be there (to get and patch it), and gets Nodes, through the pod's service account.

pub mod accept;
pub mod book;
pub mod judge;
pub mod limit;
pub mod source;

mod serve;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use tracing::info;
use windlass_cluster::access::{Access, AccessError};
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::report::chain;

use crate::args::Twin;
use crate::exit::{Exit, Failure};
use crate::https::{Connections, Https, HttpsError, Limits, server_config};
use crate::machine_token::{JudgeError, TokenFiles, TokenJudge, read_spec};
use crate::places::Places;
use crate::record::Recorder;
use book::{ApiBook, Book, FileBook};
use judge::Expected;
use limit::RateLimit;
use serve::Desk;
use source::{ConfigError, Configs, Source};

const UNIT: &str = "machine-config-server";

/// Times are long enough for a crowd on a busy machine, where everybody is slow because everybody else is there.
const LIMITS: Limits = Limits {
    connections: 512,
    handshake: Duration::from_secs(15),
    head: Duration::from_secs(10),
    life: Duration::from_secs(60),
    farewell: Duration::from_millis(900),
};

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum ConfigServerError {
    /// The key of tokens or the spec cannot be had.
    #[error("cannot tell machines apart")]
    TellMachines {
        /// Why not.
        source: JudgeError,
    },
    /// There is nothing to serve.
    #[error("cannot find the configs")]
    FindConfigs {
        /// Why not.
        source: ConfigError,
    },
    /// The pod has no way to the API.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// HTTPS cannot be served.
    #[error("cannot serve configs")]
    Serve {
        /// Why not.
        source: HttpsError,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Serves configs until told to end.
pub async fn run(places: &Places, twin: &Twin) -> Result<(), Failure> {
    let mut recorder = (!twin.in_cluster).then(|| Recorder::begin_serving(places, UNIT, "start"));
    let ended = start(places, twin, &mut recorder).await;
    let mut failed = |error: &ConfigServerError| {
        if let Some(recorder) = &mut recorder {
            recorder.failed(chain(error));
        }
        failure(error)
    };
    let (https, desk, interrupt) = ended.map_err(|error| failed(&error))?;
    info!(listen = ?https.address(), "machine-config server started");
    let desk = Arc::new(desk);
    https.serve(serve::router(Arc::clone(&desk)), &interrupt).await;
    desk.book.close();
    info!("machine-config server ended");
    Ok(())
}

async fn start(
    places: &Places,
    twin: &Twin,
    recorder: &mut Option<Recorder>,
) -> Result<(Https, Desk, Interrupt), ConfigServerError> {
    let source = if twin.in_cluster { Source::in_cluster(places) } else { Source::bootstrap(places) };
    let told = |source| ConfigServerError::TellMachines { source };
    let spec = read_spec(source.spec.clone()).map_err(told)?;
    let tokens = TokenJudge::read(source.token_key.clone(), &spec).map_err(told)?;
    let configs = Configs::read(&source, &spec).map_err(|source| ConfigServerError::FindConfigs { source })?;
    let interrupt = Interrupt::on_signals().map_err(|source| ConfigServerError::HandleSignals { source })?;
    let served = |source| ConfigServerError::Serve { source };
    let tls = server_config(source.certificate, source.key).map_err(served)?;
    let https = Https::listen(twin.listen, tls, LIMITS, Connections::ForOneRequest).await.map_err(served)?;
    let book = match recorder.take() {
        Some(mut recorder) => {
            recorder.stage("serve");
            recorder.data("listen", https.address().map(|address| address.to_string()).unwrap_or_default());
            Book::Files(FileBook::open(TokenFiles::of(places), recorder))
        }
        None => {
            let client = Access::InCluster.client().await;
            let client = client.map_err(|source| ConfigServerError::ReachApi { source })?;
            Book::Api(Box::new(ApiBook::new(client)))
        }
    };
    let clock = Arc::new(SystemClock::new());
    let limit = Mutex::new(RateLimit::new(clock.monotonic()));
    Ok((https, Desk { tokens, expected: Expected::of(&spec), configs, book, clock, limit }, interrupt))
}

fn failure(error: &ConfigServerError) -> Failure {
    let next = match error {
        ConfigServerError::TellMachines { .. } | ConfigServerError::FindConfigs { .. } => {
            "see that Ignition has written /opt/windlass and /etc/windlass, or that the pod's Secrets are mounted"
        }
        ConfigServerError::ReachApi { .. } => "run it in a pod with a service account, or without --in-cluster",
        ConfigServerError::Serve { .. } => "see the server's certificate, and who else has the port",
        ConfigServerError::HandleSignals { .. } => "start it again",
    };
    Failure::of(Exit::TryAgain, error, next)
}

#[cfg(test)]
mod tests;
