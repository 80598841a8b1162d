use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use windlass_steps::host::{Mode, make_dir, write_file};

use super::*;

fn tree(dir: &Path, reversed: bool) {
    let mut files = vec![("usr/bin/a", "program"), ("usr/lib/b", "library"), ("etc/c", "")];
    if reversed {
        files.reverse();
    }
    for (path, text) in files {
        let path = dir.join(path);
        make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(&path, text, Mode::EXECUTABLE).unwrap();
    }
    fs::hard_link(dir.join("usr/bin/a"), dir.join("usr/bin/z")).unwrap();
    symlink("usr/bin", dir.join("bin")).unwrap();
}

#[test]
fn the_same_tree_packs_to_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    for (name, reversed) in [("one", false), ("two", true)] {
        tree(&dir.path().join(name), reversed);
        pack_tree(&dir.path().join(name), &dir.path().join(name).with_extension("tar"), &|_| {}).unwrap();
    }
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(bytes("one.tar") == bytes("two.tar"));
    let mut archive = tar::Archive::new(fs::File::open(dir.path().join("one.tar")).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.path().unwrap().display().to_string(), entry.header().entry_type())
    });
    let kinds: Vec<_> = entries.filter(|(_, kind)| !kind.is_dir() && !kind.is_file()).collect();
    let (link, hard) = (tar::EntryType::Symlink, tar::EntryType::Link);
    assert_eq!(kinds, [("bin".to_owned(), link), ("usr/bin/z".to_owned(), hard)]);
}

#[test]
fn devices_and_pipes_are_not_packed() {
    let dir = tempfile::tempdir().unwrap();
    tree(&dir.path().join("tree"), false);
    nix::unistd::mkfifo(&dir.path().join("tree/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = pack_tree(&dir.path().join("tree"), &dir.path().join("a.tar"), &|_| {}).unwrap_err();
    assert!(matches!(error, BaseError::PackSpecial { path } if path.ends_with("pipe")));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "half a file was left");
}

#[tokio::test]
async fn without_root_nothing_is_tried() {
    if nix::unistd::Uid::effective().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let host = windlass_steps::host::ScriptedHost::default();
    let inputs = RootInputs { apt: Path::new("/etc/apt"), mirror: None, packages: None };
    let made = make_root(&inputs, &dir.path().join("root"), &host, &|_| {}).await;
    assert!(matches!(made, Err(BaseError::BeRoot)));
    let unpacked = unpack_tree(&dir.path().join("a.tar"), &dir.path().join("tree"), &|_| {});
    assert!(matches!(unpacked, Err(BaseError::BeRoot)));
    assert!(host.ran().is_empty());
}
