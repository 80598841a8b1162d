//! Who this machine is: what the node flow learnt from the platform and keeps in `/etc/windlass/machine.json`, from
//! where the pre-start agent, the joining unit and the pods of the machine read it.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_cloud_api::Role;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};

use crate::places::Places;

const LIMIT: u64 = 64 << 10;

/// Who a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Its name, host name and Node name.
    pub name: String,
    /// The cluster's infra-id.
    pub cluster: String,
    /// The cluster's domain.
    pub domain: String,
    /// What it is for.
    pub role: Role,
    /// Its address.
    pub address: IpAddr,
    /// The etcd member that it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_index: Option<u32>,
}

/// Why a machine does not know who it is.
#[derive(Debug, Error)]
pub enum FactsError {
    /// The file cannot be read or written.
    #[error("cannot use the facts of this machine")]
    UseFile {
        /// Why not.
        source: HostError,
    },
    /// The file is none.
    #[error("cannot understand {}", .path.display())]
    Understand {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Facts {
    /// What the node flow has written down.
    pub fn read(places: &Places) -> Result<Self, FactsError> {
        let path = places.facts();
        let bytes = read_file(&path, LIMIT).map_err(|source| FactsError::UseFile { source })?;
        serde_json::from_slice(&bytes).map_err(|source| FactsError::Understand { path, source })
    }

    /// Writes them down.
    pub fn write(&self, places: &Places) -> Result<(), FactsError> {
        let path = places.facts();
        let text = serde_json::to_vec(self).expect("facts are plain data");
        let folder = path.parent().unwrap_or(&path);
        let written = make_dir(folder, Mode::PUBLIC_DIR).and_then(|_| write_file(&path, text, Mode::PUBLIC));
        written.map_err(|source| FactsError::UseFile { source })
    }

    /// The API as machines reach it.
    pub fn api_server(&self) -> String {
        format!("https://api.internal.{}:6443", self.domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert!(Facts::read(&places).is_err());
        let facts = Facts {
            name: "masters-0".into(),
            cluster: "demo-abcde".into(),
            domain: "demo.test".into(),
            role: Role::Master,
            address: [10, 0, 0, 2].into(),
            etcd_index: Some(0),
        };
        facts.write(&places).unwrap();
        assert_eq!(Facts::read(&places).unwrap(), facts);
    }
}
