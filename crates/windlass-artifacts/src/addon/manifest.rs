//! torcx manifests: `{"kind": "torcx-package-list-v0", "value": {"packages": […]}}`, as Container Linux's build
//! scripts wrote and tectonic-torcx read them, plus `value.windlass`. The format is foreign, so unknown fields are
//! passed over; our own object is strict.

mod written;

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::{AddonError, AddonVersion, Board, Location, OsVersion, PackageName};
use crate::digest::Digest;
use written::Written;

const SIZE_LIMIT: usize = 1 << 20;
const DEPTH_LIMIT: usize = 16;

/// What a bucket offers for one board and OS version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The packages, each name once.
    pub packages: Vec<Package>,
    /// What we add; foreign manifests have none.
    pub stamp: Option<Stamp>,
}

/// A package in all its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: PackageName,
    /// The version for those who do not ask for one.
    pub default_version: Option<AddonVersion>,
    /// Its versions, each once.
    pub versions: Vec<PackageVersion>,
}

/// One version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageVersion {
    /// The version.
    pub version: AddonVersion,
    /// The digest of the archive, always SHA-512.
    pub hash: Digest,
    /// The digest under which Container Linux's build stored it; we give it no meaning.
    pub cas_digest: Option<String>,
    /// The Gentoo package that it was built from; we give it no meaning.
    pub source_package: Option<String>,
    /// Where to get it, in no particular order.
    pub locations: Vec<Location>,
}

/// Our object in a manifest: what makes rolling back, mixing up and endless bodies impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Grows with every publication for the same board and OS version.
    pub version: u64,
    /// Not to be followed from then on.
    pub expires: OffsetDateTime,
    /// The machines that it is for.
    pub board: Board,
    /// The operating system that it is for.
    pub os_version: OsVersion,
    /// The length of each archive.
    pub lengths: BTreeMap<Digest, u64>,
}

impl Manifest {
    /// Reads a manifest, which must have been verified before, within fixed limits of size and depth.
    pub fn parse(json: &[u8]) -> Result<Self, AddonError> {
        let wrong = |what: String| AddonError::ParseManifest { what };
        if json.len() > SIZE_LIMIT {
            return Err(wrong(format!("it is longer than {SIZE_LIMIT} bytes")));
        }
        if depth(json) > DEPTH_LIMIT {
            return Err(wrong(format!("it is nested deeper than {DEPTH_LIMIT}")));
        }
        let written: Written = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        let manifest = written.into_manifest().map_err(wrong)?;
        manifest.check().map_err(wrong)?;
        Ok(manifest)
    }

    /// Writes it as torcx did; reading it back gives the same.
    pub fn to_json(&self) -> String {
        let written = Written::from_manifest(self);
        let mut json = serde_json::to_string_pretty(&written).expect("texts and numbers are always JSON");
        json.push('\n');
        json
    }

    /// A version of a package, if it is offered.
    pub fn find(&self, name: &PackageName, version: &AddonVersion) -> Option<&PackageVersion> {
        let package = self.packages.iter().find(|package| package.name == *name)?;
        package.versions.iter().find(|offered| offered.version == *version)
    }

    /// How long the archive with this digest is, if our object says so.
    pub fn length(&self, hash: &Digest) -> Option<u64> {
        self.stamp.as_ref()?.lengths.get(hash).copied()
    }

    fn check(&self) -> Result<(), String> {
        unique(self.packages.iter().map(|package| package.name.as_str()))?;
        for package in &self.packages {
            unique(package.versions.iter().map(|version| version.version.as_str()))?;
        }
        let Some(stamp) = &self.stamp else { return Ok(()) };
        let hashes = self.packages.iter().flat_map(|package| package.versions.iter().map(|version| &version.hash));
        match hashes.clone().find(|hash| !stamp.lengths.contains_key(*hash)) {
            Some(hash) => Err(format!("it does not say how long {hash} is")),
            None => Ok(()),
        }
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("{name} is there twice"));
        }
    }
    Ok(())
}

/// The deepest nesting; brackets inside strings do not count.
fn depth(json: &[u8]) -> usize {
    let (mut now, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
