//! Stopping the servers that only this machine has, so that the API can have their port and their twins their work. They
//! stay stopped: on a boot in the middle of the pivot the signer would take the port again, and answer in the API's place.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::host::{Commands, Mode, cmd, write_file};
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::quorum::Quorum;
use super::reach;
use super::site::Site;
use super::static_pods::API;

const SERVERS: [&str; 2] = ["machine-config-server.service", "etcd-signer.service"];
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Stops the machine-config server and the etcd signer for good.
pub(super) struct StopServers<'a, C> {
    pub site: &'a Site,
    pub commands: &'a C,
    pub _quorum: Quorum,
}

/// The API's port is free.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Freed(());

impl<C: Commands> Step for StopServers<'_, C> {
    const NAME: StepName = StepName::new("stop-servers");
    const SUMMARY: &'static str = "stop the machine-config server and the etcd signer of the bootstrap machine";
    const DEADLINE: Duration = Duration::from_secs(60);
    type Done = Freed;

    async fn run(&self) -> Result<Freed, StepError> {
        let stop = cmd("systemctl").arg("stop").args(SERVERS).timeout(STOP_LIMIT);
        self.commands.run(stop).await.attempt("stop the servers of this machine")?;
        // Not before: a run that was cut short is to find them as it left them.
        let done = self.site.places.servers_done();
        write_file(done, "", Mode::PUBLIC).attempt("write down that the servers have stopped")?;
        Ok(Freed(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a Freed) -> Vec<Criterion<'a>> {
        vec![Criterion::new("the API's port is free", || self.is_free())]
    }
}

impl<C> StopServers<'_, C> {
    /// After a crash later in the flow the port may be the API's already.
    async fn is_free(&self) -> Result<Observation, LookError> {
        match API.is_placed(&self.site.places) {
            true => Ok(Observation::Holds),
            false => reach::refuses(self.site.ports.api).await,
        }
    }
}
