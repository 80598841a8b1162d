//! A machine's root before its first boot: an empty upper layer with the machine's identity in it, and a `/var` of its own.
//! It is made anew until it is complete, so that no first boot continues where another was killed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::description::Description;
use super::error::{MachineError, change};
use super::plant::{How, plant};
use super::record::{self, boot_id};
use super::{mounts, units};

/// What dpkg replaces and never changes in place: most of a Debian's `/var`.
const SHARED: &str = "lib/dpkg/info";

/// Makes the root afresh, throwing away what an unfinished first boot left.
///
/// Nothing of it is brought to the disk yet: after a crash of the host it is made once more.
pub fn make(description: &Description) -> Result<(), MachineError> {
    for dir in [description.upper(), description.work(), description.var()] {
        remove(&dir)?;
        make_dirs(&dir)?;
    }
    mounts::make_places(description)?;
    for (path, text) in files(description) {
        write(&description.upper().join(path), &text)?;
    }
    let var = description.var();
    let from = description.image.join("var");
    if from.exists() {
        let rule = |path: &Path| if path.starts_with(SHARED) { How::Link } else { How::Copy };
        plant(&from, &var, &rule).map_err(change("copy", &from))?;
    }
    for seed in &description.seeds {
        let to = var.join(&seed.at);
        make_dirs(&to)?;
        let rule = |path: &Path| if path.extension().is_some_and(|end| end == "db") { How::Copy } else { How::Link };
        plant(&seed.tree, &to, &rule).map_err(change("link", &seed.tree))?;
    }
    Ok(())
}

/// Says that the first boot's work is done.
#[derive(Serialize, Deserialize)]
struct Complete {
    /// In which boot of the host.
    boot_id: String,
    /// Whether all of it is on the disk, so that it holds in every later one.
    lasting: bool,
}

/// Whether the first boot's work is done.
pub fn is_complete(description: &Description) -> Result<bool, MachineError> {
    let marker: Option<Complete> = record::read(&description.complete())?;
    let now = boot_id()?;
    Ok(marker.is_some_and(|marker| marker.lasting || marker.boot_id == now))
}

/// Says that it is, for as long as the host does not crash: waiting for the disk would hold up the boot.
pub fn complete(description: &Description) -> Result<(), MachineError> {
    record::write(&description.complete(), &Complete { boot_id: boot_id()?, lasting: false })
}

/// Says it for good, once all of it is on the disk.
pub fn make_lasting(description: &Description) -> Result<(), MachineError> {
    if record::read(&description.complete())?.is_some_and(|marker: Complete| marker.lasting) {
        return Ok(());
    }
    let directory = &description.directory;
    let sync = || {
        let opened = File::open(directory).map_err(change("open", directory))?;
        nix::unistd::syncfs(&opened).map_err(change("sync", directory))
    };
    sync()?;
    record::write(&description.complete(), &Complete { boot_id: boot_id()?, lasting: true })?;
    sync()
}

/// The machine's identity, and what the cloud adds. There is no machine id: the first boot draws one.
fn files(description: &Description) -> Vec<(&'static str, String)> {
    let name = &description.machine;
    let mut resolver = format!("nameserver {}\noptions timeout:1\n", description.gateway);
    if !description.search.is_empty() {
        resolver.push_str(&format!("search {}\n", description.search.join(" ")));
    }
    let own = [
        ("etc/hostname", format!("{name}\n")),
        ("etc/hosts", format!("127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost ip6-loopback\n")),
        ("etc/resolv.conf", resolver),
    ];
    own.into_iter().chain(units::FILES.iter().map(|(path, text)| (*path, (*text).to_owned()))).collect()
}

fn write(path: &Path, text: &str) -> Result<(), MachineError> {
    make_dirs(path.parent().unwrap_or(path))?;
    let opened = File::options().write(true).create_new(true).mode(0o644).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(change("write", path))
}

/// Where a machine's directories have the usual mode, whatever ours is.
fn make_dirs(dir: &Path) -> Result<(), MachineError> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.map_err(change("make", dir))
}

fn remove(dir: &Path) -> Result<(), MachineError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(change("remove", dir)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;

    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::super::{Limits, Seed, Slot};
    use super::*;

    fn described(dir: &Path) -> Description {
        let image = dir.join("image");
        let seed = dir.join("seed");
        for path in [image.join("var/lib"), seed.join("deep")] {
            make_dir(path, Mode::PUBLIC_DIR).unwrap();
        }
        for path in [image.join("var/lib/base"), seed.join("deep/meta.db"), seed.join("deep/blob")] {
            write_file(path, "x", Mode::PUBLIC).unwrap();
        }
        Description {
            cluster: "c".to_owned(),
            machine: "m".to_owned(),
            directory: dir.join("m"),
            run: dir.join("run"),
            pins: dir.join("run"),
            network: dir.join("run/net"),
            gateway: "10.0.0.1".parse().unwrap(),
            search: vec!["c.test".to_owned()],
            image: image.clone(),
            os: Slot { version: "1".to_owned(), tree: image },
            seeds: vec![Seed { tree: seed, at: PathBuf::from("lib/containerd") }],
            binds: Vec::new(),
            limits: Limits::default(),
            program: PathBuf::from("/bin/true"),
            ignition: None,
        }
    }

    #[test]
    fn a_root_has_the_machines_identity_and_a_seeded_var() {
        let dir = tempfile::tempdir().unwrap();
        let description = described(dir.path());
        make(&description).unwrap();
        let upper = description.upper();
        let text = |path: &str| fs::read_to_string(upper.join(path)).unwrap();
        assert_eq!(text("etc/hostname"), "m\n");
        assert_eq!(text("etc/resolv.conf"), "nameserver 10.0.0.1\noptions timeout:1\nsearch c.test\n");
        assert!(text("etc/hosts").contains("127.0.1.1 m\n"));
        assert!(text("etc/systemd/system/update-engine.service").contains("Type=dbus"));
        assert!(!upper.join("etc/machine-id").exists());
        let var = description.var();
        let links = |path: &str| var.join(path).metadata().unwrap().nlink();
        assert_eq!(links("lib/base"), 1);
        assert_eq!((links("lib/containerd/deep/blob"), links("lib/containerd/deep/meta.db")), (2, 1));
    }

    #[test]
    fn an_unfinished_root_is_made_afresh() {
        let dir = tempfile::tempdir().unwrap();
        let description = described(dir.path());
        make(&description).unwrap();
        for path in [description.upper().join("etc/half"), description.var().join("half")] {
            write_file(path, "of a killed first boot", Mode::PUBLIC).unwrap();
        }
        assert!(!is_complete(&description).unwrap());
        make(&description).unwrap();
        assert!(!description.upper().join("etc/half").exists() && !description.var().join("half").exists());
        complete(&description).unwrap();
        assert!(is_complete(&description).unwrap());
    }

    #[test]
    fn a_root_outlives_the_host_once_it_is_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let description = described(dir.path());
        make(&description).unwrap();
        let of_another_boot = |lasting| Complete { boot_id: "another".to_owned(), lasting };
        record::write(&description.complete(), &of_another_boot(false)).unwrap();
        assert!(!is_complete(&description).unwrap());
        make_lasting(&description).unwrap();
        let marker: Complete = record::read(&description.complete()).unwrap().unwrap();
        assert!(marker.lasting);
        record::write(&description.complete(), &of_another_boot(true)).unwrap();
        assert!(is_complete(&description).unwrap());
    }
}
