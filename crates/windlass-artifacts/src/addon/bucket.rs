//! A bucket as a list of files, whoever keeps it: for each board and OS version a signed manifest, and beside it the
//! packages that it names. Below the bucket's own address that is what `spec.artifacts.addonManifestURL` says unless
//! someone writes another one.
//!
//! ```text
//! amd64-usr/1/torcx_manifest.json{,.asc,.minisig}
//! amd64-usr/1/packages/containerd/2.2.9/containerd-2.2.9-<digits of its hash>.tar.gz
//! ```
//!
//! Packages fit one OS version only, so they lie below it, and their locations need no `..`. A package's name holds a
//! part of its hash: publishing again never changes a file that an older manifest still names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use time::OffsetDateTime;

use super::{
    AddonError, AddonVersion, Board, Location, Manifest, OsVersion, Package, PackageName, PackageVersion, Stamp,
};
use crate::digest::Digest;
use crate::signature::{SignaturePair, SigningKeys};

/// The manifest's file below a board and an OS version.
pub(super) const MANIFEST: &str = "torcx_manifest.json";

/// What a bucket has for one board and OS version.
#[derive(Debug, Clone)]
pub struct Offer<'a> {
    /// The machines that it is for.
    pub board: Board,
    /// The operating system that it is for.
    pub os_version: OsVersion,
    /// All packages; of several versions of one, the last is the default.
    pub packages: Vec<OfferedPackage>,
    /// The manifest's version, which must not be lower than any that machines have seen.
    pub version: u64,
    /// When machines are to stop following it.
    pub expires: OffsetDateTime,
    /// Who signs.
    pub keys: &'a SigningKeys,
    /// The time.
    pub now: OffsetDateTime,
}

/// A packed extension whose hashes are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedPackage {
    /// Under which name machines look for it.
    pub name: PackageName,
    /// And under which version.
    pub version: AddonVersion,
    /// The archive, in the file where it is now.
    pub archive: PathBuf,
    /// Its digest as caches and object stores want it.
    pub digest: Digest,
    /// Its SHA-512, as manifests want it.
    pub hash: Digest,
    /// How long it is.
    pub length: u64,
}

/// A file of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFile {
    /// Below the bucket, with `/` between its parts.
    pub path: String,
    /// What is in it.
    pub content: BucketContent,
}

/// What is in a file of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketContent {
    /// This text.
    Text(String),
    /// What this file of the host holds.
    Archive {
        /// The file.
        path: PathBuf,
        /// What it must be.
        digest: Digest,
    },
}

/// A manifest with both of its signatures.
pub(super) struct SignedManifest {
    pub(super) json: String,
    pub(super) signatures: SignaturePair,
}

impl Offer<'_> {
    /// Every file of the bucket, in the order in which they are to appear: no manifest names a package that is not there.
    pub fn files(&self) -> Result<Vec<BucketFile>, AddonError> {
        let dir = format!("{}/{}", self.board, self.os_version);
        let archive = |package: &OfferedPackage| BucketFile {
            path: format!("{dir}/{}", package_path(&package.name, &package.version, &package.hash)),
            content: BucketContent::Archive { path: package.archive.clone(), digest: package.digest.clone() },
        };
        let text = |ending: &str, text: String| BucketFile {
            path: format!("{dir}/{MANIFEST}{ending}"),
            content: BucketContent::Text(text),
        };
        let SignedManifest { json, signatures } = self.signed()?;
        let mut files: Vec<BucketFile> = self.packages.iter().map(archive).collect();
        files.extend([text(".asc", signatures.asc), text(".minisig", signatures.minisig), text("", json)]);
        Ok(files)
    }

    pub(super) fn signed(&self) -> Result<SignedManifest, AddonError> {
        check_expiry(self.expires, self.now)?;
        let json = self.manifest()?.to_json();
        // What we would refuse to read we do not write.
        Manifest::parse(json.as_bytes())
            .map_err(|error| AddonError::DescribePublication { what: error.to_string() })?;
        let signed = self.keys.sign(MANIFEST, json.as_bytes(), self.now);
        let signatures = signed.map_err(|source| AddonError::SignManifest { source })?;
        Ok(SignedManifest { json, signatures })
    }

    fn manifest(&self) -> Result<Manifest, AddonError> {
        let mut lengths = BTreeMap::new();
        let mut versions: BTreeMap<&PackageName, Vec<PackageVersion>> = BTreeMap::new();
        for package in &self.packages {
            lengths.insert(package.hash.clone(), package.length);
            versions.entry(&package.name).or_default().push(offered(package)?);
        }
        let stamp = Stamp {
            version: self.version,
            expires: self.expires,
            board: self.board.clone(),
            os_version: self.os_version.clone(),
            lengths,
        };
        let packages = versions.into_iter().map(|(name, versions)| with_default(name, versions)).collect();
        Ok(Manifest { packages, stamp: Some(stamp) })
    }
}

pub(super) fn check_expiry(expires: OffsetDateTime, now: OffsetDateTime) -> Result<(), AddonError> {
    match expires <= now {
        true => Err(AddonError::DescribePublication { what: "it would have expired already".to_owned() }),
        false => Ok(()),
    }
}

/// Where a package lies below its board and OS version.
pub(super) fn package_path(name: &PackageName, version: &AddonVersion, hash: &Digest) -> String {
    format!("packages/{name}/{version}/{name}-{version}-{}.tar.gz", &hash.hex()[..16])
}

fn offered(package: &OfferedPackage) -> Result<PackageVersion, AddonError> {
    let OfferedPackage { name, version, hash, .. } = package;
    Ok(PackageVersion {
        version: version.clone(),
        hash: hash.clone(),
        cas_digest: None,
        source_package: None,
        locations: vec![Location::parse_url(&package_path(name, version, hash))?],
    })
}

fn with_default(name: &PackageName, versions: Vec<PackageVersion>) -> Package {
    Package { name: name.clone(), default_version: versions.last().map(|version| version.version.clone()), versions }
}
