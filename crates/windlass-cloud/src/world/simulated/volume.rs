//! Volumes of the simulated world: plain files; who has one is a file beside it.

use super::super::Trouble;
use crate::model::VolumeRow;
use crate::places::Places;
use crate::plan::VolumeFacts;
use crate::{simulated, volume};

/// Whether its file is there and somebody has it, and how large it is.
pub fn look(places: &Places, row: &VolumeRow) -> (VolumeFacts, u64) {
    let dir = places.volumes(&row.cluster);
    let Ok(found) = volume::describe(&dir, row.name.as_str()) else { return (VolumeFacts::default(), 0) };
    let open = simulated::holder(&dir, row.name.as_str()).map_or(true, |holder| holder.is_some());
    (VolumeFacts { made: true, open, seen_by: None }, found.size)
}

/// Gives it to its holder; it is an error if another one has it.
pub fn present(places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
    let Some(holder) = &row.holder else { return Ok(()) };
    Ok(simulated::hold(&places.volumes(&row.cluster), row.name.as_str(), holder.as_str())?)
}

/// Takes it from whoever has it.
pub fn release(places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
    let dir = places.volumes(&row.cluster);
    match simulated::holder(&dir, row.name.as_str())? {
        Some(holder) => Ok(simulated::let_go(&dir, row.name.as_str(), &holder)?),
        None => Ok(()),
    }
}
