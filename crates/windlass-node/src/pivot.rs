//! Starting the control plane and handing it over (`bootkube.service`), on the bootstrap machine.
//!
//! In order: await a quorum of etcd (`quorum`), stop the servers whose port the API needs (`servers`), start a
//! temporary control plane as static pods (`static_pods`), put the self-hosted one into its API and wait until it
//! serves from the masters (`control_plane`, judged in `masters`), then stop the temporary one (`retire`). While
//! there is a temporary API, the approver works beside the flow. Every step may be repeated: whatever stops the flow,
//! systemd starts it again from the top.

mod control_plane;
pub(crate) mod fresh;
mod masters;
pub(crate) mod payload;
mod quorum;
mod reach;
mod retire;
mod servers;
mod site;
mod static_pods;
mod still;
pub(crate) mod told;

use std::sync::Arc;

use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::event::Stream;
use windlass_steps::host::{Commands, Host};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::run::Run;
use windlass_steps::step::{StepError, StepName, Stop};

use crate::approver::{self, ApproverError, Settings};
use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::record::Recorder;
use control_plane::{ApplyControlPlane, AwaitControlPlane};
use quorum::AwaitQuorum;
use retire::{ReleaseLeases, Retired, StopApi};
use servers::{Freed, StopServers};
use site::{Site, SiteError};
use static_pods::{HandOver, StartApi, StartControllers};
use told::{Told, stopped};

const UNIT: &str = "bootkube";

/// Starts the control plane and hands it over to the masters.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let told = Told::into(Recorder::begin(places, UNIT, "begin"));
    let ended = pivot(places, &told).await;
    told.ended(ended)
}

async fn pivot(places: &Places, told: &Told) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let site = Site::open(places, Arc::clone(&clock)).await.map_err(|error| unusable(&error))?;
    let run = Run::new(site.spec.metadata.name.as_str(), clock, Stream::new().reader(told.clone()));
    let settings = Settings::on_bootstrap_machine(places);
    let approve = approver::serve(site.watch.clone(), &settings, Interrupt::default());
    flow(&run, &site, &Host, told, approve).await.map(drop).map_err(|stop| stopped(&stop, UNIT))
}

/// The flow itself. The approver works beside it for as long as there is a temporary API: machines join through it.
async fn flow(
    run: &Run,
    site: &Site,
    commands: &impl Commands,
    told: &Told,
    approve: impl Future<Output = Result<(), ApproverError>>,
) -> Result<Retired, Stop> {
    let quorum = run.step(AwaitQuorum::new(site)).await?;
    let freed = run.step(StopServers { site, commands, _quorum: quorum }).await?;
    tokio::select! {
        // The approver first: the API asks it about the first machine that comes.
        biased;
        ended = approve => Err(not_approved(ended)),
        retired = with_temporary_api(run, site, told, freed) => retired,
    }
}

/// What happens while this machine has an API.
async fn with_temporary_api(run: &Run, site: &Site, told: &Told, freed: Freed) -> Result<Retired, Stop> {
    let api = run.step(StartApi { site, _freed: freed }).await?;
    // What is applied needs the controllers only to become real.
    let (controllers, applied) = tokio::try_join!(
        run.step(StartControllers { site, _api: &api }),
        run.step(ApplyControlPlane { site, told: told.clone(), _api: &api }),
    )?;
    let self_hosted = run.step(AwaitControlPlane::new(site, applied, &controllers)).await?;
    let handed_over = run.step(HandOver { site, _controllers: controllers, _self_hosted: &self_hosted }).await?;
    let released = run.step(ReleaseLeases { site, _handed_over: handed_over }).await?;
    run.step(StopApi { site, _api: api, _self_hosted: self_hosted, _released: released }).await
}

fn unusable(error: &SiteError) -> Failure {
    Failure::of(Exit::TryAgain, error, "see whether Ignition and bootstrap-assets have written every file")
}

/// Nobody told it to end, so that it cannot have begun.
fn not_approved(ended: Result<(), ApproverError>) -> Stop {
    let error = match ended {
        Ok(()) => StepError::new("approve machines", "it ended by itself"),
        Err(error) => StepError::new("approve machines", error),
    };
    Stop::Failed { step: StepName::new("approve-machines"), error }
}

#[cfg(test)]
pub(crate) mod tests;
