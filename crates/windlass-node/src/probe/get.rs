//! Asking once, in three stages that are told apart: resolve the name, connect, have an answer.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::future::join;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};
use url::Url;

/// How long all three stages may take together.
pub const LIMIT: Duration = Duration::from_secs(5);
const BODY_LIMIT: usize = 64 << 10;

/// Who answered, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The address that the name resolved to.
    pub address: SocketAddr,
    /// The body of the answer.
    pub body: String,
}

/// The stage that failed.
#[derive(Debug, Error)]
pub enum GetError {
    /// The words are no URL, or not one of plain HTTP.
    #[error("cannot ask {url}")]
    ReadUrl {
        /// The words.
        url: String,
        /// What is wrong with them.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The name has no address.
    #[error("cannot resolve {host}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nobody takes the connection.
    #[error("cannot connect to {host} at {address}")]
    Connect {
        /// The name.
        host: String,
        /// Its last address that was tried.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Whoever took the connection gave no good answer.
    #[error("no good answer from {host} at {address}")]
    Answer {
        /// The name.
        host: String,
        /// Its address.
        address: SocketAddr,
        /// What came instead.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Resolves the name in a URL as every program of this host would, connects and asks.
pub async fn get(url: &str, limit: Duration) -> Result<Answer, GetError> {
    let target = Target::read(url)?;
    let deadline = Instant::now() + limit;
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("not done within {limit:?} of asking"));
    let host = &target.host;
    let unresolved = |source| GetError::Resolve { host: host.clone(), source };
    let found = timeout_at(deadline, lookup_host((target.name.as_str(), target.port))).await;
    let found: Vec<SocketAddr> = found.unwrap_or_else(|_| Err(late())).map_err(unresolved)?.collect();
    let mut last = unresolved(io::Error::other("the name has no address"));
    for address in found {
        let stream = timeout_at(deadline, TcpStream::connect(address)).await.unwrap_or_else(|_| Err(late()));
        match stream {
            Ok(stream) => {
                let answered = timeout_at(deadline, ask(stream, &target)).await.unwrap_or_else(|_| Err(late().into()));
                let failed = |source| GetError::Answer { host: host.clone(), address, source };
                return answered.map(|body| Answer { address, body }).map_err(failed);
            }
            Err(source) => last = GetError::Connect { host: host.clone(), address, source },
        }
    }
    Err(last)
}

struct Target {
    /// As it is written in a URL, an IPv6 address in brackets.
    host: String,
    /// As the resolver takes it.
    name: String,
    port: u16,
    path: String,
}

impl Target {
    fn read(text: &str) -> Result<Self, GetError> {
        let wrong = |source: Box<dyn Error + Send + Sync>| GetError::ReadUrl { url: text.to_owned(), source };
        let url = Url::parse(text).map_err(|source| wrong(source.into()))?;
        if url.scheme() != "http" {
            return Err(wrong("only http is spoken here".into()));
        }
        let host = url.host_str().ok_or_else(|| wrong("it names no host".into()))?.to_owned();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Target { host, name, port: url.port().unwrap_or(80), path: url.path().to_owned() })
    }
}

async fn ask(stream: TcpStream, target: &Target) -> Result<String, Box<dyn Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(&target.path).header(HOST, format!("{}:{}", target.host, target.port));
    let request = request.header(CONNECTION, "close").body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("the answer was {status}").into());
        }
        let body = Limited::new(response.into_body(), BODY_LIMIT).collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    // The connection carries the request, and ends after it. How it ends is not what was asked.
    let (answer, _) = join(answer, connection).await;
    answer
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use windlass_steps::report::chain;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    /// A server that says this to whoever comes, and keeps the connection.
    async fn saying(words: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(words.as_bytes()).await.unwrap();
                kept.push(stream);
            }
        });
        address
    }

    #[test]
    fn only_plain_http_is_asked() {
        for bad in ["", "probe", "https://probe/", "http://", "file:///etc/passwd", "http://a:99999/"] {
            assert!(matches!(Target::read(bad), Err(GetError::ReadUrl { .. })), "{bad}");
        }
        for (url, host, name, port, path) in [
            ("http://probe", "probe", "probe", 80, "/"),
            ("http://probe.n.svc:8080/a/b?c", "probe.n.svc", "probe.n.svc", 8080, "/a/b"),
            ("http://[::1]:81/", "[::1]", "::1", 81, "/"),
        ] {
            let target = Target::read(url).unwrap();
            assert_eq!((target.host.as_str(), target.name.as_str(), target.port), (host, name, port), "{url}");
            assert_eq!(target.path, path, "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_not_resolved() {
        // Names below `invalid` have no address anywhere (RFC 6761).
        let error = get("http://probe.invalid/", SOON).await.unwrap_err();
        assert_eq!(chain(&error)[0], "cannot resolve probe.invalid");
        assert!(matches!(error, GetError::Resolve { .. }));
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_not_connected_to() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let error = get(&format!("http://{free}/"), SOON).await.unwrap_err();
        assert_eq!(chain(&error)[0], format!("cannot connect to 127.0.0.1 at {free}"));
        assert!(chain(&error)[1].contains("refused"), "{:?}", chain(&error));
    }

    #[tokio::test]
    async fn an_answer_that_is_none_says_what_came_instead() {
        let cases = [
            ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", "the answer was 503 Service Unavailable"),
            ("SSH-2.0-OpenSSH_9\r\n", "invalid HTTP version parsed"),
            ("", "not done within 200ms of asking"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "not done within 200ms of asking"),
        ];
        for (words, cause) in cases {
            let address = saying(words).await;
            let error = get(&format!("http://{address}/"), Duration::from_millis(200)).await.unwrap_err();
            let told = chain(&error);
            assert_eq!(told[0], format!("no good answer from 127.0.0.1 at {address}"));
            assert_eq!(told[1], cause, "{words:?}");
        }
    }
}
