//! Downloads: resumed where they ended, bounded in size, given up when nothing comes, and used only when the digest is
//! right. There is no limit on the whole time, because slow is not broken.

mod answer;
mod error;
mod partial;
mod policy;
#[cfg(test)]
pub(crate) mod server;

pub use error::DownloadError;
pub use policy::{Redirects, Refused};
pub use reqwest::Url;

use std::io;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use tokio::time::timeout;
use tracing::debug;

use crate::cache::Cache;
use crate::digest::Digest;
use partial::Partial;

/// How often a download that is cut off goes on by itself.
const CUTS: u32 = 3;

/// How much a server may ask of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest file in bytes.
    pub size: u64,
    /// How long nothing may come, the answer to the request included.
    pub stall: Duration,
}

impl Default for Limits {
    /// Half a gibibyte is three times the largest release file; 30 s without a byte is not a slow network.
    fn default() -> Self {
        Limits { size: 512 << 20, stall: Duration::from_secs(30) }
    }
}

/// Downloads within [`Limits`].
#[derive(Debug, Clone)]
pub struct Downloader {
    client: Client,
    limits: Limits,
}

impl Downloader {
    /// A client that trusts this host's certificate authorities and takes its proxy from the environment.
    pub fn new(limits: Limits) -> Result<Self, DownloadError> {
        Self::following(Redirects::ToAnyServer, limits)
    }

    /// The same, with a choice of which redirects are followed.
    pub fn following(redirects: Redirects, limits: Limits) -> Result<Self, DownloadError> {
        install_crypto();
        let builder = Client::builder().redirect(policy::policy(redirects)).referer(false);
        let builder = builder.connect_timeout(limits.stall);
        let builder = builder.user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")));
        let client = builder.build().map_err(|source| DownloadError::MakeClient { source })?;
        Ok(Downloader { client, limits })
    }

    /// Asks whether the file is there, and waits no longer than `limit` for the answer.
    pub async fn probe(&self, url: &Url, limit: Duration) -> Result<(), DownloadError> {
        let answer = timeout(limit, self.client.head(url.clone()).send()).await;
        let answer = answer.map_err(|_| DownloadError::Stalled { url: url.to_string(), limit, got: 0 })?;
        accepted(url, answer.map_err(|source| request_error(url, source))?).map(drop)
    }

    /// A small text, such as a checksum.
    pub async fn text(&self, url: &Url, most: u64) -> Result<String, DownloadError> {
        let bytes = self.bytes(url, most).await?;
        String::from_utf8(bytes)
            .map_err(|_| DownloadError::BadChecksum { url: url.to_string(), reason: "it is not text".to_owned() })
    }

    /// A small document.
    pub async fn bytes(&self, url: &Url, most: u64) -> Result<Vec<u8>, DownloadError> {
        self.ask(url, HeaderMap::new(), most).await?.whole().await
    }

    /// Hands a file of at most so many bytes on as it comes. Whoever takes it sees to its digest; a cut is a failure.
    pub async fn copy(
        &self,
        url: &Url,
        most: u64,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), DownloadError> {
        let mut answer = self.ask(url, HeaderMap::new(), most).await?;
        while let Some(piece) = answer.piece().await? {
            take(&piece).map_err(|source| DownloadError::KeepPart { path: url.path().into(), source })?;
        }
        Ok(())
    }

    /// Downloads a file into the place `into`, on the cache's file system, where it is only put when its digest is
    /// right. What comes before a cut is kept and taken up by the next call, also of another run.
    pub async fn file(
        &self,
        cache: &Cache,
        url: &Url,
        want: &Digest,
        into: &Path,
        received: impl Fn(u64, Option<u64>),
    ) -> Result<(), DownloadError> {
        let mut partial = Partial::open(cache, url, want)?;
        let mut resumed = partial.length() > 0;
        let mut cuts = 0;
        loop {
            let before = partial.length();
            match self.transfer(&mut partial, url, &received).await {
                Err(DownloadError::Cut { .. }) if partial.length() > before && cuts < CUTS => {
                    (cuts, resumed) = (cuts + 1, true);
                    debug!(%url, got = partial.length(), "download cut off, going on");
                    continue;
                }
                Err(error @ DownloadError::TooLarge { .. }) => {
                    partial.discard()?;
                    return Err(error);
                }
                Err(error) => return Err(error),
                Ok(()) => {}
            }
            let found = partial.digest().await?;
            if found == *want {
                return partial.finish(into);
            }
            if !resumed {
                partial.discard()?;
                return Err(DownloadError::WrongDigest { url: url.to_string(), want: want.clone(), found });
            }
            // The two halves may be of different files: only a whole download tells.
            resumed = false;
            partial.restart(None)?;
        }
    }

    /// One request and its body, from where the partial download ends.
    async fn transfer(
        &self,
        partial: &mut Partial,
        url: &Url,
        received: &impl Fn(u64, Option<u64>),
    ) -> Result<(), DownloadError> {
        let mut request = self.client.get(url.clone());
        if partial.length() > 0 {
            request = request.header(RANGE, format!("bytes={}-", partial.length()));
            if let Some(etag) = partial.etag() {
                request = request.header(IF_RANGE, etag);
            }
        }
        let response = self.send(url, request).await?;
        let mut response = match response.status() {
            StatusCode::RANGE_NOT_SATISFIABLE if partial.length() > 0 => {
                // All of it may be here already; the digest will tell.
                return Ok(());
            }
            StatusCode::PARTIAL_CONTENT if starts_at(&response) == Some(partial.length()) => response,
            _ => {
                let response = accepted(url, response)?;
                let etag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
                partial.restart(etag.as_deref())?;
                response
            }
        };
        let total = response.content_length().map(|rest| rest.saturating_add(partial.length()));
        let too_large = || DownloadError::TooLarge { url: url.to_string(), limit: self.limits.size };
        if total.is_some_and(|total| total > self.limits.size) {
            return Err(too_large());
        }
        received(partial.length(), total);
        while let Some(chunk) = self.chunk(url, &mut response, partial.length(), total).await? {
            partial.push(&chunk)?;
            if partial.length() > self.limits.size {
                return Err(too_large());
            }
            received(partial.length(), total);
        }
        Ok(())
    }

    async fn send(&self, url: &Url, request: reqwest::RequestBuilder) -> Result<Response, DownloadError> {
        let stalled = |_| DownloadError::Stalled { url: url.to_string(), limit: self.limits.stall, got: 0 };
        let answer = timeout(self.limits.stall, request.send()).await.map_err(stalled)?;
        answer.map_err(|source| request_error(url, source))
    }

    async fn chunk(
        &self,
        url: &Url,
        response: &mut Response,
        got: u64,
        want: Option<u64>,
    ) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>, DownloadError> {
        let stalled = |_| DownloadError::Stalled { url: url.to_string(), limit: self.limits.stall, got };
        let chunk = timeout(self.limits.stall, response.chunk()).await.map_err(stalled)?;
        chunk.map_err(|source| DownloadError::Cut { url: url.to_string(), got, want, source })
    }
}

/// The provider of cryptography belongs to the process, because the registry client knows no other way; whoever was
/// first is as good.
pub(crate) fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn accepted(url: &Url, response: Response) -> Result<Response, DownloadError> {
    match response.status() {
        StatusCode::OK => Ok(response),
        StatusCode::NOT_FOUND | StatusCode::GONE => Err(DownloadError::Absent { url: url.to_string() }),
        status => Err(DownloadError::Status { url: url.to_string(), status: status.as_u16() }),
    }
}

fn request_error(url: &Url, source: reqwest::Error) -> DownloadError {
    match policy::refusal(&source) {
        Some(refused) => DownloadError::Redirect { url: url.to_string(), refused },
        None => DownloadError::Request { url: url.to_string(), source },
    }
}

/// Where a partial answer begins: `bytes 100-199/200`.
fn starts_at(response: &Response) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests;
