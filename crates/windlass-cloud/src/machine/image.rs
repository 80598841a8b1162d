//! Images: trees that machines share and never change, each unpacked once from a packed tree. A tree lies under the
//! image's name and its source's digest, so that a new source of the same name becomes a new tree while machines go on
//! with the old one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_steps::host::{Mode, make_dir, write_file};

use super::error::{MachineError, change, host};
use super::{record, tree};

/// Enough of a digest to tell images of one name apart.
const SHORT: usize = 16;

/// An unpacked image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Without the digest: `base-1`.
    pub name: String,
    /// Of the packed tree that it was unpacked from.
    pub digest: String,
    /// The tree.
    pub tree: PathBuf,
}

/// Beside the tree: where it came from.
#[derive(Serialize, Deserialize)]
struct Source {
    name: String,
    digest: String,
}

/// Unpacks the image unless that was done before; it appears whole or not at all, also when two do it at once.
pub fn unpack(images: &Path, name: &str, digest: &str, packed: &Path) -> Result<Image, MachineError> {
    let short = short(name, digest)?;
    let dir = images.join(name);
    let image = Image { name: name.to_owned(), digest: digest.to_owned(), tree: dir.join(&short).join("tree") };
    if image.tree.exists() {
        return Ok(image);
    }
    make_dir(&dir, Mode::PUBLIC_DIR).map_err(host("make the directory of an image"))?;
    let _held = hold(&dir.join(".lock"))?;
    if !image.tree.exists() {
        make(&dir, &short, &image, packed)?;
    }
    Ok(image)
}

/// All images that are there.
pub fn list(images: &Path) -> Result<Vec<Image>, MachineError> {
    let mut found = Vec::new();
    for dir in directories(images)?.iter().map(|dir| directories(dir)).collect::<Result<Vec<_>, _>>()?.concat() {
        if let Some(source) = record::read::<Source>(&dir.join("source.json"))? {
            found.push(Image { name: source.name, digest: source.digest, tree: dir.join("tree") });
        }
    }
    Ok(found)
}

/// Removes every image whose tree nobody uses, and the directory of images with the last one.
pub fn prune(images: &Path, used: &BTreeSet<PathBuf>) -> Result<(), MachineError> {
    for dir in directories(images)? {
        let _held = hold(&dir.join(".lock"))?;
        let mut kept = 0;
        for version in directories(&dir)? {
            match used.contains(&version.join("tree")) {
                true => kept += 1,
                false => fs::remove_dir_all(&version).map_err(change("remove", &version))?,
            }
        }
        if kept == 0 {
            fs::remove_dir_all(&dir).map_err(change("remove", &dir))?;
        }
    }
    match fs::remove_dir(images) {
        Err(error) if matches!(error.raw_os_error(), Some(code) if code != NOT_EMPTY && code != NOT_FOUND) => {
            Err(change("remove", images)(error))
        }
        _ => Ok(()),
    }
}

const NOT_EMPTY: i32 = nix::errno::Errno::ENOTEMPTY as i32;
const NOT_FOUND: i32 = nix::errno::Errno::ENOENT as i32;

fn make(dir: &Path, short: &str, image: &Image, packed: &Path) -> Result<(), MachineError> {
    let making = dir.join(format!(".{short}.making"));
    remove(&making)?;
    let made = fill(&making, image, packed).and_then(|()| {
        let to = dir.join(short);
        fs::rename(&making, &to).map_err(change("rename", &making))?;
        windlass_steps::host::sync_dir(dir).map_err(host("keep the name of an image"))
    });
    if made.is_err() {
        remove(&making)?;
    }
    made
}

fn fill(making: &Path, image: &Image, packed: &Path) -> Result<(), MachineError> {
    let tree = making.join("tree");
    make_dir(&tree, Mode::PUBLIC_DIR).map_err(host("make the directory of an image"))?;
    tree::unpack(packed, &tree).map_err(change("unpack", packed))?;
    let source = Source { name: image.name.clone(), digest: image.digest.clone() };
    let path = making.join("source.json");
    let bytes =
        serde_json::to_vec(&source).map_err(|source| MachineError::Understand { path: path.clone(), source })?;
    write_file(&path, bytes, Mode::PUBLIC).map_err(host("write down where an image comes from"))?;
    // All files at once: there are thousands, and none is needed before the name is there.
    let opened = File::open(making).map_err(change("open", making))?;
    nix::unistd::syncfs(&opened).map_err(change("sync", making))
}

/// Those that do not begin with a dot; nothing where there is nothing.
fn directories(dir: &Path) -> Result<Vec<PathBuf>, MachineError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(change("list", dir))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(change("list", dir))?;
        if entry.path().is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn hold(lock: &Path) -> Result<File, MachineError> {
    let file = File::options().create(true).truncate(false).write(true).open(lock).map_err(change("open", lock))?;
    file.lock().map_err(change("lock", lock))?;
    Ok(file)
}

fn remove(dir: &Path) -> Result<(), MachineError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(change("remove", dir)(error)),
        _ => Ok(()),
    }
}

/// The first digits of a digest, with or without its algorithm.
fn short(name: &str, digest: &str) -> Result<String, MachineError> {
    let digits = digest.rsplit_once(':').map_or(digest, |(_, digits)| digits);
    match digits.get(..SHORT) {
        Some(short) if short.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(short.to_owned()),
        _ => Err(MachineError::NameImage { name: name.to_owned(), digest: digest.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use tar::{Builder, EntryType, Header};

    use super::*;

    const ONE: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const TWO: &str = "1111111111111111111111111111111111111111111111111111111111111111";

    fn header(kind: EntryType, mode: u32, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(nix::unistd::getuid().as_raw().into());
        header.set_gid(nix::unistd::getgid().as_raw().into());
        header.set_size(size);
        header
    }

    fn packed(dir: &Path, content: &str) -> PathBuf {
        let path = dir.join("packed.tar");
        let mut tar = Builder::new(File::create(&path).unwrap());
        tar.append_data(&mut header(EntryType::Directory, 0o555, 0), "d", std::io::empty()).unwrap();
        tar.append_pax_extensions([("SCHILY.xattr.user.colour", b"red".as_slice())]).unwrap();
        let size = content.len() as u64;
        tar.append_data(&mut header(EntryType::Regular, 0o4711, size), "d/file", content.as_bytes()).unwrap();
        tar.append_link(&mut header(EntryType::Link, 0, 0), "twin", "d/file").unwrap();
        tar.append_link(&mut header(EntryType::Symlink, 0, 0), "link", "/d/file").unwrap();
        tar.finish().unwrap();
        path
    }

    #[test]
    fn an_image_keeps_modes_attributes_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let image = unpack(&dir.path().join("images"), "base", ONE, &packed(dir.path(), "x")).unwrap();
        assert_eq!(image.tree, dir.path().join("images/base/0123456789abcdef/tree"));
        let file = image.tree.join("d/file");
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o4711, 2));
        assert_eq!(fs::metadata(image.tree.join("d")).unwrap().permissions().mode() & 0o777, 0o555);
        assert_eq!(xattr::get(&file, "user.colour").unwrap().as_deref(), Some(b"red".as_slice()));
        assert_eq!(fs::read_link(image.tree.join("link")).unwrap(), Path::new("/d/file"));
        fs::set_permissions(image.tree.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn an_image_is_unpacked_once_and_a_new_digest_is_a_new_tree() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("images");
        let first = unpack(&images, "base", ONE, &packed(dir.path(), "old")).unwrap();
        let again = unpack(&images, "base", ONE, Path::new("/no/such/file")).unwrap();
        assert_eq!(again, first);
        let second = unpack(&images, "base", TWO, &packed(dir.path(), "new")).unwrap();
        let content = |image: &Image| fs::read_to_string(image.tree.join("twin")).unwrap();
        assert_eq!((content(&first), content(&second)), ("old".to_owned(), "new".to_owned()));
        assert_eq!(list(&images).unwrap(), [first.clone(), second.clone()]);
        prune(&images, &BTreeSet::from([second.tree.clone()])).unwrap();
        assert_eq!(list(&images).unwrap(), [second]);
        prune(&images, &BTreeSet::new()).unwrap();
        assert!(!images.exists());
    }

    #[test]
    fn half_an_image_is_never_found() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("images");
        let whole = fs::read(packed(dir.path(), &"x".repeat(5000))).unwrap();
        let half = dir.path().join("half.tar");
        write_file(&half, &whole[..2000], Mode::PUBLIC).unwrap();
        assert!(unpack(&images, "base", ONE, &half).is_err());
        assert!(list(&images).unwrap().is_empty());
        let left = images.join("base/.0123456789abcdef.making");
        assert!(!left.exists());
        make_dir(left.join("tree/d/of/a/killed/run"), Mode::PUBLIC_DIR).unwrap();
        symlink("/", left.join("tree/d/root")).unwrap();
        unpack(&images, "base", ONE, &packed(dir.path(), "x")).unwrap();
        assert!(!left.exists());
        for bad in ["", "sha256:12", "sha256:xyzxyzxyzxyzxyzxyz", "../../../../../../"] {
            assert!(matches!(unpack(&images, "base", bad, &half), Err(MachineError::NameImage { .. })), "{bad}");
        }
    }
}
