//! The commands: each calls one library function and says how it ended.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use serde::Serialize;
use windlass_cluster::access::Access;
use windlass_steps::host::Host;

use crate::args::{self, Arguments, Command};
use crate::dashboard::{self, DashboardError};
use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::{
    addons, approver, bootstrap, bootstrap_assets, checkpoint, cni, config_server, etcd_certs, etcd_signer, health,
    hook, join, kubelet_checker, log, os_update, pause, pivot, probe, record, runtime_data,
};

/// How long a report is held back that its asker knows already.
const NEWS: Duration = Duration::from_millis(500);
const KNOWN_LIMIT: u64 = 4 << 20;

/// Runs a command until it is done or told to end.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A sandbox has nothing to say and should cost nothing: no log, no runtime.
    if let Command::Pause = arguments.command {
        return pause::run().map_err(|error| Failure::of(Exit::TryAgain, &error, "start the sandbox again"));
    }
    log::start(arguments.log_level);
    let places = Places::below(&arguments.root);
    match &arguments.command {
        Command::Pause => Ok(()),
        Command::Report(command) => report(&places, command),
        Command::Dashboard(command) => dashboard(command),
        command => {
            let runtime = runtime()?;
            let worked = runtime.block_on(work(command, &places));
            // A name that the system's resolver still looks up must not keep the program from leaving.
            runtime.shutdown_background();
            worked
        }
    }
}

async fn work(command: &Command, places: &Places) -> Result<(), Failure> {
    match command {
        Command::Bootstrap(command) => bootstrap::run(places, command).await,
        Command::OsAddons(command) => bootstrap::os_addons::run(places, command).await,
        Command::RuntimeData => runtime_data::clean(places).await,
        Command::ImportImages => runtime_data::import(places).await,
        Command::Join => join::run(places).await,
        Command::EtcdCerts => etcd_certs::run(places).await,
        Command::MachineConfigServer(twin) => config_server::run(places, twin).await,
        Command::EtcdSigner(command) => etcd_signer::run(places, command).await,
        Command::BootstrapAssets(command) => bootstrap_assets::run(places, command).await,
        Command::Bootkube => pivot::run(places).await,
        Command::Addons => addons::run(places).await,
        Command::CsrApprover => approver::run(places).await,
        Command::Checkpoint => checkpoint::run(places).await,
        Command::Cni => cni::run(places).await,
        Command::KubeletChecker => kubelet_checker::run(places).await,
        Command::RunHook(hook) => hook::run(places, hook).await,
        Command::RunUserData(command) => hook::run_user_data(places, &command.name).await,
        Command::UpdateAgent(command) => {
            os_update::agent::run(places, Duration::from_secs(command.check_every.into())).await
        }
        Command::PreReboot(command) => os_update::hook::run(places, command.torcx_manifest_url.as_deref()).await,
        Command::RebootCoordinator(command) => os_update::coordinator::run(command.required()).await,
        Command::Probe(command) => probe::run(command).await,
        Command::Health => say(&health::look(places, &Host).await),
        Command::Report(_) | Command::Dashboard(_) | Command::Pause => Ok(()),
    }
}

/// Prints what every unit of this machine says about itself.
fn report(places: &Places, command: &args::Report) -> Result<(), Failure> {
    if !command.news {
        return say(&record::collect(places));
    }
    let mut known = Vec::new();
    let read = io::stdin().lock().take(KNOWN_LIMIT).read_to_end(&mut known);
    read.map_err(|error| Failure::of(Exit::TryAgain, &error, "give it a report on the standard input"))?;
    // Nothing, or what nobody understands, is unlike every report.
    say(&record::news(places, serde_json::from_slice(&known).ok().as_ref(), NEWS))
}

fn say(answer: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(answer).expect("what is said is plain data");
    let said = writeln!(io::stdout(), "{text}");
    said.map_err(|error| Failure::of(Exit::TryAgain, &error, "see that the output can be written"))
}

fn dashboard(command: &args::Dashboard) -> Result<(), Failure> {
    let access = match &command.kubeconfig {
        Some(path) => Access::Kubeconfig(path.clone()),
        None => Access::InCluster,
    };
    runtime()?.block_on(dashboard::run(command.listen, &access)).map_err(|error| dashboard_failure(&error))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let made: io::Result<_> = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| Failure::of(Exit::TryAgain, &error, "see whether the machine is out of file descriptors"))
}

fn dashboard_failure(error: &DashboardError) -> Failure {
    let (exit, next) = match error {
        DashboardError::ReachApi { .. } => {
            (Exit::Permanent, "run it in a pod with a service account, or give --kubeconfig a readable file")
        }
        DashboardError::Listen { .. } => (Exit::TryAgain, "free the port, or give --listen another"),
        DashboardError::HandleSignals { .. } | DashboardError::Serve { .. } => (Exit::TryAgain, "start it again"),
    };
    Failure::of(exit, error, next)
}
