//! `metadata.json`: what identifies a cluster's resources, drawn once and kept.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use windlass_assets::asset::{Asset, AssetError, AssetFile};
use windlass_assets::directory::AssetDir;
use windlass_pki::KeySource;
use windlass_spec::{CompleteSpec, KubeVersion};
use windlass_steps::host::HostError;

/// Where it lies in the cluster directory.
pub(crate) const PATH: &str = "metadata.json";
/// Letters and digits that cannot be taken for each other.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// What identifies a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name of everything that belongs to the cluster: `<name>-<5 characters>`.
    #[serde(rename = "infraID")]
    pub infra_id: String,
    /// The cluster's name.
    pub cluster_name: String,
    /// The cluster's domain.
    pub domain: String,
    /// The platform's name.
    pub platform: String,
    /// The Kubernetes version.
    pub kubernetes_version: KubeVersion,
    /// The port on 127.0.0.1 that reaches the API, once launch has got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_port: Option<u16>,
}

impl Metadata {
    /// The metadata of a spec; the random part of an earlier infra-id is kept.
    pub fn make(spec: &CompleteSpec, previous: Option<&Metadata>, keys: &mut impl KeySource) -> Self {
        let name = spec.metadata.name.as_str();
        let suffix = previous.and_then(|m| m.infra_id.rsplit_once('-')).map(|(_, suffix)| suffix.to_owned());
        let suffix = suffix.unwrap_or_else(|| draw(keys));
        Metadata {
            infra_id: format!("{name}-{suffix}"),
            cluster_name: name.to_owned(),
            domain: spec.spec.domain.to_string(),
            platform: spec.spec.platform.as_str().to_owned(),
            kubernetes_version: spec.spec.kubernetes_version,
            api_port: None,
        }
    }

    /// The metadata of a cluster directory, whatever else of it is missing or damaged; nothing if there is none.
    pub fn find(directory: &Path) -> Result<Option<Self>, AssetError> {
        let path = directory.join(PATH);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                let source = HostError::ReadFile { path, source };
                return Err(AssetError::UseDirectory { directory: directory.to_owned(), source });
            }
        };
        parse(&bytes).map(Some)
    }

    /// The tag that every resource of the cluster carries.
    pub fn tag(&self) -> String {
        format!("kubernetes.io/cluster/{}=owned", self.infra_id)
    }
}

fn draw(keys: &mut impl KeySource) -> String {
    let serial = keys.serial("infra-id");
    let random = serial.as_bytes().iter().rev().take(5);
    random.map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

impl Asset for Metadata {
    const NAME: &'static str = "the cluster's metadata";

    fn files(&self) -> Vec<AssetFile> {
        let text = serde_json::to_string_pretty(self).expect("texts have a JSON form");
        vec![AssetFile::new(PATH, text + "\n")]
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        parse(&dir.require(PATH)?)
    }
}

fn parse(bytes: &[u8]) -> Result<Metadata, AssetError> {
    serde_json::from_slice(bytes).map_err(|error| AssetError::ReadAsset {
        path: PATH.to_owned(),
        asset: Metadata::NAME,
        reason: error.to_string(),
    })
}
