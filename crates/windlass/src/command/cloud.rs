//! `windlass cloud …`: what people ask the local cloud for by hand.

mod machine;
mod tell;

use std::io::Write;

use windlass_cloud_api::{ClientError, Daemon, StartError, World};

use super::{answer, notice, say};
use crate::args::{Cloud, CloudCommand, CloudPlace, CloudScope, Common};
use crate::exit::{Exit, Failure};
use tell::ClusterLine;

pub(super) fn run(
    common: &Common,
    command: &Cloud,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let daemon = daemon(&command.place)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(Exit::Unexpected, &error, "look at the cause"))?;
    runtime.block_on(async {
        match &command.command {
            CloudCommand::Status => status(common, &daemon, out).await,
            CloudCommand::Logs { scope, machine: None } => events(common, &daemon, scope, out).await,
            CloudCommand::Logs { scope, machine: Some(name) } => {
                machine::console(common, &daemon, scope, name, out).await
            }
            CloudCommand::Machine(command) => machine::run(common, &daemon, command, out, err).await,
        }
    })
}

pub(super) fn daemon(place: &CloudPlace) -> Result<Daemon, Failure> {
    let program = super::beside_this_program("windlass-cloud")
        .map_err(|error| Failure::of(Exit::Unexpected, &error, "look at the cause"))?;
    let world = if place.cloud_simulated { World::Simulated } else { World::Real };
    Ok(Daemon { program, run: place.cloud_run.clone(), state: place.cloud_state.clone(), world })
}

async fn status(common: &Common, daemon: &Daemon, out: &mut impl Write) -> Result<Exit, Failure> {
    let Some(status) = daemon.status().await.map_err(|error| start_failure(&error))? else {
        let data = serde_json::json!({ "running": false, "socket": daemon.socket() });
        answer(&common.output, out, &data, || format!("the local cloud does not run: {}\n", tell::ABSENT))?;
        return Ok(Exit::Done);
    };
    let client = daemon.client();
    let mut clusters = Vec::new();
    for cluster in client.clusters().await.map_err(|error| refused(&error))? {
        // One that is being destroyed does not tell of its machines any more.
        let machines = match client.machines(&cluster.name).await {
            Ok(machines) => machines,
            Err(error) if error.status().is_some() => Vec::new(),
            Err(error) => return Err(refused(&error)),
        };
        clusters.push(ClusterLine::of(&cluster, &machines));
    }
    let data = serde_json::json!({
        "running": true, "socket": daemon.socket(), "cloud": status, "clusters": clusters,
    });
    answer(&common.output, out, &data, || tell::status(&status, &clusters))?;
    Ok(Exit::Done)
}

async fn events(common: &Common, daemon: &Daemon, scope: &CloudScope, out: &mut impl Write) -> Result<Exit, Failure> {
    let mut events = daemon.client().events().await.map_err(|error| match error.is_absent() {
        true => {
            let next = format!("{} has what it said while it ran", daemon.log().display());
            Failure::new(Exit::Unexpected, "the local cloud does not run", vec![tell::ABSENT.to_owned()], next)
        }
        false => refused(&error),
    })?;
    if let Some(cluster) = &scope.cluster {
        events.retain(|event| event.cluster.as_ref() == Some(cluster));
    }
    answer(&common.output, out, &events, || events.iter().map(tell::event).collect())?;
    Ok(Exit::Done)
}

/// What the cloud said no to, in its own words.
fn refused(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused { status, refusal } => {
            let exit = if *status == 404 { Exit::Usage } else { Exit::Unexpected };
            let next = refusal.next.clone().unwrap_or_else(|| "windlass cloud status, windlass cloud logs".to_owned());
            Failure::new(exit, refusal.error.clone(), refusal.because.clone(), next)
        }
        ClientError::Connect { .. } if error.is_absent() => {
            Failure::of(Exit::Unexpected, error, "windlass cloud machine start --all starts it")
        }
        ClientError::Connect { .. } => {
            Failure::of(Exit::Unexpected, error, "the local cloud is root's: run this as root")
        }
        _ => Failure::of(Exit::Unexpected, error, "windlass cloud status says how the cloud is"),
    }
}

fn start_failure(error: &StartError) -> Failure {
    let next = match error {
        StartError::AskDaemon { source } => return refused(source),
        StartError::OpenLog { .. } => "run this as root, and see that there is room on the disk",
        StartError::RunProgram { .. } => "put windlass-cloud beside windlass",
        _ => "mend the cause and run this again",
    };
    Failure::of(Exit::Unexpected, error, next)
}
