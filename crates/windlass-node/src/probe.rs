//! Trying a cluster from inside.

use crate::args::Probe;
use crate::exit::{Exit, Failure};

/// Not built yet.
pub async fn run(_command: &Probe) -> Result<(), Failure> {
    Err(Failure::of(Exit::Permanent, &std::io::Error::other("not built yet"), "wait for it"))
}
