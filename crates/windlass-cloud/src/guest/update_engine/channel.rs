//! The cloud's OS channel as a machine sees it, through the machine API: what it runs, what comes next, and staging it.
//! The types here are the API's bodies, for its server to use as well.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpStream;

/// What an answer may have, so that a broken server cannot fill the machine.
const LIMIT: usize = 64 << 10;

/// The answer of `GET /v1/os`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Os {
    /// The version that runs.
    pub current: String,
    /// The version that the channel offers, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// The version that the next start takes into use, if one is staged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<String>,
}

/// A version to go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// As in `VERSION_ID`.
    pub version: String,
    /// Bytes.
    pub size: u64,
    /// Of the packed image.
    pub digest: String,
}

/// The body of `POST /v1/os/stage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRequest {
    /// One that was offered.
    pub version: String,
}

/// One line of its answer; the last one is `staged` or `failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Progress {
    /// So many bytes are there.
    Downloading {
        /// Of the size that was offered.
        bytes: u64,
    },
    /// All are there and are being checked.
    Verifying,
    /// It is being made the next to boot.
    Finalizing,
    /// It will be used from the next start on.
    Staged,
    /// It will not.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Why the channel did not answer as it should.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// Nobody listens.
    #[error("cannot reach the machine API at {address}")]
    Reach {
        /// Where.
        address: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The exchange broke off.
    #[error("cannot talk to the machine API")]
    Talk(#[source] hyper::Error),
    /// The request could not be made.
    #[error("cannot ask the machine API for {path}")]
    Ask {
        /// The path.
        path: String,
        /// Why.
        source: hyper::http::Error,
    },
    /// It said no.
    #[error("the machine API answers {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        body: String,
    },
    /// It said something else.
    #[error("cannot understand the machine API")]
    Understand(#[source] serde_json::Error),
    /// The update cannot be staged.
    #[error("the update was not staged: {reason}")]
    Stage {
        /// Why.
        reason: String,
    },
}

/// A client of the machine API; each request is a connection of its own.
#[derive(Clone, Debug)]
pub struct Channel {
    address: String,
}

impl Channel {
    /// At `host:port`.
    pub fn at(address: impl Into<String>) -> Self {
        Self { address: address.into() }
    }

    /// What runs, and what comes next.
    pub async fn os(&self) -> Result<Os, ChannelError> {
        let answer = self.ask(Method::GET, "/v1/os", Bytes::new()).await?;
        serde_json::from_slice(&whole(answer).await?).map_err(ChannelError::Understand)
    }

    /// Has the cloud stage a version, telling how far it is, until it is staged.
    pub async fn stage<F>(&self, version: &str, mut observe: impl FnMut(Progress) -> F) -> Result<(), ChannelError>
    where
        F: Future<Output = ()>,
    {
        let request = StageRequest { version: version.to_owned() };
        let body = serde_json::to_vec(&request).map_err(ChannelError::Understand)?;
        let mut answer = self.ask(Method::POST, "/v1/os/stage", body.into()).await?.into_body();
        let mut pending = Vec::new();
        while let Some(frame) = answer.frame().await {
            if let Ok(data) = frame.map_err(ChannelError::Talk)?.into_data() {
                pending.extend_from_slice(&data);
            }
            for line in whole_lines(&mut pending) {
                match serde_json::from_slice(&line).map_err(ChannelError::Understand)? {
                    Progress::Staged => return Ok(()),
                    Progress::Failed { reason } => return Err(ChannelError::Stage { reason }),
                    progress => observe(progress).await,
                }
            }
        }
        Err(ChannelError::Stage { reason: "the answer broke off".to_owned() })
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, ChannelError> {
        let reach = |source| ChannelError::Reach { address: self.address.clone(), source };
        let stream = TcpStream::connect(&self.address).await.map_err(reach)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ChannelError::Talk)?;
        // Ends by itself when the answer has been read; an error shows up in the answer too.
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", &self.address);
        let request = request.header("content-type", "application/json").body(Full::new(body));
        let request = request.map_err(|source| ChannelError::Ask { path: path.to_owned(), source })?;
        let answer = sender.send_request(request).await.map_err(ChannelError::Talk)?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => {
                let status = answer.status().as_u16();
                let body = String::from_utf8_lossy(&whole(answer).await?).into_owned();
                Err(ChannelError::Refused { status, body })
            }
        }
    }
}

async fn whole(answer: Response<Incoming>) -> Result<Vec<u8>, ChannelError> {
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(ChannelError::Talk)?.into_data() {
            let room = LIMIT - bytes.len();
            bytes.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    Ok(bytes)
}

/// Takes the complete lines out of what was read so far.
fn whole_lines(pending: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = pending.split_off(end + 1);
    let complete = std::mem::replace(pending, rest);
    complete.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::body::Body;
    use axum::routing::{get, post};
    use axum::{Json, Router};
    use tokio::net::TcpListener;

    use super::*;

    async fn serving(router: Router) -> Channel {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Channel::at(address)
    }

    fn lines(lines: &'static str) -> Router {
        Router::new().route("/v1/os/stage", post(move |_: Json<StageRequest>| async move { Body::from(lines) }))
    }

    #[tokio::test]
    async fn the_channel_says_what_runs_and_what_comes_next() {
        let body = r#"{"current":"1","next":{"version":"2","size":7,"digest":"sha256:00"}}"#;
        let channel = serving(Router::new().route("/v1/os", get(move || async move { body }))).await;
        let next = Next { version: "2".to_owned(), size: 7, digest: "sha256:00".to_owned() };
        assert_eq!(channel.os().await.unwrap(), Os { current: "1".to_owned(), next: Some(next), staged: None });
    }

    #[tokio::test]
    async fn staging_tells_how_far_it_is_until_it_is_staged() {
        let answer = "{\"state\":\"downloading\",\"bytes\":5}\n{\"state\":\"verifying\"}\n{\"state\":\"staged\"}\n";
        let channel = serving(lines(answer)).await;
        let seen = Mutex::new(Vec::new());
        let note = |progress| {
            seen.lock().unwrap().push(progress);
            async {}
        };
        channel.stage("2", note).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [Progress::Downloading { bytes: 5 }, Progress::Verifying]);
    }

    #[tokio::test]
    async fn a_stage_that_fails_or_breaks_off_is_not_staged() {
        let cases = [
            ("{\"state\":\"failed\",\"reason\":\"the disk is full\"}\n", "the disk is full"),
            ("{\"state\":\"verifying\"}\n", "the answer broke off"),
            ("", "the answer broke off"),
        ];
        for (answer, want) in cases {
            let error = serving(lines(answer)).await.stage("2", |_| async {}).await.unwrap_err();
            assert!(matches!(&error, ChannelError::Stage { reason } if reason == want), "{error}");
        }
        let refused = serving(Router::new()).await.os().await.unwrap_err();
        assert!(matches!(refused, ChannelError::Refused { status: 404, .. }), "{refused}");
        let nobody = Channel::at("127.0.0.1:1").os().await.unwrap_err();
        assert!(matches!(nobody, ChannelError::Reach { .. }), "{nobody}");
    }

    #[test]
    fn lines_are_taken_when_they_are_complete() {
        let mut pending = b"a\n\nb\nc".to_vec();
        assert_eq!(whole_lines(&mut pending), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(pending, b"c");
        assert!(whole_lines(&mut pending).is_empty());
    }
}
