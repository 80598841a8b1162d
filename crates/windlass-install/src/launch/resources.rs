//! The platform's resources: the network first, then the machines in it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_platform::{BOOTSTRAP, MachineState, Order, Platform, PlatformError, Provisioned, SeenMachine};
use windlass_steps::clock::Clock;
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::reason;
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::port;
use crate::bucket;
use crate::preflight::Cleared;
use crate::prepare::Assets;
use crate::software::Addon;

/// Makes the network, names, balancer, the signed bucket and the objects that the bootstrap machine starts from.
pub struct CreateNetwork<'a, P> {
    /// That nothing stands in the way.
    pub cleared: &'a Cleared,
    /// What is asked for; the bucket is filled here.
    pub order: Order<'a>,
    /// What the order was made from: the bucket's keys are in it.
    pub assets: &'a Assets,
    /// What machines are to find in the bucket.
    pub addons: &'a [Addon],
    /// Where it is asked for.
    pub platform: &'a P,
    /// What time it is.
    pub clock: &'a dyn Clock,
}

/// The network is there.
#[derive(Debug, Serialize, Deserialize)]
pub struct Network {
    provisioned: Provisioned,
}

impl<P: Platform> Step for CreateNetwork<'_, P> {
    const NAME: StepName = StepName::new("create-network");
    const SUMMARY: &'static str = "make the network, its names, the balancer, the bucket of runtime addons and what the bootstrap machine fetches";
    const DEADLINE: Duration = Duration::from_secs(30);
    type Done = Network;

    async fn run(&self) -> Result<Network, StepError> {
        let bucket = bucket::files(self.assets, self.addons, self.clock.now());
        let bucket = bucket.attempt("sign the cluster's bucket of runtime addons")?;
        let order = Order { bucket: &bucket, ..self.order };
        let provisioned = self.platform.provision(&order).await.map_err(reported("make the network"))?;
        Ok(Network { provisioned })
    }

    fn exit_criteria<'a>(&'a self, _: &'a Network) -> Vec<Criterion<'a>> {
        vec![Criterion::new("the network is there", || async {
            Ok(match self.platform.network_trouble().await? {
                None => Observation::Holds,
                Some(trouble) => Observation::NotYet(reason!("{trouble}")),
            })
        })]
    }
}

/// Makes every machine, and opens the way from this host to the API.
pub struct StartMachines<'a, P> {
    /// The network that they are in.
    pub network: &'a Network,
    /// What is asked for.
    pub order: Order<'a>,
    /// Where it is asked for.
    pub platform: &'a P,
    /// Where it is written down how this host reaches the API.
    pub directory: &'a Path,
}

/// Every machine is on its way.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machines {
    api_port: u16,
    names: Vec<String>,
}

impl<P: Platform> Step for StartMachines<'_, P> {
    const NAME: StepName = StepName::new("start-machines");
    const SUMMARY: &'static str = "make and start every machine, and open the way from this host to the API";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = Machines;

    async fn run(&self) -> Result<Machines, StepError> {
        let made = self.platform.create_machines(&self.order).await;
        made.map_err(reported("make the machines"))?;
        let api_port = self.platform.open_api(&self.order).await.map_err(reported("open the way to the API"))?;
        port::settle(self.directory, api_port).attempt("write down how the API is reached")?;
        Ok(Machines { api_port, names: self.order.names() })
    }

    fn exit_criteria<'a>(&'a self, done: &'a Machines) -> Vec<Criterion<'a>> {
        vec![Criterion::new("every machine is on its way", || async {
            Ok(on_their_way(&done.names, &self.platform.machines().await?))
        })]
    }
}

/// The bootstrap machine runs; the others at least ask for their configuration, which it serves.
fn on_their_way(names: &[String], machines: &[SeenMachine]) -> Observation {
    let trouble = |name: &String| match machines.iter().find(|machine| machine.name == *name) {
        None => Some(format!("{name} is not there")),
        Some(machine) => match &machine.state {
            MachineState::Running => None,
            MachineState::Igniting { .. } if name != BOOTSTRAP => None,
            state => Some(format!("{name} {state}")),
        },
    };
    settled(names.len(), names.iter().filter_map(trouble).collect(), "machines are on their way")
}

/// How many of so many are well, and what is wrong with the others.
///
/// A first boot counts its attempts; that is no progress, so numbers within troubles do not count as such.
pub(super) fn settled(of: usize, troubles: Vec<String>, what: &str) -> Observation {
    let well = of.saturating_sub(troubles.len());
    let troubles = troubles.join("; ");
    let mut mark = DefaultHasher::new();
    (well, troubles.replace(|c: char| c.is_ascii_digit(), "")).hash(&mut mark);
    match (of, well) {
        (0, _) => Observation::NotYet(reason!("none is expected")),
        (of, well) if well == of => Observation::Holds,
        (of, well) => Observation::NotYet(reason!("{well} of {of} {what}; {troubles}").at(mark.finish())),
    }
}

/// A platform's failure with the hint that it brought along.
pub(super) fn reported(attempt: &'static str) -> impl FnOnce(PlatformError) -> StepError {
    move |error| match error.hint().map(str::to_owned) {
        Some(hint) => StepError::new(attempt, error).hint(hint),
        None => StepError::new(attempt, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_asks_for_its_config_is_on_its_way_and_a_bootstrap_machine_is_not() {
        let machine = |name: &str, state| SeenMachine {
            name: name.to_owned(),
            role: String::new(),
            address: std::net::Ipv4Addr::LOCALHOST,
            state,
        };
        let igniting = || MachineState::Igniting { reason: Some("GET error".to_owned()) };
        let names = ["bootstrap".to_owned(), "masters-0".to_owned()];
        let cases = [
            (vec![], "0 of 2 machines are on their way; bootstrap is not there; masters-0 is not there"),
            (
                vec![machine("bootstrap", igniting()), machine("masters-0", igniting())],
                "1 of 2 machines are on their way; bootstrap is in its first boot: GET error",
            ),
            (
                vec![
                    machine("bootstrap", MachineState::Running),
                    machine("masters-0", MachineState::Dead { reason: "killed".to_owned() }),
                ],
                "1 of 2 machines are on their way; masters-0 is dead: killed",
            ),
        ];
        for (machines, want) in cases {
            let Observation::NotYet(seen) = on_their_way(&names, &machines) else { panic!("{want}") };
            assert_eq!(seen.text(), want);
        }
        let good = [machine("bootstrap", MachineState::Running), machine("masters-0", igniting())];
        assert_eq!(on_their_way(&names, &good), Observation::Holds);
        assert_ne!(on_their_way(&[], &good), Observation::Holds, "nothing expected is nothing there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_only_counts_its_attempts_stalls() {
        let attempts = std::cell::Cell::new(0);
        let look = || async {
            attempts.set(attempts.get() + 1);
            let trouble = format!("masters-1 is in its first boot: attempt #{}", attempts.get());
            Ok(settled(3, vec![trouble], "masters have their config"))
        };
        let criteria = [Criterion::new("every master has its config", look)];
        let wait = windlass_steps::wait::Wait::stalled_for(Duration::from_secs(5));
        assert!(wait.until(&criteria, |_| Ok::<(), ()>(())).await.is_err());
        assert!(attempts.get() < 40, "it was not waited for ever");
    }
}
