//! The files of a volume: made whole or not at all, extended, copied, removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use windlass_steps::host::{self, HostError, Mode, cmd};

use super::{Space, Volume, VolumeError, is_full, loops};

const DESCRIPTION_LIMIT: u64 = 1 << 20;

/// The image of a volume.
pub fn image(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.img"))
}

fn description(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}

/// Made beside the image and renamed; what a killed attempt left under this name is overwritten by the next.
fn half_made(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.img.new"))
}

/// Makes a volume full of zeros, in a directory that exists. When it fails there is no trace of it.
pub fn create(dir: &Path, volume: &Volume) -> Result<(), VolumeError> {
    if description(dir, &volume.name).exists() {
        return Err(VolumeError::TakeName { volume: volume.name.clone() });
    }
    let part = half_made(dir, &volume.name);
    let made = zeros(dir, volume, &part).and_then(|()| adopt(dir, volume));
    made.inspect_err(|_| discard(dir, &volume.name))
}

fn zeros(dir: &Path, volume: &Volume, part: &Path) -> Result<(), VolumeError> {
    let trouble = |source| VolumeError::of_write(volume, dir, "make", part, source);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(Mode::PRIVATE_FILE.bits());
    let file = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(part).map_err(trouble)?;
    extend(&file, volume.size, volume.space).and_then(|()| file.sync_all()).map_err(trouble)
}

/// Gives the image its name and then writes the description, which is what makes it a volume.
fn adopt(dir: &Path, volume: &Volume) -> Result<(), VolumeError> {
    let (part, image) = (half_made(dir, &volume.name), image(dir, &volume.name));
    fs::rename(&part, &image).map_err(|source| VolumeError::of_write(volume, dir, "rename", &part, source))?;
    vouch(dir, volume)
}

fn vouch(dir: &Path, volume: &Volume) -> Result<(), VolumeError> {
    let text = serde_json::to_string_pretty(volume).expect("text and numbers have a JSON form");
    let written = host::write_file(description(dir, &volume.name), text + "\n", Mode::PRIVATE_FILE);
    written.map_err(|source| VolumeError::of_host(volume, dir, "describe", source))
}

fn discard(dir: &Path, name: &str) {
    for path in [half_made(dir, name), image(dir, name)] {
        if let Err(error) = remove(&path) {
            tracing::warn!(path = %path.display(), %error, "half a volume left behind, the next attempt overwrites it");
        }
    }
}

fn extend(file: &File, size: u64, space: Space) -> io::Result<()> {
    match space {
        Space::Sparse => file.set_len(size),
        Space::Reserved => {
            let length = i64::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
            Ok(fallocate(file, FallocateFlags::empty(), 0, length)?)
        }
    }
}

/// Reads a volume's description.
pub fn describe(dir: &Path, name: &str) -> Result<Volume, VolumeError> {
    let path = description(dir, name);
    match host::read_file(&path, DESCRIPTION_LIMIT) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| VolumeError::ParseVolume { path, source }),
        Err(HostError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(VolumeError::FindVolume { volume: name.to_owned() })
        }
        Err(source) => {
            Err(VolumeError::AskHost { attempt: "read the description of", volume: name.to_owned(), source })
        }
    }
}

/// The names of the volumes in a directory, sorted; a directory that is not there has none.
pub fn list(dir: &Path) -> Result<Vec<String>, VolumeError> {
    let trouble = |source| VolumeError::ChangeFile { attempt: "list", path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(trouble)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(trouble)?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".json")).filter(|name| !name.starts_with('.'));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Makes a volume larger, and its loop device with it if it has one. Repeating it is harmless; shrinking is refused.
pub async fn grow(dir: &Path, name: &str, size: u64) -> Result<Volume, VolumeError> {
    let mut volume = describe(dir, name)?;
    if size < volume.size {
        return Err(VolumeError::Shrink { volume: volume.name, now: volume.size, wanted: size });
    }
    volume.size = size;
    lengthen(dir, &volume)?;
    vouch(dir, &volume)?;
    loops::refresh(&image(dir, name)).await?;
    Ok(volume)
}

fn lengthen(dir: &Path, volume: &Volume) -> Result<(), VolumeError> {
    let path = image(dir, &volume.name);
    let trouble = |source| VolumeError::of_write(volume, dir, "extend", &path, source);
    let file = OpenOptions::new().write(true).open(&path).map_err(trouble)?;
    let before = file.metadata().map_err(trouble)?.len();
    if before >= volume.size {
        return Ok(());
    }
    let extended = extend(&file, volume.size, volume.space).and_then(|()| file.sync_all());
    extended.or_else(|error| {
        // A reservation that finds no room may have got half-way.
        if is_full(&error) {
            file.set_len(before).map_err(trouble)?;
        }
        Err(trouble(error))
    })
}

/// Copies a detached volume under another name, sharing blocks where the file system can and keeping holes.
pub async fn snapshot(dir: &Path, name: &str, copy: &str) -> Result<Volume, VolumeError> {
    let original = describe(dir, name)?;
    refuse_if_in_use(dir, name)?;
    if description(dir, copy).exists() {
        return Err(VolumeError::TakeName { volume: copy.to_owned() });
    }
    let snapshot_of = Some(original.name.clone());
    // The copy is sparse whatever the original is: it is for keeping, not for writing.
    let volume = Volume { name: copy.to_owned(), space: Space::Sparse, snapshot_of, ..original };
    let copied = duplicate(dir, &volume, &image(dir, name)).await.and_then(|()| adopt(dir, &volume));
    copied.map(|()| volume).inspect_err(|_| discard(dir, copy))
}

async fn duplicate(dir: &Path, volume: &Volume, from: &Path) -> Result<(), VolumeError> {
    let part = half_made(dir, &volume.name);
    let copy = cmd("cp").env("LC_ALL", "C").args(["--reflink=auto", "--sparse=always", "--no-target-directory", "--"]);
    let copied = host::run(copy.arg(from).arg(&part)).await;
    copied.map_err(|source| VolumeError::of_host(volume, dir, "copy", source))?;
    let synced = File::open(&part).and_then(|file| file.sync_all());
    synced.map_err(|source| VolumeError::of_write(volume, dir, "copy", &part, source))
}

/// Removes a detached volume for good. One that is not there, or only half, is no error.
pub fn delete(dir: &Path, name: &str) -> Result<(), VolumeError> {
    refuse_if_in_use(dir, name)?;
    // The description first: from then on it is no volume, whatever happens next.
    for path in [description(dir, name), half_made(dir, name), image(dir, name)] {
        remove(&path).map_err(|source| VolumeError::ChangeFile { attempt: "remove", path, source })?;
    }
    let synced = if dir.exists() { host::sync_dir(dir) } else { Ok(()) };
    synced.map_err(|source| VolumeError::AskHost { attempt: "remove", volume: name.to_owned(), source })
}

fn refuse_if_in_use(dir: &Path, name: &str) -> Result<(), VolumeError> {
    match loops::loop_of(&image(dir, name))? {
        Some(held) => Err(VolumeError::InUse { volume: name.to_owned(), device: held.device }),
        None => Ok(()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn volume(name: &str, size: u64) -> Volume {
        let tags = BTreeMap::from([("role".to_owned(), "etcd".to_owned())]);
        let (name, cluster) = (name.to_owned(), "c".to_owned());
        Volume { name, cluster, size, tags, space: Space::Sparse, snapshot_of: None }
    }

    fn files(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_volume_describes_itself_and_takes_no_space_before_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = volume("etcd-0", 1 << 30);
        create(dir.path(), &wanted).unwrap();
        assert_eq!(describe(dir.path(), "etcd-0").unwrap(), wanted);
        assert_eq!(list(dir.path()).unwrap(), ["etcd-0"]);
        let image = image(dir.path(), "etcd-0").metadata().unwrap();
        assert_eq!((image.len(), image.blocks(), image.mode() & 0o777), (1 << 30, 0, 0o600));
        assert!(matches!(create(dir.path(), &wanted), Err(VolumeError::TakeName { .. })));
        delete(dir.path(), "etcd-0").unwrap();
        delete(dir.path(), "etcd-0").unwrap();
        assert_eq!(files(dir.path()), [""; 0]);
        assert!(matches!(describe(dir.path(), "etcd-0"), Err(VolumeError::FindVolume { .. })));
    }

    #[test]
    fn what_a_killed_attempt_left_is_no_volume_and_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        for left in [".v.img.new", "v.img"] {
            host::write_file(dir.path().join(left), "left over", Mode::PUBLIC).unwrap();
        }
        assert_eq!(list(dir.path()).unwrap(), [""; 0]);
        create(dir.path(), &volume("v", 4096)).unwrap();
        assert_eq!(files(dir.path()), ["v.img", "v.json"]);
        assert_eq!(fs::read(image(dir.path(), "v")).unwrap(), [0; 4096]);
    }

    #[test]
    fn a_volume_that_no_disk_can_hold_is_refused_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        for space in [Space::Sparse, Space::Reserved] {
            for size in [1 << 60, u64::MAX] {
                let error = create(dir.path(), &Volume { space, ..volume("v", size) }).unwrap_err();
                assert!(matches!(error, VolumeError::ChangeFile { .. } | VolumeError::FindRoom { .. }), "{error:?}");
                assert_eq!(files(dir.path()), [""; 0]);
            }
        }
    }

    #[tokio::test]
    async fn growing_keeps_the_content_and_shrinking_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), &volume("v", 4096)).unwrap();
        host::write_file(image(dir.path(), "v"), [7; 4096], Mode::PRIVATE_FILE).unwrap();
        assert_eq!(grow(dir.path(), "v", 8192).await.unwrap().size, 8192);
        assert_eq!(grow(dir.path(), "v", 8192).await.unwrap(), describe(dir.path(), "v").unwrap());
        let bytes = fs::read(image(dir.path(), "v")).unwrap();
        assert_eq!((bytes.len(), &bytes[..4096], bytes[8191]), (8192, &[7; 4096][..], 0));
        assert!(matches!(grow(dir.path(), "v", 4096).await, Err(VolumeError::Shrink { now: 8192, .. })));
        assert!(matches!(grow(dir.path(), "none", 1).await, Err(VolumeError::FindVolume { .. })));
    }

    #[tokio::test]
    async fn a_snapshot_is_a_volume_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), &volume("v", 1 << 20)).unwrap();
        let file = OpenOptions::new().write(true).open(image(dir.path(), "v")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"before", 5000).unwrap();
        let copy = snapshot(dir.path(), "v", "v-copy").await.unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"after!", 5000).unwrap();
        assert_eq!((copy.snapshot_of.as_deref(), copy.size, copy.tags.len()), (Some("v"), 1 << 20, 1));
        let bytes = fs::read(image(dir.path(), "v-copy")).unwrap();
        assert_eq!((bytes.len(), &bytes[5000..5006]), (1 << 20, &b"before"[..]));
        assert!(matches!(snapshot(dir.path(), "v", "v-copy").await, Err(VolumeError::TakeName { .. })));
        delete(dir.path(), "v").unwrap();
        assert_eq!(list(dir.path()).unwrap(), ["v-copy"]);
    }

    #[test]
    fn a_damaged_description_is_told_apart_from_none() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), &volume("v", 1)).unwrap();
        host::write_file(dir.path().join("v.json"), "{", Mode::PUBLIC).unwrap();
        assert!(matches!(describe(dir.path(), "v"), Err(VolumeError::ParseVolume { .. })));
        delete(dir.path(), "v").unwrap();
    }
}
