//! One look at a target: a TCP connection, or an HTTPS request that must be answered with 200.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A status line is short; whoever sends more than this first is not a web server.
const STATUS_LIMIT: usize = 1024;

/// How to tell that a target is healthy.
#[derive(Clone, Debug)]
pub enum Check {
    /// It accepts a connection.
    Tcp,
    /// It answers a request.
    Https(HttpsCheck),
}

/// A GET that must be answered with 200 by a server with a certificate of a known authority.
#[derive(Clone)]
pub struct HttpsCheck {
    path: String,
    server_name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

/// Why a target is not healthy, or why a check is none.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The authority's certificates are not readable.
    #[error("cannot use the authority of the health check: {reason}")]
    ReadAuthority {
        /// What is wrong with them.
        reason: String,
    },
    /// The name that the certificate is to carry is none.
    #[error("{name:?} is not the name of a server")]
    ReadServerName {
        /// As given.
        name: String,
    },
    /// The path does not start with a slash or has characters that a request line cannot carry.
    #[error("{path:?} is not the path of a request")]
    ReadPath {
        /// As given.
        path: String,
    },
    /// Nobody accepts connections there.
    #[error("cannot connect")]
    Connect {
        /// What the kernel said.
        source: io::Error,
    },
    /// The server cannot show who it is.
    #[error("cannot agree on TLS")]
    Handshake {
        /// What rustls said.
        source: io::Error,
    },
    /// The connection broke before the answer was there.
    #[error("cannot ask {path}")]
    Ask {
        /// What was asked for.
        path: String,
        /// What happened to the connection.
        source: io::Error,
    },
    /// It answered, but not well.
    #[error("{path} answered {status}")]
    Status {
        /// What was asked for.
        path: String,
        /// The code.
        status: u16,
    },
    /// It answered something else than HTTP.
    #[error("{path} was not answered in HTTP")]
    Garbled {
        /// What was asked for.
        path: String,
    },
    /// It did not answer in time.
    #[error("no answer within {} ms", .limit.as_millis())]
    Answer {
        /// The time that it had.
        limit: Duration,
    },
}

impl HttpsCheck {
    /// Asks for `path` as `server_name`, and trusts only the authorities of the PEM text.
    pub fn new(path: &str, server_name: &str, authority_pem: &str) -> Result<Self, CheckError> {
        let plain = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain {
            return Err(CheckError::ReadPath { path: path.to_owned() });
        }
        let name = ServerName::try_from(server_name.to_owned());
        let server_name = name.map_err(|_| CheckError::ReadServerName { name: server_name.to_owned() })?;
        let tls = tls(&roots(authority_pem)?)?;
        Ok(Self { path: path.to_owned(), server_name, tls: Arc::new(tls) })
    }

    /// The usual one: `/readyz`.
    pub fn readyz(server_name: &str, authority_pem: &str) -> Result<Self, CheckError> {
        Self::new("/readyz", server_name, authority_pem)
    }

    async fn ask(&self, stream: TcpStream) -> Result<(), CheckError> {
        let connect = TlsConnector::from(Arc::clone(&self.tls)).connect(self.server_name.clone(), stream);
        let mut stream = connect.await.map_err(|source| CheckError::Handshake { source })?;
        let trouble = |source| CheckError::Ask { path: self.path.clone(), source };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: windlass-cloud\r\nConnection: close\r\n\r\n",
            self.path,
            self.server_name.to_str()
        );
        stream.write_all(request.as_bytes()).await.map_err(trouble)?;
        let mut head = Vec::with_capacity(STATUS_LIMIT);
        while !head.contains(&b'\n') && head.len() < STATUS_LIMIT {
            if stream.read_buf(&mut head).await.map_err(trouble)? == 0 {
                break;
            }
        }
        let status = status(&head).ok_or_else(|| CheckError::Garbled { path: self.path.clone() })?;
        // A server that logs broken connections has nothing to log; what it thinks of our farewell is no part of the check.
        let _said = stream.shutdown().await;
        match status {
            200 => Ok(()),
            status => Err(CheckError::Status { path: self.path.clone(), status }),
        }
    }
}

// By hand, because the configuration of TLS is long and says nothing.
impl fmt::Debug for HttpsCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.server_name.to_str(), self.path)
    }
}

impl Check {
    /// Looks once, for as long as it takes; the caller has the patience.
    pub async fn look(&self, address: SocketAddr) -> Result<(), CheckError> {
        let stream = TcpStream::connect(address).await.map_err(|source| CheckError::Connect { source })?;
        match self {
            Check::Tcp => Ok(()),
            Check::Https(check) => check.ask(stream).await,
        }
    }
}

fn roots(pem: &str) -> Result<RootCertStore, CheckError> {
    let trouble = |reason: String| CheckError::ReadAuthority { reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| trouble(error.to_string()))?;
        roots.add(certificate).map_err(|error| trouble(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(trouble("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

fn tls(roots: &RootCertStore) -> Result<ClientConfig, CheckError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| CheckError::ReadAuthority { reason: error.to_string() })?;
    Ok(builder.with_root_certificates(roots.clone()).with_no_client_auth())
}

/// The code of `HTTP/1.x NNN …`.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (version, rest) = line.split_once(' ')?;
    let code = rest.split(' ').next()?;
    let is_http = matches!(version, "HTTP/1.0" | "HTTP/1.1");
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    if is_http && is_code { code.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_has_a_version_and_a_code_of_three_digits() {
        let cases: &[(&[u8], Option<u16>)] = &[
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", Some(200)),
            (b"HTTP/1.0 500\r\n", Some(500)),
            (b"HTTP/1.1 503 Service Unavailable", Some(503)),
            (b"HTTP/1.1 200OK\r\n", None),
            (b"HTTP/1.1 +20 OK\r\n", None),
            (b"HTTP/2 200\r\n", None),
            (b"SSH-2.0-OpenSSH_9.2\r\n", None),
            (b"\xff\xfe 200\n", None),
            (b"", None),
        ];
        for (head, want) in cases {
            assert_eq!(status(head), *want, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn a_check_that_cannot_be_made_says_why() {
        let key = rcgen::KeyPair::generate().unwrap();
        let good = rcgen::CertificateParams::new(vec!["api.test".into()]).unwrap().self_signed(&key).unwrap().pem();
        let cases = [
            ("/readyz", "api.test", good.as_str(), None),
            ("/readyz", "127.0.0.1", good.as_str(), None),
            ("readyz", "api.test", good.as_str(), Some("\"readyz\" is not the path of a request")),
            ("/a\r\nb", "api.test", good.as_str(), Some("\"/a\\r\\nb\" is not the path of a request")),
            ("/readyz", "not a name", good.as_str(), Some("\"not a name\" is not the name of a server")),
            (
                "/readyz",
                "api.test",
                "",
                Some("cannot use the authority of the health check: there is no certificate in it"),
            ),
        ];
        for (path, name, pem, want) in cases {
            let got = HttpsCheck::new(path, name, pem).err().map(|error| error.to_string());
            assert_eq!(got.as_deref(), want);
        }
    }
}
