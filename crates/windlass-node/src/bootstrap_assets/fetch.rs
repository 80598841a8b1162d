//! Fetching the document from the cluster's object store, with a URL that opens it for a while, and knowing it by its
//! digest.

use std::cell::RefCell;
use std::time::Duration;

use hyper::{Method, StatusCode};
use thiserror::Error;
use url::Url;
use windlass_assets::bootstrap_assets::{DOCUMENT_LIMIT, Origin};
use windlass_assets::lock::digest;
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::host::{HostError, read_file};
use windlass_steps::reason;
use windlass_steps::wait::{Unmet, Wait, WaitError};

use crate::bootstrap::http::{Asking, ask_within};
use crate::join::{listed, observer};
use crate::places::Places;
use crate::record::Recorder;

const LIMIT: u64 = 4 << 10;
/// How long one download may take.
const DOWNLOAD: Duration = Duration::from_secs(30);
/// The network may come a moment later than the unit, and the whole cluster waits for this.
const POLL: Duration = Duration::from_millis(50);

/// Why there is no document.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The machine was not told where it is.
    #[error("cannot tell where they are")]
    ReadPointer {
        /// Why not.
        source: HostError,
    },
    /// What it was told is no URL with a digest.
    #[error("cannot ask for them: {} holds no URL of the object store", .path.display())]
    ReadOrigin {
        /// The file.
        path: std::path::PathBuf,
    },
    /// The store does not hand them out.
    #[error("the object store does not hand them out: {}", listed(.unmet))]
    Ask {
        /// What was seen last.
        unmet: Vec<Unmet>,
    },
    /// They are not those that the machine was promised.
    #[error("they are not those of this cluster: {found} instead of {wanted}")]
    Trust {
        /// What was promised.
        wanted: String,
        /// What came.
        found: String,
    },
}

/// The document, as it was promised, unless nothing new is heard for so long.
pub(super) async fn fetch(places: &Places, record: &mut Recorder, patience: Duration) -> Result<Vec<u8>, FetchError> {
    let (url, wanted) = read_origin(places)?;
    let bytes = download(&url, record, patience).await?;
    let found = digest(&bytes);
    if found == wanted { Ok(bytes) } else { Err(FetchError::Trust { wanted, found }) }
}

fn read_origin(places: &Places) -> Result<(Url, String), FetchError> {
    let path = places.bootstrap_assets();
    let bytes = read_file(&path, LIMIT).map_err(|source| FetchError::ReadPointer { source })?;
    let parsed = Origin::parse(&String::from_utf8_lossy(&bytes)).and_then(|Origin { url, digest }| {
        let url = Url::parse(url.expose()).ok().filter(|url| url.scheme() == "http" && url.has_host())?;
        Some((url, digest))
    });
    parsed.ok_or(FetchError::ReadOrigin { path })
}

async fn download(url: &Url, record: &mut Recorder, patience: Duration) -> Result<Vec<u8>, FetchError> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let answer = RefCell::new(None);
    let look = || async {
        let asking = Asking { method: Method::GET, host, port, path: &path, bearer: None, tls: None };
        let said = ask_within(&asking, DOWNLOAD, DOCUMENT_LIMIT).await?;
        if said.status != StatusCode::OK {
            // The words of the server, never the URL: whoever has that may have the document.
            return Ok(Observation::NotYet(reason!("it answers {}", said.status)));
        }
        answer.replace(Some(said.body));
        Ok::<_, LookError>(Observation::Holds)
    };
    let criteria = [Criterion::new("the object store hands out the assets", look)];
    let wait = Wait::stalled_for(patience).poll_every(POLL).look_limit(DOWNLOAD);
    match wait.until(&criteria, observer(record)).await {
        Ok(()) => {}
        Err(WaitError::Unmet(unmet)) => return Err(FetchError::Ask { unmet }),
        Err(WaitError::Observe(never)) => match never {},
    }
    drop(criteria);
    Ok(answer.into_inner().unwrap_or_default().to_vec())
}
