//! Ignition configs (spec 3.3): what each kind of machine is on its first boot. The bootstrap machine's
//! holds everything the throw-away machine needs; a role's is one document for all its machines; a
//! group's holds what a user added to that group; pointers are the small user-data that lead to these.

mod config;
mod group;
mod pointer;
mod role;

use std::collections::BTreeMap;

use windlass_pki::Pki;
use windlass_spec::file::Topology;
use windlass_spec::{CompleteSpec, Secret};

use crate::asset::{Asset, AssetError, AssetFile};
use crate::config::Configs;
use crate::directory::AssetDir;
use crate::kubeconfig::Kubeconfigs;
use crate::manifest::Manifests;
use crate::unit::Units;

pub use config::{FileEntry, UnitEntry, contents_of};
pub use pointer::{BOOTSTRAP_OBJECT, CONFIG_TOKEN, JOIN_TOKEN, TOKEN_KEY};

/// The parts that Ignition configs are made from.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The complete spec.
    pub spec: &'a CompleteSpec,
    /// Keys and certificates.
    pub pki: &'a Pki,
    /// Kubeconfigs.
    pub kubeconfigs: &'a Kubeconfigs,
    /// Manifests.
    pub manifests: &'a Manifests,
    /// Configuration files.
    pub configs: &'a Configs,
    /// Units.
    pub units: &'a Units,
}

/// Every Ignition config of a cluster, by its path below the cluster directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnitionConfigs {
    texts: BTreeMap<String, Secret<String>>,
}

impl IgnitionConfigs {
    /// Renders every config. The order is that of need: the bootstrap machine serves the others.
    pub fn make(parts: Parts<'_>) -> Self {
        let spec = &parts.spec.spec;
        let mut texts = BTreeMap::new();
        let mut put = |path: String, text: String| texts.insert(path, Secret::new(text));
        let master = role::master(parts).to_text();
        let worker = role::worker(parts).to_text();
        let groups: Vec<(String, String)> = spec
            .instance_groups
            .iter()
            .filter_map(|g| group::config(g).map(|config| (g.name.to_string(), config.to_text())))
            .collect();
        for group in &spec.instance_groups {
            let own = groups.iter().any(|(name, _)| *name == group.name.as_str());
            put(format!("assets/pointers/{}.ign", group.name), pointer::group(parts, group, own).to_text());
        }
        if spec.topology == Topology::SelfHosted {
            put("assets/bootstrap.ign".to_owned(), role::bootstrap(parts, &master, &worker, &groups).to_text());
            // A group may be called bootstrap too, so the machine's pointer has a place of its own.
            put("assets/bootstrap-pointer.ign".to_owned(), pointer::bootstrap(parts.spec).to_text());
        }
        put("assets/master.ign".to_owned(), master);
        put("assets/worker.ign".to_owned(), worker);
        for (name, text) in groups {
            put(format!("assets/groups/{name}.ign"), text);
        }
        IgnitionConfigs { texts }
    }

    /// The configs with their paths, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret<String>)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text))
    }
}

impl Asset for IgnitionConfigs {
    const NAME: &'static str = "Ignition configs";

    fn files(&self) -> Vec<AssetFile> {
        self.texts.iter().map(|(path, text)| AssetFile::new(path, text.expose().as_bytes())).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let mut texts = BTreeMap::new();
        for path in dir.known("assets/").into_iter().filter(|p| p.ends_with(".ign")) {
            let text = dir.require_text(&path, Self::NAME)?;
            texts.insert(path, Secret::new(text));
        }
        Ok(IgnitionConfigs { texts })
    }
}
