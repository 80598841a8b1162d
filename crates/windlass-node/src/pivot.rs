//! Starting the control plane and handing it over (`bootkube.service`), on the bootstrap machine.
//!
//! In order: await a quorum of etcd ([`quorum`]), stop the servers whose port the API needs ([`servers`]), start a
//! temporary control plane as static pods ([`static_pods`]), put the self-hosted one into its API and wait until it
//! serves from the masters ([`control_plane`], judged in [`masters`]), then stop the temporary one ([`retire`]). Every
//! step may be repeated: whatever stops the flow, systemd starts it again from the top.

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
use windlass_steps::run::Run;
use windlass_steps::step::Stop;

use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::record::Recorder;
use control_plane::{ApplyControlPlane, AwaitControlPlane};
use quorum::AwaitQuorum;
use retire::{ReleaseLeases, Retired, StopApi};
use servers::StopServers;
use site::{Site, SiteError};
use static_pods::{HandOver, StartApi, StartControllers};
use told::Told;

const UNIT: &str = "bootkube";

/// Starts the control plane and hands it over to the masters.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let told = Told::into(Recorder::begin(places, UNIT, "begin"));
    let ended = pivot(places, &told).await;
    match &ended {
        Ok(()) => told.done(),
        Err(failure) => told.failed([vec![failure.report.error.clone()], failure.report.because.clone()].concat()),
    }
    ended
}

async fn pivot(places: &Places, told: &Told) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let site = Site::open(places, Arc::clone(&clock)).await.map_err(|error| unusable(&error))?;
    let run = Run::new(site.spec.metadata.name.as_str(), clock, Stream::new().reader(told.clone()));
    flow(&run, &site, &Host, told).await.map(drop).map_err(|stop| stopped(&stop))
}

/// The flow itself.
async fn flow(run: &Run, site: &Site, commands: &impl Commands, told: &Told) -> Result<Retired, Stop> {
    let quorum = run.step(AwaitQuorum::new(site)).await?;
    let freed = run.step(StopServers { site, commands, _quorum: quorum }).await?;
    let api = run.step(StartApi { site, _freed: freed }).await?;
    // What is applied needs the controllers only to become real.
    let (controllers, applied) = tokio::try_join!(
        run.step(StartControllers { site, _api: &api }),
        run.step(ApplyControlPlane { site, told: told.clone(), _api: &api }),
    )?;
    let self_hosted = run.step(AwaitControlPlane::new(site, applied, &controllers)).await?;
    let handed = run.step(HandOver { site, _controllers: controllers, _self_hosted: &self_hosted }).await?;
    let released = run.step(ReleaseLeases { site, _handed_over: handed }).await?;
    run.step(StopApi { site, _api: api, _self_hosted: self_hosted, _released: released }).await
}

fn unusable(error: &SiteError) -> Failure {
    Failure::of(Exit::TryAgain, error, "see whether Ignition has written every file of bootstrap.ign")
}

fn stopped(stop: &Stop) -> Failure {
    let mut report = stop.report();
    report.next = format!("read `journalctl --unit {UNIT}` and `windlass-node report` on this machine");
    Failure { exit: Exit::TryAgain, report }
}
