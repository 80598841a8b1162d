//! Pointers: the user-data of a machine. They hold no secret of the cluster, only where the real config is,
//! whom to trust for it, and slots that the platform fills with the machine's own short tokens.

use windlass_pki::{Authority, kubeconfig::JOIN_TOKEN_PATH};
use windlass_spec::CompleteSpec;
use windlass_spec::complete::InstanceGroup;
use windlass_spec::file::{Delivery, Topology};

use super::Parts;
use super::config::Config;

/// The slot for the token that asks for a machine's config.
pub const CONFIG_TOKEN: &str = "@CONFIG_TOKEN@";
/// The slot for the token that asks for a machine's certificates.
pub const JOIN_TOKEN: &str = "@JOIN_TOKEN@";
/// The slot for the public key that tokens are checked with.
pub const TOKEN_KEY: &str = "@TOKEN_KEY@";
/// Where a machine keeps the token that its config was asked for with, to acknowledge the config.
const CONFIG_TOKEN_PATH: &str = "/etc/windlass/config-token";
/// Where the bootstrap machine finds the key that tokens are checked with.
const TOKEN_KEY_PATH: &str = "/etc/windlass/token-key";
/// The slot for the name, with signature and expiry, of the object that holds a config.
pub const BOOTSTRAP_OBJECT: &str = "@BOOTSTRAP_OBJECT@";

/// The slot for where the bootstrap machine's assets are and what they are known by, as base64.
///
/// What stands in an encoded place is encoded itself, so that the pointer is a config also before it is filled in.
pub const BOOTSTRAP_ASSETS: &str = "BOOTSTRAP/ASSETS";
/// Where the bootstrap machine finds that.
const ASSETS_PATH: &str = "/etc/windlass/bootstrap-assets";

/// The bootstrap machine's: its config is an object that is deleted after use. Who signs the machines' tokens is known
/// only once the platform has made the cluster's network, so the key is not in that object; nor is the URL of the assets
/// that the machine fetches, which expires.
pub(super) fn bootstrap(spec: &CompleteSpec) -> Config {
    let config = Config::new().merge(object_url(spec, BOOTSTRAP_OBJECT), None).slot(TOKEN_KEY_PATH, TOKEN_KEY);
    match spec.spec.bootstrap_assets {
        Delivery::Pull => config.encoded_slot(ASSETS_PATH, BOOTSTRAP_ASSETS),
        Delivery::Push => config,
    }
}

/// The URL of an object as machines ask for it: its name, with what the platform adds to it.
pub fn object_url(spec: &CompleteSpec, object: &str) -> String {
    format!("http://objects.internal.{}/{object}", spec.spec.domain)
}

/// A group's: the role's config, and the group's own if a user added something to it.
pub(super) fn group(parts: Parts<'_>, group: &InstanceGroup, has_own: bool) -> Config {
    let base = base(parts.spec);
    let mut config = Config::new()
        .trust(&parts.pki.certificate(Authority::MachineConfig).to_pem())
        .merge(format!("{base}/config/{}", group.role), Some(CONFIG_TOKEN));
    if has_own {
        config = config.merge(format!("{base}/config/{}/{}", group.role, group.name), Some(CONFIG_TOKEN));
    }
    config.slot(JOIN_TOKEN_PATH, JOIN_TOKEN).slot(CONFIG_TOKEN_PATH, CONFIG_TOKEN)
}

/// Who serves configs: the machine-config server, or where there is no bootstrap machine, the object store.
fn base(spec: &CompleteSpec) -> String {
    match spec.spec.topology {
        Topology::SelfHosted => format!("https://{}:22623", spec.api_name()),
        Topology::Volumes => format!("http://objects.internal.{}", spec.spec.domain),
    }
}
