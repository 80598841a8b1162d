//! Getting packages: downloaded into a folder of their own, taken only if length and digest are what the signed manifest
//! says, unpacked by the rules for strangers' archives, and written through to the disk, so that a rename is all that is
//! left to do.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_artifacts::addon::{ADDON_STAMP, AddonError, Location, Origins};
use windlass_artifacts::archive::{ArchiveError, Limits, extract};
use windlass_artifacts::digest::{Digest, Hasher};
use windlass_artifacts::download::{DownloadError, Downloader};
use windlass_steps::host::{HostError, Mode, make_dir, sync_dir, write_file};

use crate::choice::WantedPackage;
use crate::places::Places;

/// What an archive without a stated length may have.
const LENGTH_LIMIT: u64 = 1 << 30;

/// An extension that waits to be put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The name that it will have.
    pub directory: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Why a package could not be had.
#[derive(Debug, Error)]
pub enum StageError {
    /// There is no place for it.
    #[error("cannot make room for {package}")]
    MakeRoom {
        /// The package.
        package: String,
        /// Why not.
        source: HostError,
    },
    /// No location gives it.
    #[error("no location gives {package}: {reasons}")]
    Get {
        /// The package.
        package: String,
        /// What each said.
        reasons: String,
    },
    /// A location gives something else.
    #[error("cannot trust {package}: {reason}")]
    Trust {
        /// The package.
        package: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is here and cannot be unpacked.
    #[error("cannot unpack {package}")]
    Unpack {
        /// The package.
        package: String,
        /// Why not.
        source: ArchiveError,
    },
    /// It is unpacked and cannot be kept.
    #[error("cannot keep {package}")]
    Keep {
        /// The package.
        package: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl StageError {
    /// Whether this is a matter of trust, which time does not heal.
    pub fn is_trust(&self) -> bool {
        match self {
            StageError::Trust { .. } => true,
            StageError::Unpack { source, .. } => source.is_trust(),
            StageError::MakeRoom { .. } | StageError::Get { .. } | StageError::Keep { .. } => false,
        }
    }
}

/// Gets packages. What an earlier run left half done is removed first.
pub async fn stage(
    places: &Places,
    downloader: &Downloader,
    packages: &[WantedPackage],
) -> Result<Vec<Staged>, StageError> {
    clear(&places.addon_work());
    let mut staged = Vec::new();
    for package in packages {
        staged.push(stage_one(places, downloader, package).await?);
    }
    Ok(staged)
}

/// Nothing in there is in use. What cannot be removed now is in the way of what follows, which tells.
fn clear(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "leftovers of an earlier run not removed");
    }
}

async fn stage_one(places: &Places, downloader: &Downloader, package: &WantedPackage) -> Result<Staged, StageError> {
    let directory = package.directory();
    let room = |source| StageError::MakeRoom { package: directory.clone(), source };
    let path = places.addon_work().join(&directory);
    make_dir(&path, Mode::PUBLIC_DIR).map_err(room)?;
    let archive = places.addon_work().join(format!("{directory}.tar.gz"));
    let keep = |source| StageError::Keep { package: directory.clone(), source };
    let mut file = File::create_new(&archive).map_err(keep)?;
    get(downloader, package, &mut file, &directory).await?;
    file.rewind().map_err(keep)?;
    let unpacked = extract(io::BufReader::new(file), &Limits::default(), &path);
    unpacked.map_err(|source| StageError::Unpack { package: directory.clone(), source })?;
    fs::remove_file(&archive).map_err(keep)?;
    let release = path.join(format!("usr/lib/extension-release.d/extension-release.{directory}"));
    if !release.is_file() {
        let reason = format!("it is no system extension of that name: it has no extension-release.{directory}");
        return Err(StageError::Trust { package: directory, reason });
    }
    write_file(path.join(ADDON_STAMP), format!("{}\n", package.offered.hash.to_torcx()), Mode::PUBLIC).map_err(room)?;
    sync_tree(&path).map_err(keep)?;
    Ok(Staged { directory, path })
}

/// Asks one location after the other. One that gives something else than was signed ends the search: it lies.
async fn get(
    downloader: &Downloader,
    package: &WantedPackage,
    file: &mut File,
    directory: &str,
) -> Result<(), StageError> {
    let mut reasons = Vec::new();
    for location in &package.offered.locations {
        let keep = |source| StageError::Keep { package: directory.to_owned(), source };
        file.set_len(0).map_err(keep)?;
        file.rewind().map_err(keep)?;
        match copy(downloader, package, location, file).await {
            Ok(found) if found == package.offered.hash => return Ok(()),
            Ok(found) => {
                let reason = format!("its digest should be {} and is {found}", package.offered.hash);
                return Err(StageError::Trust { package: directory.to_owned(), reason });
            }
            Err(CopyError::Write(source)) => return Err(keep(source)),
            Err(CopyError::Trust(reason)) => return Err(StageError::Trust { package: directory.to_owned(), reason }),
            Err(CopyError::Get(reason)) => reasons.push(reason),
        }
    }
    let reasons = if reasons.is_empty() { "there is none".to_owned() } else { reasons.join("; ") };
    Err(StageError::Get { package: directory.to_owned(), reasons })
}

enum CopyError {
    Get(String),
    Trust(String),
    Write(io::Error),
}

async fn copy(
    downloader: &Downloader,
    package: &WantedPackage,
    location: &Location,
    file: &mut File,
) -> Result<Digest, CopyError> {
    let mut hasher = Hasher::new(package.offered.hash.algorithm());
    let mut length = 0;
    let mut take = |bytes: &[u8]| {
        hasher.update(bytes);
        length += bytes.len() as u64;
        file.write_all(bytes)
    };
    let limit = package.length.unwrap_or(LENGTH_LIMIT);
    match location {
        Location::Url(url) => {
            let url = url.resolve(&package.manifest, &Origins::SameAsManifest);
            let url = url.map_err(|error: AddonError| CopyError::Trust(error.to_string()))?;
            downloader.copy(&url, limit, &mut take).await.map_err(copy_error)?;
        }
        Location::Path(path) => copy_file(Path::new(path), limit, &mut take)?,
    }
    match package.length {
        Some(wanted) if wanted != length => {
            Err(CopyError::Trust(format!("its length should be {wanted} and is {length}")))
        }
        _ => Ok(hasher.finish()),
    }
}

fn copy_error(error: DownloadError) -> CopyError {
    match error {
        DownloadError::KeepPart { source, .. } => CopyError::Write(source),
        error if error.is_trust() => CopyError::Trust(told(&error)),
        error => CopyError::Get(told(&error)),
    }
}

fn copy_file(path: &Path, limit: u64, take: &mut impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), CopyError> {
    let get = |error: io::Error| CopyError::Get(format!("{}: {error}", path.display()));
    let mut from = File::open(path).map_err(get)?;
    let (mut buffer, mut length) = (vec![0; 1 << 16], 0);
    loop {
        let count = io::Read::read(&mut from, &mut buffer).map_err(get)?;
        length += count as u64;
        match count {
            0 => return Ok(()),
            _ if length > limit => return Err(CopyError::Trust(format!("it is longer than {limit} bytes"))),
            count => take(&buffer[..count]).map_err(CopyError::Write)?,
        }
    }
}

/// Everything below a directory, and the directory itself, for after a power cut.
fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_dir(path).map_err(io::Error::other)
}

fn told(error: &DownloadError) -> String {
    windlass_steps::report::chain(error).join(": ")
}
