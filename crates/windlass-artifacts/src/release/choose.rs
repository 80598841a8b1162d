//! `auto`: the mirror if it answers, the source otherwise, and in words why.

use std::fmt;
use std::time::Duration;

use super::{Arch, Mirror};
use crate::cache::SourceKind;
use crate::download::{DownloadError, Downloader};
use crate::pins::Release;

/// A decision between mirror and source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which one it is: [`SourceKind::Release`] or [`SourceKind::Source`].
    pub source: SourceKind,
    /// Why, as a clause.
    pub why: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "taking everything from {}: {}", self.source, self.why)
    }
}

/// How long `auto` waits for the mirror.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the mirror for one small file of this release (the kubelet's checksum), once, and waits at most `limit`.
pub async fn choose(
    downloader: &Downloader,
    mirror: &Mirror,
    release: &Release,
    arch: Arch,
    limit: Duration,
) -> Choice {
    let source = |why: String| Choice { source: SourceKind::Source, why };
    let Some(file) = release.release.iter().find(|file| file.name == "kubelet").or(release.release.first()) else {
        return source(format!("{} is not published as a release", release.title()));
    };
    let url = mirror.url(&format!("{}.sha256", file.path), arch);
    match downloader.probe(&url, limit).await {
        Ok(()) => Choice { source: SourceKind::Release, why: format!("the mirror {mirror} answers") },
        Err(DownloadError::Stalled { .. }) => {
            source(format!("the mirror {mirror} did not answer within {} s", limit.as_secs_f32()))
        }
        Err(error @ DownloadError::Request { .. }) => {
            let causes = windlass_steps::report::chain(&error).join(": ");
            source(format!("the mirror {mirror} cannot be reached ({causes})"))
        }
        Err(error) => source(format!("the mirror {mirror} is of no use ({error})")),
    }
}
