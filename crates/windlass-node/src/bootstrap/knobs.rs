//! The flags of the node flow as choices. A flag that makes no sense is told before anything is done.

use windlass_artifacts::addon::ManifestUrl;
use windlass_artifacts::signature::Verification;
use windlass_spec::complete::addon_manifest_url;

use super::BootstrapError;
use crate::args;
use crate::choice::{Addons, ClusterVersion, Forced, Knobs, UpgradeOs};
use crate::facts::Facts;

/// The flags, with what follows from who the machine is.
pub(crate) fn knobs(command: &args::Bootstrap, facts: &Facts) -> Result<Knobs, BootstrapError> {
    let version = command.force_kube_version.as_deref().map(ClusterVersion::parse).transpose();
    Ok(Knobs {
        upgrade_os: if command.upgrade_os { UpgradeOs::Yes } else { UpgradeOs::No },
        addons: if command.torcx_skip_setup { Addons::Skip } else { Addons::Set },
        verification: if command.no_verify_signatures { Verification::Skipped } else { Verification::Required },
        version: version
            .map_err(|source| BootstrapError::ForceVersion { source })?
            .map(|version| Forced { version, why: "--force-kube-version says so" }),
        had: Vec::new(),
        manifests: manifests(command.torcx_manifest_url.as_deref(), facts)?,
    })
}

/// Where manifests are, unless somebody says so: in the cluster's own object store.
pub(super) fn manifests(template: Option<&str>, facts: &Facts) -> Result<ManifestUrl, BootstrapError> {
    let own = || addon_manifest_url(&facts.domain);
    let template = template.map_or_else(own, str::to_owned);
    ManifestUrl::parse(&template).map_err(|source| BootstrapError::TakeUrl { source })
}
