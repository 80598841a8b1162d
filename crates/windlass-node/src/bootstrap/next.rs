//! The same for a machine that works already and is about to boot into its next operating system (the pre-reboot hook of
//! seed document 004): the addons for that system are put in place, for the version of Kubernetes that this node has. What
//! runs now is not touched; if the next runtime is another one, its data is cleaned when it first starts. A machine that
//! came into another system without the hook does the same for the one that runs ([`super::os_addons`]).

use kube::Client;
use windlass_artifacts::addon::OsVersion;
use windlass_artifacts::download::Downloader;
use windlass_artifacts::signature::Verification;
use windlass_steps::wait::Change;

use super::{BootstrapError, decide, files};
use crate::choice::{
    Addons, Choice, ClusterVersion, Explanation, Forced, Knobs, Machine, Sources, Upcoming, UpgradeOs, WantedPackage,
};
use crate::extension::{self, Installed};
use crate::facts::Facts;
use crate::os_update::hook::{StageError, StageNext, Staged};
use crate::places::Places;

/// Nobody is asked for the version.
pub(super) const WHY: &str = "this node's kubelet has it";

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
        upgrade_os: UpgradeOs::Staged,
        addons: Addons::Set,
        verification: Verification::Required,
        version: Some(Forced { version: own_version(places)?, why: WHY }),
        had: Vec::new(),
        manifests: super::knobs::manifests(next.manifests, &facts)?,
    };
    let mut observe = |_: Change<'_>| Ok(());
    let sources = Machine::asking(places, Ok(next.client.clone()), &mut observe);
    let sources = sources.map_err(|source| BootstrapError::BeginToAsk { source })?;
    stage_from(places, &knobs, &sources, sources.downloader()).await
}

/// Puts the addons in place for the operating system that this machine works on next: the one that is staged, or where
/// nobody has asked for that one the one that runs.
pub(super) async fn stage_from(
    places: &Places,
    knobs: &Knobs,
    sources: &impl Sources,
    downloader: &Downloader,
) -> Result<Staged, BootstrapError> {
    let mut explanation = Explanation::default();
    let Choice { os, next_os, setup, .. } = decide(places, knobs, sources, &mut explanation).await?;
    let systems = Systems::of(&os, next_os.as_ref(), knobs.upgrade_os)?;
    let Some(setup) = setup else { return Err(BootstrapError::FindNextOs) };
    setup.seen.write(places).map_err(|source| BootstrapError::KeepSeen { source })?;
    let installed = extension::list(places).map_err(|source| BootstrapError::ListAddons { source })?;
    let wanted: Vec<_> = setup.packages.into_iter().filter(|package| package.os == *systems.wanted()).collect();
    let missing: Vec<_> = wanted.iter().filter(|wanted| !installed.iter().any(|own| wanted.is(own))).cloned().collect();
    let staged = extension::stage(places, downloader, &missing).await;
    let staged = staged.map_err(|source| BootstrapError::StageAddons { source })?;
    let obsolete = obsolete(&installed, &wanted, &systems);
    extension::install(places, &staged, &obsolete).map_err(|source| BootstrapError::InstallAddons { source })?;
    super::tell(&missing, &obsolete, &mut explanation);
    let mut kept = Explanation::read(places).unwrap_or_default();
    kept.add(systems.wanted(), explanation);
    kept.write(places).map_err(|source| BootstrapError::KeepExplanation { source })?;
    Ok(Staged { os: systems.wanted().to_string() })
}

/// The operating systems that a machine that works already has to do with.
enum Systems<'a> {
    /// The one that runs is wanted; which one is staged nobody knows.
    Running(&'a OsVersion),
    /// The next one is wanted, and the one that runs is to be left alone.
    Next { runs: &'a OsVersion, next: &'a OsVersion },
}

impl<'a> Systems<'a> {
    fn of(runs: &'a OsVersion, next: Option<&'a Upcoming>, upgrade: UpgradeOs) -> Result<Self, BootstrapError> {
        match (next, upgrade) {
            (Some(next), _) => Ok(Systems::Next { runs, next: next.version() }),
            (None, UpgradeOs::Unasked) => Ok(Systems::Running(runs)),
            (None, UpgradeOs::Yes | UpgradeOs::Staged | UpgradeOs::No) => Err(BootstrapError::FindNextOs),
        }
    }

    /// The one for which addons are wanted.
    fn wanted(&self) -> &'a OsVersion {
        match self {
            Systems::Running(os) | Systems::Next { next: os, .. } => os,
        }
    }

    /// Whether it is neither the one that runs nor the one that comes. A machine would keep the addons of every operating
    /// system that it ever had.
    fn is_past(&self, os: &OsVersion) -> bool {
        match self {
            Systems::Running(_) => false,
            Systems::Next { runs, next } => os != *runs && os != *next,
        }
    }
}

/// Other versions for the same system, which would be merged as well, and those for systems that are past.
fn obsolete(installed: &[Installed], wanted: &[WantedPackage], systems: &Systems<'_>) -> Vec<String> {
    let is_other = |own: &Installed| wanted.iter().all(|wanted| wanted.directory() != own.directory());
    let obsolete = installed.iter().filter(|own| match own.os == *systems.wanted() {
        true => is_other(own),
        false => systems.is_past(&own.os),
    });
    obsolete.map(Installed::directory).collect()
}

/// The version in the gate: what this node's kubelet is.
pub(super) fn own_version(places: &Places) -> Result<ClusterVersion, BootstrapError> {
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
