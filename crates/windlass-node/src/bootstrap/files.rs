//! The files that open the way for the kubelet: the runtime's configuration, the static pods of a master, and at last the
//! environment file that the kubelet's unit waits for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::warn;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, set_mode, sweep_temps, write_file};

use crate::choice::ClusterVersion;
use crate::facts::Facts;
use crate::places::Places;

const LIMIT: u64 = 1 << 20;
/// What the installer wrote where the number of the machine's etcd member belongs.
const ETCD_INDEX: &str = "@ETCD_INDEX@";

/// Why a file is not where it should be.
#[derive(Debug, Error)]
pub enum FileError {
    /// What the installer left is not there.
    #[error("cannot use what the installer left")]
    ReadInstaller {
        /// What happened.
        source: HostError,
    },
    /// What the installer left is no text.
    #[error("cannot read {} as text", .path.display())]
    Decode {
        /// The file.
        path: PathBuf,
    },
    /// The installer's folder cannot be listed.
    #[error("cannot list {}", .path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot prepare the machine's files")]
    Write {
        /// What happened.
        source: HostError,
    },
}

/// A file that the installer left in its folder.
pub fn installer(places: &Places, name: &str) -> Result<String, FileError> {
    text(&places.installer().join(name))
}

/// A file as text.
pub fn text(path: &Path) -> Result<String, FileError> {
    let bytes = read_file(path, LIMIT).map_err(|source| FileError::ReadInstaller { source })?;
    String::from_utf8(bytes).map_err(|_| FileError::Decode { path: path.to_owned() })
}

/// Replaces a file, and makes its folder if there is none.
pub fn write(path: PathBuf, text: &str, mode: Mode) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(&path);
    let made = make_dir(folder, Mode::PUBLIC_DIR);
    made.and_then(|_| write_file(&path, text, mode)).map_err(|source| FileError::Write { source })
}

/// Moves a master's static pods to where the kubelet looks, with the machine's own facts filled in.
pub fn place_manifests(places: &Places, index: u32) -> Result<(), FileError> {
    let from = places.installer().join("manifests");
    let list = |source| FileError::List { path: from.clone(), source };
    for entry in fs::read_dir(&from).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".yaml")) else { continue };
        let text = installer(places, &format!("manifests/{name}"))?;
        let text = text.replace(ETCD_INDEX, &index.to_string());
        write(places.manifests().join(name), &text, Mode::PRIVATE_FILE)?;
    }
    let data = places.etcd_data();
    let made = make_dir(&data, Mode::PRIVATE_DIR).and_then(|_| set_mode(&data, Mode::PRIVATE_DIR));
    made.map_err(|source| FileError::Write { source })
}

/// Opens the gate: from now on the kubelet starts, and the node flow never runs again.
pub fn open_gate(places: &Places, facts: &Facts, version: &ClusterVersion) -> Result<(), FileError> {
    let text = kubelet_env(&version.put_into_env(&installer(places, "kubelet.env")?), facts);
    write(places.kubelet_env(), &text, Mode::PUBLIC)
}

/// Removes what a power cut left of files that were being written. Nobody reads it, so that what stays does no harm.
pub fn sweep(places: &Places) {
    let files = [places.kubelet_env(), places.facts(), places.containerd(), places.addons_seen()];
    let folders = files.iter().filter_map(|file| file.parent().map(Path::to_owned));
    for folder in folders.chain([places.manifests(), places.kept_records()]).filter(|folder| folder.exists()) {
        if let Err(error) = sweep_temps(&folder) {
            warn!(folder = %folder.display(), %error, "temporary files not removed");
        }
    }
}

/// The installer's lines and this machine's own.
fn kubelet_env(installer: &str, facts: &Facts) -> String {
    let Facts { name, address, .. } = facts;
    let line = format!("KUBELET_MACHINE_ARGS='--node-ip={address} --hostname-override={name}'");
    format!("{}\n{line}\n", installer.trim_end())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use windlass_cloud_api::Role;

    use super::*;

    fn facts() -> Facts {
        Facts {
            name: "masters-1".into(),
            cluster: "demo-abcde".into(),
            domain: "demo.test".into(),
            role: Role::Master,
            address: [10, 0, 0, 3].into(),
            etcd_index: Some(1),
        }
    }

    fn mode(path: PathBuf) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn a_masters_pods_get_its_number_and_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert!(matches!(place_manifests(&places, 1), Err(FileError::List { .. })));
        let left = places.installer().join("manifests");
        write(left.join("etcd.yaml"), "name: etcd-@ETCD_INDEX@\nvalue: \"@ETCD_INDEX@\"\n", Mode::PUBLIC).unwrap();
        write(left.join(".hidden.tmp"), "x", Mode::PUBLIC).unwrap();
        make_dir(places.etcd_data(), Mode::PUBLIC_DIR).unwrap();
        for _ in 0..2 {
            place_manifests(&places, 1).unwrap();
            let placed = places.manifests().join("etcd.yaml");
            assert_eq!(read_file(&placed, 100).unwrap(), b"name: etcd-1\nvalue: \"1\"\n");
            assert_eq!((mode(placed), mode(places.etcd_data())), (0o600, 0o700));
        }
        assert_eq!(fs::read_dir(places.manifests()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_cut_off_while_it_was_written_goes() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        sweep(&places);
        let cut =
            ["etc/kubernetes/.kubelet.env", "etc/kubernetes/manifests/.etcd.yaml", "var/lib/windlass/.acknowledged"];
        for path in cut {
            write(places.at(&format!("{path}.tmp-4321-0")), "half", Mode::PUBLIC).unwrap();
        }
        write(places.kubelet_env(), "whole", Mode::PUBLIC).unwrap();
        sweep(&places);
        assert!(cut.iter().all(|path| !places.at(&format!("{path}.tmp-4321-0")).exists()));
        assert_eq!(text(&places.kubelet_env()).unwrap(), "whole");
    }

    #[test]
    fn the_gate_holds_the_installers_lines_the_clusters_version_and_the_machines_own() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let version = ClusterVersion::parse("v1.36.3").unwrap();
        assert!(matches!(open_gate(&places, &facts(), &version), Err(FileError::ReadInstaller { .. })));
        assert!(!places.kubelet_env().exists());
        write(places.installer().join("kubelet.env"), "KUBELET_VERSION=v1.35.4\nKUBELET_ARGS='--v=2'\n", Mode::PUBLIC)
            .unwrap();
        open_gate(&places, &facts(), &version).unwrap();
        let want = "KUBELET_VERSION=v1.36.3\nKUBELET_ARGS='--v=2'\n\
                    KUBELET_MACHINE_ARGS='--node-ip=10.0.0.3 --hostname-override=masters-1'\n";
        assert_eq!(read_file(places.kubelet_env(), 1000).unwrap(), want.as_bytes());
    }
}
