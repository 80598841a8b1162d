//! The one door to the host: commands without a shell, and files that are written whole or not at all. Everything that
//! another crate does to the machine it runs on, other than talking to a network, passes here, so that every failed
//! command shows its command line and the tail of its stderr, and no reader ever meets half a file.

mod batch;
mod command;
mod error;
mod execute;
mod file;
mod follow;
mod temp;

pub use batch::Batch;
pub use command::{CommandSpec, Output, cmd};
pub use error::HostError;
pub use execute::{Commands, Host, ScriptedHost, run, run_blocking};
pub use file::{Made, Mode, make_dir, read_file, set_mode, sync_dir, write_file};
pub use follow::{Follower, Heard, Stream};
pub use temp::sweep_temps;
