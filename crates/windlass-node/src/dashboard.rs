//! A small read-only page about the cluster: nodes, workloads, pods that are not ready, recent events and add-ons. It
//! reads through the API ([`read`]), turns objects into rows with pure functions ([`view`]), and serves them as a page
//! without scripts or outside resources ([`serve`], [`page`]).

pub mod page;
pub mod read;
pub mod serve;
pub mod summary;
pub mod table;
pub mod view;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use thiserror::Error;
use tokio::net::TcpListener;
use tracing::info;
use windlass_steps::clock::SystemClock;
use windlass_steps::interrupt::Interrupt;

use read::{Limits, Reader};
use windlass_cluster::access::{Access, AccessError};

/// Why the page is not served.
#[derive(Debug, Error)]
pub enum DashboardError {
    /// There are no usable credentials for the API.
    #[error("cannot tell how to reach the API")]
    ReachApi {
        /// What is missing.
        source: AccessError,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where the page was to be.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
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

/// Serves the page until SIGTERM or SIGINT. The API need not answer yet: until it does, the page says why.
pub async fn run(address: SocketAddr, access: &Access) -> Result<(), DashboardError> {
    let client = access.client().await.map_err(|source| DashboardError::ReachApi { source })?;
    let interrupt = Interrupt::on_signals().map_err(|source| DashboardError::HandleSignals { source })?;
    let listener = TcpListener::bind(address).await.map_err(|source| DashboardError::Listen { address, source })?;
    let reader = Reader::new(client, Arc::new(SystemClock::new()), Limits::default());
    info!(listen = %listener.local_addr().unwrap_or(address), "dashboard started");
    serve::serve(listener, Arc::new(reader), &interrupt).await.map_err(|source| DashboardError::Serve { source })?;
    info!("dashboard ended");
    Ok(())
}
