//! The end of the bootstrap machine: it, its config, its assets and its place behind the balancer go, and are seen to be gone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_platform::{Order, Platform, Retirement};
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::reason;
use windlass_steps::step::{Step, StepError, StepName};

use super::bootstrap::Applied;
use super::resources::reported;
use crate::sight::Sight;

/// Removes the bootstrap machine, its config and its assets.
pub struct RetireBootstrap<'a, P, S> {
    /// That everything it had to do is done.
    pub applied: &'a Applied,
    /// What was asked for.
    pub order: Order<'a>,
    /// Where it is.
    pub platform: &'a P,
    /// What is seen of the cluster that goes on without it.
    pub sight: &'a S,
}

/// The bootstrap machine is gone.
#[derive(Debug, Serialize, Deserialize)]
pub struct Retired {
    retirement: Retirement,
}

impl<P: Platform, S: Sight> Step for RetireBootstrap<'_, P, S> {
    const NAME: StepName = StepName::new("retire-bootstrap");
    const SUMMARY: &'static str = "remove the bootstrap machine, its config and its assets";
    const DEADLINE: Duration = Duration::from_secs(60);
    type Done = Retired;

    async fn run(&self) -> Result<Retired, StepError> {
        let retired = self.platform.retire_bootstrap(&self.order).await;
        retired.map(|retirement| Retired { retirement }).map_err(reported("retire the bootstrap machine"))
    }

    fn exit_criteria<'a>(&'a self, _: &'a Retired) -> Vec<Criterion<'a>> {
        let gone = Criterion::new("nothing is left of the bootstrap machine", || async {
            let remains = self.platform.bootstrap_remains().await?;
            Ok(match remains.as_slice() {
                [] => Observation::Holds,
                remains => Observation::NotYet(reason!("{}", remains.join(", "))),
            })
        });
        let api = Criterion::new("the API answers without it", || async {
            self.sight.api_ready().await.map(|()| Observation::Holds)
        });
        vec![gone, api]
    }
}
