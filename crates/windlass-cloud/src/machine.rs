//! Machines: systemd-nspawn on an overlay over a shared read-only image, each with a directory, a run directory, control
//! groups and a network namespace of its own. Whatever happens inside a machine is carried out by a detached runner
//! ([`crate::guest`]), so that it goes on without the daemon and is found again by what the runner writes down.
//!
//! The main types: [`Description`] is what a machine is made from, [`Lifecycle`] is how it is found, and [`On`] is one
//! that runs.

pub mod cgroup;
pub mod console;
mod description;
mod error;
pub mod ignition;
pub mod image;
pub mod mounts;
mod plant;
pub mod process;
pub(crate) mod record;
pub mod root;
mod settle;
pub mod slot;
mod tree;
mod units;

pub use cgroup::{Groups, Hierarchies, Limits, Part, Usage};
pub use description::{Bind, Description, Seed};
pub use error::MachineError;
pub use image::Image;
pub use process::{Command, Executed, Lifecycle, Off, On};
pub use record::{Ended, Identity, Phase, Runner};
pub use slot::Slot;
pub use units::{PROGRAM, UPDATE_ENGINE};
