//! The same for a machine that works already and is about to boot into its next operating system (the pre-reboot hook of
//! seed document 004): the addons for that system are put in place, for the version of Kubernetes that this node has. What
//! runs now is not touched; if the next runtime is another one, its data is cleaned when it first starts.

use kube::Client;
use windlass_artifacts::addon::OsVersion;
use windlass_artifacts::download::Downloader;
use windlass_artifacts::signature::Verification;
use windlass_steps::wait::Change;

use super::{BootstrapError, decide, files};
use crate::choice::{Addons, ClusterVersion, Explanation, Forced, Knobs, Machine, Sources, UpgradeOs, WantedPackage};
use crate::extension::{self, Installed};
use crate::facts::Facts;
use crate::os_update::hook::{StageError, StageNext, Staged};
use crate::places::Places;

/// Nobody is asked for the version.
const WHY: &str = "this node's kubelet has it";

/// A machine that works already, with what its hook asks the API by.
pub struct NextOs<'a> {
    /// Where the machine's files are.
    pub places: &'a Places,
    /// The pod's own way to the API.
    pub client: Client,
    /// Where addon manifests are, if somebody said so.
    pub manifests: Option<&'a str>,
}

impl StageNext for NextOs<'_> {
    async fn stage_for_next_os(&self) -> Result<Staged, StageError> {
        Ok(stage(self).await?)
    }
}

/// Puts the addons for the next operating system in place.
async fn stage(next: &NextOs<'_>) -> Result<Staged, BootstrapError> {
    let places = next.places;
    let facts = Facts::read(places).map_err(|source| BootstrapError::KeepFacts { source })?;
    let knobs = Knobs {
        upgrade_os: UpgradeOs::No,
        addons: Addons::Set,
        verification: Verification::Required,
        version: Some(Forced { version: own_version(places)?, why: WHY }),
        manifests: super::knobs::manifests(next.manifests, &facts)?,
    };
    let mut observe = |_: Change<'_>| Ok(());
    let sources = Machine::asking(places, Ok(next.client.clone()), &mut observe);
    let sources = sources.map_err(|source| BootstrapError::BeginToAsk { source })?;
    stage_from(places, &knobs, &sources, sources.downloader()).await
}

async fn stage_from(
    places: &Places,
    knobs: &Knobs,
    sources: &impl Sources,
    downloader: &Downloader,
) -> Result<Staged, BootstrapError> {
    let mut explanation = Explanation::default();
    let choice = decide(places, knobs, sources, &mut explanation).await?;
    let (Some(os), Some(setup)) = (choice.next_os, choice.setup) else { return Err(BootstrapError::FindNextOs) };
    setup.seen.write(places).map_err(|source| BootstrapError::KeepSeen { source })?;
    let installed = extension::list(places).map_err(|source| BootstrapError::ListAddons { source })?;
    let wanted: Vec<_> = setup.packages.into_iter().filter(|package| package.os == os).collect();
    let missing: Vec<_> = wanted.iter().filter(|wanted| !installed.iter().any(|own| wanted.is(own))).cloned().collect();
    let staged = extension::stage(places, downloader, &missing).await;
    let staged = staged.map_err(|source| BootstrapError::StageAddons { source })?;
    let obsolete = obsolete(&installed, &wanted, &os);
    extension::install(places, &staged, &obsolete).map_err(|source| BootstrapError::InstallAddons { source })?;
    super::tell(&missing, &obsolete, &mut explanation);
    let mut kept = Explanation::read(places).unwrap_or_default();
    kept.add(&os, explanation);
    kept.write(places).map_err(|source| BootstrapError::KeepExplanation { source })?;
    Ok(Staged { os: os.to_string() })
}

/// Other versions for the same system, which would be merged as well.
fn obsolete(installed: &[Installed], wanted: &[WantedPackage], os: &OsVersion) -> Vec<String> {
    let of_next = installed.iter().filter(|own| own.os == *os).map(Installed::directory);
    of_next.filter(|name| wanted.iter().all(|wanted| wanted.directory() != *name)).collect()
}

/// The version in the gate: what this node's kubelet is.
fn own_version(places: &Places) -> Result<ClusterVersion, BootstrapError> {
    let gate = places.kubelet_env();
    let text = files::text(&gate).map_err(|source| BootstrapError::PlaceFiles { source })?;
    match ClusterVersion::of_env(&text) {
        Some(Ok(version)) => Ok(version),
        Some(Err(source)) => Err(BootstrapError::ForceVersion { source }),
        None => Err(BootstrapError::FindOwnVersion { path: gate }),
    }
}

#[cfg(test)]
mod tests;
