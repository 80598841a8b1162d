//! Where machines come from: one trait, one module per platform.
//!
//! This crate is for turning assets into machines, networks, names and balancers ([`Platform`], from an [`Order`]), and for
//! removing them again. It is not for what happens on those machines: whoever wants to know asks them through
//! [`Platform::exec`] or over SSH ([`ssh::Session`]). [`local::Local`] is the small cloud on this host; [`fake::Fake`] is a double that flows are tested
//! with.

mod error;
pub mod fake;
pub mod local;
mod order;
mod seen;
pub mod ssh;

use windlass_assets::SshKeys;

pub use error::PlatformError;
pub use order::{ArtifactFile, BOOTSTRAP, BUCKET, BucketContent, BucketFile, ETCD_INDEX, Order};
pub use seen::{Backend, Executed, MachineState, Provisioned, Receipt, Retirement, SeenMachine, Task};

/// Makes, shows and removes the resources of one cluster. Every call may be repeated: what is there already is left as it
/// is, so that a run which was killed can go on.
#[expect(async_fn_in_trait, reason = "flows are joined, never spawned; a Send bound would infect every platform")]
pub trait Platform {
    /// Everything about the platform itself that would stop a launch; nothing is changed by looking.
    async fn problems(&self, order: &Order<'_>) -> Vec<String>;

    /// Makes the network, the zone with its records, the balancer, the cluster's bucket and the objects that the bootstrap
    /// machine starts from.
    async fn provision(&self, order: &Order<'_>) -> Result<Provisioned, PlatformError>;

    /// What the network still waits for; nothing once it is there.
    async fn network_trouble(&self) -> Result<Option<String>, PlatformError>;

    /// Opens the way from this host to the API and says at which port; needs the network.
    async fn open_api(&self, order: &Order<'_>) -> Result<u16, PlatformError>;

    /// Makes every machine of the order that is not there yet, the bootstrap machine first.
    async fn create_machines(&self, order: &Order<'_>) -> Result<(), PlatformError>;

    /// Every machine of the cluster; none if there is no cluster.
    async fn machines(&self) -> Result<Vec<SeenMachine>, PlatformError>;

    /// What the balancer thinks of each machine behind it.
    async fn backends(&self) -> Result<Vec<Backend>, PlatformError>;

    /// Runs a command on a machine.
    async fn exec(&self, machine: &str, task: &Task) -> Result<Executed, PlatformError>;

    /// Runs a command on a machine over SSH, as soon as its sshd answers; the way to it is closed again.
    async fn exec_over_ssh(&self, machine: &str, keys: &SshKeys, task: &Task) -> Result<Executed, PlatformError>;

    /// The end of what a machine printed on its console.
    async fn console(&self, machine: &str) -> Result<String, PlatformError>;

    /// Removes the bootstrap machine, its config, its assets and its place behind the balancer.
    async fn retire_bootstrap(&self, order: &Order<'_>) -> Result<Retirement, PlatformError>;

    /// What is still there of the bootstrap machine, found by looking; nothing once it has gone.
    async fn bootstrap_remains(&self) -> Result<Vec<String>, PlatformError>;

    /// Whether anything of the cluster is there, or may be.
    async fn is_there(&self) -> Result<bool, PlatformError>;

    /// Removes everything that carries the cluster's tag, and says what was there and what is left.
    async fn destroy(&self) -> Result<Receipt, PlatformError>;
}
