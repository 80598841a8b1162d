//! Copies of trees that cost little: files that nobody changes in place are hard links, the rest are copies. Owners,
//! modes and extended attributes stay. Nothing is brought to the disk here; whoever needs that does it once, at the end.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown, symlink};
use std::path::Path;

/// Whether a file is shared with the tree that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Link,
    Copy,
}

/// Fills a directory that is there; the rule decides by a file's path below the top.
pub(super) fn plant(from: &Path, to: &Path, rule: &dyn Fn(&Path) -> How) -> io::Result<()> {
    keep(from, to, &from.symlink_metadata()?)?;
    directory(from, to, Path::new(""), rule)
}

fn directory(from: &Path, to: &Path, below: &Path, rule: &dyn Fn(&Path) -> How) -> io::Result<()> {
    for entry in fs::read_dir(from.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let (source, target) = (entry.path(), to.join(&path));
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            match DirBuilder::new().mode(0o700).create(&target) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            directory(from, to, &path, rule)?;
            keep(&source, &target, &metadata)?;
        } else if metadata.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
            lchown(&target, Some(metadata.uid()), Some(metadata.gid()))?;
        } else if metadata.is_file() && rule(&path) == How::Copy {
            fs::copy(&source, &target)?;
            keep(&source, &target, &metadata)?;
        } else {
            // Also what is neither: a device, a pipe.
            fs::hard_link(&source, &target)?;
        }
    }
    Ok(())
}

/// Owner before mode: changing the owner clears some of its bits.
fn keep(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    fs::set_permissions(to, metadata.permissions())?;
    for name in xattr::list(from)? {
        if let Some(value) = xattr::get(from, &name)? {
            xattr::set(to, &name, &value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    #[test]
    fn a_planted_tree_is_as_its_source_and_shares_what_the_rule_says() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        make_dir(from.join("d"), Mode::PUBLIC_DIR).unwrap();
        for name in ["d/shared", "d/own"] {
            write_file(from.join(name), name, Mode::from_bits(0o4710).unwrap()).unwrap();
        }
        xattr::set(from.join("d/own"), "user.colour", b"red").unwrap();
        symlink("/nowhere", from.join("link")).unwrap();
        fs::set_permissions(from.join("d"), fs::Permissions::from_mode(0o2750)).unwrap();
        make_dir(&to, Mode::PRIVATE_DIR).unwrap();
        plant(&from, &to, &|path| if path.ends_with("shared") { How::Link } else { How::Copy }).unwrap();
        let seen = |name: &str| to.join(name).symlink_metadata().unwrap();
        assert_eq!((seen("d/shared").nlink(), seen("d/own").nlink()), (2, 1));
        assert_eq!((seen("d").mode() & 0o7777, seen("d/own").mode() & 0o7777), (0o2750, 0o4710));
        assert_eq!(to.metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(xattr::get(to.join("d/own"), "user.colour").unwrap().as_deref(), Some(b"red".as_slice()));
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
        assert_eq!(fs::read_to_string(to.join("d/own")).unwrap(), "d/own");
    }
}
