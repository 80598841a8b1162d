//! One request over one connection: all that the node flow asks of the metadata service and of the machine-config server,
//! and the bootstrap machine of the object store.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use windlass_pki::Certificate;

/// How long a small request may take, from the first packet to the last byte.
const LIMIT: Duration = Duration::from_secs(3);
const BODY_LIMIT: usize = 1 << 20;

/// What to ask of whom.
#[derive(Debug, Clone)]
pub struct Asking<'a> {
    /// Reading or telling; nothing is sent beside the head.
    pub method: Method,
    /// A name or an address.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// The path, with its slash.
    pub path: &'a str,
    /// The token that says who asks.
    pub bearer: Option<&'a str>,
    /// Whom to trust; without it the connection is in clear.
    pub tls: Option<Arc<ClientConfig>>,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was given.
    pub status: StatusCode,
    /// What was said.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// The request itself makes no sense.
    #[error("cannot ask {host} for {path}")]
    MakeRequest {
        /// Who was to be asked.
        host: String,
        /// For what.
        path: String,
        /// What is wrong with it.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The name means nothing to the resolver.
    #[error("cannot look up {host}")]
    LookUp {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The resolver took too long.
    #[error("cannot look up {host}: no answer within {limit:?}")]
    AwaitName {
        /// The name.
        host: String,
        /// The patience.
        limit: Duration,
    },
    /// Nobody takes the connection.
    #[error("cannot connect to {host}:{port}")]
    Connect {
        /// Who was to be asked.
        host: String,
        /// Where.
        port: u16,
        /// What the kernel said.
        source: io::Error,
    },
    /// Whoever took the connection is not whom we trust, or said nothing whole.
    #[error("cannot talk to {host}:{port}")]
    Talk {
        /// Who was asked.
        host: String,
        /// Where.
        port: u16,
        /// What went wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// It took too long.
    #[error("no answer from {host}:{port} within {limit:?}")]
    Await {
        /// Who was asked.
        host: String,
        /// Where.
        port: u16,
        /// The patience.
        limit: Duration,
    },
}

/// Trusts one authority and no other.
pub fn trusting(authority: &Certificate) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // One that is refused leaves an empty store, and every server is then a stranger: nothing is trusted by mistake.
    roots.add_parsable_certificates([authority.der().to_vec().into()]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("ring has every version of TLS that rustls has");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Asks once, for little.
pub async fn ask(asking: &Asking<'_>) -> Result<Answer, AskError> {
    ask_within(asking, LIMIT, BODY_LIMIT).await
}

/// Asks once, for as many bytes as this and no longer than this.
pub async fn ask_within(asking: &Asking<'_>, limit: Duration, bytes: usize) -> Result<Answer, AskError> {
    let (host, port) = (asking.host.to_owned(), asking.port);
    let is_found = AtomicBool::new(false);
    match timeout(limit, connect_and_ask(asking, bytes, &is_found)).await {
        Ok(answer) => answer,
        // A resolver that is silent is no fault of whoever was to be asked.
        Err(_) if !is_found.load(Ordering::Relaxed) => Err(AskError::AwaitName { host, limit }),
        Err(_) => Err(AskError::Await { host, port, limit }),
    }
}

/// Says that the name is found as soon as it is.
async fn connect_and_ask(asking: &Asking<'_>, bytes: usize, is_found: &AtomicBool) -> Result<Answer, AskError> {
    let (host, port) = (asking.host.to_owned(), asking.port);
    let request = request(asking)?;
    let addresses = lookup_host((asking.host, port)).await;
    let addresses: Vec<_> = addresses.map_err(|source| AskError::LookUp { host: host.clone(), source })?.collect();
    is_found.store(true, Ordering::Relaxed);
    let stream = TcpStream::connect(addresses.as_slice()).await;
    let stream = stream.map_err(|source| AskError::Connect { host: host.clone(), port, source })?;
    let talked = match &asking.tls {
        None => exchange(stream, request, bytes).await,
        Some(config) => match secure(stream, config, asking.host).await {
            Ok(stream) => exchange(stream, request, bytes).await,
            Err(error) => Err(error),
        },
    };
    talked.map_err(|source| AskError::Talk { host, port, source })
}

fn request(asking: &Asking<'_>) -> Result<Request<Empty<Bytes>>, AskError> {
    let mut builder = Request::builder().method(asking.method.clone()).uri(asking.path);
    builder = builder.header(header::HOST, format!("{}:{}", asking.host, asking.port));
    if let Some(token) = asking.bearer {
        builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    builder.body(Empty::new()).map_err(|source| AskError::MakeRequest {
        host: asking.host.to_owned(),
        path: asking.path.to_owned(),
        source: source.into(),
    })
}

type Trouble = Box<dyn StdError + Send + Sync>;

async fn secure(
    stream: TcpStream,
    config: &Arc<ClientConfig>,
    host: &str,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Trouble> {
    let name = ServerName::try_from(host.to_owned())?;
    Ok(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?)
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>, bytes: usize) -> Result<Answer, Trouble>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The connection moves the bytes; what is wrong with it is told by the request that fails.
    let driver = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), bytes).collect().await?.to_bytes();
        Ok(Answer { status, body })
    };
    let answered = answered.await;
    driver.abort();
    answered
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::HeaderMap;
    use axum::routing::{get, post};
    use tokio::net::TcpListener;

    use super::*;

    async fn serve(router: Router) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        port
    }

    #[tokio::test]
    async fn the_answer_is_what_was_said_and_the_token_is_sent() {
        let told = |headers: HeaderMap| async move { headers["authorization"].to_str().unwrap().to_owned() };
        let router = Router::new().route("/who", get(async || "me")).route("/ack", post(told));
        let port = serve(router).await;
        let asking = Asking { method: Method::GET, host: "127.0.0.1", port, path: "/who", bearer: None, tls: None };
        let answer = ask(&asking).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"me"[..]));
        let answer = ask(&Asking { method: Method::POST, path: "/ack", bearer: Some("t"), ..asking.clone() }).await;
        assert_eq!(&answer.unwrap().body[..], b"Bearer t");
        assert_eq!(ask(&Asking { path: "/no", ..asking }).await.unwrap().status, StatusCode::NOT_FOUND);
    }

    #[test]
    fn a_silent_resolver_and_a_silent_server_are_told_apart() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        // A name is looked up in another thread, of which there is only this one.
        let (release, held) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || held.recv());
        runtime.block_on(async {
            let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = silent.local_addr().unwrap().port();
            let asking = Asking { method: Method::GET, host: "127.0.0.1", port, path: "/", bearer: None, tls: None };
            let limit = Duration::from_millis(20);
            let error = ask_within(&asking, limit, BODY_LIMIT).await.unwrap_err();
            assert_eq!(error.to_string(), format!("no answer from 127.0.0.1:{port} within 20ms"));
            let named = Asking { host: "localhost", ..asking };
            let error = ask_within(&named, limit, BODY_LIMIT).await.unwrap_err();
            assert_eq!(error.to_string(), "cannot look up localhost: no answer within 20ms");
        });
        drop(release);
    }

    #[tokio::test]
    async fn a_closed_port_a_bad_token_and_a_huge_answer_are_told_apart() {
        let port = serve(Router::new().route("/", get(async || vec![0_u8; BODY_LIMIT + 1]))).await;
        let asking = Asking { method: Method::GET, host: "127.0.0.1", port, path: "/", bearer: None, tls: None };
        assert!(matches!(ask(&asking).await, Err(AskError::Talk { .. })));
        let bad = Asking { bearer: Some("a\nb"), ..asking.clone() };
        assert!(matches!(ask(&bad).await, Err(AskError::MakeRequest { .. })));
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        assert!(matches!(ask(&Asking { port: closed, ..asking }).await, Err(AskError::Connect { .. })));
    }
}
