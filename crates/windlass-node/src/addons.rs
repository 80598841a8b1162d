//! Applying the add-ons.

use crate::exit::{Exit, Failure};
use crate::places::Places;

/// Not built yet.
pub async fn run(_places: &Places) -> Result<(), Failure> {
    Err(Failure::of(Exit::Permanent, &std::io::Error::other("not built yet"), "wait for it"))
}
