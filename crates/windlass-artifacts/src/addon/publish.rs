//! A bucket in a directory of this host: packages are copied and hashed on the way, and the manifest's
//! version follows from the one that lies there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use windlass_steps::host::{Batch, HostError, Mode, make_dir, read_file};

use super::bucket::{MANIFEST, Offer, OfferedPackage, SignedManifest, check_expiry, package_path};
use super::{AddonError, AddonVersion, Board, Manifest, OsVersion, PackageName};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::fresh::FreshFile;
use crate::signature::SigningKeys;

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
    check_expiry(publication.expires, publication.now)?;
    let dir = bucket.join(publication.board.as_str()).join(publication.os_version.as_str());
    directory(&dir)?;
    let _lock = lock(&bucket.join(".publish.lock"))?;
    let version = next_version(&dir)?.max(publication.at_least);
    let packages = publication.packages.iter().map(|package| publish_package(&dir, package));
    let offer = Offer {
        board: publication.board.clone(),
        os_version: publication.os_version.clone(),
        packages: packages.collect::<Result<_, _>>()?,
        version,
        expires: publication.expires,
        keys: publication.keys,
        now: publication.now,
    };
    publish_manifest(&dir, &offer.signed()?)?;
    Ok(Published { manifest: dir.join(MANIFEST), version })
}

fn publish_package(dir: &Path, package: &PublishedPackage) -> Result<OfferedPackage, AddonError> {
    let PublishedPackage { name, version, archive, digest } = package.clone();
    let hash = File::open(&archive).and_then(|file| Digest::of_reader(Algorithm::Sha512, file));
    let hash = hash.map_err(|source| failed(&archive, source))?;
    let path = dir.join(package_path(&name, &version, &hash));
    directory(path.parent().unwrap_or(dir))?;
    let length = copy(&archive, &path, [&hash, &digest])?;
    Ok(OfferedPackage { name, version, archive, digest, hash, length })
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

fn publish_manifest(dir: &Path, manifest: &SignedManifest) -> Result<(), AddonError> {
    let SignedManifest { json, signatures } = manifest;
    let write = || -> Result<(), HostError> {
        let mut batch = Batch::default();
        batch.write(dir.join(format!("{MANIFEST}.asc")), &signatures.asc, Mode::PUBLIC)?;
        batch.write(dir.join(format!("{MANIFEST}.minisig")), &signatures.minisig, Mode::PUBLIC)?;
        batch.write(dir.join(MANIFEST), json, Mode::PUBLIC)?;
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
