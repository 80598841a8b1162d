//! Why a download did not give a file, told apart by whether trying again can help.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::policy::Refused;
use crate::cache::CacheError;
use crate::digest::Digest;

/// A download that failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// There is no client to download with.
    #[error("cannot make an HTTP client")]
    MakeClient {
        /// What was wrong.
        source: reqwest::Error,
    },
    /// The server could not be reached, or did not speak HTTP.
    #[error("cannot get {url}")]
    Request {
        /// What was asked for.
        url: String,
        /// What was wrong.
        source: reqwest::Error,
    },
    /// The server does not have it.
    #[error("{url} is not there")]
    Absent {
        /// What was asked for.
        url: String,
    },
    /// The server has an answer, and it is not the file.
    #[error("the server answered {status} for {url}")]
    Status {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The server stopped talking without hanging up.
    #[error("{url} stalled: no byte for {} s after {got} bytes", .limit.as_secs_f32())]
    Stalled {
        /// What was asked for.
        url: String,
        /// How long nothing came.
        limit: Duration,
        /// What had come before.
        got: u64,
    },
    /// The connection ended before the file did; what came is kept for another try.
    #[error("{url} was cut off after {got} bytes{}", of(.want))]
    Cut {
        /// What was asked for.
        url: String,
        /// What came.
        got: u64,
        /// What the server had announced.
        want: Option<u64>,
        /// What was wrong with the connection.
        source: reqwest::Error,
    },
    /// There is more of it than such a file can have.
    #[error("{url} is larger than {limit} bytes, which no such file is")]
    TooLarge {
        /// What was asked for.
        url: String,
        /// The largest size that is taken.
        limit: u64,
    },
    /// The server sends us somewhere we do not go.
    #[error("{url} leads elsewhere: {refused}")]
    Redirect {
        /// What was asked for.
        url: String,
        /// Where to, and why not.
        refused: Refused,
    },
    /// The content is something else.
    #[error("{url} is not trusted: it should be {want} and is {found}")]
    WrongDigest {
        /// What was asked for.
        url: String,
        /// What it should be.
        want: Digest,
        /// What it is.
        found: Digest,
    },
    /// Nothing says what the content should be.
    #[error("{url} is not trusted: neither .sha512 nor .sha256 lies beside it")]
    NoChecksum {
        /// The file without a checksum.
        url: String,
    },
    /// What should say it says something else.
    #[error("{url} is not trusted: {reason}")]
    BadChecksum {
        /// The checksum's file.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another run downloads the same file at this moment.
    #[error("{url} is being downloaded by another windlass")]
    Busy {
        /// What was asked for.
        url: String,
    },
    /// What came could not be kept.
    #[error("cannot keep what came in {}", .path.display())]
    KeepPart {
        /// The file for it.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no room for it.
    #[error("cannot keep {url} in the cache")]
    UseCache {
        /// What was asked for.
        url: String,
        /// What was wrong.
        source: Box<CacheError>,
    },
}

impl DownloadError {
    /// Whether it is about trust (exit code 9) and not about a network or a disk.
    pub fn is_trust(&self) -> bool {
        match self {
            DownloadError::TooLarge { .. }
            | DownloadError::Redirect { .. }
            | DownloadError::WrongDigest { .. }
            | DownloadError::NoChecksum { .. }
            | DownloadError::BadChecksum { .. } => true,
            DownloadError::UseCache { source, .. } => source.is_trust(),
            DownloadError::MakeClient { .. }
            | DownloadError::Request { .. }
            | DownloadError::Absent { .. }
            | DownloadError::Status { .. }
            | DownloadError::Stalled { .. }
            | DownloadError::Cut { .. }
            | DownloadError::Busy { .. }
            | DownloadError::KeepPart { .. } => false,
        }
    }

    /// Whether the server is fine and does not have the file.
    pub fn is_absent(&self) -> bool {
        matches!(self, DownloadError::Absent { .. })
    }

    /// What to do about it; it suits a `next:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            DownloadError::Cut { .. } | DownloadError::Stalled { .. } => {
                Some("fetch again: the download goes on where it ended")
            }
            DownloadError::Request { .. } | DownloadError::Absent { .. } | DownloadError::Status { .. } => {
                Some("look at the mirror's address, or fetch with `--source source`")
            }
            DownloadError::Busy { .. } => Some("wait for it to end, then fetch again"),
            _ if self.is_trust() => Some("do not use this mirror before its owner has explained it"),
            _ => None,
        }
    }
}

fn of(want: &Option<u64>) -> String {
    want.map(|want| format!(" of {want}")).unwrap_or_default()
}
