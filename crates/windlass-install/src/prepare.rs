//! The `prepare` flow: spec → complete spec → keys → kubeconfigs → manifests → the bootstrap machine's assets → Ignition
//! configs, written to the cluster directory. Deciding is done in memory; the directory changes at the end, all or nothing.

use std::path::PathBuf;

use serde::Serialize;
use time::OffsetDateTime;
use tracing::info;
use windlass_assets::asset::{Asset, AssetError, AssetFile};
use windlass_assets::directory::{AssetDir, Committed, Draft};
use windlass_assets::ignition::Parts;
use windlass_assets::{
    AddonKeys, BootstrapAssets, BootstrapConfigs, Configs, IgnitionConfigs, Kubeconfigs, Manifests, RoleConfigs,
    SshKeys, Units,
};
use windlass_pki::{KeySource, Pki};
use windlass_spec::file::read_and_complete;
use windlass_spec::{CompleteSpec, Problems};
use windlass_steps::journal::{Journal, JournalError};

use crate::addon_keys;
use crate::logbook::is_launched;
use crate::metadata::Metadata;

/// Everything that `prepare` makes, as launch will use it: with the user's edits.
#[derive(Debug)]
pub struct Assets {
    /// What identifies the cluster.
    pub metadata: Metadata,
    /// Every decision.
    pub spec: CompleteSpec,
    /// Keys and certificates.
    pub pki: Pki,
    /// Kubeconfigs.
    pub kubeconfigs: Kubeconfigs,
    /// The keys of the bucket of runtime addons.
    pub addon_keys: AddonKeys,
    /// Manifests.
    pub manifests: Manifests,
    /// Configuration files.
    pub configs: Configs,
    /// Units.
    pub units: Units,
    /// The keys of a push, where there is one.
    pub ssh: Option<SshKeys>,
    /// Ignition configs.
    pub ignition: IgnitionConfigs,
    /// What the bootstrap machine gets after its first boot.
    pub bootstrap_assets: BootstrapAssets,
}

/// Why `prepare` stopped. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The spec is not one.
    #[error("the spec was rejected")]
    RejectSpec {
        /// All that is wrong with it.
        source: Problems,
    },
    /// The cluster of this directory exists, or may exist.
    #[error("{} belongs to a cluster that was launched", .directory.display())]
    Launched {
        /// The cluster directory.
        directory: PathBuf,
    },
    /// The journal cannot be read, so it is not known whether there is a cluster.
    #[error("the journal of {} cannot be read", .directory.display())]
    ReadJournal {
        /// The cluster directory.
        directory: PathBuf,
        /// The cause.
        source: JournalError,
    },
    /// An asset could not be made, read or written.
    #[error("the assets were not prepared")]
    PrepareAssets {
        /// The cause.
        source: AssetError,
    },
}

impl From<AssetError> for PrepareError {
    fn from(source: AssetError) -> Self {
        PrepareError::PrepareAssets { source }
    }
}

/// What `prepare` did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prepared {
    /// The cluster directory.
    pub directory: PathBuf,
    /// The name of everything that will belong to the cluster.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that no longer belong to the cluster and were removed.
    pub removed: Vec<String>,
    /// Files that a user edited and that stay as they are.
    pub kept: Vec<String>,
}

/// Prepares a cluster directory from the text of a spec.
pub fn prepare(
    directory: PathBuf,
    spec: &[u8],
    keys: &mut impl KeySource,
    now: OffsetDateTime,
) -> Result<Prepared, PrepareError> {
    let (_, decided) = read_and_complete(spec).map_err(|source| PrepareError::RejectSpec { source })?;
    refuse_launched(&directory)?;
    let mut draft = AssetDir::open(&directory)?.draft();
    draft.settle(WrittenSpec(spec.to_vec()))?;
    let assets = make(&mut draft, decided, keys, now)?;
    let Committed { written, removed, kept } = draft.commit()?;
    info!(cluster = %assets.metadata.infra_id, written = written.len(), kept = kept.len(), "cluster directory prepared");
    Ok(Prepared { directory, infra_id: assets.metadata.infra_id, written, removed, kept })
}

/// Makes every asset in order; what each needs are its parameters.
pub fn make(
    draft: &mut Draft,
    decided: CompleteSpec,
    keys: &mut impl KeySource,
    now: OffsetDateTime,
) -> Result<Assets, AssetError> {
    let previous = Previous::read(draft.dir())?;
    let spec = draft.settle(decided)?;
    let metadata = draft.settle(Metadata::make(&spec, previous.metadata.as_ref(), keys))?;
    let pki = Pki::make(&spec, previous.pki.as_ref(), keys, now).map_err(|source| AssetError::MakePki { source })?;
    let pki = draft.settle(pki)?;
    let kubeconfigs = draft.settle(Kubeconfigs::make(&spec, &pki))?;
    let addon_keys = addon_keys::make(previous.addon_keys.as_ref(), &metadata.infra_id, keys, now)?;
    let addon_keys = draft.settle(addon_keys)?;
    addon_keys::signing(&addon_keys)?;
    let manifests = Manifests::make(&spec).map_err(|source| AssetError::RenderManifests { source })?;
    let manifests = draft.settle(manifests)?;
    let configs = draft.settle(Configs::make(&spec))?;
    let units = draft.settle(Units::make(&spec))?;
    let ssh = draft.settle(SshKeys::make(&spec, previous.ssh, keys))?;
    let parts = Parts {
        spec: &spec,
        pki: &pki,
        kubeconfigs: &kubeconfigs,
        addon_keys: &addon_keys,
        manifests: &manifests,
        configs: &configs,
        units: &units,
        ssh: ssh.as_ref(),
    };
    let roles = draft.settle(RoleConfigs::make(parts))?;
    let bootstrap_assets = draft.settle(BootstrapAssets::make(parts))?;
    let bootstrap = draft.settle(BootstrapConfigs::make(parts, &roles))?;
    let ignition = IgnitionConfigs::of(roles, bootstrap);
    Ok(Assets {
        metadata,
        spec,
        pki,
        kubeconfigs,
        addon_keys,
        manifests,
        configs,
        units,
        ssh,
        ignition,
        bootstrap_assets,
    })
}

/// Reads a prepared directory as launch will use it.
pub fn load(dir: &AssetDir) -> Result<Assets, AssetError> {
    Ok(Assets {
        metadata: Metadata::read(dir)?,
        spec: CompleteSpec::read(dir)?,
        pki: <Pki as Asset>::read(dir)?,
        kubeconfigs: Kubeconfigs::read(dir)?,
        addon_keys: AddonKeys::read(dir)?,
        manifests: Manifests::read(dir)?,
        configs: Configs::read(dir)?,
        units: Units::read(dir)?,
        ssh: Option::<SshKeys>::read(dir)?,
        ignition: IgnitionConfigs::read(dir)?,
        bootstrap_assets: BootstrapAssets::read(dir)?,
    })
}

/// All that [`load`] could stop at, not only the first: whoever mends a directory does it once.
pub fn damage(dir: &AssetDir) -> Vec<AssetError> {
    fn of<A: Asset>(dir: &AssetDir) -> Option<AssetError> {
        A::read(dir).err()
    }
    let looks = [
        of::<Metadata>,
        of::<CompleteSpec>,
        of::<Pki>,
        of::<Kubeconfigs>,
        of::<AddonKeys>,
        of::<Manifests>,
        of::<Configs>,
        of::<Units>,
        of::<Option<SshKeys>>,
        of::<RoleConfigs>,
        of::<BootstrapConfigs>,
        of::<BootstrapAssets>,
    ];
    looks.iter().filter_map(|look| look(dir)).collect()
}

fn refuse_launched(directory: &std::path::Path) -> Result<(), PrepareError> {
    let path = directory.join("journal.jsonl");
    if !path.exists() {
        return Ok(());
    }
    let history =
        Journal::read(&path).map_err(|source| PrepareError::ReadJournal { directory: directory.to_owned(), source })?;
    match is_launched(&history) {
        false => Ok(()),
        true => Err(PrepareError::Launched { directory: directory.to_owned() }),
    }
}

/// What a finished `prepare` left that must live on: the identity and the keys. A run that died before its
/// end left nothing that anybody relies on.
struct Previous {
    metadata: Option<Metadata>,
    pki: Option<Pki>,
    addon_keys: Option<AddonKeys>,
    ssh: Option<SshKeys>,
}

impl Previous {
    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        if !dir.is_prepared() {
            return Ok(Previous { metadata: None, pki: None, addon_keys: None, ssh: None });
        }
        // An older windlass, which knew of no such keys, may have prepared the directory.
        let has_keys = dir.is_locked(&AddonKeys::openpgp_private());
        Ok(Previous {
            metadata: Some(Metadata::read(dir)?),
            pki: Some(<Pki as Asset>::read(dir)?),
            addon_keys: has_keys.then(|| AddonKeys::read(dir)).transpose()?,
            ssh: Option::<SshKeys>::read(dir)?,
        })
    }
}

/// The spec as written, kept beside what was made of it.
struct WrittenSpec(Vec<u8>);

impl Asset for WrittenSpec {
    const NAME: &'static str = "the spec as written";

    fn files(&self) -> Vec<AssetFile> {
        vec![AssetFile::new("cluster.yaml", self.0.clone())]
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        dir.require("cluster.yaml").map(WrittenSpec)
    }
}
