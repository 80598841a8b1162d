//! The heart: what is wanted and what is there give the next changes. Pure, one change per thing at a time; whoever
//! carries one out looks again afterwards, and the plan of a world that is as wanted is empty.

mod machine;
mod volume;

pub use machine::{Ended, MachineChange, MachineFacts, Process, Stage, machine, state};
pub use volume::{HolderFacts, VolumeChange, VolumeFacts, volume};
