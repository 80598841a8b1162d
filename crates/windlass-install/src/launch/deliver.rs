//! What the bootstrap machine starts the control plane with reaches it: it fetches the assets by itself, or they are pushed
//! over SSH from here. Pushing again does no harm.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_assets::SshKeys;
use windlass_platform::{BOOTSTRAP, Order, Platform, Task};
use windlass_steps::criterion::Criterion;
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::bootstrap::{judge, seen};
use super::resources::{Machines, reported};
use crate::sight::Sight;

/// What puts pushed assets in their places.
const TAKE: [&str; 3] = ["/opt/windlass/bin/windlass-node", "bootstrap-assets", "--stdin"];
/// How long that may take, without the wait for the machine's sshd.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the bootstrap machine has its assets, and pushes them if the spec says so.
pub struct DeliverAssets<'a, P, S> {
    /// The machines that are on their way.
    pub machines: &'a Machines,
    /// What was asked for.
    pub order: Order<'a>,
    /// The keys of a push, where there is one.
    pub keys: Option<&'a SshKeys>,
    /// Where the machines are.
    pub platform: &'a P,
    /// What is seen of them.
    pub sight: &'a S,
}

/// The bootstrap machine has its assets.
#[derive(Debug, Serialize, Deserialize)]
pub struct Delivered {
    digest: Option<String>,
}

impl<P: Platform, S: Sight> Step for DeliverAssets<'_, P, S> {
    const NAME: StepName = StepName::new("deliver-assets");
    const SUMMARY: &'static str = "bring the control plane's manifests and keys to the bootstrap machine";
    const DEADLINE: Duration = Duration::from_secs(120);
    type Done = Delivered;

    async fn run(&self) -> Result<Delivered, StepError> {
        if let Some(text) = self.order.pushed_assets() {
            self.push(text).await?;
        }
        Ok(Delivered { digest: self.order.bootstrap_assets.digest() })
    }

    fn exit_criteria<'a>(&'a self, _: &'a Delivered) -> Vec<Criterion<'a>> {
        vec![seen(self.sight, "the bootstrap machine has its assets", judge::delivered)]
    }
}

impl<P: Platform, S> DeliverAssets<'_, P, S> {
    async fn push(&self, text: &str) -> Result<(), StepError> {
        let keys = self.keys.ok_or("the keys below assets/ssh are missing: run `windlass prepare`");
        let keys = keys.attempt("push the bootstrap machine's assets")?;
        let task = Task::new(TAKE, LIMIT).reading(text);
        let ran = self.platform.exec_over_ssh(BOOTSTRAP, keys, &task).await;
        let ran = ran.map_err(reported("push the bootstrap machine's assets"))?;
        match ran.code {
            0 => Ok(()),
            code => {
                let said = format!("it ended with code {code}: {}", ran.stderr.trim_end());
                Err(StepError::new("have the bootstrap machine take its assets", said))
            }
        }
    }
}
