//! A tree as one file, and back. Owners, modes, extended attributes (file capabilities) and hard links stay; times do
//! not, so that the same tree is the same file. Packed trees are ours, and their digest is checked before they are
//! unpacked: nothing here is made for hostile ones, that is `archive`'s business.

mod making;

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tar::{Archive, Builder, Entry, EntryType, Header};

use self::making::Making;
use super::error::change;
use super::{BaseError, Observer, Stage, need_root};
use crate::oci::Staged;

const BUFFER: usize = 1 << 20;
/// How GNU tar and Go's write extended attributes.
const XATTR: &str = "SCHILY.xattr.";

/// Packs everything below a directory into a tar file, which appears whole or not at all.
pub fn pack_tree(dir: &Path, out: &Path, observe: Observer<'_>) -> Result<(), BaseError> {
    observe(Stage::Pack);
    let staged = Staged::beside(out).map_err(change("write", out))?;
    let file = staged.file().map_err(change("write", out))?;
    let mut tar = pack(dir, BufWriter::with_capacity(BUFFER, file))?;
    tar.finish().and_then(|()| tar.get_mut().flush()).map_err(change("write", out))?;
    drop(tar);
    staged.finish().map_err(change("write", out))
}

/// Unpacks such a file to a directory, which appears whole or not at all; one that is there already stays.
pub fn unpack_tree(file: &Path, dir: &Path, observe: Observer<'_>) -> Result<(), BaseError> {
    need_root()?;
    if dir.exists() {
        return Ok(());
    }
    observe(Stage::Unpack);
    let making = Making::beside(dir)?;
    let opened = File::open(file).map_err(change("read", file))?;
    let mut archive = Archive::new(BufReader::with_capacity(BUFFER, opened));
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_unpack_xattrs(true);
    unpack(archive, making.path()).map_err(change("unpack", file))?;
    making.finish()
}

fn pack<W: Write>(dir: &Path, out: W) -> Result<Builder<W>, BaseError> {
    let mut packer = Packer { dir, tar: Builder::new(out), seen: HashMap::new() };
    packer.directory(Path::new(""))?;
    Ok(packer.tar)
}

struct Packer<'a, W: Write> {
    dir: &'a Path,
    tar: Builder<W>,
    /// The first path of every file that has more than one.
    seen: HashMap<(u64, u64), PathBuf>,
}

impl<W: Write> Packer<'_, W> {
    fn directory(&mut self, relative: &Path) -> Result<(), BaseError> {
        let full = self.dir.join(relative);
        let mut names = Vec::new();
        for entry in fs::read_dir(&full).map_err(change("list", &full))? {
            names.push(entry.map_err(change("list", &full))?.file_name());
        }
        names.sort();
        names.into_iter().try_for_each(|name| self.entry(&relative.join(name)))
    }

    fn entry(&mut self, relative: &Path) -> Result<(), BaseError> {
        let full = self.dir.join(relative);
        let metadata = fs::symlink_metadata(&full).map_err(change("look at", &full))?;
        let kind = metadata.file_type();
        if !(kind.is_file() || kind.is_dir() || kind.is_symlink()) {
            return Err(BaseError::PackSpecial { path: full });
        }
        self.append(relative, &full, &metadata).map_err(change("pack", &full))?;
        if kind.is_dir() { self.directory(relative) } else { Ok(()) }
    }

    fn append(&mut self, relative: &Path, full: &Path, metadata: &Metadata) -> io::Result<()> {
        if metadata.is_file() && metadata.nlink() > 1 {
            let identity = (metadata.dev(), metadata.ino());
            if let Some(first) = self.seen.get(&identity) {
                return self.tar.append_link(&mut header(EntryType::Link, metadata, 0), relative, first);
            }
            self.seen.insert(identity, relative.to_owned());
        }
        let attributes = attributes(full)?;
        if !attributes.is_empty() {
            self.tar.append_pax_extensions(attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice())))?;
        }
        if metadata.is_symlink() {
            let target = fs::read_link(full)?;
            self.tar.append_link(&mut header(EntryType::Symlink, metadata, 0), relative, target)
        } else if metadata.is_dir() {
            self.tar.append_data(&mut header(EntryType::Directory, metadata, 0), relative, io::empty())
        } else {
            let size = metadata.len();
            let content = File::open(full)?.take(size);
            self.tar.append_data(&mut header(EntryType::Regular, metadata, size), relative, content)
        }
    }
}

fn header(kind: EntryType, metadata: &Metadata, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(metadata.mode() & 0o7777);
    header.set_uid(metadata.uid().into());
    header.set_gid(metadata.gid().into());
    header.set_mtime(0);
    header.set_size(size);
    header
}

fn attributes(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in xattr::list(path)? {
        if let Some(value) = xattr::get(path, &name)? {
            found.push((format!("{XATTR}{}", name.to_string_lossy()), value));
        }
    }
    found.sort();
    Ok(found)
}

/// What a directory gets once everything is in it.
struct Finish {
    path: PathBuf,
    mode: u32,
    owner: (u32, u32),
    attributes: Vec<(String, Vec<u8>)>,
}

fn unpack(mut archive: Archive<impl Read>, dir: &Path) -> io::Result<()> {
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() == EntryType::Directory {
            let finish = Finish::of(&mut entry, dir)?;
            fs::create_dir(&finish.path)?;
            directories.push(finish);
        } else if !entry.unpack_in(dir)? {
            return Err(io::Error::other(format!("{} leads out of the tree", entry.path()?.display())));
        }
    }
    // The innermost first: a parent's mode may not let its children be changed.
    directories.iter().rev().try_for_each(Finish::apply)
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
        let path = dir.join(std::ffi::OsStr::from_bytes(&entry.path_bytes()));
        Ok(Self { path, mode: entry.header().mode()?, owner, attributes })
    }

    fn apply(&self) -> io::Result<()> {
        chown(&self.path, Some(self.owner.0), Some(self.owner.1))?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(self.mode))?;
        self.attributes.iter().try_for_each(|(name, value)| xattr::set(&self.path, name, value))
    }
}
