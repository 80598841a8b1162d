//! The net below OS updates (`os-addons.service`). An update takes effect with the next start, whoever causes it, but its
//! addons come only with the node flow or the pre-reboot hook: a machine that loses its power in between starts into a
//! system without a runtime and without a kubelet, and neither of the two runs there any more. So every boot of a machine
//! that works already begins with a look at whether the extensions for its system are there, and only if they are not,
//! they are got as the hook gets them. No API is needed: the version is the gate's, and the runtime the one that the
//! machine had, unless the cluster says otherwise.

use windlass_steps::host::{Commands, Host};
use windlass_steps::report::chain;

use super::{BootstrapError, knobs, merge, next};
use crate::args;
use crate::choice::{Forced, Knobs, Machine, UpgradeOs};
use crate::exit::Failure;
use crate::extension;
use crate::facts::Facts;
use crate::join;
use crate::places::Places;
use crate::record::{Recorder, State, last};
use crate::runtime_data;

const UNIT: &str = "os-addons";

/// Sees that the addons for the operating system that runs are there and merged.
pub(crate) async fn run(places: &Places, command: &args::Bootstrap) -> Result<(), Failure> {
    mend(places, command, &Host).await.map_err(|error| error.failure())
}

async fn mend(places: &Places, command: &args::Bootstrap, commands: &impl Commands) -> Result<(), BootstrapError> {
    let lack = if command.torcx_skip_setup { Lack::Nothing } else { lack(places)? };
    // A boot to which nothing is lacking costs nothing and has nothing to tell, unless trouble was told of before.
    if lack == Lack::Nothing && last(places, UNIT).is_none_or(|told| told.state == State::Done) {
        return Ok(());
    }
    let mut record = Recorder::begin(places, UNIT, "look");
    let done = make_up_for(lack, places, command, commands, &mut record).await;
    match &done {
        Ok(()) => record.done(),
        Err(error) => record.failed(chain(error)),
    }
    done
}

/// What a machine lacks to work on the operating system that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    Nothing,
    /// Its extensions are there, and this boot has not merged them.
    Merging,
    Extensions,
}

/// An operating system that does not say which it is lacks everything, and the attempt to help it tells why.
fn lack(places: &Places) -> Result<Lack, BootstrapError> {
    let installed = extension::list(places).map_err(|source| BootstrapError::ListAddons { source })?;
    let is_complete = extension::running_os(places).is_some_and(|os| extension::is_complete(&installed, &os));
    Ok(match (is_complete, merge::is_due(places)) {
        (false, _) => Lack::Extensions,
        (true, true) => Lack::Merging,
        (true, false) => Lack::Nothing,
    })
}

async fn make_up_for(
    lack: Lack,
    places: &Places,
    command: &args::Bootstrap,
    commands: &impl Commands,
    record: &mut Recorder,
) -> Result<(), BootstrapError> {
    if lack == Lack::Extensions {
        record.stage("stage-addons");
        get(places, command, record).await?;
    }
    record.stage("merge-addons");
    merge::catch_up(places, commands).await.map_err(|source| BootstrapError::MergeAddons { source })
}

async fn get(places: &Places, command: &args::Bootstrap, record: &mut Recorder) -> Result<(), BootstrapError> {
    let facts = Facts::read(places).map_err(|source| BootstrapError::KeepFacts { source })?;
    let knobs = Knobs {
        upgrade_os: UpgradeOs::Unasked,
        version: Some(Forced { version: next::own_version(places)?, why: next::WHY }),
        had: runtime_data::had(places).map_err(|source| BootstrapError::NoteData { source })?,
        ..knobs(command, &facts)?
    };
    merge::note(places).map_err(|source| BootstrapError::MergeAddons { source })?;
    let staged = {
        let mut observe = join::observer(record);
        let sources = Machine::new(places, &facts, &mut observe).await;
        let sources = sources.map_err(|source| BootstrapError::BeginToAsk { source })?;
        next::stage_from(places, &knobs, &sources, sources.downloader()).await?
    };
    record.data("os", staged.os);
    Ok(())
}

#[cfg(test)]
mod tests;
