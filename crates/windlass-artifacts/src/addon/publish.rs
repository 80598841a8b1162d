//! A bucket: for each board and OS version a signed manifest, and beside it the packages that it names. Below the bucket's
//! own address that is what `spec.artifacts.addonManifestURL` says unless someone writes another one.
//!
//! ```text
//! amd64-usr/1/torcx_manifest.json{,.asc,.minisig}
//! amd64-usr/1/packages/containerd/2.2.9/containerd-2.2.9-<digits of its hash>.tar.gz
//! ```
//!
//! Packages fit one OS version only, so they lie below it, and their locations need no `..`. A package's name holds a
//! part of its hash: publishing again never changes a file that an older manifest still names.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use windlass_steps::host::{Batch, HostError, Mode, make_dir, read_file};

use super::{
    AddonError, AddonVersion, Board, Location, Manifest, OsVersion, Package, PackageName, PackageVersion, Stamp,
};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::fresh::FreshFile;
use crate::signature::SigningKeys;

const MANIFEST: &str = "torcx_manifest.json";
const MANIFEST_LIMIT: u64 = 1 << 20;

/// What is to be offered for one board and OS version.
#[derive(Debug, Clone)]
pub struct Publication<'a> {
    /// The machines that it is for.
    pub board: Board,
    /// The operating system that it is for.
    pub os_version: OsVersion,
    /// All packages; those of an earlier publication that are not here are no longer offered.
    pub packages: Vec<PublishedPackage>,
    /// When machines are to stop following it.
    pub expires: OffsetDateTime,
    /// The manifest's version is at least this, even if the bucket is new: for a bucket that was lost.
    pub at_least: u64,
    /// Who signs.
    pub keys: &'a SigningKeys,
    /// The time.
    pub now: OffsetDateTime,
}

/// A packed extension on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPackage {
    /// Under which name machines look for it.
    pub name: PackageName,
    /// And under which version.
    pub version: AddonVersion,
    /// The archive, in the file where it is now.
    pub archive: PathBuf,
    /// What the archive must be: our signature vouches for it, so what lies there is not believed.
    pub digest: Digest,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The manifest's file.
    pub manifest: PathBuf,
    /// Its version.
    pub version: u64,
}

/// Publishes into a bucket's directory: packages first, the manifest last, each file whole at every moment.
///
/// A kill between the manifest and its two signatures leaves a set that no machine accepts, until it is published
/// again. One publication at a time: others wait.
pub fn publish(bucket: &Path, publication: &Publication<'_>) -> Result<Published, AddonError> {
    if publication.expires <= publication.now {
        return Err(AddonError::DescribePublication { what: "it would have expired already".to_owned() });
    }
    let dir = bucket.join(publication.board.as_str()).join(publication.os_version.as_str());
    directory(&dir)?;
    let _lock = lock(&bucket.join(".publish.lock"))?;
    let version = next_version(&dir)?.max(publication.at_least);
    let mut lengths = BTreeMap::new();
    let mut packages: BTreeMap<&PackageName, Vec<PackageVersion>> = BTreeMap::new();
    for package in &publication.packages {
        let (offered, length) = publish_package(&dir, package)?;
        lengths.insert(offered.hash.clone(), length);
        packages.entry(&package.name).or_default().push(offered);
    }
    let stamp = Stamp {
        version,
        expires: publication.expires,
        board: publication.board.clone(),
        os_version: publication.os_version.clone(),
        lengths,
    };
    let packages = packages.into_iter().map(|(name, versions)| offer(name, versions)).collect();
    publish_manifest(&dir, &Manifest { packages, stamp: Some(stamp) }, publication)?;
    Ok(Published { manifest: dir.join(MANIFEST), version })
}

/// The default is the last one that the caller named.
fn offer(name: &PackageName, versions: Vec<PackageVersion>) -> Package {
    Package { name: name.clone(), default_version: versions.last().map(|version| version.version.clone()), versions }
}

fn publish_package(dir: &Path, package: &PublishedPackage) -> Result<(PackageVersion, u64), AddonError> {
    let PublishedPackage { name, version, archive, digest } = package;
    let hash = File::open(archive).and_then(|file| Digest::of_reader(Algorithm::Sha512, file));
    let hash = hash.map_err(|source| failed(archive, source))?;
    let below = format!("packages/{name}/{version}");
    let file = format!("{name}-{version}-{}.tar.gz", &hash.hex()[..16]);
    directory(&dir.join(&below))?;
    let length = copy(archive, &dir.join(&below).join(&file), [&hash, digest])?;
    let location = Location::parse_url(&format!("{below}/{file}"))?;
    let offered = PackageVersion {
        version: version.clone(),
        hash,
        cas_digest: None,
        source_package: None,
        locations: vec![location],
    };
    Ok((offered, length))
}

/// Copies a file, which gets its name only if it has all of these digests: what is offered is what was vouched for.
fn copy(from: &Path, to: &Path, wanted: [&Digest; 2]) -> Result<u64, AddonError> {
    let mut source = File::open(from).map_err(|source| failed(from, source))?;
    let mut target = FreshFile::create(to).map_err(|source| failed(to, source))?;
    let mut hashers = wanted.map(|digest| Hasher::new(digest.algorithm()));
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let count = source.read(&mut buffer).map_err(|source| failed(from, source))?;
        if count == 0 {
            break;
        }
        hashers.iter_mut().for_each(|hasher| hasher.update(&buffer[..count]));
        length += count as u64;
        target.write_all(&buffer[..count]).map_err(|source| failed(to, source))?;
    }
    for (hasher, wanted) in hashers.into_iter().zip(wanted) {
        let found = hasher.finish();
        if found != *wanted {
            let reason = format!("it should be {wanted} and is {found}");
            return Err(AddonError::DistrustPackage { path: from.to_owned(), reason });
        }
    }
    target.commit(Mode::PUBLIC).map_err(|source| failed(to, source))?;
    Ok(length)
}

fn publish_manifest(dir: &Path, manifest: &Manifest, publication: &Publication<'_>) -> Result<(), AddonError> {
    let json = manifest.to_json();
    // What we would refuse to read we do not write.
    Manifest::parse(json.as_bytes()).map_err(|error| AddonError::DescribePublication { what: error.to_string() })?;
    let signed = publication.keys.sign(MANIFEST, json.as_bytes(), publication.now);
    let signed = signed.map_err(|source| AddonError::SignManifest { source })?;
    let write = || -> Result<(), HostError> {
        let mut batch = Batch::default();
        batch.write(dir.join(format!("{MANIFEST}.asc")), &signed.asc, Mode::PUBLIC)?;
        batch.write(dir.join(format!("{MANIFEST}.minisig")), &signed.minisig, Mode::PUBLIC)?;
        batch.write(dir.join(MANIFEST), &json, Mode::PUBLIC)?;
        batch.commit()
    };
    write().map_err(|source| AddonError::PublishManifest { source })
}

/// One more than what lies there. A manifest that cannot be read is not taken for none: starting again would look
/// like a rollback to every machine.
fn next_version(dir: &Path) -> Result<u64, AddonError> {
    let path = dir.join(MANIFEST);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(1),
        Err(source) => Err(failed(&path, source)),
        Ok(_) => {
            let json = read_file(&path, MANIFEST_LIMIT).map_err(|source| AddonError::PublishManifest { source })?;
            Ok(Manifest::parse(&json)?.stamp.map_or(0, |stamp| stamp.version).saturating_add(1))
        }
    }
}

fn directory(path: &Path) -> Result<(), AddonError> {
    make_dir(path, Mode::PUBLIC_DIR).map(|_| ()).map_err(|source| AddonError::PublishManifest { source })
}

fn lock(path: &Path) -> Result<File, AddonError> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    file.and_then(|file| file.lock().map(|()| file)).map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> AddonError {
    AddonError::PublishFile { path: path.to_owned(), source }
}
