//! Ignition configs (spec 3.3): what each kind of machine is on its first boot. The bootstrap machine's
//! holds what the throw-away machine needs until its assets follow; a role's is one document for all its machines; a
//! group's holds what a user added to that group; pointers are the small user-data that lead to these.

mod config;
mod group;
mod pointer;
mod role;
mod ssh;

use std::collections::BTreeMap;

use windlass_pki::Pki;
use windlass_spec::file::Topology;
use windlass_spec::{CompleteSpec, Secret};

use crate::addon_keys::AddonKeys;
use crate::asset::{Asset, AssetError, AssetFile};
use crate::config::Configs;
use crate::directory::AssetDir;
use crate::kubeconfig::Kubeconfigs;
use crate::manifest::Manifests;
use crate::ssh::SshKeys;
use crate::unit::Units;

pub use config::{FileEntry, UnitEntry, contents_of};
pub use pointer::{BOOTSTRAP_ASSETS, BOOTSTRAP_OBJECT, CONFIG_TOKEN, JOIN_TOKEN, TOKEN_KEY, object_url};
pub(crate) use role::bootkube_secrets;

/// The parts that Ignition configs are made from.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The complete spec.
    pub spec: &'a CompleteSpec,
    /// Keys and certificates.
    pub pki: &'a Pki,
    /// Kubeconfigs.
    pub kubeconfigs: &'a Kubeconfigs,
    /// The keys of the bucket of runtime addons, of which machines get the public halves.
    pub addon_keys: &'a AddonKeys,
    /// Manifests.
    pub manifests: &'a Manifests,
    /// Configuration files.
    pub configs: &'a Configs,
    /// Units.
    pub units: &'a Units,
    /// The keys of a push, where there is one.
    pub ssh: Option<&'a SshKeys>,
}

/// What each machine that stays is on its first boot, by its path below the cluster directory: the configs of roles and of
/// groups, and the pointers that lead to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleConfigs {
    texts: BTreeMap<String, Secret<String>>,
}

/// What the bootstrap machine is: it carries the configs of the others, which it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapConfigs {
    texts: BTreeMap<String, Secret<String>>,
}

/// Every Ignition config of a cluster, by its path below the cluster directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnitionConfigs {
    texts: BTreeMap<String, Secret<String>>,
}

const MASTER: &str = "assets/master.ign";
const WORKER: &str = "assets/worker.ign";
const BOOTSTRAP: &str = "assets/bootstrap.ign";
/// A group may be called bootstrap too, so the machine's pointer has a place of its own.
const BOOTSTRAP_POINTER: &str = "assets/bootstrap-pointer.ign";
const GROUPS: &str = "assets/groups/";

impl RoleConfigs {
    /// Renders them.
    pub fn make(parts: Parts<'_>) -> Self {
        let mut texts = BTreeMap::new();
        let mut put = |path: String, text: String| texts.insert(path, Secret::new(text));
        put(MASTER.to_owned(), role::master(parts).to_text());
        put(WORKER.to_owned(), role::worker(parts).to_text());
        for group in &parts.spec.spec.instance_groups {
            let own = group::config(group);
            put(format!("assets/pointers/{}.ign", group.name), pointer::group(parts, group, own.is_some()).to_text());
            if let Some(config) = own {
                put(format!("{GROUPS}{}.ign", group.name), config.to_text());
            }
        }
        RoleConfigs { texts }
    }

    fn text(&self, path: &str) -> &str {
        self.texts.get(path).map(|text| text.expose().as_str()).unwrap_or_default()
    }

    /// The configs of groups that have one, by the group's name.
    fn groups(&self) -> Vec<(String, String)> {
        let name = |path: &str| path.strip_prefix(GROUPS)?.strip_suffix(".ign").map(str::to_owned);
        self.texts.iter().filter_map(|(path, text)| Some((name(path)?, text.expose().clone()))).collect()
    }
}

impl BootstrapConfigs {
    /// Renders them around the others' configs as they will be used. Other topologies have no such machine.
    pub fn make(parts: Parts<'_>, roles: &RoleConfigs) -> Self {
        if parts.spec.spec.topology != Topology::SelfHosted {
            return BootstrapConfigs { texts: BTreeMap::new() };
        }
        let config = role::bootstrap(parts, roles.text(MASTER), roles.text(WORKER), &roles.groups());
        let texts = [
            (BOOTSTRAP.to_owned(), Secret::new(config.to_text())),
            (BOOTSTRAP_POINTER.to_owned(), Secret::new(pointer::bootstrap(parts.spec).to_text())),
        ];
        BootstrapConfigs { texts: texts.into() }
    }
}

impl IgnitionConfigs {
    /// All of them.
    pub fn of(roles: RoleConfigs, bootstrap: BootstrapConfigs) -> Self {
        IgnitionConfigs { texts: roles.texts.into_iter().chain(bootstrap.texts).collect() }
    }

    /// As the files of a cluster directory say, edits included.
    pub fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        Ok(IgnitionConfigs::of(RoleConfigs::read(dir)?, BootstrapConfigs::read(dir)?))
    }

    /// The configs with their paths, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret<String>)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text))
    }
}

impl Asset for RoleConfigs {
    const NAME: &'static str = "Ignition configs";

    fn files(&self) -> Vec<AssetFile> {
        files(&self.texts)
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        Ok(RoleConfigs { texts: read(dir, Self::NAME, |path| !is_bootstrap(path))? })
    }
}

impl Asset for BootstrapConfigs {
    const NAME: &'static str = "Ignition configs of the bootstrap machine";

    fn files(&self) -> Vec<AssetFile> {
        files(&self.texts)
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        Ok(BootstrapConfigs { texts: read(dir, Self::NAME, is_bootstrap)? })
    }
}

fn is_bootstrap(path: &str) -> bool {
    path == BOOTSTRAP || path == BOOTSTRAP_POINTER
}

fn files(texts: &BTreeMap<String, Secret<String>>) -> Vec<AssetFile> {
    texts.iter().map(|(path, text)| AssetFile::new(path, text.expose().as_bytes())).collect()
}

fn read(
    dir: &AssetDir,
    name: &'static str,
    is_of: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Secret<String>>, AssetError> {
    let mut texts = BTreeMap::new();
    for path in dir.known("assets/").into_iter().filter(|path| path.ends_with(".ign") && is_of(path)) {
        let text = dir.require_text(&path, name)?;
        texts.insert(path, Secret::new(text));
    }
    Ok(texts)
}
