//! A machine's own way to the API: the cluster's authority and the machine's token, and nothing else.

use std::path::PathBuf;

use kube::{Client, Config};
use thiserror::Error;
use windlass_pki::{Certificate, CertificateError};
use windlass_spec::Secret;
use windlass_steps::host::{HostError, read_file};

use crate::facts::Facts;
use crate::places::Places;

const LIMIT: u64 = 64 << 10;
const CONNECT_LIMIT: std::time::Duration = std::time::Duration::from_secs(3);

/// Why a machine cannot speak to the API.
#[derive(Debug, Error)]
pub enum ClientError {
    /// What it needs for that is not on its disk.
    #[error("cannot read what the machine speaks to the API with")]
    ReadFile {
        /// What is missing.
        source: HostError,
    },
    /// The authority is not one.
    #[error("cannot use {} as an authority", .path.display())]
    ReadAuthority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The address cannot be one.
    #[error("cannot use {server} as an address of the API")]
    NameServer {
        /// The address.
        server: String,
    },
    /// Credentials that TLS refuses.
    #[error("cannot make a client for {server}")]
    MakeClient {
        /// The address.
        server: String,
        /// What was refused.
        source: Box<kube::Error>,
    },
}

/// A client that speaks as this machine, by its join token, at the API's internal name. Nothing is sent yet.
pub fn machine_client(places: &Places, facts: &Facts) -> Result<Client, ClientError> {
    let read = |path: PathBuf| read_file(path, LIMIT).map_err(|source| ClientError::ReadFile { source });
    let path = places.pki("ca.crt");
    let authority = Certificate::parse_pem(&read(path.clone())?);
    let authority = authority.map_err(|source| ClientError::ReadAuthority { path, source })?;
    let token = String::from_utf8_lossy(&read(places.join_token())?).trim().to_owned();
    client_with(&facts.api_server(), &authority, &Secret::new(token))
}

/// A client of a server that this authority vouches for, by this token. Nothing is sent yet.
pub fn client_with(server: &str, authority: &Certificate, token: &Secret<String>) -> Result<Client, ClientError> {
    // Whoever was first decided already; all of windlass decides for ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let address = server.parse().map_err(|_| ClientError::NameServer { server: server.to_owned() })?;
    let mut config = Config::new(address);
    config.root_cert = Some(vec![authority.der().to_vec()]);
    config.auth_info.token = Some(token.expose().clone().into());
    config.connect_timeout = Some(CONNECT_LIMIT);
    // Whoever waits says how often to ask.
    config.default_retry = false;
    let failed = |source| ClientError::MakeClient { server: server.to_owned(), source: Box::new(source) };
    Client::try_from(config).map_err(failed)
}
