//! Volumes of the real world: files behind loop devices.

use std::collections::BTreeMap;

use windlass_steps::host::{Mode, make_dir};

use super::super::Trouble;
use crate::model::VolumeRow;
use crate::places::Places;
use crate::plan::VolumeFacts;
use crate::refused::{Class, Refused};
use crate::volume::{self, Space, Volume, VolumeError, holders, loops, present};

/// Whether its file is there and open, and how large it is.
pub fn look(places: &Places, row: &VolumeRow) -> (VolumeFacts, u64) {
    let dir = places.volumes(&row.cluster);
    let Ok(volume) = volume::describe(&dir, row.name.as_str()) else { return (VolumeFacts::default(), 0) };
    // What cannot be looked at is open: nobody may have it then.
    let open = loops::loop_of(&volume::image(&dir, row.name.as_str())).map_or(true, |found| found.is_some());
    (VolumeFacts { made: true, open, seen_by: None }, volume.size)
}

/// Makes the file, or makes it larger.
pub async fn make(places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
    let dir = places.volumes(&row.cluster);
    make_dir(&dir, Mode::PRIVATE_DIR)?;
    match volume::describe(&dir, row.name.as_str()) {
        Ok(_) => {
            volume::grow(&dir, row.name.as_str(), row.spec.size).await?;
        }
        Err(_) => {
            let (cluster, name) = (row.cluster.to_string(), row.name.to_string());
            let tags: BTreeMap<String, String> = row.spec.tags.clone();
            let volume = Volume { name, cluster, size: row.spec.size, tags, space: Space::Reserved, snapshot_of: None };
            super::aside(move || Ok(volume::create(&dir, &volume)?)).await?;
        }
    }
    Ok(())
}

/// Opens the device and shows it to the machine.
pub async fn present(places: &Places, row: &VolumeRow, leader: u32) -> Result<(), Trouble> {
    let device = loops::attach(&volume::image(&places.volumes(&row.cluster), row.name.as_str())).await?;
    let name = row.name.to_string();
    let leader = i32::try_from(leader)?;
    super::aside(move || {
        present::present(leader, &name, &device)?;
        Ok(())
    })
    .await
}

/// Takes the device out of the machine.
pub async fn withdraw(row: &VolumeRow, leader: u32) -> Result<(), Trouble> {
    let (name, leader) = (row.name.to_string(), i32::try_from(leader)?);
    super::aside(move || Ok(present::withdraw(leader, &name)?)).await
}

/// Closes the device, and proves it.
pub async fn release(places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
    Ok(loops::release(&volume::image(&places.volumes(&row.cluster), row.name.as_str())).await?)
}

/// Refuses while somebody has it mounted or open.
pub fn may_detach(places: &Places, row: &VolumeRow) -> Result<(), Refused> {
    let attempt = || format!("volume {} cannot be detached", row.name);
    let image = volume::image(&places.volumes(&row.cluster), row.name.as_str());
    let device = loops::loop_of(&image).map_err(|error| Refused::failed(attempt(), &error))?;
    let Some(device) = device else { return Ok(()) };
    let users = holders::of(&device.numbers).map_err(|error| Refused::failed(attempt(), &error))?;
    match users.first() {
        None => Ok(()),
        Some(user) => {
            let refused = Refused::new(Class::Conflict, attempt()).because(format!("it is in use: {user}"));
            Err(refused.next("unmount it in the machine first"))
        }
    }
}

/// Copies a volume that nobody has.
pub async fn copy(places: &Places, row: &VolumeRow, copy: &VolumeRow) -> Result<(), Refused> {
    let dir = places.volumes(&row.cluster);
    // Nobody has that name, so that whatever is there is what a killed attempt has left.
    let left = volume::delete(&dir, copy.name.as_str());
    left.map_err(|error| Refused::failed(format!("volume {} was not copied", row.name), &error))?;
    let copied = volume::snapshot(&dir, row.name.as_str(), copy.name.as_str()).await;
    copied.map(drop).map_err(|error| {
        let full = matches!(error, VolumeError::FindRoom { .. });
        let refused = Refused::failed(format!("volume {} was not copied", row.name), &error);
        Refused { class: if full { Class::Full } else { refused.class }, ..refused }
    })
}

/// Removes the file.
pub fn remove(places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
    Ok(volume::delete(&places.volumes(&row.cluster), row.name.as_str())?)
}
