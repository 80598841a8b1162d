//! The cluster that a command is about: its directory, and the platform that it is on.

use std::future::Future;
use std::path::PathBuf;

use windlass_assets::Asset as _;
use windlass_install::metadata::Metadata;
use windlass_platform::local::Local;
use windlass_spec::CompleteSpec;

use super::{cloud, plan};
use crate::args::{CloudPlace, Common};
use crate::exit::{Exit, Failure, asset_failure};

/// A prepared cluster directory, as far as looking at its cluster needs it.
pub(super) struct Place {
    pub(super) metadata: Metadata,
    pub(super) spec: CompleteSpec,
    pub(super) platform: Local,
    pub(super) kubeconfig: PathBuf,
}

impl Place {
    pub(super) fn open(common: &Common, place: &CloudPlace) -> Result<Self, Failure> {
        let dir = plan::open_prepared(common)?;
        let metadata = Metadata::read(&dir).map_err(|error| asset_failure(&error))?;
        let spec = CompleteSpec::read(&dir).map_err(|error| asset_failure(&error))?;
        let platform = local(place, &metadata.platform, &metadata.infra_id)?;
        Ok(Place { metadata, spec, platform, kubeconfig: common.dir.join("auth/kubeconfig") })
    }
}

/// The local platform's view of a cluster.
pub(super) fn local(place: &CloudPlace, platform: &str, infra_id: &str) -> Result<Local, Failure> {
    if platform != "local" {
        let because = vec![format!("this version of windlass knows the platform local, not {platform}")];
        let error = format!("{infra_id} cannot be reached");
        return Err(Failure::new(Exit::PlatformFailed, error, because, "use the version that made it"));
    }
    let next = "an infra-id is what metadata.json and `windlass cloud status` call a cluster";
    Local::new(cloud::daemon(place)?, infra_id).map_err(|error| Failure::of(Exit::Usage, &error, next))
}

/// Runs something that waits to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::of(Exit::Unexpected, &error, "look at the cause"))?.block_on(work)
}
