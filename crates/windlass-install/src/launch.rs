//! The `launch` flow: from a prepared directory to a cluster that a user can use.
//!
//! 1. [`Preflight`]: nothing stands in the way
//! 2. [`CreateNetwork`]: network, names, balancer, the bucket of runtime addons, the bootstrap machine's config and assets
//! 3. [`StartMachines`]: every machine is on its way
//! 4. [`DeliverAssets`]: the bootstrap machine has what it starts the control plane with
//! 5. [`ServeMachineConfig`]: machine-config server and signer serve, every master has its config
//! 6. [`FormEtcdQuorum`]: the masters' etcd has a quorum
//! 7. [`StartControlPlane`]: the temporary control plane serves
//! 8. [`PivotControlPlane`]: the self-hosted one has taken over
//! 9. [`ApplyAddons`]: network, proxy, DNS and dashboard are applied
//! 10. [`RetireBootstrap`]: the bootstrap machine, its config and its assets are gone
//! 11. [`JoinWorkers`]: every node is Ready
//! 12. [`SettleAddons`]: every add-on is done, every pod is ready, every workload has its pods
//! 13. [`VerifyCluster`]: the cluster is used as a user would

mod bootstrap;
mod deliver;
mod finish;
mod port;
mod resources;
mod retire;
#[cfg(test)]
mod tests;

pub use bootstrap::{ApplyAddons, FormEtcdQuorum, PivotControlPlane, ServeMachineConfig, StartControlPlane};
pub use deliver::DeliverAssets;
pub use finish::{JoinWorkers, Ready, SettleAddons, VerifyCluster};
pub use resources::{CreateNetwork, StartMachines};
pub use retire::RetireBootstrap;

use std::path::Path;

use windlass_pki::Authority;
use windlass_platform::{Order, Platform};
use windlass_steps::clock::Clock;
use windlass_steps::journal::History;
use windlass_steps::run::Run;
use windlass_steps::step::{StepInfo, StepName, Stop};

use crate::logbook;
use crate::preflight::{LookAtHost, Preflight};
use crate::prepare::Assets;
use crate::sight::Sight;
use crate::software::Addon;

/// What a launch is given.
pub struct Given<'a, P, S, H> {
    /// What `prepare` made, with the user's edits.
    pub assets: &'a Assets,
    /// The authorities that the balancer's checks trust, by [`authorities`].
    pub authorities: &'a str,
    /// The cluster directory.
    pub directory: &'a Path,
    /// Where machines come from.
    pub platform: &'a P,
    /// What is seen of the cluster.
    pub sight: &'a S,
    /// What is seen of this host.
    pub host: &'a H,
    /// What is missing of the artifacts.
    pub missing: &'a [String],
    /// What machines are to find in the cluster's bucket.
    pub addons: &'a [Addon],
    /// The files that were edited since `prepare`.
    pub edited: &'a [String],
    /// What time it is.
    pub clock: &'a dyn Clock,
}

/// Launches, or goes on where the run's journal ends.
pub async fn launch<P: Platform, S: Sight, H: LookAtHost>(
    run: &Run,
    given: &Given<'_, P, S, H>,
) -> Result<Ready, Stop> {
    let Given { assets, directory, platform, sight, host, missing, addons, edited, clock, .. } = *given;
    let order = Order {
        spec: &assets.spec,
        ignition: &assets.ignition,
        bootstrap_assets: &assets.bootstrap_assets,
        authorities: given.authorities,
        // It is signed when it is filled, with the network.
        bucket: &[],
    };
    let keys = assets.ssh.as_ref();
    let cleared = run.step(Preflight { assets, order, platform, host, missing, edited, clock }).await?;
    let network = run.step(CreateNetwork { cleared: &cleared, order, assets, addons, platform, clock }).await?;
    let machines = run.step(StartMachines { network: &network, order, platform, directory }).await?;
    let delivered = run.step(DeliverAssets { machines: &machines, order, keys, platform, sight }).await?;
    let served = run.step(ServeMachineConfig { delivered: &delivered, order, platform, sight }).await?;
    let quorum = run.step(FormEtcdQuorum { served: &served, order, platform, sight }).await?;
    let started = run.step(StartControlPlane { quorum: &quorum, order, platform, sight }).await?;
    let pivoted = run.step(PivotControlPlane { started: &started, order, platform, sight }).await?;
    let applied = run.step(ApplyAddons { pivoted: &pivoted, order, platform, sight }).await?;
    let retired = run.step(RetireBootstrap { applied: &applied, order, platform, sight }).await?;
    let joined = run.step(JoinWorkers { retired: &retired, order, platform, sight }).await?;
    let settled = run.step(SettleAddons { joined: &joined, sight }).await?;
    run.step(VerifyCluster { settled: &settled, order, sight }).await
}

/// Every step of the flow, in order, for `status`, help and the reference.
pub fn steps() -> Vec<StepInfo> {
    use crate::preflight::ThisHost;
    use crate::sight::FakeSight;
    use windlass_platform::fake::Fake;
    vec![
        StepInfo::of::<Preflight<'_, Fake, ThisHost>>(),
        StepInfo::of::<CreateNetwork<'_, Fake>>(),
        StepInfo::of::<StartMachines<'_, Fake>>(),
        StepInfo::of::<DeliverAssets<'_, Fake, FakeSight>>(),
        StepInfo::of::<ServeMachineConfig<'_, Fake, FakeSight>>(),
        StepInfo::of::<FormEtcdQuorum<'_, Fake, FakeSight>>(),
        StepInfo::of::<StartControlPlane<'_, Fake, FakeSight>>(),
        StepInfo::of::<PivotControlPlane<'_, Fake, FakeSight>>(),
        StepInfo::of::<ApplyAddons<'_, Fake, FakeSight>>(),
        StepInfo::of::<RetireBootstrap<'_, Fake, FakeSight>>(),
        StepInfo::of::<JoinWorkers<'_, Fake, FakeSight>>(),
        StepInfo::of::<SettleAddons<'_, FakeSight>>(),
        StepInfo::of::<VerifyCluster<'_, FakeSight>>(),
    ]
}

/// The last step, if it has finished according to a journal: what it saw then may be otherwise now, so that whoever goes on
/// looks at its criteria again ([`Run::only`]).
pub fn finished_before(history: &History) -> Option<StepName> {
    let last = steps().pop()?.name;
    logbook::has_finished(history, last.as_str()).then_some(last)
}

/// The authorities behind the API and the machine-config server, PEM: one balancer looks at both.
pub fn authorities(assets: &Assets) -> String {
    let of = |authority| assets.pki.certificate(authority).to_pem();
    of(Authority::Cluster) + &of(Authority::MachineConfig)
}
