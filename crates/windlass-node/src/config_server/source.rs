//! Where the server finds what it serves, and what it serves with. On the bootstrap machine Ignition has written it; in
//! the cluster it is mounted from Secrets, whose keys are file names and cannot have folders.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::body::Bytes;
use thiserror::Error;
use windlass_cloud_api::Role;
use windlass_spec::complete::CompleteSpec;
use windlass_steps::host::{HostError, read_file};

use crate::places::Places;

const LIMIT: u64 = 16 << 20;

/// A config is not there.
#[derive(Debug, Error)]
#[error("cannot read the config to serve")]
pub struct ConfigError {
    source: HostError,
}

/// Where everything is.
#[derive(Debug, Clone)]
pub struct Source {
    /// The complete spec as JSON.
    pub spec: PathBuf,
    /// The key that tokens are checked with.
    pub token_key: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The key of it.
    pub key: PathBuf,
    configs: PathBuf,
    group_prefix: &'static str,
}

impl Source {
    /// As on the bootstrap machine.
    pub fn bootstrap(places: &Places) -> Self {
        Source {
            spec: places.cluster(),
            token_key: places.token_key(),
            certificate: places.pki("machine-config-server.crt"),
            key: places.pki("machine-config-server.key"),
            configs: places.machine_config(),
            group_prefix: "groups/",
        }
    }

    /// As in a pod: everything in `/etc/windlass/machine-config-server`.
    pub fn in_cluster(places: &Places) -> Self {
        let folder = places.machine_config_server();
        Source {
            spec: folder.join("cluster.json"),
            token_key: folder.join("token-key"),
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            configs: folder,
            group_prefix: "group-",
        }
    }
}

/// The configs, read once; every answer shares them.
#[derive(Debug, Clone)]
pub struct Configs {
    master: Bytes,
    worker: Bytes,
    groups: BTreeMap<String, Bytes>,
}

impl Configs {
    /// Reads those of both roles, and those of groups that have one.
    pub fn read(source: &Source, spec: &CompleteSpec) -> Result<Self, ConfigError> {
        let read = |name: &str| read_file(source.configs.join(name), LIMIT).map(Bytes::from);
        let failed = |source| ConfigError { source };
        let mut groups = BTreeMap::new();
        for group in &spec.spec.instance_groups {
            let name = format!("{}{}.ign", source.group_prefix, group.name);
            match read(&name) {
                Ok(text) => drop(groups.insert(group.name.to_string(), text)),
                Err(HostError::ReadFile { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(failed(source)),
            }
        }
        Ok(Configs { master: read("master.ign").map_err(failed)?, worker: read("worker.ign").map_err(failed)?, groups })
    }

    /// The config of a role, or of a group; the bootstrap machine's is not served here.
    pub fn find(&self, role: Role, group: Option<&str>) -> Option<Bytes> {
        match (group, role) {
            (Some(group), _) => self.groups.get(group).cloned(),
            (None, Role::Master) => Some(self.master.clone()),
            (None, Role::Worker) => Some(self.worker.clone()),
            (None, Role::Bootstrap) => None,
        }
    }
}
