//! Unpacking a packed tree: a tar file with owners, modes, extended attributes and hard links, as the artifacts pack
//! theirs. Such files are ours and were checked by digest; a path that leads out of the tree is refused all the same.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Entry, EntryType};

const BUFFER: usize = 1 << 20;
/// How GNU tar and Go's write extended attributes.
const XATTR: &str = "SCHILY.xattr.";

/// Unpacks the file into a directory that is there and empty.
pub(super) fn unpack(packed: &Path, dir: &Path) -> io::Result<()> {
    let mut archive = Archive::new(BufReader::with_capacity(BUFFER, File::open(packed)?));
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_unpack_xattrs(true);
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() == EntryType::Directory {
            let finish = Finish::of(&mut entry, dir)?;
            fs::create_dir(&finish.path)?;
            directories.push(finish);
        } else if !entry.unpack_in(dir)? {
            return Err(leads_out(&entry.path()?));
        }
    }
    // The innermost first: a parent's mode may not let its children be changed.
    directories.iter().rev().try_for_each(Finish::apply)
}

/// What a directory gets once everything is in it.
struct Finish {
    path: PathBuf,
    mode: u32,
    owner: (u32, u32),
    attributes: Vec<(String, Vec<u8>)>,
}

impl Finish {
    fn of(entry: &mut Entry<'_, impl Read>, dir: &Path) -> io::Result<Self> {
        let mut attributes = Vec::new();
        for extension in entry.pax_extensions()?.into_iter().flatten() {
            let extension = extension?;
            if let Some(name) = extension.key().ok().and_then(|key| key.strip_prefix(XATTR)) {
                attributes.push((name.to_owned(), extension.value_bytes().to_vec()));
            }
        }
        let number = |value: u64| u32::try_from(value).map_err(io::Error::other);
        let owner = (number(entry.header().uid()?)?, number(entry.header().gid()?)?);
        let relative = entry.path()?.into_owned();
        if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(leads_out(&relative));
        }
        Ok(Self { path: dir.join(relative), mode: entry.header().mode()?, owner, attributes })
    }

    fn apply(&self) -> io::Result<()> {
        chown(&self.path, Some(self.owner.0), Some(self.owner.1))?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(self.mode))?;
        self.attributes.iter().try_for_each(|(name, value)| xattr::set(&self.path, name, value))
    }
}

fn leads_out(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} leads out of the tree", path.display()))
}
