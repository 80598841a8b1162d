//! systemd extensions (systemd-sysext(8)) as archives: a directory tree with `usr/` and a note which system it fits.
//! They carry programs only: systemd 252 does not reload units after a merge, so units would come too late.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use windlass_spec::KubeVersion;
use windlass_steps::host::{Mode, write_file};

use super::{AddonError, AddonVersion, OsVersion, PackageName};
use crate::archive::{Content, FileMode, Writer};
use crate::digest::{Algorithm, Digest, Hasher};

/// The file in an extension's directory that says which archive it came from: its digest, as torcx writes digests. A
/// machine that finds the digest that it wants needs to fetch nothing.
pub const ADDON_STAMP: &str = "windlass-addon";
/// Where programs may lie, below `usr/`.
const PROGRAM_DIRS: [&str; 4] = ["bin/", "sbin/", "libexec/", "local/bin/"];

/// An extension to be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// What is inside.
    pub package: PackageName,
    /// The version of what is inside.
    pub version: AddonVersion,
    /// `ID` of the system that it fits.
    pub os_id: String,
    /// `VERSION_ID` of that system.
    pub os_version_id: OsVersion,
    /// The programs.
    pub files: Vec<ExtensionFile>,
}

/// A program in an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionFile {
    /// Below `/usr`: `bin/containerd`.
    pub path: String,
    /// Where it is now.
    pub source: PathBuf,
    /// Its mode in the extension.
    pub mode: FileMode,
}

/// The programs of a container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// `containerd`.
    pub containerd: PathBuf,
    /// `containerd-shim-runc-v2`.
    pub shim: PathBuf,
    /// `ctr`.
    pub ctr: PathBuf,
    /// `runc`.
    pub runc: PathBuf,
}

/// An archive that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Its SHA-512, as manifests want it.
    pub hash: Digest,
    /// Its length.
    pub length: u64,
}

impl Extension {
    /// The container runtime for one version of Debian.
    pub fn containerd(version: AddonVersion, os: OsVersion, runtime: &Runtime) -> Self {
        let files = [
            ("containerd", &runtime.containerd),
            ("containerd-shim-runc-v2", &runtime.shim),
            ("ctr", &runtime.ctr),
            ("runc", &runtime.runc),
        ];
        let package = PackageName::parse("containerd").expect("letters are a name");
        let files = files.map(|(name, source)| program(name, source)).into();
        Extension { package, version, os_id: "debian".to_owned(), os_version_id: os, files }
    }

    /// The kubelet of one Kubernetes version, which may be the multi-call binary, for one version of Debian.
    pub fn kubelet(version: &KubeVersion, os: OsVersion, binary: PathBuf) -> Result<Self, AddonError> {
        let number = version.to_string().trim_start_matches('v').to_owned();
        let describe = |error: super::NameError| AddonError::DescribeExtension {
            name: "kubelet".to_owned(),
            what: error.to_string(),
        };
        Ok(Extension {
            package: PackageName::parse("kubelet").map_err(describe)?,
            version: AddonVersion::parse(&number).map_err(describe)?,
            os_id: "debian".to_owned(),
            os_version_id: os,
            files: vec![program("kubelet", &binary)],
        })
    }

    /// The name of its directory on a machine, which the name of its `extension-release` must repeat. The OS version is
    /// a part of it, because extensions for the running and the next OS lie side by side and each merges on its own.
    pub fn directory(&self) -> String {
        format!("{}-{}-os{}", self.package, self.version, self.os_version_id)
    }

    fn release(&self) -> String {
        format!("ID={}\nVERSION_ID={}\n", self.os_id, self.os_version_id)
    }
}

/// Packs an extension as `.tar.gz`; the same programs give the same bytes.
pub fn pack_extension(extension: &Extension, out: impl Write) -> Result<Packed, AddonError> {
    let name = extension.directory();
    let wrong = |what: String| AddonError::DescribeExtension { name: name.clone(), what };
    let failed = |source| AddonError::PackExtension { name: name.clone(), source };
    let plain_id = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    if extension.os_id.is_empty() || !extension.os_id.bytes().all(plain_id) {
        return Err(wrong(format!("{:?} is not the ID of a system", extension.os_id)));
    }
    if extension.files.is_empty() {
        return Err(wrong("there is nothing in it".to_owned()));
    }
    let mut writer = Writer::new();
    for file in &extension.files {
        if !PROGRAM_DIRS.iter().any(|dir| file.path.starts_with(dir)) {
            return Err(wrong(format!("{:?} is not where programs lie", file.path)));
        }
        let content = Content::File(file.source.clone());
        writer.file(&format!("usr/{}", file.path), content, file.mode).map_err(failed)?;
    }
    let release = format!("usr/lib/extension-release.d/extension-release.{name}");
    writer.file(&release, Content::Bytes(extension.release().into()), FileMode::Data).map_err(failed)?;
    let mut counted = Counted { out, hasher: Hasher::new(Algorithm::Sha512), length: 0 };
    writer.write_tar_gz(&mut counted).map_err(failed)?;
    Ok(Packed { hash: counted.hasher.finish(), length: counted.length })
}

/// Lays an extension out as a directory of its own below `into`, as a machine merges it. A program that another
/// extension there has too, as for another OS version, is one file with two names.
///
/// The hash is that of the archive which [`pack_extension`] makes of it.
pub fn lay_out_extension(extension: &Extension, hash: &Digest, into: &Path) -> Result<(), AddonError> {
    let name = extension.directory();
    let failed = |source| AddonError::LayOutExtension { name: name.clone(), source };
    let place = |file: &ExtensionFile, dir: &str| into.join(dir).join("usr").join(&file.path);
    let others: Vec<String> = directories(into).map_err(failed)?;
    for file in &extension.files {
        let to = place(file, &name);
        fs::create_dir_all(to.parent().unwrap_or(into)).map_err(failed)?;
        let twin = |other: &&String| other.starts_with(&format!("{}-{}-os", extension.package, extension.version));
        match others.iter().find(twin) {
            Some(other) => fs::hard_link(place(file, other), &to).map_err(failed)?,
            None => {
                fs::copy(&file.source, &to).map_err(failed)?;
                fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(failed)?;
            }
        }
    }
    let release = into.join(&name).join("usr/lib/extension-release.d");
    fs::create_dir_all(&release).map_err(failed)?;
    let release = release.join(format!("extension-release.{name}"));
    let stamp = (into.join(&name).join(ADDON_STAMP), format!("{}\n", hash.to_torcx()));
    for (path, text) in [(release, extension.release()), stamp] {
        write_file(path, text, Mode::PUBLIC).map_err(|error| failed(io::Error::other(error)))?;
    }
    Ok(())
}

fn directories(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
    }
}

fn program(name: &str, source: &Path) -> ExtensionFile {
    ExtensionFile { path: format!("bin/{name}"), source: source.to_owned(), mode: FileMode::Program }
}

struct Counted<W> {
    out: W,
    hasher: Hasher,
    length: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
