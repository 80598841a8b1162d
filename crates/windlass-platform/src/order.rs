//! What a platform is asked for: a complete spec and the configs that its machines boot with.

use windlass_assets::IgnitionConfigs;
use windlass_spec::CompleteSpec;
use windlass_spec::complete::{InstanceGroup, Machine, machines};
use windlass_spec::file::{Role, Topology};

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
    /// The authorities behind the API and the machine-config server, PEM: the balancer's checks trust them.
    pub authorities: &'a str,
}

impl<'a> Order<'a> {
    /// Whether there is a bootstrap machine.
    pub fn has_bootstrap(&self) -> bool {
        self.spec.spec.topology == Topology::SelfHosted
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
