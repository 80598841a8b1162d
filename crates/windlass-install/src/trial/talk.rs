//! Running programs in pods, speaking to pods through a forwarded port, and reading what they logged.

use std::error::Error;
use std::time::Duration;

use futures_util::future::{FutureExt as _, join, try_join};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, LogParams};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::timeout;
use windlass_cluster::failure::ApiFailure;

use super::objects::CONTAINER;

/// How long a pod may take to answer through a forwarded port.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How much of an answer, a program's output or a log is read.
const SIZE_LIMIT: u64 = 1 << 20;
const LOG_LINES: i64 = 1000;

/// How a program in a pod ended.
#[derive(Debug)]
pub(super) struct Ran {
    /// What the kubelet says about its end.
    pub(super) status: Status,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// What could not be done with a pod.
#[derive(Debug, Error)]
pub(super) enum TalkError {
    #[error("cannot run a program in {pod}")]
    Run { pod: String, source: ApiFailure },
    #[error("lost the program that ran in {pod}")]
    LoseProgram { pod: String, source: Box<dyn Error + Send + Sync> },
    #[error("cannot forward port {port} of {pod}")]
    Forward { pod: String, port: u16, source: ApiFailure },
    #[error("no good answer through port {port} of {pod}")]
    Ask { pod: String, port: u16, source: Box<dyn Error + Send + Sync> },
    #[error("cannot read the log of {pod}")]
    ReadLog { pod: String, source: ApiFailure },
}

/// Runs a program in a pod and waits for its end.
pub(super) async fn run(pods: &Api<Pod>, pod: &str, command: &[&str]) -> Result<Ran, TalkError> {
    let params = AttachParams::default().container(CONTAINER).stdin(false).stdout(true).stderr(true);
    let refused = |error: kube::Error| TalkError::Run { pod: pod.to_owned(), source: error.into() };
    let mut process = pods.exec(pod, command.iter().copied(), &params).await.map_err(refused)?;
    let (stdout, stderr, status) = (process.stdout(), process.stderr(), process.take_status());
    let output = join(text(stdout), text(stderr)).map(Ok);
    let ended = async { status.ok_or(())?.await.ok_or(()) };
    // At once: a program whose output nobody reads does not end, and the output of a connection that broke off
    // does not end either.
    if let Ok(((stdout, stderr), status)) = try_join(output, ended).await {
        return Ok(Ran { status, stdout, stderr });
    }
    let broken = process.join().await.err().map(Into::into);
    let source = broken.unwrap_or_else(|| "the connection ended before the program did".into());
    Err(TalkError::LoseProgram { pod: pod.to_owned(), source })
}

/// Asks a pod for a path through a forwarded port.
pub(super) async fn ask(pods: &Api<Pod>, pod: &str, port: u16, path: &str) -> Result<String, TalkError> {
    let refused = |error: kube::Error| TalkError::Forward { pod: pod.to_owned(), port, source: error.into() };
    let mut forwarder = pods.portforward(pod, &[port]).await.map_err(refused)?;
    let stream = forwarder.take_stream(port).expect("this port was asked for");
    let said = forwarder.take_error(port).expect("this port was asked for");
    let answered = timeout(ANSWER_LIMIT, get(stream, path)).await;
    let answered = answered.unwrap_or_else(|_| Err(format!("nothing within {ANSWER_LIMIT:?}").into()));
    // What the kubelet says about the port explains more than an answer that did not come.
    let answered = answered.map_err(|error| match said.now_or_never().flatten() {
        Some(words) => words.into(),
        None => error,
    });
    forwarder.abort();
    answered.map_err(|source| TalkError::Ask { pod: pod.to_owned(), port, source })
}

/// The last lines of a pod's log.
pub(super) async fn log(pods: &Api<Pod>, pod: &str) -> Result<String, TalkError> {
    let params =
        LogParams { container: Some(CONTAINER.to_owned()), tail_lines: Some(LOG_LINES), ..LogParams::default() };
    pods.logs(pod, &params).await.map_err(|error| TalkError::ReadLog { pod: pod.to_owned(), source: error.into() })
}

async fn text(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What came before it broke off is what there is to know; that it did is told by the program's end.
        let _ = stream.take(SIZE_LIMIT).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(HOST, "localhost").header(CONNECTION, "close");
    let request = request.body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("the answer was {status}").into());
        }
        let body = Limited::new(response.into_body(), SIZE_LIMIT as usize).collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    // The connection carries the request, and ends after it. How it ends is not what was asked.
    let (answer, _) = join(answer, connection).await;
    answer
}
