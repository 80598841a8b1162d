//! The bootstrap machine's assets (`bootstrap-assets.service`, or a push of launch): what the control plane is started
//! with, and the add-ons. They come as one document, from the cluster's object store (`fetch`) or on the standard input,
//! and are put in their places so that nobody who waits for them meets half of them (`lay_out`). It may be repeated.

mod fetch;
mod lay_out;

use std::io::{self, Read as _};
use std::time::Duration;

use thiserror::Error;
use tracing::info;
use windlass_assets::bootstrap_assets::{DOCUMENT_LIMIT, Document, DocumentError, Folder};
use windlass_steps::report::chain;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::record::Recorder;
use fetch::FetchError;
use lay_out::LayOutError;

const UNIT: &str = "bootstrap-assets";
/// How long nothing new may be heard from the object store before this run of the unit gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the assets are not in their places.
#[derive(Debug, Error)]
pub enum BootstrapAssetsError {
    /// They do not come from the object store.
    #[error("cannot fetch the assets")]
    Fetch {
        /// Why not.
        source: FetchError,
    },
    /// They do not come on the standard input.
    #[error("cannot read the assets from the standard input")]
    Receive {
        /// What the kernel said.
        source: io::Error,
    },
    /// What came is not what it should be.
    #[error("cannot take the assets")]
    Understand {
        /// What is wrong with them.
        source: DocumentError,
    },
    /// They cannot be written.
    #[error("cannot put the assets in their places")]
    LayOut {
        /// Why not.
        source: LayOutError,
    },
}

/// Gets the assets and puts them in their places.
pub async fn run(places: &Places, command: &args::BootstrapAssets) -> Result<(), Failure> {
    let mut record = Recorder::begin(places, UNIT, "get");
    let done = deliver(places, command, &mut record).await;
    match &done {
        Ok(()) => record.done(),
        Err(error) => record.failed(chain(error)),
    }
    done.map_err(|error| failure(&error))
}

async fn deliver(
    places: &Places,
    command: &args::BootstrapAssets,
    record: &mut Recorder,
) -> Result<(), BootstrapAssetsError> {
    let bytes = match command.stdin {
        true => receive(io::stdin().lock()).map_err(|source| BootstrapAssetsError::Receive { source })?,
        false => {
            fetch::fetch(places, record, PATIENCE).await.map_err(|source| BootstrapAssetsError::Fetch { source })?
        }
    };
    put(places, &bytes, record)
}

/// All there is, and a little more than is allowed, which the reader of the document then refuses.
fn receive(from: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(DOCUMENT_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// bootkube's part first: the add-ons' unit needs bootkube's.
fn put(places: &Places, bytes: &[u8], record: &mut Recorder) -> Result<(), BootstrapAssetsError> {
    let document = Document::parse(bytes).map_err(|source| BootstrapAssetsError::Understand { source })?;
    let parts = [
        ("put-bootkube", Folder::BOOTKUBE.as_slice(), &document.bootkube),
        ("put-addons", Folder::ADDONS.as_slice(), &document.addons),
    ];
    for (stage, folders, files) in parts {
        record.stage(stage);
        lay_out::lay_out(places, folders, files).map_err(|source| BootstrapAssetsError::LayOut { source })?;
    }
    info!(files = document.files().count(), "assets in place");
    Ok(())
}

fn failure(error: &BootstrapAssetsError) -> Failure {
    let (exit, next) = match error {
        BootstrapAssetsError::Fetch { source: FetchError::Ask { .. } } => {
            (Exit::TryAgain, "see that the object store answers and still has the assets")
        }
        BootstrapAssetsError::Fetch { source: FetchError::Trust { .. } } => {
            (Exit::Permanent, "see who changed the object bootstrap-assets.json")
        }
        BootstrapAssetsError::Fetch { .. } => (Exit::Permanent, "see what Ignition wrote to /etc/windlass"),
        BootstrapAssetsError::Receive { .. } => (Exit::TryAgain, "push the assets again"),
        BootstrapAssetsError::Understand { .. } => (Exit::Permanent, "prepare the cluster directory again"),
        BootstrapAssetsError::LayOut { .. } => (Exit::TryAgain, "see that the machine's disk is well"),
    };
    Failure::of(exit, error, next)
}

#[cfg(test)]
mod tests;
