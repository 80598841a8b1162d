//! Control groups of ours in every hierarchy that the host has, v1 or v2 or both.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::InventoryError;
use crate::mounts::Mount;
use crate::process::is_gone;

/// The roots of all hierarchies, from the table of mounts; one that is mounted twice counts once.
pub(super) fn hierarchies(mounts: &[Mount]) -> Vec<PathBuf> {
    let mut devices = BTreeSet::new();
    let is_one = |mount: &&Mount| matches!(mount.kind.as_str(), "cgroup" | "cgroup2");
    let first = mounts.iter().filter(is_one).filter(|mount| devices.insert(&mount.device));
    first.map(|mount| mount.target.clone()).collect()
}

/// The directory and all below it, each after those below it; nothing if it is not there.
pub(super) fn tree(dir: &Path) -> Result<Vec<PathBuf>, InventoryError> {
    let mut found = Vec::new();
    walk(dir, &mut found).map_err(|source| InventoryError::Look { path: dir.to_owned(), source })?;
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if is_gone(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), found)?;
        }
    }
    found.push(dir.to_owned());
    Ok(())
}

/// Those of the groups that are below no other of them.
pub(super) fn topmost(groups: &[PathBuf]) -> Vec<PathBuf> {
    let is_below = |one: &PathBuf| groups.iter().any(|other| one != other && one.starts_with(other));
    groups.iter().filter(|group| !is_below(group)).cloned().collect()
}

/// The numbers of the processes in one control group; a group that is gone has none.
pub(super) fn processes(group: &Path) -> Result<Vec<i32>, InventoryError> {
    let path = group.join("cgroup.procs");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(parse_processes(&text)),
        // A threaded group has no list of its own; its domain, above it, has.
        Err(error) if is_gone(&error) || is_unsupported(&error) => Ok(Vec::new()),
        Err(source) => Err(InventoryError::Look { path, source }),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(nix::errno::Errno::EOPNOTSUPP as i32) || code == Some(nix::errno::Errno::ENODEV as i32)
}

/// A process of another pid namespace shows as 0 and cannot be named from here.
fn parse_processes(text: &str) -> Vec<i32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Lets a frozen group go on: a frozen process of v1 does not even die. What fails shows when the processes stay.
pub(super) fn thaw(group: &Path) {
    for (file, value) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        let path = group.join(file);
        if path.exists()
            && let Err(error) = put(&path, value)
        {
            tracing::debug!(path = %path.display(), %error, "control group not thawed");
        }
    }
}

/// Control files are not replaced but written to.
fn put(path: &Path, value: &str) -> io::Result<()> {
    use std::io::Write;
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_processes_is_read_line_by_line() {
        assert_eq!(parse_processes("12\n0\n7\n\n"), [12, 7]);
        assert_eq!(parse_processes(""), [0; 0]);
    }

    #[test]
    fn hierarchies_of_both_versions_count_once() {
        let table = b"1 1 0:20 / /sys/fs/cgroup rw - tmpfs t rw\n\
            2 1 0:21 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            3 1 0:21 / /else rw - cgroup cgroup rw,cpu\n\
            4 1 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            5 1 0:23 /docker/x /part rw - cgroup cgroup rw,pids\n\
            6 1 0:24 / /run rw - tmpfs cgroup rw\n";
        let mounts = crate::mounts::parse(table).unwrap();
        let want = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/part"].map(PathBuf::from);
        assert_eq!(hierarchies(&mounts), want);
    }

    #[test]
    fn only_the_topmost_groups_are_kept() {
        let groups = ["/c/a/m", "/c/a", "/c/ab/m", "/c/ab/m/x"].map(PathBuf::from);
        assert_eq!(topmost(&groups), ["/c/a", "/c/ab/m"].map(PathBuf::from));
    }

    #[test]
    fn a_tree_is_listed_from_the_leaves() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        let below = |path: &str| dir.path().join(path);
        assert_eq!(tree(&below("a")).unwrap(), [below("a/b/c"), below("a/b"), below("a")]);
        assert!(tree(&below("none")).unwrap().is_empty());
    }
}
