//! An answer that is not a file of a mirror: small enough to be held, or handed on piece by piece, and never longer than
//! it may be.

use reqwest::header::HeaderMap;
use reqwest::{Response, Url};

use super::{DownloadError, Downloader, accepted};

/// What a server answers, before its content has come.
pub(crate) struct Answer<'a> {
    downloader: &'a Downloader,
    url: Url,
    response: Response,
    got: u64,
    most: u64,
}

impl Downloader {
    /// Asks for something that has at most so many bytes.
    pub(crate) async fn ask(&self, url: &Url, headers: HeaderMap, most: u64) -> Result<Answer<'_>, DownloadError> {
        let response = accepted(url, self.send(url, self.client.get(url.clone()).headers(headers)).await?)?;
        let answer = Answer { downloader: self, url: url.clone(), response, got: 0, most };
        match answer.response.content_length().is_some_and(|length| length > most) {
            true => Err(answer.too_large()),
            false => Ok(answer),
        }
    }
}

impl Answer<'_> {
    /// The next piece of it; nothing at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Vec<u8>>, DownloadError> {
        let piece = self.downloader.chunk(&self.url, &mut self.response, self.got, None).await?;
        let Some(piece) = piece else { return Ok(None) };
        self.got += piece.len() as u64;
        if self.got > self.most {
            return Err(self.too_large());
        }
        Ok(Some(piece.to_vec()))
    }

    /// All of it.
    pub(crate) async fn whole(mut self) -> Result<Vec<u8>, DownloadError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece().await? {
            bytes.extend(piece);
        }
        Ok(bytes)
    }

    fn too_large(&self) -> DownloadError {
        DownloadError::TooLarge { url: self.url.to_string(), limit: self.most }
    }
}
