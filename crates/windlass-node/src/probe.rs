//! Trying a cluster from inside, for `windlass verify`: a server that says who it is ([`serve`]), and a client that tells
//! which stage of asking it failed ([`get`]).

pub mod get;
pub mod serve;

use std::io::{self, Write as _};
use std::net::SocketAddr;

use nix::errno::Errno;
use nix::sys::utsname::uname;
use thiserror::Error;
use tokio::net::TcpListener;
use tracing::info;
use windlass_steps::interrupt::Interrupt;

use crate::args::Probe;
use crate::exit::{Exit, Failure};

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The kernel does not say what this host is called.
    #[error("cannot tell this host's name")]
    NameHost {
        /// What the kernel said.
        source: Errno,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server stopped by itself.
    #[error("cannot go on serving")]
    Serve {
        /// What the kernel said.
        source: io::Error,
    },
}

/// Serves until told to end, or asks once.
pub async fn run(command: &Probe) -> Result<(), Failure> {
    match command {
        Probe::Serve { listen } => {
            let next = "free the port, or give --listen another";
            serve(*listen).await.map_err(|error| Failure::of(Exit::TryAgain, &error, next))
        }
        Probe::Get { url } => {
            let answer = get::get(url, get::LIMIT).await.map_err(|error| failed(&error))?;
            let said = write!(io::stdout(), "{}\n{}\n", answer.address, answer.body.trim_end());
            said.map_err(|error| Failure::of(Exit::TryAgain, &error, "see that the output can be written"))
        }
    }
}

/// A pod's host name is the pod's name, so the answer tells which pod gave it.
async fn serve(address: SocketAddr) -> Result<(), ProbeError> {
    let name = uname().map_err(|source| ProbeError::NameHost { source })?.nodename().to_string_lossy().into_owned();
    let interrupt = Interrupt::on_signals().map_err(|source| ProbeError::HandleSignals { source })?;
    let listener = TcpListener::bind(address).await.map_err(|source| ProbeError::Listen { address, source })?;
    info!(listen = %listener.local_addr().unwrap_or(address), name, "probe started");
    serve::serve(listener, &name, &interrupt).await.map_err(|source| ProbeError::Serve { source })?;
    info!("probe ended");
    Ok(())
}

fn failed(error: &get::GetError) -> Failure {
    let (exit, next) = match error {
        get::GetError::ReadUrl { .. } => (Exit::Permanent, "give a URL such as http://probe.default.svc/"),
        get::GetError::Resolve { .. } => (Exit::TryAgain, "see that the cluster's DNS serves the name"),
        get::GetError::Connect { .. } => (Exit::TryAgain, "see that the network carries traffic to that address"),
        get::GetError::Answer { .. } => (Exit::TryAgain, "see what the server's log says"),
    };
    Failure::of(exit, error, next)
}
