//! HTTPS for the small servers on machines: few paths, many strangers. Connections are counted, and whoever is slow to
//! shake hands, to ask or to go loses the connection, so that the server's memory has a bound.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};
use windlass_steps::host::{HostError, read_file};
use windlass_steps::interrupt::Interrupt;

const LIMIT: u64 = 1 << 20;
/// How long no connection is taken after the kernel had none to give, because it is out of descriptors.
const BREATH: Duration = Duration::from_millis(100);
/// More than any request to these servers has in its head.
const HEAD_BYTES: usize = 16 << 10;

/// What a server lets its clients take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many connections there are at once; further clients wait in the kernel's queue.
    pub connections: usize,
    /// How long the TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of a request may take to come, also of the next one on a kept connection.
    pub head: Duration,
    /// How long a connection may last.
    pub life: Duration,
    /// How long requests may take to end once the server is told to.
    pub farewell: Duration,
}

/// Whether a connection serves a second request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// It does.
    Kept,
    /// It is closed after the first.
    ForOneRequest,
}

/// Who asks, as an extension of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum HttpsError {
    /// The certificate or its key is not there.
    #[error("cannot read the server's certificate")]
    ReadFile {
        /// Why not.
        source: HostError,
    },
    /// The file holds no certificate or key.
    #[error("cannot understand {}", .path.display())]
    Understand {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; it never quotes the file.
        source: rustls::pki_types::pem::Error,
    },
    /// TLS does not take the two together.
    #[error("cannot serve with the certificate {}", .path.display())]
    UseCertificate {
        /// The certificate.
        path: PathBuf,
        /// What TLS said.
        source: rustls::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Https {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    limits: Limits,
    connections: Connections,
}

impl Https {
    /// Listens, to serve with this certificate and key.
    pub async fn listen(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        limits: Limits,
        connections: Connections,
    ) -> Result<Self, HttpsError> {
        let listener = TcpListener::bind(address).await.map_err(|source| HttpsError::Listen { address, source })?;
        Ok(Https { listener, tls, limits, connections })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until interrupted; the port is free at once, running requests have the farewell's time to end.
    pub async fn serve(self, router: Router, interrupt: &Interrupt) {
        let Https { listener, tls, limits, connections } = self;
        let connection = Connection {
            acceptor: TlsAcceptor::from(tls),
            service: TowerToHyperService::new(router),
            limits,
            connections,
            interrupt: interrupt.clone(),
        };
        let mut running = JoinSet::new();
        tokio::select! {
            () = accept(&listener, &connection, &mut running) => {}
            () = interrupt.raised() => {}
        }
        drop(listener);
        let ended = async { while running.join_next().await.is_some() {} };
        if timeout(limits.farewell, ended).await.is_err() {
            debug!("connections were cut off");
        }
        running.shutdown().await;
    }
}

/// The certificate and key of a server, from their files.
pub fn server_config(certificate: PathBuf, key: PathBuf) -> Result<Arc<ServerConfig>, HttpsError> {
    let read = |path: &PathBuf| read_file(path, LIMIT).map_err(|source| HttpsError::ReadFile { source });
    let (chain, secret) = (read(&certificate)?, read(&key)?);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.map_err(|source| HttpsError::Understand { path: certificate.clone(), source })?;
    let secret = PrivateKeyDer::from_pem_slice(&secret);
    let secret = secret.map_err(|source| HttpsError::Understand { path: key, source })?;
    let refused = |source| HttpsError::UseCertificate { path: certificate.clone(), source };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(refused)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, secret).map_err(refused)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Every client comes once or twice: sessions to resume would only be remembered.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Takes connections for ever, each in a task of its own.
async fn accept(listener: &TcpListener, connection: &Connection, running: &mut JoinSet<()>) {
    let slots = Arc::new(Semaphore::new(connection.limits.connections));
    loop {
        while running.try_join_next().is_some() {}
        let slot = slots.clone().acquire_owned().await.expect("nobody closes this semaphore");
        match listener.accept().await {
            Ok((stream, address)) => {
                let connection = connection.clone();
                running.spawn(async move {
                    connection.serve(stream, address).await;
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "no connection taken");
                let _ = timeout(BREATH, pending::<()>()).await;
            }
        }
    }
}

#[derive(Clone)]
struct Connection {
    acceptor: TlsAcceptor,
    service: TowerToHyperService<Router>,
    limits: Limits,
    connections: Connections,
    interrupt: Interrupt,
}

impl Connection {
    async fn serve(self, stream: TcpStream, address: SocketAddr) {
        // Answers are small and written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let Ok(Ok(stream)) = timeout(self.limits.handshake, self.acceptor.accept(stream)).await else {
            debug!(peer = %address, "no handshake");
            return;
        };
        let service = service_fn(|request| asked(&self.service, request, address));
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(HEAD_BYTES)
            .keep_alive(self.connections == Connections::Kept)
            // Bodies are shared by all connections: hand them on, do not copy them.
            .writev(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut served = std::pin::pin!(served);
        let ended = async {
            tokio::select! {
                ended = &mut served => return ended,
                () = self.interrupt.raised() => served.as_mut().graceful_shutdown(),
            }
            served.await
        };
        match timeout(self.limits.life, ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(peer = %address, %error, "connection ended"),
            Err(_) => debug!(peer = %address, "connection lasted too long"),
        }
    }
}

async fn asked(
    service: &TowerToHyperService<Router>,
    mut request: Request<Incoming>,
    address: SocketAddr,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(Peer(address));
    service.call(request).await
}
