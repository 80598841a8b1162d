//! What launch will make, before it makes it: every machine, file, unit, certificate, flag and resource.
//! A plan is deterministic, holds digests instead of contents, and names the files that a user edited.

mod resources;
mod text;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::Serialize;
use time::OffsetDateTime;
use windlass_assets::asset::AssetError;
use windlass_assets::bootstrap_assets::{Document, DocumentFile};
use windlass_assets::directory::AssetDir;
use windlass_assets::ignition::{FileEntry, UnitEntry, contents_of};
use windlass_assets::lock::digest;
use windlass_pki::Listing;
use windlass_spec::complete::{Machine, components::arguments, machines};
use windlass_spec::file::Topology;
use windlass_spec::{CompleteSpec, GroupName};

pub use resources::Resource;

use crate::prepare::{Assets, load};

/// What launch will make.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The name of everything that will belong to the cluster.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// Files that a user edited since `prepare`.
    pub edited: Vec<String>,
    /// Every machine, the bootstrap machine included.
    pub machines: Vec<PlannedMachine>,
    /// What each kind of machine gets on its first boot, by the name of its config, and what the bootstrap machine gets after.
    pub configs: BTreeMap<String, MachineConfig>,
    /// Every certificate that exists before launch.
    pub certificates: Vec<PlannedCertificate>,
    /// The arguments of every component.
    pub flags: BTreeMap<String, Vec<String>>,
    /// Every resource of the platform.
    pub resources: Vec<Resource>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedMachine {
    /// Its name, host name and Node name.
    pub name: String,
    /// What it is for: `master`, `worker` or `bootstrap`.
    pub role: &'static str,
    /// The group it belongs to; the bootstrap machine belongs to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// Its address on the machines' network.
    pub address: Ipv4Addr,
    /// The etcd member that it carries first, if it carries one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_index: Option<u32>,
    /// The config that its user-data is.
    pub user_data: String,
}

/// What a kind of machine gets on its first boot.
#[derive(Debug, Serialize)]
pub struct MachineConfig {
    /// The files that Ignition writes.
    pub files: Vec<PlannedFile>,
    /// The units that Ignition writes.
    pub units: Vec<PlannedUnit>,
}

/// A file on a machine.
#[derive(Debug, Serialize)]
pub struct PlannedFile {
    /// Where it lies.
    pub path: String,
    /// Its permissions, in octal.
    pub mode: String,
    /// The digest of its contents.
    pub digest: String,
}

/// A certificate.
#[derive(Debug, Serialize)]
pub struct PlannedCertificate {
    /// Its row in the table.
    pub name: &'static str,
    /// The authority that signed it.
    pub signer: &'static str,
    /// What it answers to.
    pub sans: Vec<String>,
    /// The day on which it ends.
    pub expiry: String,
}

/// A unit on a machine.
#[derive(Debug, Serialize)]
pub struct PlannedUnit {
    /// Its name.
    pub name: String,
    /// Whether it starts by itself.
    pub enabled: bool,
    /// The digest of its text.
    pub digest: String,
}

impl Plan {
    /// The plan of a prepared directory.
    pub fn of(dir: &AssetDir) -> Result<Self, AssetError> {
        let assets = load(dir)?;
        let machines = planned_machines(&assets.spec);
        Ok(Plan {
            infra_id: assets.metadata.infra_id.clone(),
            edited: dir.edited()?,
            configs: configs(&assets),
            certificates: certificates(&assets),
            flags: flags(&assets),
            resources: resources::of(&assets, &machines),
            machines,
        })
    }
}

fn planned_machines(spec: &CompleteSpec) -> Vec<PlannedMachine> {
    let bootstrap = (spec.spec.topology == Topology::SelfHosted).then(|| PlannedMachine {
        name: "bootstrap".to_owned(),
        role: "bootstrap",
        group: None,
        address: spec.spec.network.bootstrap,
        etcd_index: None,
        user_data: "bootstrap-pointer".to_owned(),
    });
    let planned = |machine: Machine| PlannedMachine {
        name: machine.name.to_string(),
        role: machine.role.as_str(),
        user_data: format!("pointers/{}", machine.group),
        group: Some(machine.group),
        address: machine.address,
        etcd_index: machine.etcd_index,
    };
    bootstrap.into_iter().chain(machines(spec).into_iter().map(planned)).collect()
}

/// The parts of an Ignition config that a plan shows.
#[derive(serde::Deserialize)]
struct Shown {
    #[serde(default)]
    storage: ShownStorage,
    #[serde(default)]
    systemd: ShownSystemd,
}

#[derive(Default, serde::Deserialize)]
struct ShownStorage {
    #[serde(default)]
    files: Vec<FileEntry>,
}

#[derive(Default, serde::Deserialize)]
struct ShownSystemd {
    #[serde(default)]
    units: Vec<UnitEntry>,
}

fn configs(assets: &Assets) -> BTreeMap<String, MachineConfig> {
    let mut configs = BTreeMap::new();
    for (path, text) in assets.ignition.iter() {
        let name = path.trim_start_matches("assets/").trim_end_matches(".ign").to_owned();
        // A config that a user edited into something else shows as empty; launch gives it to Ignition as it is.
        let Ok(shown) = serde_json::from_str::<Shown>(text.expose()) else {
            configs.insert(name, MachineConfig { files: Vec::new(), units: Vec::new() });
            continue;
        };
        let files = shown.storage.files.iter().map(planned_file).collect();
        let units = shown.systemd.units.iter().map(planned_unit).collect();
        configs.insert(name, MachineConfig { files, units });
    }
    if let Some(text) = assets.bootstrap_assets.text() {
        let files = Document::parse(text.as_bytes()).map(|document| document.files().map(delivered_file).collect());
        // The same holds for a document.
        let files = files.unwrap_or_default();
        configs.insert("bootstrap-assets".to_owned(), MachineConfig { files, units: Vec::new() });
    }
    configs
}

fn delivered_file(file: &DocumentFile) -> PlannedFile {
    let digest = digest(file.contents.expose().as_bytes());
    PlannedFile { path: file.path(), mode: format!("{:04o}", file.mode), digest }
}

fn planned_file(entry: &FileEntry) -> PlannedFile {
    let contents = contents_of(entry).unwrap_or_else(|| entry.contents.source.clone().into_bytes());
    PlannedFile { path: entry.path.clone(), mode: format!("{:04o}", entry.mode), digest: digest(&contents) }
}

fn planned_unit(entry: &UnitEntry) -> PlannedUnit {
    let enabled = entry.enabled.unwrap_or(false);
    PlannedUnit { name: entry.name.clone(), enabled, digest: digest(entry.contents.as_bytes()) }
}

fn certificates(assets: &Assets) -> Vec<PlannedCertificate> {
    // The moment matters only for the days that are left, which a plan does not show.
    let listing = Listing::of(&assets.pki, OffsetDateTime::UNIX_EPOCH);
    let planned = |listed: windlass_pki::list::Listed| PlannedCertificate {
        name: listed.name,
        signer: listed.signer,
        sans: listed.sans.iter().map(ToString::to_string).collect(),
        expiry: listed.expiry.date().to_string(),
    };
    listing.certificates.into_iter().map(planned).collect()
}

fn flags(assets: &Assets) -> BTreeMap<String, Vec<String>> {
    let components = &assets.spec.spec.components;
    [
        ("etcd", &components.etcd.flags),
        ("kube-apiserver", &components.kube_api_server.flags),
        ("kube-controller-manager", &components.kube_controller_manager.flags),
        ("kube-proxy", &components.kube_proxy.flags),
        ("kube-scheduler", &components.kube_scheduler.flags),
        ("kubelet", &components.kubelet.flags),
    ]
    .into_iter()
    .map(|(name, flags)| (name.to_owned(), arguments(flags)))
    .collect()
}
