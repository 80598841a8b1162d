//! `windlass cloud machine …`, and the console of a machine.

use std::io::Write;

use tokio::task::JoinSet;
use windlass_cloud_api::{Client, ClientError, Daemon, ExecRequest, Found, Label, Machine};

use super::{answer, notice, refused, say, start_failure, tell};
use crate::args::{CloudExec, CloudMachine, CloudScope, Common, Machines, Output};
use crate::exit::{Exit, Failure};

/// What is done to a machine.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Start,
    Stop,
    Reboot,
    PowerCut,
}

pub(super) async fn run(
    common: &Common,
    daemon: &Daemon,
    command: &CloudMachine,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    match command {
        CloudMachine::List(scope) => list(common, daemon, scope, out, err).await,
        CloudMachine::Start(machines) => {
            started(daemon).await?;
            switch(common, daemon, Deed::Start, machines, out).await
        }
        CloudMachine::Stop(machines) => switch(common, daemon, Deed::Stop, machines, out).await,
        CloudMachine::Reboot(machines) => switch(common, daemon, Deed::Reboot, machines, out).await,
        CloudMachine::PowerCut(machines) => switch(common, daemon, Deed::PowerCut, machines, out).await,
        CloudMachine::Exec(exec) => run_inside(common, daemon, exec, out, err).await,
    }
}

/// Prints the end of what a machine printed.
pub(super) async fn console(
    common: &Common,
    daemon: &Daemon,
    scope: &CloudScope,
    name: &Label,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let client = daemon.client();
    let machine = one(&all(&client, scope).await?, name)?;
    let console = client.console(&machine.cluster, &machine.name).await.map_err(|error| refused(&error))?;
    answer(&common.output, out, &console, || console.text.clone())?;
    Ok(Exit::Done)
}

async fn list(
    common: &Common,
    daemon: &Daemon,
    scope: &CloudScope,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let machines = match daemon.status().await.map_err(|error| start_failure(&error))? {
        Some(_) => all(&daemon.client(), scope).await?,
        None => {
            notice(&common.output, err, "the local cloud does not run")?;
            Vec::new()
        }
    };
    answer(&common.output, out, &machines, || tell::machines(&machines))?;
    Ok(Exit::Done)
}

/// Sees to it that a daemon runs; one that was started for nothing goes again.
async fn started(daemon: &Daemon) -> Result<(), Failure> {
    match daemon.start().await.map_err(|error| start_failure(&error))? {
        Found::Started(status) if status.clusters.is_empty() => {
            daemon.client().leave().await.map_err(|error| refused(&error))?;
            let because = vec![format!("{} knows no cluster", status.state.display())];
            Err(Failure::new(Exit::Usage, "there is no machine to start", because, "windlass up makes a cluster"))
        }
        Found::Started(_) | Found::Running(_) => Ok(()),
    }
}

/// Does the same to several machines at once. All are tried; those that failed are named.
async fn switch(
    common: &Common,
    daemon: &Daemon,
    deed: Deed,
    which: &Machines,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let client = daemon.client();
    let chosen = choose(&all(&client, &which.scope).await?, deed, which)?;
    let mut tasks = JoinSet::new();
    for machine in chosen {
        let client = client.clone();
        tasks.spawn(async move { (deed.done(&client, &machine).await, machine.name) });
    }
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (result, name) in tasks.join_all().await {
        match result {
            Ok(machine) => done.push(machine),
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    done.sort_by(|a, b| (&a.cluster, &a.name).cmp(&(&b.cluster, &b.name)));
    failed.sort();
    answer(&common.output, out, &done, || tell::machines(&done))?;
    if failed.is_empty() {
        return Ok(Exit::Done);
    }
    let error = format!("{} machines did not {}", failed.len(), deed.verb());
    Err(Failure::new(Exit::Unexpected, error, failed, "windlass cloud machine list shows how they are"))
}

impl Deed {
    async fn done(self, client: &Client, machine: &Machine) -> Result<Machine, ClientError> {
        let (cluster, name) = (&machine.cluster, &machine.name);
        match self {
            Deed::Start => client.start(cluster, name).await,
            Deed::Stop => client.stop(cluster, name).await,
            Deed::Reboot => client.reboot(cluster, name).await,
            Deed::PowerCut => client.power_cut(cluster, name).await,
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Deed::Start => "start",
            Deed::Stop => "stop",
            Deed::Reboot => "reboot",
            Deed::PowerCut => "go off",
        }
    }
}

async fn run_inside(
    common: &Common,
    daemon: &Daemon,
    exec: &CloudExec,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let client = daemon.client();
    let machine = one(&all(&client, &exec.scope).await?, &exec.name)?;
    let request = ExecRequest { command: exec.command.clone(), stdin: String::new(), timeout: Some(exec.timeout) };
    let ran = client.exec(&machine.cluster, &machine.name, &request).await.map_err(|error| refused(&error))?;
    answer(&common.output, out, &ran, || ran.stdout.clone())?;
    // The answer has it already where it is data.
    if common.output == Output::Text {
        say(err, &ran.stderr)?;
    }
    match ran.code {
        0 => Ok(Exit::Done),
        code => {
            let error = format!("the command ended with code {code} in machine {}", machine.name);
            Err(Failure::new(Exit::Unexpected, error, Vec::new(), "look at what it printed above"))
        }
    }
}

/// Every machine of the cluster, or of all clusters.
async fn all(client: &Client, scope: &CloudScope) -> Result<Vec<Machine>, Failure> {
    let failure = |error: ClientError| refused(&error);
    if let Some(cluster) = &scope.cluster {
        return client.machines(cluster).await.map_err(failure);
    }
    let mut machines = Vec::new();
    for cluster in client.clusters().await.map_err(failure)? {
        match client.machines(&cluster.name).await {
            Ok(more) => machines.extend(more),
            // It is being destroyed, or it is gone since we asked.
            Err(error) if matches!(error.status(), Some(404 | 409)) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Ok(machines)
}

fn choose(machines: &[Machine], deed: Deed, which: &Machines) -> Result<Vec<Machine>, Failure> {
    if !which.all {
        return which.names.iter().map(|name| one(machines, name)).collect();
    }
    let mut clusters: Vec<&str> = machines.iter().map(|machine| machine.cluster.as_str()).collect();
    clusters.dedup();
    match (clusters.as_slice(), deed) {
        ([], _) => Err(Failure::new(Exit::Usage, "there is no machine", Vec::new(), "windlass cloud status")),
        // Before and after a host's reboot everybody's machines are meant; nothing is lost by either.
        ([_], _) | (_, Deed::Start | Deed::Stop) => Ok(machines.to_vec()),
        (several, Deed::Reboot | Deed::PowerCut) => {
            let because = vec![format!("there are machines of {}", several.join(", "))];
            Err(Failure::new(Exit::Usage, "--all of which cluster?", because, "name one with --cluster"))
        }
    }
}

fn one(machines: &[Machine], name: &Label) -> Result<Machine, Failure> {
    let found: Vec<&Machine> = machines.iter().filter(|machine| machine.name == *name).collect();
    match found.as_slice() {
        [machine] => Ok((*machine).clone()),
        [] => {
            let error = format!("there is no machine {name}");
            Err(Failure::new(Exit::Usage, error, Vec::new(), "windlass cloud machine list names them"))
        }
        several => {
            let clusters: Vec<&str> = several.iter().map(|machine| machine.cluster.as_str()).collect();
            let error = format!("which machine {name}?");
            let because = vec![format!("there is one in each of {}", clusters.join(", "))];
            Err(Failure::new(Exit::Usage, error, because, "name the cluster with --cluster"))
        }
    }
}
