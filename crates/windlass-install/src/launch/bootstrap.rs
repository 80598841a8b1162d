//! What happens on the bootstrap machine once it has its assets, seen from outside: it serves configs and certificates, and
//! brings up the control plane. Nothing is done from here: the units on the machines work by themselves, and these steps watch them.

pub(super) mod judge;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_platform::{BOOTSTRAP, Order, Platform};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::step::{Step, StepError, StepName};

use super::deliver::Delivered;
use crate::sight::{Records, Sight};

/// Waits until machine-config server and signer serve and the masters have their configs.
pub struct ServeMachineConfig<'a, P, S> {
    /// That the bootstrap machine has its assets.
    pub delivered: &'a Delivered,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// Every master has its config.
#[derive(Debug, Serialize, Deserialize)]
pub struct Served {
    masters: Vec<String>,
}

/// Waits until the masters' etcd has a quorum.
pub struct FormEtcdQuorum<'a, P, S> {
    /// That the masters have their configs.
    pub served: &'a Served,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// etcd has a quorum.
#[derive(Debug, Serialize, Deserialize)]
pub struct Quorum {
    members: Vec<String>,
}

/// Waits until the temporary control plane serves.
pub struct StartControlPlane<'a, P, S> {
    /// The etcd that it keeps its objects in.
    pub quorum: &'a Quorum,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// The temporary control plane serves.
#[derive(Debug, Serialize, Deserialize)]
pub struct Started {}

/// Waits until the self-hosted control plane has taken over.
pub struct PivotControlPlane<'a, P, S> {
    /// The control plane that hands over.
    pub started: &'a Started,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// The self-hosted control plane has taken over.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pivoted {}

/// Waits until the add-ons are applied.
pub struct ApplyAddons<'a, P, S> {
    /// The control plane that they are applied through.
    pub pivoted: &'a Pivoted,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// The add-ons are applied.
#[derive(Debug, Serialize, Deserialize)]
pub struct Applied {}

impl<P: Platform, S: Sight> Step for ServeMachineConfig<'_, P, S> {
    const NAME: StepName = StepName::new("serve-machine-config");
    const SUMMARY: &'static str = "serve the machines' configs and etcd's certificates";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = Served;

    async fn run(&self) -> Result<Served, StepError> {
        Ok(Served { masters: self.order.masters() })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Served) -> Vec<Criterion<'a>> {
        let unit =
            |statement, unit: &'static str| seen(self.sight, statement, move |records| judge::served(records, unit));
        let fetched = Criterion::new("every master has its config, or a quorum went on without it", || async {
            let records = self.sight.records(BOOTSTRAP).await;
            let went_on = records.is_ok_and(|records| judge::passed(&records, judge::Stage::Quorum));
            if went_on {
                return Ok(Observation::Holds);
            }
            Ok(judge::configured(&done.masters, &self.platform.machines().await?))
        });
        vec![
            unit("the machine-config server serves", judge::CONFIG_SERVER),
            unit("the etcd signer serves", judge::SIGNER),
            fetched,
        ]
    }
}

impl<P: Platform, S: Sight> Step for FormEtcdQuorum<'_, P, S> {
    const NAME: StepName = StepName::new("form-etcd-quorum");
    const SUMMARY: &'static str = "start the masters' etcd members, each with certificates from the signer";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = Quorum;

    async fn run(&self) -> Result<Quorum, StepError> {
        Ok(Quorum { members: self.order.masters() })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Quorum) -> Vec<Criterion<'a>> {
        vec![
            seen(self.sight, "etcd has a quorum", |records| judge::reached(records, judge::Stage::Quorum)),
            alive(self.platform, &done.members),
        ]
    }
}

impl<P: Platform, S: Sight> Step for StartControlPlane<'_, P, S> {
    const NAME: StepName = StepName::new("start-control-plane");
    const SUMMARY: &'static str = "stop the signer and start the temporary control plane in its place";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = Started;

    async fn run(&self) -> Result<Started, StepError> {
        Ok(Started {})
    }

    fn exit_criteria<'a>(&'a self, _: &'a Started) -> Vec<Criterion<'a>> {
        let api = Criterion::new("the API answers from this host", || async {
            self.sight.api_ready().await.map(|()| Observation::Holds)
        });
        let stopped = |records: &Records| judge::reached(records, judge::Stage::Stopped);
        let started = |records: &Records| judge::reached(records, judge::Stage::TemporaryControlPlane);
        vec![
            seen(self.sight, "machine-config server and signer have stopped", stopped),
            seen(self.sight, "the temporary control plane serves", started),
            api,
        ]
    }
}

impl<P: Platform, S: Sight> Step for PivotControlPlane<'_, P, S> {
    const NAME: StepName = StepName::new("pivot-control-plane");
    const SUMMARY: &'static str = "hand the control plane over to the masters";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = Pivoted;

    async fn run(&self) -> Result<Pivoted, StepError> {
        Ok(Pivoted {})
    }

    fn exit_criteria<'a>(&'a self, _: &'a Pivoted) -> Vec<Criterion<'a>> {
        let dropped = Criterion::new("the balancer leads to masters alone", || async {
            Ok(judge::only_masters(&self.sight.backends().await?))
        });
        vec![
            seen(self.sight, "the self-hosted control plane has taken over", |records| {
                judge::done(records, judge::BOOTKUBE)
            }),
            dropped,
        ]
    }
}

impl<P: Platform, S: Sight> Step for ApplyAddons<'_, P, S> {
    const NAME: StepName = StepName::new("apply-addons");
    const SUMMARY: &'static str = "apply network, proxy, DNS and dashboard";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = Applied;

    async fn run(&self) -> Result<Applied, StepError> {
        Ok(Applied {})
    }

    fn exit_criteria<'a>(&'a self, _: &'a Applied) -> Vec<Criterion<'a>> {
        let twins = Criterion::new("API and machine configs are served by masters through the balancer", || async {
            Ok(judge::masters_serve(&self.sight.backends().await?))
        });
        vec![seen(self.sight, "the add-ons are applied", |records| judge::done(records, judge::ADDONS)), twins]
    }
}

/// A criterion over what the bootstrap machine's units say.
pub(super) fn seen<'a, S: Sight>(
    sight: &'a S,
    statement: &'static str,
    judge: impl Fn(&Records) -> Observation + Copy + 'a,
) -> Criterion<'a> {
    Criterion::new(statement, move || async move {
        let records: Result<Records, LookError> = sight.records(BOOTSTRAP).await;
        records.map(|records| judge(&records))
    })
}

/// None of these machines has died.
fn alive<'a, P: Platform>(platform: &'a P, names: &'a [String]) -> Criterion<'a> {
    Criterion::new("no master has died", move || async move { Ok(judge::alive(names, &platform.machines().await?)) })
}
