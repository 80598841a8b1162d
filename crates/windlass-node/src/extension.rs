//! The container runtime and the kubelet as system extensions in `/var/lib/extensions`, one directory for each version of
//! the operating system. Deciding what is to change is [`plan`]; getting it is [`stage`], which touches nothing that is in
//! use; putting it in place is [`install`]. Each can be repeated, and be interrupted anywhere.

mod install;
mod stage;

use std::fs;
use std::io;
use std::path::Path;

use thiserror::Error;
use windlass_artifacts::addon::{ADDON_STAMP, AddonVersion, OsRelease, OsVersion};
use windlass_artifacts::digest::Digest;
use windlass_steps::host::read_file;

use crate::choice::{Choice, Upcoming, WantedPackage};
use crate::places::Places;

pub use install::{InstallError, install};
pub use stage::{StageError, Staged, stage};

/// The packages that are ours; other extensions belong to the user.
const PACKAGES: [&str; 2] = ["containerd", "kubelet"];
/// The container runtime's package.
pub const RUNTIME: &str = "containerd";
const STAMP_LIMIT: u64 = 1 << 10;
const OS_RELEASE_LIMIT: u64 = 1 << 16;

/// An extension of ours that is on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// `containerd` or `kubelet`.
    pub package: &'static str,
    /// Its version.
    pub version: AddonVersion,
    /// The operating system that it merges on.
    pub os: OsVersion,
    /// The digest of the archive that it came from, if that is known.
    pub hash: Option<Digest>,
}

/// Why the machine's extensions cannot be listed.
#[derive(Debug, Error)]
#[error("cannot list the system extensions")]
pub struct ListError {
    /// What the kernel said.
    source: io::Error,
}

/// What is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// To be fetched.
    pub fetch: Vec<WantedPackage>,
    /// To be removed: the names of directories.
    pub remove: Vec<String>,
    /// What makes it effective.
    pub then: Then,
}

/// What makes a change effective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// Nothing is needed.
    Nothing,
    /// The extensions are merged anew: nothing of theirs runs yet.
    Merge,
    /// The machine boots again.
    Reboot(Why),
}

/// Why a machine boots again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Into the next operating system.
    Os {
        /// Its version.
        to: OsVersion,
    },
    /// With another container runtime, whose data is not that of the one before.
    Runtime {
        /// The one that this boot has.
        from: AddonVersion,
        /// The one that is wanted.
        to: AddonVersion,
    },
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Os { to } => write!(f, "into OS version {to}"),
            Why::Runtime { from, to } => write!(f, "to go from {RUNTIME} {from} to {to}"),
        }
    }
}

/// The name of an extension's directory, which its `extension-release` repeats.
fn directory(package: &str, version: &AddonVersion, os: &OsVersion) -> String {
    format!("{package}-{version}-os{os}")
}

impl Installed {
    /// The name of its directory.
    pub fn directory(&self) -> String {
        directory(self.package, &self.version, &self.os)
    }

    /// Reads a directory's name: `containerd-2.2.9-os1`.
    fn parse(name: &str) -> Option<(&'static str, AddonVersion, OsVersion)> {
        let package =
            PACKAGES.into_iter().find(|package| name.strip_prefix(package).is_some_and(|r| r.starts_with('-')))?;
        let (version, os) = name[package.len() + 1..].rsplit_once("-os")?;
        Some((package, AddonVersion::parse(version).ok()?, OsVersion::parse(os).ok()?))
    }
}

impl WantedPackage {
    /// The name of its directory.
    pub fn directory(&self) -> String {
        directory(self.name.as_str(), &self.offered.version, &self.os)
    }

    /// Whether an extension that is there came from this very package.
    pub fn is(&self, installed: &Installed) -> bool {
        installed.directory() == self.directory() && installed.hash.as_ref() == Some(&self.offered.hash)
    }
}

/// The extensions of ours on this machine.
pub fn list(places: &Places) -> Result<Vec<Installed>, ListError> {
    let folder = places.extensions();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| ListError { source })?,
    };
    let mut installed = Vec::new();
    for entry in entries {
        let name = entry.map_err(|source| ListError { source })?.file_name();
        if let Some((package, version, os)) = name.to_str().and_then(Installed::parse) {
            let hash = stamp(&folder.join(&name));
            installed.push(Installed { package, version, os, hash });
        }
    }
    installed.sort_by_key(Installed::directory);
    Ok(installed)
}

/// The operating system that runs, if it says which it is.
pub fn running_os(places: &Places) -> Option<OsVersion> {
    let release = OsRelease::parse(&read_file(places.os_release(), OS_RELEASE_LIMIT).ok()?).ok()?;
    OsVersion::parse(release.version_id()?).ok()
}

/// Whether there is an extension of each package for this operating system.
pub fn is_complete(installed: &[Installed], os: &OsVersion) -> bool {
    PACKAGES.iter().all(|package| installed.iter().any(|own| own.package == *package && own.os == *os))
}

/// What the archive was that an extension came from; nothing if it does not say, and then it is fetched again.
fn stamp(dir: &Path) -> Option<Digest> {
    let bytes = read_file(dir.join(ADDON_STAMP), STAMP_LIMIT).ok()?;
    Digest::parse(std::str::from_utf8(&bytes).ok()?.trim()).ok()
}

/// What is to change for a choice. Extensions of other versions go, whichever operating system they are for: two of one
/// package would both be merged, and the last one by name would win.
pub fn plan(installed: &[Installed], choice: &Choice) -> Plan {
    let os = choice.next_os.as_ref().and_then(Upcoming::booted).map(|to| Then::Reboot(Why::Os { to: to.clone() }));
    let Some(setup) = &choice.setup else {
        return Plan { fetch: Vec::new(), remove: Vec::new(), then: os.unwrap_or(Then::Nothing) };
    };
    let is_there = |wanted: &&WantedPackage| installed.iter().any(|own| wanted.is(own));
    let fetch: Vec<_> = setup.packages.iter().filter(|wanted| !is_there(wanted)).cloned().collect();
    let version = |package: &str| match package {
        RUNTIME => &setup.runtime,
        _ => choice.kubernetes.number(),
    };
    let obsolete = installed.iter().filter(|own| own.version != *version(own.package));
    let remove: Vec<_> = obsolete.clone().map(Installed::directory).collect();
    let runtime = obsolete.clone().find(|own| own.package == RUNTIME && own.os == choice.os);
    let runtime =
        runtime.map(|own| Then::Reboot(Why::Runtime { from: own.version.clone(), to: setup.runtime.clone() }));
    let merges = fetch.iter().any(|wanted| wanted.os == choice.os) || obsolete.clone().any(|own| own.os == choice.os);
    let then = os.or(runtime).unwrap_or(if merges { Then::Merge } else { Then::Nothing });
    Plan { fetch, remove, then }
}

#[cfg(test)]
pub(crate) mod tests;
