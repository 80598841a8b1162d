//! The real world: systemd-nspawn machines in network namespaces.

pub mod destroy;
mod network;
pub mod volume;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use windlass_cloud_api::{ExecAnswer, ExecRequest, Image, Label};
use windlass_steps::host::{Mode, make_dir, write_file};

use super::view::View;
use super::{SeenMachine, Surroundings, Trouble, boot};
use crate::cloud::Cloud;
use crate::machine::{self, Command, Description, Limits, MachineError, Phase, Slot, console, image, slot};
use crate::metadata;
use crate::model::{ClusterRow, Ending, MachineRow};
use crate::network::link::Plug;
use crate::network::metadata::listen_metadata;
use crate::network::namespace::Namespace;
use crate::places::Places;
use crate::plan::{Ended, MachineFacts, Process, Stage};
use crate::process::{Identity, ProcessError};
use crate::refused::{Class, Refused};
pub use network::RealNetwork;

/// How long a machine that was asked to power off may take.
const GRACE: Duration = Duration::from_secs(30);
const CONSOLE: u64 = 64 << 10;

/// The real world.
#[derive(Default)]
pub struct Real {
    /// Our own program, where no rebuild replaces it under a running machine.
    program: OnceCell<PathBuf>,
}

impl Real {
    pub(super) async fn open_network(&self, cloud: &Cloud, row: &ClusterRow) -> Result<RealNetwork, Trouble> {
        let objects = cloud.object_store(&row.name)?;
        let (places, row, clock) = (cloud.places().clone(), row.clone(), *cloud.clock());
        RealNetwork::open(&places, &row, objects, Arc::new(clock)).await
    }

    pub(super) async fn look(&self, places: &Places, row: &MachineRow) -> SeenMachine {
        let (places, row) = (places.clone(), row.clone());
        let looked = tokio::task::spawn_blocking(move || looked(&places, &row)).await;
        looked.unwrap_or_else(|_| SeenMachine::facts(MachineFacts::NOTHING))
    }

    pub(super) async fn plug(&self, places: &Places, network: &RealNetwork, row: &MachineRow) -> Result<(), Trouble> {
        let path = places.machine_network(&row.cluster, &row.name);
        let (lan, index, address) = (network.lan(), row.index, row.address);
        aside(move || {
            let machine = Namespace::pin(&path)?;
            lan.plug(&Plug { machine: &machine, index, address })?;
            Ok(())
        })
        .await
    }

    pub(super) async fn serve(&self, cloud: &Cloud, network: &RealNetwork, row: &MachineRow) -> Result<(), Trouble> {
        let path = cloud.places().machine_network(&row.cluster, &row.name);
        let listener = aside(move || Ok(listen_metadata(&Namespace::open(&path)?)?)).await?;
        let view = Arc::new(View::new(cloud.clone(), row.cluster.clone(), row.name.clone()));
        network.answer(&row.name, listener, metadata::router(view))
    }

    pub(super) async fn boot(
        &self,
        places: &Places,
        row: &MachineRow,
        image: &Image,
        around: &Surroundings,
    ) -> Result<(), Trouble> {
        let program = self.program(places).await?;
        let description = {
            let (places, row, image, around) = (places.clone(), row.clone(), image.clone(), around.clone());
            aside(move || described(&places, &row, &image, &around, program)).await?
        };
        match machine::Lifecycle::of(&description)? {
            machine::Lifecycle::On(_) => {}
            machine::Lifecycle::Off(off) => {
                make_dir(&description.directory, Mode::PRIVATE_DIR)?;
                boot::begin(&description.directory, row.boot, [description.exit(), description.runner()])?;
                off.start().await?;
            }
        }
        Ok(())
    }

    pub(super) async fn ended(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        match lifecycle(places, row)? {
            Some(machine::Lifecycle::On(on)) => on.ended().await.map(drop).map_err(Into::into),
            Some(machine::Lifecycle::Off(_)) | None => Ok(()),
        }
    }

    pub(super) async fn end(&self, places: &Places, row: &MachineRow, ending: Ending) -> Result<(), Trouble> {
        let Some(machine::Lifecycle::On(on)) = lifecycle(places, row)? else { return Ok(()) };
        match ending {
            Ending::Asked => drop(on.stop(GRACE).await?),
            Ending::Cut => drop(on.power_cut().await?),
        }
        Ok(())
    }

    pub(super) async fn remove_machine(
        &self,
        places: &Places,
        network: &RealNetwork,
        row: &MachineRow,
    ) -> Result<(), Trouble> {
        network.fall_silent(&row.name).await;
        if let Some(machine::Lifecycle::Off(off)) = lifecycle(places, row)? {
            off.remove().await?;
        }
        let (lan, index) = (network.lan(), row.index);
        let (kept, run) = (places.machine(&row.cluster, &row.name), places.machine_run(&row.cluster, &row.name));
        let pin = places.machine_network(&row.cluster, &row.name);
        aside(move || {
            lan.unplug(index)?;
            Namespace::unpin(&pin)?;
            remove_tree(&run)?;
            remove_tree(&kept)
        })
        .await
    }

    pub(super) async fn exec(
        &self,
        places: &Places,
        row: &MachineRow,
        request: &ExecRequest,
        stdin: Vec<u8>,
        limit: Duration,
    ) -> Result<ExecAnswer, Refused> {
        let failed = |error: MachineError| Refused::failed(format!("nothing was run in {}", row.name), &error);
        let Some(machine::Lifecycle::On(on)) = lifecycle(places, row).map_err(failed)? else {
            return Err(Refused::new(Class::Conflict, format!("machine {} does not run", row.name)));
        };
        let words = request.command.clone();
        let command = Command { words, stdin, timeout: limit };
        let executed = on.exec(command).await.map_err(|error| match error {
            MachineError::NotBooted { .. } => Refused { class: Class::NotYet, ..failed(error) },
            error => failed(error),
        })?;
        let stdout = String::from_utf8_lossy(&executed.stdout).into_owned();
        Ok(ExecAnswer { code: executed.code, stdout, stderr: executed.stderr })
    }

    pub(super) fn console(&self, places: &Places, row: &MachineRow) -> Result<String, Refused> {
        let path = places.machine(&row.cluster, &row.name).join("console.log");
        let tail = console::tail(&path, CONSOLE);
        let tail =
            tail.map_err(|error| Refused::failed(format!("the console of {} cannot be read", row.name), &error))?;
        Ok(String::from_utf8_lossy(&tail).into_owned())
    }

    pub(super) async fn stage(&self, places: &Places, row: &MachineRow, image: &Image) -> Result<(), Trouble> {
        let (directory, places, image) = (places.machine(&row.cluster, &row.name), places.clone(), image.clone());
        aside(move || Ok(slot::stage(&directory, &slot_of(&places, &image)?)?)).await
    }

    /// A copy of our own program in the state directory.
    async fn program(&self, places: &Places) -> Result<PathBuf, Trouble> {
        let place = places.state.join("bin/windlass-cloud");
        let copied = self.program.get_or_try_init(|| {
            aside(move || {
                make_dir(place.parent().unwrap_or(Path::new("/")), Mode::PUBLIC_DIR)?;
                // Through the link that the kernel keeps, which works even if the file was replaced.
                let own = std::fs::read("/proc/self/exe")?;
                if std::fs::read(&place).ok().as_deref() != Some(own.as_slice()) {
                    write_file(&place, own, Mode::EXECUTABLE)?;
                }
                Ok(place)
            })
        });
        copied.await.cloned()
    }
}

/// Waits until a machine's first process has ended.
pub async fn leader_ended(leader: u32) -> Result<(), Trouble> {
    match Identity::of(i32::try_from(leader)?) {
        Ok(identity) => Ok(identity.ended().await?),
        Err(ProcessError::FindProcess { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Runs what blocks on a thread that may.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T, Trouble> + Send + 'static) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}

/// Runs what awaits things of one thread on a thread of its own.
async fn alone<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, Trouble>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Trouble>>,
{
    aside(move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())).await
}

fn lifecycle(places: &Places, row: &MachineRow) -> Result<Option<machine::Lifecycle>, MachineError> {
    let file = places.machine(&row.cluster, &row.name).join("machine.json");
    match file.exists() {
        true => machine::Lifecycle::of(&Description::read(&file)?).map(Some),
        false => Ok(None),
    }
}

fn looked(places: &Places, row: &MachineRow) -> SeenMachine {
    let directory = places.machine(&row.cluster, &row.name);
    let kept = directory.exists() || places.machine_run(&row.cluster, &row.name).exists();
    let boot = boot::begun(&directory);
    let nothing = || SeenMachine::facts(MachineFacts { kept, ..MachineFacts::NOTHING });
    let mut seen = match lifecycle(places, row) {
        Ok(None) => nothing(),
        Ok(Some(machine::Lifecycle::Off(off))) => {
            let mut seen = nothing();
            seen.facts.process = off.ended.map_or(Process::Absent, |ended| Process::Ended { boot, how: how(&ended) });
            seen
        }
        Ok(Some(machine::Lifecycle::On(on))) => running(&on, boot, nothing()),
        Err(error) => {
            tracing::warn!(machine = %row.name, %error, "machine cannot be looked at");
            nothing()
        }
    };
    let name = |slot: Option<Slot>| slot.and_then(|slot| image_name(&slot.tree));
    seen.image = slot::current(&directory).ok().and_then(name);
    seen.staged = slot::staged(&directory).ok().and_then(name);
    seen
}

fn running(on: &machine::On, boot: u64, seen: SeenMachine) -> SeenMachine {
    let Ok(runner) = on.runner() else { return seen };
    let stage = match runner.phase {
        Phase::Preparing => Stage::Preparing,
        Phase::Igniting => Stage::Igniting,
        Phase::Booted => Stage::Up,
    };
    // Looked for only once it can be there: that costs, and a machine may wait for its config for minutes.
    let leader = match stage {
        Stage::Up => on.leader().ok().and_then(|leader| u32::try_from(leader).ok()),
        _ => None,
    };
    // Until its first process is there, it is not up: nobody could enter it.
    let stage = if stage == Stage::Up && leader.is_none() { Stage::Preparing } else { stage };
    let pid = u32::try_from(runner.identity.pid).unwrap_or_default();
    let facts = MachineFacts { process: Process::Running { boot, pid, stage }, ..seen.facts };
    SeenMachine { facts, leader, reason: on.ignition_reason(), ..seen }
}

fn how(ended: &machine::Ended) -> Ended {
    match ended {
        machine::Ended::Exited { code: 0, .. } => Ended::PoweredOff,
        machine::Ended::Exited { code, .. } => Ended::Died(format!("it ended with code {code}")),
        machine::Ended::Killed { signal, .. } => Ended::Died(format!("it was killed by signal {signal}")),
        machine::Ended::Failed { reason, .. } => Ended::Died(reason.clone()),
        machine::Ended::Lost => Ended::Died("whoever ran it is gone".to_owned()),
    }
}

fn described(
    places: &Places,
    row: &MachineRow,
    image: &Image,
    around: &Surroundings,
    program: PathBuf,
) -> Result<Description, Trouble> {
    let os = slot_of(places, image)?;
    let mut seeds = Vec::new();
    for seed in &image.spec.seeds {
        let at = seed.at.strip_prefix("/var").unwrap_or(&seed.at).to_owned();
        let name = format!("seed-{}", at.to_string_lossy().replace(['/', '.'], "-"));
        let unpacked = image::unpack(&places.images(), &name, &seed.digest, &seed.tree)?;
        seeds.push(machine::Seed { tree: unpacked.tree, at });
    }
    Ok(Description {
        cluster: row.cluster.to_string(),
        machine: row.name.to_string(),
        directory: places.machine(&row.cluster, &row.name),
        run: places.machine_run(&row.cluster, &row.name),
        pins: places.run.clone(),
        network: places.machine_network(&row.cluster, &row.name),
        gateway: around.gateway.into(),
        search: vec![around.domain.clone()],
        image: os.tree.clone(),
        os,
        seeds,
        binds: Vec::new(),
        limits: Limits { memory: row.spec.memory, millicpus: row.spec.cpus.map(u64::from) },
        program,
        ignition: image.spec.ignition.clone().filter(|_| row.spec.user_data.is_some()),
    })
}

/// An image as an operating system to boot, unpacked.
fn slot_of(places: &Places, image: &Image) -> Result<Slot, Trouble> {
    let unpacked = image::unpack(&places.images(), image.name.as_str(), &image.spec.digest, &image.spec.tree)?;
    Ok(Slot { version: image.spec.os_version.clone(), tree: unpacked.tree })
}

/// `…/images/<name>/<digest>/tree`.
fn image_name(tree: &Path) -> Option<Label> {
    Label::parse(&tree.parent()?.parent()?.file_name()?.to_string_lossy()).ok()
}

fn remove_tree(path: &Path) -> Result<(), Trouble> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
