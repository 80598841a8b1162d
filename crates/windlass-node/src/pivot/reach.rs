//! How bootkube reaches what it waits for: etcd members with a certificate of their authority, API servers at addresses
//! of their own instead of the balancer's name, and ports of this machine.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Uri;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use windlass_cluster::version;
use windlass_steps::criterion::{LookError, Observation};
use windlass_steps::host::{HostError, read_file};
use windlass_steps::reason;

use crate::places::Places;

const CONNECT_LIMIT: Duration = Duration::from_secs(2);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const FILE_LIMIT: u64 = 1 << 20;

/// What is asked through a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// Questions: a server that says nothing for a while does not answer.
    AtOnce,
    /// Watches too.
    AsTheyCome,
}

/// Why nobody can be asked. The causes are boxed for their size.
#[derive(Debug, Error)]
pub(super) enum ReachError {
    #[error("cannot use {}", path.display())]
    UseKubeconfig { path: PathBuf, source: Box<KubeconfigError> },
    #[error("cannot read the certificate of an authority")]
    ReadAuthority { source: HostError },
    #[error("{} holds no certificate", path.display())]
    UnderstandAuthority { path: PathBuf, source: pem::Error },
    #[error("cannot make a client for {server}")]
    MakeClient { server: Uri, source: Box<kube::Error> },
}

/// A client of the API server at this address, with the credentials of a kubeconfig. The server's certificate names its
/// address, so that is what is checked.
pub(super) async fn api_at(kubeconfig: &Path, address: SocketAddr, answers: Answers) -> Result<Client, ReachError> {
    let failed = |source| ReachError::UseKubeconfig { path: kubeconfig.to_owned(), source: Box::new(source) };
    let file = Kubeconfig::read_from(kubeconfig).map_err(failed)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)?;
    config.cluster_url = server(&address.to_string());
    config.tls_server_name = None;
    client(config, answers)
}

/// A client of an etcd member, by its name.
pub(super) fn etcd(places: &Places, name: &str) -> Result<Client, ReachError> {
    let mut config = Config::new(server(&format!("{name}:2379")));
    config.root_cert = Some(authorities(&places.pki("etcd-ca.crt"))?);
    let file = |name: &str| Some(places.pki(name).display().to_string());
    config.auth_info = AuthInfo {
        client_certificate: file("etcd-healthcheck-client.crt"),
        client_key: file("etcd-healthcheck-client.key"),
        ..AuthInfo::default()
    };
    client(config, Answers::AtOnce)
}

fn server(host: &str) -> Uri {
    let uri = Uri::builder().scheme("https").authority(host).path_and_query("/").build();
    uri.expect("names of a spec and socket addresses are authorities")
}

fn client(mut config: Config, answers: Answers) -> Result<Client, ReachError> {
    // Whoever was first decided already; all of windlass decides for ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    config.connect_timeout = Some(CONNECT_LIMIT);
    config.read_timeout = match answers {
        Answers::AtOnce => Some(ANSWER_LIMIT),
        Answers::AsTheyCome => None,
    };
    config.reset_reader_on_write = true;
    // Criteria look again by themselves, and say why.
    config.default_retry = false;
    let server = config.cluster_url.clone();
    Client::try_from(config).map_err(|source| ReachError::MakeClient { server, source: Box::new(source) })
}

fn authorities(path: &Path) -> Result<Vec<Vec<u8>>, ReachError> {
    let text = read_file(path, FILE_LIMIT).map_err(|source| ReachError::ReadAuthority { source })?;
    let understood: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).map(|c| c.map(|c| c.to_vec())).collect();
    // Without any, the client would trust whomever the machine trusts.
    let understood = understood.and_then(|all| if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) });
    understood.map_err(|source| ReachError::UnderstandAuthority { path: path.to_owned(), source })
}

/// Whether whoever is behind this client says that it is ready.
pub(super) async fn ready(client: &Client) -> Observation {
    match version::ready(client).await {
        Ok(()) => Observation::Holds,
        Err(failure) => Observation::NotYet(reason!("{}", condensed(&failure.to_string()))),
    }
}

/// Of a list of checks only those that failed: `/readyz` names dozens that did not.
fn condensed(text: &str) -> String {
    let failed: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("[-]")).collect();
    if failed.is_empty() { text.trim().replace('\n', " ") } else { failed.join(", ") }
}

/// Whether somebody listens on a port of this machine.
pub(super) async fn listens(address: SocketAddr) -> Result<Observation, LookError> {
    Ok(match connected(address).await? {
        Port::Open => Observation::Holds,
        Port::Closed => Observation::NotYet(reason!("nobody listens on {address}")),
    })
}

/// Whether nobody listens on a port of this machine any more.
pub(super) async fn refuses(address: SocketAddr) -> Result<Observation, LookError> {
    Ok(match connected(address).await? {
        Port::Open => Observation::NotYet(reason!("somebody listens on {address}")),
        Port::Closed => Observation::Holds,
    })
}

enum Port {
    Open,
    Closed,
}

async fn connected(address: SocketAddr) -> Result<Port, LookError> {
    match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(Port::Open),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Port::Closed),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(format!("{address} neither takes nor refuses connections").into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_port_is_open_or_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listens(address).await.unwrap(), Observation::Holds);
        assert!(matches!(refuses(address).await.unwrap(), Observation::NotYet(_)));
        drop(listener);
        assert_eq!(refuses(address).await.unwrap(), Observation::Holds);
        assert!(matches!(listens(address).await.unwrap(), Observation::NotYet(_)));
    }

    #[test]
    fn of_many_checks_the_failed_ones_are_told() {
        let answer =
            "the API answered 500: [+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed\n";
        for (text, told) in [(answer, "[-]etcd failed: reason withheld"), ("refused\n", "refused"), ("a\nb", "a b")] {
            assert_eq!(condensed(text), told);
        }
    }
}
