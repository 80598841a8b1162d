//! Before anything is made: whether this host, the platform and the assets can become a cluster. Everything that stands in
//! the way is told at once, and nothing is changed by looking.

mod cgroup;
mod driver;
mod host;
mod judge;
mod kernel;

pub use cgroup::Cgroups;
pub use host::{FakeHost, HostFacts, LookAtHost, ThisHost};

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_assets::AssetDir;
use windlass_assets::asset::AssetError;
use windlass_platform::{Order, Platform};
use windlass_spec::CompleteSpec;
use windlass_spec::file::{Platform as PlatformSpec, Topology};
use windlass_steps::clock::Clock;
use windlass_steps::criterion::Criterion;
use windlass_steps::journal::History;
use windlass_steps::step::{Step, StepError, StepName};

use crate::prepare::Assets;

/// The step's name, for whoever only reads the journal.
pub const NAME: StepName = StepName::new("preflight");

/// Looks at everything that could stop a launch.
pub struct Preflight<'a, P, H> {
    /// What is to be launched.
    pub assets: &'a Assets,
    /// What will be asked of the platform.
    pub order: Order<'a>,
    /// Whom it will be asked of.
    pub platform: &'a P,
    /// What is seen of this host.
    pub host: &'a H,
    /// What is missing of the artifacts.
    pub missing: &'a [String],
    /// The files that were edited since `prepare`.
    pub edited: &'a [String],
    /// What time it is.
    pub clock: &'a dyn Clock,
}

/// Nothing stands in the way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cleared {
    notices: Vec<String>,
}

impl Cleared {
    /// What a user should know before relying on the cluster, according to a journal.
    pub fn notices(history: &History) -> Vec<String> {
        let finished = history.entries.iter().rfind(|entry| entry.event.step == NAME && entry.done.is_some());
        let cleared = finished.and_then(|entry| Cleared::deserialize(entry.done.as_ref()?).ok());
        cleared.map(|cleared| cleared.notices).unwrap_or_default()
    }
}

/// What stands in the way, all of it; one line each.
#[derive(Debug, Error)]
pub struct PreflightError {
    /// Never empty.
    pub problems: Vec<String>,
}

impl fmt::Display for PreflightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl<P: Platform, H: LookAtHost> Step for Preflight<'_, P, H> {
    const NAME: StepName = NAME;
    const SUMMARY: &'static str = "see that nothing stands in the way";
    const DEADLINE: Duration = Duration::from_secs(3);
    type Done = Cleared;

    async fn run(&self) -> Result<Cleared, StepError> {
        let mut problems = unsupported(&self.assets.spec);
        let facts = self.host.facts();
        problems.extend(judge::host(&facts, &self.assets.spec));
        problems.extend(judge::clock(&facts, self.clock.now(), &self.assets.pki));
        problems.extend(driver::foreign(&self.assets.configs));
        problems.extend(self.missing.iter().cloned());
        problems.extend(self.platform.problems(&self.order).await);
        match problems.is_empty() {
            true => Ok(Cleared { notices: judge::notices(&facts, self.edited) }),
            false => Err(StepError::new("launch on this host as it is", PreflightError { problems })
                .hint("mend each of these and launch again; nothing was made")),
        }
    }

    fn exit_criteria<'a>(&'a self, _: &'a Cleared) -> Vec<Criterion<'a>> {
        vec![Criterion::by_construction("nothing stands in the way")]
    }
}

/// What this windlass cannot launch yet.
pub fn unsupported(spec: &CompleteSpec) -> Vec<String> {
    let spec = &spec.spec;
    let mut problems = Vec::new();
    if !matches!(spec.platform, PlatformSpec::Local(_)) {
        problems.push(format!("platform {} cannot be launched by this version of windlass", spec.platform.as_str()));
    }
    if spec.topology != Topology::SelfHosted {
        problems.push(format!("topology {} cannot be launched by this version of windlass", spec.topology));
    }
    problems
}

/// Files that were edited since `prepare`: launch uses them as they are, and says so.
pub fn edited(directory: &AssetDir) -> Result<Vec<String>, AssetError> {
    directory.edited()
}
