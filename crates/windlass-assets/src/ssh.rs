//! The keys with which launch and the bootstrap machine know each other, where launch pushes over SSH: a host key that only
//! this machine has, and a client key that only the cluster directory has. Both end with the machine.

use windlass_pki::{KeySource, SshKey, SshKeyError};
use windlass_spec::CompleteSpec;
use windlass_spec::file::{Delivery, Topology};

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

const HOST: &str = "assets/ssh/bootstrap_host_key";
const CLIENT: &str = "assets/ssh/client_key";

/// The two keys of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKeys {
    /// What the bootstrap machine proves itself with.
    pub host: SshKey,
    /// What launch proves itself with.
    pub client: SshKey,
}

impl SshKeys {
    /// The keys of a cluster whose bootstrap machine is pushed to; those that there are live on.
    pub fn make(spec: &CompleteSpec, previous: Option<SshKeys>, keys: &mut impl KeySource) -> Option<Self> {
        let pushed = spec.spec.topology == Topology::SelfHosted && spec.spec.bootstrap_assets == Delivery::Push;
        let draw = || SshKeys { host: keys.ssh_key("bootstrap host"), client: keys.ssh_key("client") };
        pushed.then(|| previous.unwrap_or_else(draw))
    }

    /// Keys from the texts of their private files.
    pub fn parse(host: &str, client: &str) -> Result<Self, SshKeyError> {
        Ok(SshKeys { host: SshKey::parse(host)?, client: SshKey::parse(client)? })
    }
}

impl Asset for Option<SshKeys> {
    const NAME: &'static str = "SSH keys";

    fn files(&self) -> Vec<AssetFile> {
        let file = |path, key: &SshKey| AssetFile::new(path, key.to_text().expose().as_bytes());
        self.iter().flat_map(|keys| [file(HOST, &keys.host), file(CLIENT, &keys.client)]).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        if dir.get(HOST)?.is_none() && dir.get(CLIENT)?.is_none() {
            return Ok(None);
        }
        let text = |path| dir.require_text(path, Self::NAME);
        let refuse = |error: SshKeyError| AssetError::ReadAsset {
            path: format!("{HOST} or {CLIENT}"),
            asset: Self::NAME,
            reason: error.to_string(),
        };
        SshKeys::parse(&text(HOST)?, &text(CLIENT)?).map(Some).map_err(refuse)
    }
}
