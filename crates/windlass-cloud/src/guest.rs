//! What runs on behalf of one machine, outside the daemon: the runner and its helpers on the host, and the cloud's own
//! services inside the machine. They are hidden subcommands of our own program, so that there is one file to install and
//! to hand to machines.

mod boot;
mod enter;
mod run;
mod settings;
pub mod update_engine;

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use nix::mount::{MsFlags, mount};
use windlass_steps::report::chain;

pub use boot::nspawn;

use crate::machine::{Description, MachineError, ignition};

/// What to do; each runs in a process of its own, which has not started a thread before.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a machine, detached, until it ends
    Run {
        /// The machine's description
        #[arg(long)]
        machine: PathBuf,
    },
    /// Become systemd-nspawn on the machine's root
    Boot {
        /// The machine's description
        #[arg(long)]
        machine: PathBuf,
    },
    /// Run Ignition on the machine's root
    Ignite {
        /// The machine's description
        #[arg(long)]
        machine: PathBuf,
    },
    /// Inside a machine: make its control groups writable
    OwnCgroups,
    /// Inside a machine: give it kernel settings of its own
    OwnSettings,
    /// Inside a machine: serve com.coreos.update1 on the system bus
    UpdateEngine,
    /// Run a command in a machine, with its exit code
    Enter {
        /// The host's number of the machine's first process
        #[arg(long)]
        leader: i32,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
    /// Stand for a machine, detached, until its power button is pressed
    Stub {
        /// The machine's run directory
        #[arg(long)]
        run: PathBuf,
    },
}

/// Does it, and says on stderr why if it could not.
pub fn main(command: &Command) -> ExitCode {
    let done: Result<(), Box<dyn Error>> = match command {
        Command::Run { machine } => Description::read(machine).and_then(|it| run::run(&it)).map_err(Into::into),
        Command::Boot { machine } => Description::read(machine).and_then(|it| boot::boot(&it)).map_err(Into::into),
        Command::Ignite { machine } => ignite(machine).map_err(Into::into),
        Command::OwnCgroups => own_cgroups().map_err(Into::into),
        Command::OwnSettings => settings::own_settings().map_err(Into::into),
        Command::UpdateEngine => {
            // To the machine's journal, which adds the time.
            let log = tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().with_ansi(false);
            log.init();
            update_engine::serve().map_err(Into::into)
        }
        Command::Enter { leader, words } => match enter::enter(*leader, words) {
            Ok(code) => return code,
            Err(error) => Err(error.into()),
        },
        Command::Stub { run } => crate::simulated::stub::stand_in(run).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody to tell when stderr is gone too.
            let _ = writeln!(std::io::stderr(), "{}", chain(error.as_ref()).join(": "));
            ExitCode::FAILURE
        }
    }
}

fn ignite(machine: &Path) -> Result<(), MachineError> {
    let description = Description::read(machine)?;
    boot::die_with_the_runner()?;
    description.groups()?.enter(crate::machine::Part::Machine, boot::own_pid())?;
    match &description.ignition {
        Some(program) => ignition::carry_out(&description, program),
        None => Ok(()),
    }
}

/// systemd-nspawn mounts controllers of version 1 read-only; only a remount of the bind, not of the file system, may
/// change that.
fn own_cgroups() -> Result<(), MachineError> {
    let hierarchies = crate::machine::Hierarchies::of_host()?;
    for hierarchy in hierarchies.iter() {
        let flags =
            MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
        let remounted = mount(None::<&str>, &hierarchy.top, None::<&str>, flags, None::<&str>);
        remounted.map_err(|source| MachineError::Change {
            attempt: "make writable",
            path: hierarchy.top.clone(),
            source: source.into(),
        })?;
    }
    Ok(())
}
