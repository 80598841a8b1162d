//! Machines of the local cloud: what each is asked to be, and what it is.

use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tracing::warn;
use windlass_assets::SshKeys;
use windlass_assets::bootstrap_assets::Origin;
use windlass_assets::ignition::{BOOTSTRAP_ASSETS, BOOTSTRAP_OBJECT, CONFIG_TOKEN, JOIN_TOKEN, TOKEN_KEY, object_url};
use windlass_cloud_api::{self as cloud, ExecRequest, ForwardSpec, Label, MachineSpec, Tags};
use windlass_spec::Secret;
use windlass_spec::complete::InstanceGroup;

use super::ask::{act, is_unknown};
use super::{ASSETS, CONFIG, Local, label, object_key};
use crate::seen::{Executed, MachineState, SeenMachine, Task};
use crate::{BOOTSTRAP, ETCD_INDEX, Order, PlatformError, ssh};

/// How long the bootstrap machine may take to its first boot.
const URL_SECONDS: u32 = 3600;

/// Makes every machine that is not there. One that is there is left alone: its user-data names a URL that was signed then,
/// and would be another now.
pub(super) async fn create(local: &Local, order: &Order<'_>) -> Result<(), PlatformError> {
    let listed = local.client.machines(&local.cluster).await.map_err(act("look at the machines"))?;
    let is_there = |name: &str| listed.iter().any(|machine| machine.name.as_str() == name);
    if order.has_bootstrap() && !is_there(BOOTSTRAP) {
        let spec = bootstrap(local, order).await?;
        put(local, BOOTSTRAP, &spec).await?;
    }
    for machine in order.machines().iter().filter(|machine| !is_there(machine.name.as_str())) {
        let pointer = order.config(&format!("assets/pointers/{}.ign", machine.group))?;
        let user_data = pointer.replace(CONFIG_TOKEN, "@token(config)@").replace(JOIN_TOKEN, "@token(join)@");
        let tags: Tags = machine.etcd_index.iter().map(|index| (ETCD_INDEX.to_owned(), index.to_string())).collect();
        let role = machine.role.as_str();
        let spec = spec(local, order.group(Some(machine))?, role, machine.address, user_data)?;
        put(local, machine.name.as_str(), &MachineSpec { tags, ..spec }).await?;
    }
    Ok(())
}

async fn bootstrap(local: &Local, order: &Order<'_>) -> Result<MachineSpec, PlatformError> {
    let cluster = local.client.cluster(&local.cluster).await.map_err(act("look at the network"))?;
    let config = signed(local, CONFIG).await?;
    let pointer = order.config("assets/bootstrap-pointer.ign")?;
    let mut user_data = pointer.replace(BOOTSTRAP_OBJECT, &config).replace(TOKEN_KEY, &cluster.token_key);
    // The digest is that of the document as it lies in the store, whatever was edited since the pointer was made.
    if let (Some(_), Some(digest)) = (order.pulled_assets(), order.bootstrap_assets.digest()) {
        let url = Secret::new(object_url(order.spec, &signed(local, ASSETS).await?));
        let origin = Origin { url, digest }.to_text();
        user_data = user_data.replace(BOOTSTRAP_ASSETS, &STANDARD.encode(origin.expose()));
    }
    spec(local, order.group(None)?, BOOTSTRAP, order.spec.spec.network.bootstrap, user_data)
}

/// An object's name with what opens it for a while.
async fn signed(local: &Local, name: &str) -> Result<String, PlatformError> {
    let url = local.client.object_url(&local.cluster, &object_key(name)?, URL_SECONDS).await;
    let url = url.map_err(act(format!("sign the URL of the object {name}")))?.url;
    Ok(behind_host(&url).to_owned())
}

fn spec(
    local: &Local,
    group: &InstanceGroup,
    role: &str,
    address: Ipv4Addr,
    user_data: String,
) -> Result<MachineSpec, PlatformError> {
    let images = local.images.as_ref();
    let images = images.ok_or_else(|| PlatformError::act("make machines", "there is nothing to make them from"))?;
    Ok(MachineSpec {
        image: images.first()?,
        role: role.to_owned(),
        address: Some(address),
        memory: Some(u64::from(group.memory_mib) << 20),
        cpus: Some(group.cpus.saturating_mul(1000)),
        user_data: Some(user_data),
        tags: Tags::new(),
    })
}

async fn put(local: &Local, name: &str, spec: &MachineSpec) -> Result<(), PlatformError> {
    let put = local.client.put_machine(&local.cluster, &label(name)?, spec).await;
    put.map(drop).map_err(act(format!("make the machine {name}")))
}

/// Path and query of a URL: the pointer names the host itself, so that its certificate or zone may change.
fn behind_host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(_, path)| path)
}

/// A machine in the platform's words.
pub(super) fn seen(machine: cloud::Machine) -> SeenMachine {
    let state = match machine.state {
        cloud::MachineState::Making { reason } => MachineState::Making { reason },
        cloud::MachineState::Igniting { reason } => MachineState::Igniting { reason },
        cloud::MachineState::Running { .. } => MachineState::Running,
        cloud::MachineState::Stopped => MachineState::Off,
        cloud::MachineState::Dead { reason } => MachineState::Dead { reason },
    };
    SeenMachine { name: machine.name.to_string(), role: machine.spec.role, address: machine.address, state }
}

/// Runs a command on a machine.
pub(super) async fn exec(local: &Local, machine: &str, task: &Task) -> Result<Executed, PlatformError> {
    let attempt = || format!("run {} on {machine}", task.words.join(" "));
    let request = ExecRequest {
        command: task.words.clone(),
        stdin: String::new(),
        timeout: Some(u32::try_from(task.limit.as_secs().max(1)).unwrap_or(u32::MAX)),
    };
    let ran = match task.stdin.as_slice() {
        [] => local.client.exec(&local.cluster, &label(machine)?, &request).await,
        bytes => local.client.feed(&local.cluster, &label(machine)?, &request, bytes).await,
    };
    let ran = ran.map_err(act(attempt()))?;
    Ok(Executed { code: ran.code, stdout: ran.stdout, stderr: ran.stderr })
}

/// Runs a command on a machine over SSH, through a door on 127.0.0.1 that is closed again.
pub(super) async fn exec_over_ssh(
    local: &Local,
    machine: &str,
    keys: &SshKeys,
    task: &Task,
) -> Result<Executed, PlatformError> {
    let listed = local.client.machines(&local.cluster).await.map_err(act("look at the machines"))?;
    let address = listed.iter().find(|found| found.name.as_str() == machine).map(|found| found.address);
    let attempt = || format!("run {} on {machine} over SSH", task.words.join(" "));
    let address = address.ok_or_else(|| PlatformError::act(attempt(), "there is no such machine"))?;
    let spec = ForwardSpec { port: None, address, to: ssh::PORT };
    let door = local.client.put_forward(&local.cluster, &ssh_door(machine)?, &spec).await;
    let door = door.map_err(act(format!("open the way to {machine}")))?;
    let ran = ssh::run((Ipv4Addr::LOCALHOST, door.port).into(), keys, task).await;
    let closed = close_ssh(local, machine).await;
    match (ran, closed) {
        (Ok(executed), closed) => closed.map(|()| executed),
        (Err(error), closed) => {
            if let Err(error) = closed {
                warn!(machine, %error, "way not closed; retiring the machine closes it");
            }
            Err(PlatformError::act(attempt(), error))
        }
    }
}

/// Closes the way to a machine's sshd, if there is one.
pub(super) async fn close_ssh(local: &Local, machine: &str) -> Result<(), PlatformError> {
    match local.client.delete_forward(&local.cluster, &ssh_door(machine)?).await {
        Err(error) if !is_unknown(&error) => Err(act(format!("close the way to {machine}"))(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn ssh_door(machine: &str) -> Result<Label, PlatformError> {
    label(&format!("ssh-{machine}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointer_gets_path_and_query_and_keeps_its_own_host() {
        for (url, want) in [
            ("http://10.64.0.1/bootstrap.ign?expires=1&signature=x", "bootstrap.ign?expires=1&signature=x"),
            ("http://10.64.0.1:80/a/b", "a/b"),
        ] {
            assert_eq!(behind_host(url), want);
        }
    }
}
