//! What a platform is asked for: a complete spec and the configs that its machines boot with.

use std::path::PathBuf;

use windlass_assets::{BootstrapAssets, IgnitionConfigs};
use windlass_spec::CompleteSpec;
use windlass_spec::complete::{InstanceGroup, Machine, machines};
use windlass_spec::file::{Delivery, Role, Topology};

use crate::PlatformError;

/// The name of the machine that starts the control plane and goes away. No group's machine can have it: theirs end in a
/// number.
pub const BOOTSTRAP: &str = "bootstrap";

/// The tag of a master that says which etcd member it carries.
pub const ETCD_INDEX: &str = "windlass.dev/etcd-index";

/// What a platform is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Every decision.
    pub spec: &'a CompleteSpec,
    /// What machines boot with.
    pub ignition: &'a IgnitionConfigs,
    /// What the bootstrap machine gets after that.
    pub bootstrap_assets: &'a BootstrapAssets,
    /// The authorities behind the API and the machine-config server, PEM: the balancer's checks trust them.
    pub authorities: &'a str,
    /// What the cluster's bucket holds from the beginning.
    pub bucket: &'a [BucketFile],
}

/// The first part of the keys of the cluster's bucket. What is below it every machine may read, without a credential.
pub const BUCKET: &str = "addons";

/// A file of the cluster's bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFile {
    /// Its key, below [`BUCKET`].
    pub key: String,
    /// What is in it.
    pub content: BucketContent,
}

/// What is in a file of the cluster's bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketContent {
    /// This text.
    Text(String),
    /// What a file of this host holds.
    File(ArtifactFile),
}

/// A file of the artifact cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    /// Where it is.
    pub path: PathBuf,
    /// `sha256:…` of its bytes.
    pub digest: String,
}

impl<'a> Order<'a> {
    /// Whether there is a bootstrap machine.
    pub fn has_bootstrap(&self) -> bool {
        self.spec.spec.topology == Topology::SelfHosted
    }

    /// What the bootstrap machine fetches, if it fetches anything.
    pub fn pulled_assets(&self) -> Option<&'a str> {
        match self.spec.spec.bootstrap_assets {
            Delivery::Pull => self.bootstrap_assets.text(),
            Delivery::Push => None,
        }
    }

    /// What launch pushes to the bootstrap machine, if it pushes anything.
    pub fn pushed_assets(&self) -> Option<&'a str> {
        match self.spec.spec.bootstrap_assets {
            Delivery::Pull => None,
            Delivery::Push => self.bootstrap_assets.text(),
        }
    }

    /// Every machine but the bootstrap machine.
    pub fn machines(&self) -> Vec<Machine> {
        machines(self.spec)
    }

    /// The names of the masters.
    pub fn masters(&self) -> Vec<String> {
        let masters = self.machines().into_iter().filter(|machine| machine.role == Role::Master);
        masters.map(|machine| machine.name.to_string()).collect()
    }

    /// Every machine's name, the bootstrap machine's first.
    pub fn names(&self) -> Vec<String> {
        let bootstrap = self.has_bootstrap().then(|| BOOTSTRAP.to_owned());
        bootstrap.into_iter().chain(self.machines().iter().map(|machine| machine.name.to_string())).collect()
    }

    /// The group that a machine belongs to; the bootstrap machine is as large as the first master.
    pub(crate) fn group(&self, machine: Option<&Machine>) -> Result<&'a InstanceGroup, PlatformError> {
        let belongs = |group: &&InstanceGroup| match machine {
            Some(machine) => group.name == machine.group,
            None => group.role == Role::Master,
        };
        let group = self.spec.spec.instance_groups.iter().find(belongs);
        group.ok_or_else(|| PlatformError::act("size the machines", "the spec has no such group"))
    }

    /// A config by its path below the cluster directory.
    pub(crate) fn config(&self, path: &str) -> Result<&'a str, PlatformError> {
        let found = self.ignition.iter().find(|(name, _)| *name == path);
        let missing = || PlatformError::act(format!("read {path}"), "it is not among the assets");
        found.map(|(_, text)| text.expose().as_str()).ok_or_else(missing)
    }
}
