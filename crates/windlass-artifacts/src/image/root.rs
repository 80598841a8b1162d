//! A machine's root seen from within: links are followed as the machine would follow them, never out of the tree.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const LINKS: usize = 40;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The path of the thing itself, without links in it and without a slash in front.
    pub(super) path: String,
    /// The links that were passed on the way, and their targets.
    pub(super) links: BTreeMap<String, String>,
}

/// Follows a path within the root. Everything is relative to it, also absolute targets.
pub(super) fn follow(root: &Path, path: &str) -> io::Result<Found> {
    let mut left: VecDeque<String> = parts(Path::new(path));
    let mut at: Vec<String> = Vec::new();
    let mut links = BTreeMap::new();
    let mut passed = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        at.push(part);
        let here = at.join("/");
        let full = root.join(&here);
        if !fs::symlink_metadata(&full)?.is_symlink() {
            continue;
        }
        passed += 1;
        if passed > LINKS {
            return Err(io::Error::other("too many links"));
        }
        let target = fs::read_link(&full)?;
        at.pop();
        if target.is_absolute() {
            at.clear();
        }
        left = parts(&target).into_iter().chain(left).collect();
        links.insert(here, target.to_string_lossy().into_owned());
    }
    Ok(Found { path: at.join("/"), links })
}

/// The host's path of something in the root.
pub(super) fn on_host(root: &Path, found: &Found) -> PathBuf {
    root.join(&found.path)
}

fn parts(path: &Path) -> VecDeque<String> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::ParentDir => Some("..".to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}
