//! The temporary control plane as static pods of this machine: each is there while its file is in the kubelet's
//! directory, and starts when what it needs is there, so that none fails and backs off.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_steps::criterion::Criterion;
use windlass_steps::host::{Mode, read_file, sync_dir, write_file};
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::control_plane::SelfHosted;
use super::reach;
use super::servers::Freed;
use super::site::Site;
use crate::places::Places;

const MANIFEST_LIMIT: u64 = 1 << 20;

/// A program of the temporary control plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct StaticPod {
    file: &'static str,
}

pub(super) const API: StaticPod = StaticPod { file: "bootstrap-kube-apiserver.yaml" };
const CONTROLLER_MANAGER: StaticPod = StaticPod { file: "bootstrap-kube-controller-manager.yaml" };
const SCHEDULER: StaticPod = StaticPod { file: "bootstrap-kube-scheduler.yaml" };

impl StaticPod {
    /// Whether the kubelet has it.
    pub(super) fn is_placed(self, places: &Places) -> bool {
        self.place(places).exists()
    }

    /// Gives it to the kubelet, in one motion. The same text again changes nothing.
    fn start(self, places: &Places) -> Result<(), StepError> {
        let file = self.file;
        let text =
            read_file(places.bootstrap_manifests().join(file), MANIFEST_LIMIT).attempt(format_args!("read {file}"))?;
        write_file(self.place(places), text, Mode::PRIVATE_FILE).attempt(format_args!("give {file} to the kubelet"))
    }

    /// Takes it from the kubelet, which then ends it.
    pub(super) fn stop(self, places: &Places) -> Result<(), StepError> {
        let removed = match fs::remove_file(self.place(places)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        let file = self.file;
        removed.attempt(format_args!("take {file} from the kubelet"))?;
        sync_dir(places.manifests()).attempt(format_args!("take {file} from the kubelet for good"))
    }

    fn place(self, places: &Places) -> PathBuf {
        places.manifests().join(self.file)
    }
}

/// Starts the temporary API server.
pub(super) struct StartApi<'a> {
    pub site: &'a Site,
    pub _freed: Freed,
}

/// The temporary API serves on this machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TemporaryApi(());

impl Step for StartApi<'_> {
    const NAME: StepName = StepName::new("start-api-server");
    const SUMMARY: &'static str = "start the temporary API server on the bootstrap machine";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = TemporaryApi;

    async fn run(&self) -> Result<TemporaryApi, StepError> {
        API.start(&self.site.places).map(|()| TemporaryApi(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a TemporaryApi) -> Vec<Criterion<'a>> {
        vec![Criterion::new("the temporary API is ready", || async { Ok(reach::ready(&self.site.api).await) })]
    }
}

/// Starts the temporary controller manager and scheduler.
pub(super) struct StartControllers<'a> {
    pub site: &'a Site,
    pub _api: &'a TemporaryApi,
}

/// The temporary controllers run on this machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TemporaryControllers(());

impl Step for StartControllers<'_> {
    const NAME: StepName = StepName::new("start-controllers");
    const SUMMARY: &'static str = "start the temporary controller manager and scheduler on the bootstrap machine";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = TemporaryControllers;

    async fn run(&self) -> Result<TemporaryControllers, StepError> {
        CONTROLLER_MANAGER.start(&self.site.places)?;
        SCHEDULER.start(&self.site.places)?;
        Ok(TemporaryControllers(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a TemporaryControllers) -> Vec<Criterion<'a>> {
        let ports = self.site.ports;
        vec![
            Criterion::new("the temporary controller manager runs", move || reach::listens(ports.controller_manager)),
            Criterion::new("the temporary scheduler runs", move || reach::listens(ports.scheduler)),
        ]
    }
}

/// Stops the temporary controllers, so that those of the masters may lead.
pub(super) struct HandOver<'a> {
    pub site: &'a Site,
    pub _controllers: TemporaryControllers,
    pub _self_hosted: &'a SelfHosted,
}

/// The temporary controllers have ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HandedOver(());

impl Step for HandOver<'_> {
    const NAME: StepName = StepName::new("hand-over");
    const SUMMARY: &'static str = "stop the temporary controller manager and scheduler";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = HandedOver;

    async fn run(&self) -> Result<HandedOver, StepError> {
        CONTROLLER_MANAGER.stop(&self.site.places)?;
        SCHEDULER.stop(&self.site.places)?;
        Ok(HandedOver(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a HandedOver) -> Vec<Criterion<'a>> {
        let ports = self.site.ports;
        vec![
            Criterion::new("the temporary controller manager has ended", move || {
                reach::refuses(ports.controller_manager)
            }),
            Criterion::new("the temporary scheduler has ended", move || reach::refuses(ports.scheduler)),
        ]
    }
}
