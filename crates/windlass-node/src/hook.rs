//! What a user has run on a machine: hooks, on the machine itself or in a container of their own image, on every boot; and
//! scripts of user data, once. Each writes a record as our own units do, so that one that fails is named with its last
//! words, and ends with the code of what it ran. Everything that is said goes to the journal as it is said.

mod image;

use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;

use thiserror::Error;
use tracing::info;
use windlass_spec::GroupName;
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::host::{CommandSpec, Commands, Heard, Host, HostError, Stream, cmd};
use windlass_steps::reason;
use windlass_steps::report::chain;
use windlass_steps::wait::Unmet;

use crate::args::RunHook;
use crate::exit::{Exit, Failure};
use crate::join::{Observe, listed, observer, wait_for};
use crate::places::Places;
use crate::record::Recorder;

use image::ImageError;

const PREPARED: &str = "the machine is prepared and stays up";

/// Why a hook or a script did not end well.
#[derive(Debug, Error)]
pub enum HookError {
    /// There is no container to run it in.
    #[error("cannot prepare the container of the image {image}")]
    PrepareImage {
        /// The image.
        image: String,
        /// Why not.
        source: ImageError,
    },
    /// The wait for the node flow ended without it.
    #[error("this machine is not prepared: {}", listed(.unmet))]
    AwaitNodeFlow {
        /// What was seen last.
        unmet: Vec<Unmet>,
    },
    /// It could not be started, or did not end well.
    #[error("{what} did not end well")]
    Run {
        /// The hook or script.
        what: String,
        /// What happened.
        source: HostError,
    },
}

/// Runs a hook to its end (`windlass-hook-<name>.service`).
pub async fn run(places: &Places, hook: &RunHook) -> Result<(), Failure> {
    let unit = format!("hook-{}", hook.name);
    let mut record = Recorder::begin(places, &unit, "begin");
    let ended = run_hook(places, hook, &Host, &mut record).await;
    told(&unit, ended, &mut record)
}

/// Runs a script of user data to its end (`windlass-user-data-<name>.service`), once the machine is prepared. That it was
/// run is marked by the unit.
pub async fn run_user_data(places: &Places, name: &GroupName) -> Result<(), Failure> {
    let unit = format!("user-data-{name}");
    let mut record = Recorder::begin(places, &unit, "await-node-flow");
    let ended = run_script(places, name, &Host, &mut record).await;
    told(&unit, ended, &mut record)
}

async fn run_script(
    places: &Places,
    name: &GroupName,
    commands: &impl Commands,
    record: &mut Recorder,
) -> Result<(), HookError> {
    await_node_flow(places, &mut observer(record)).await?;
    record.stage("run");
    execute(format!("the user data {name}"), cmd(places.user_data(name.as_str())), commands).await
}

/// Its unit comes after that of the node flow, which says nothing once the flow's first attempt has failed: the order of two
/// units ends with the first job of the earlier one. A boot that is due would cut the script in two.
async fn await_node_flow(places: &Places, observe: Observe<'_>) -> Result<(), HookError> {
    let look = || async {
        Ok::<_, LookError>(if !places.kubelet_env().exists() {
            Observation::NotYet(reason!("the node flow has not opened the gate yet"))
        } else if places.reboot_due().exists() {
            Observation::NotYet(reason!("this boot is about to end"))
        } else {
            Observation::Holds
        })
    };
    let waited = wait_for(Criterion::new(PREPARED, look), observe).await;
    waited.map_err(|unmet| HookError::AwaitNodeFlow { unmet })
}

async fn run_hook(
    places: &Places,
    hook: &RunHook,
    commands: &impl Commands,
    record: &mut Recorder,
) -> Result<(), HookError> {
    let command = match &hook.image {
        None => {
            let mut words = hook.command.iter();
            // The arguments ask for at least one word.
            cmd(words.next().cloned().unwrap_or_default()).args(words)
        }
        Some(image) => {
            let made = image::container(places, hook, image, commands, record).await;
            made.map_err(|source| HookError::PrepareImage { image: image.clone(), source })?
        }
    };
    record.stage("run");
    execute(format!("the hook {}", hook.name), command, commands).await
}

/// Something that it leaves running on purpose does not hold up the units that wait for it.
async fn execute(what: String, command: CommandSpec, commands: &impl Commands) -> Result<(), HookError> {
    info!(command = command.line(), "running");
    let ended = commands.follow(command.until_exit(), &pass_on).await;
    ended.map(drop).map_err(|source| HookError::Run { what, source })
}

/// What is said on stdout is for the journal alone; the end of stderr is also for the record.
fn pass_on(stream: Stream, line: &str) -> Heard {
    // A journal that takes no more must not stop the work.
    match stream {
        Stream::Out => {
            let _ = writeln!(io::stdout(), "{line}");
            Heard::Drop
        }
        Stream::Err => {
            let _ = writeln!(io::stderr(), "{line}");
            Heard::Keep
        }
    }
}

fn told(unit: &str, ended: Result<(), HookError>, record: &mut Recorder) -> Result<(), Failure> {
    match ended {
        Ok(()) => {
            info!(unit, "ended well");
            record.done();
            Ok(())
        }
        Err(error) => {
            record.failed(chain(&error));
            let next = format!("read `journalctl --unit windlass-{unit}`; it runs again on the next boot");
            Err(Failure::of(exit(&error), &error, next))
        }
    }
}

/// The code of what ran, as a shell tells it; ours if nothing ran.
fn exit(error: &HookError) -> Exit {
    let HookError::Run { source: HostError::RunCommand { status, .. }, .. } = error else { return Exit::TryAgain };
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::TryAgain, Exit::Passed)
}

#[cfg(test)]
mod tests;
