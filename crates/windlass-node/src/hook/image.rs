//! A hook in a container of its own image: the hook's command, on the machine's network, with every right, and
//! with the machine's root at `/rootfs`. It is as mighty as a hook without an image, and brings its own tools.

use thiserror::Error;
use tracing::info;
use windlass_steps::criterion::{Criterion, LookError, Observation, Reason};
use windlass_steps::host::{CommandSpec, Commands, HostError, Output, cmd};
use windlass_steps::wait::Unmet;

use crate::args::RunHook;
use crate::containerd;
use crate::join::{Observe, listed, observer, wait_for};
use crate::places::Places;
use crate::record::Recorder;

/// Where the kubelet's images are, and those that came with the machine: `windlass image load` puts a user's there too.
/// Images are not shared between namespaces, and the kubelet does not mind a container that it did not make.
const NAMESPACE: &str = "k8s.io";
const ROOT: &str = "type=bind,src=/,dst=/rootfs,options=rbind:rw";

const ANSWERS: &str = "containerd answers";

/// Why there is no container for a hook.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The wait for the runtime ended without it.
    #[error("the container runtime does not answer: {}", listed(.unmet))]
    AwaitRuntime {
        /// What was seen last.
        unmet: Vec<Unmet>,
    },
    /// The runtime does not say what is left of an earlier run.
    #[error("cannot see what an earlier run left behind")]
    ListContainers {
        /// What happened.
        source: HostError,
    },
    /// What an interrupted run left behind stays there.
    #[error("cannot remove the container {id} of an earlier run")]
    RemoveContainer {
        /// The container.
        id: String,
        /// What happened.
        source: HostError,
    },
    /// The runtime does not say which images it has.
    #[error("cannot see which images are here")]
    ListImages {
        /// What happened.
        source: HostError,
    },
    /// The image is not here and cannot be had.
    #[error("the image is not on this machine and cannot be pulled")]
    PullImage {
        /// What happened.
        source: HostError,
    },
}

/// The command that runs the hook in a new container and ends with its code, once nothing is in its way.
pub(super) async fn container(
    places: &Places,
    hook: &RunHook,
    image: &str,
    commands: &impl Commands,
    record: &mut Recorder,
) -> Result<CommandSpec, ImageError> {
    let RunHook { name, command: words, .. } = hook;
    record.stage("await-runtime");
    await_runtime(places, &mut observer(record)).await?;
    let id = format!("windlass-hook-{name}");
    record.stage("remove-leftovers");
    remove(&id, commands).await?;
    record.stage("find-image");
    let found = commands.run(ctr().args(["images", "list", "--quiet"]).arg(format!("name=={image}"))).await;
    if !lists(&found.map_err(|source| ImageError::ListImages { source })?, image) {
        info!(image, "pulling image");
        record.stage("pull-image");
        let pulled = commands.run(ctr().args(["images", "pull", image])).await;
        pulled.map_err(|source| ImageError::PullImage { source })?;
    }
    let run = ctr().args(["run", "--rm", "--privileged", "--net-host", "--mount", ROOT]);
    Ok(run.arg(image).arg(id).args(words))
}

/// Its unit is waited for by ours, but starts without a configuration, or too early, where the node flow fails at first.
async fn await_runtime(places: &Places, observe: Observe<'_>) -> Result<(), ImageError> {
    let look = || async {
        let answered = containerd::ask(&places.containerd_socket()).await;
        Ok::<_, LookError>(answered.map_or_else(|why| Observation::NotYet(Reason::new(why)), |()| Observation::Holds))
    };
    let waited = wait_for(Criterion::new(ANSWERS, look), observe).await;
    waited.map_err(|unmet| ImageError::AwaitRuntime { unmet })
}

/// A run that was killed leaves its container, and its process if only we were killed.
async fn remove(id: &str, commands: &impl Commands) -> Result<(), ImageError> {
    let listed = commands.run(ctr().args(["containers", "list", "--quiet"]).arg(format!("id=={id}"))).await;
    if !lists(&listed.map_err(|source| ImageError::ListContainers { source })?, id) {
        return Ok(());
    }
    info!(container = id, "removing what an earlier run left behind");
    // A container without a process has no task, which is an error here; what matters is whether the container goes.
    let _ = commands.run(ctr().args(["tasks", "delete", "--force", id])).await;
    let removed = commands.run(ctr().args(["containers", "delete", id])).await;
    removed.map(drop).map_err(|source| ImageError::RemoveContainer { id: id.to_owned(), source })
}

fn ctr() -> CommandSpec {
    cmd("ctr").args(["--namespace", NAMESPACE])
}

fn lists(output: &Output, name: &str) -> bool {
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == name)
}
