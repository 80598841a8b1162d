//! The bucket's signed word about one version of the operating system: fetched with both signatures, verified before a field
//! of it is believed, and judged: a valid signature does not say that it is the newest, nor that it is meant for us.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::warn;
use windlass_artifacts::addon::{
    AddonError, AddonVersion, Board, Expected, Manifest, OsVersion, PackageName, Rollback, judge,
};
use windlass_artifacts::download::Url;
use windlass_artifacts::signature::{Checked, Form, SignatureError, Signatures, check};
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};

use super::sources::{Missing, Sources};
use super::{ChoiceError, Given, WantedPackage};
use crate::places::Places;

const LIMIT: u64 = 1 << 20;

/// Why a manifest is not followed.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// The bucket does not give it.
    #[error("cannot get {url}: {reason}")]
    Get {
        /// Where it should be.
        url: String,
        /// Why it is not here.
        reason: String,
    },
    /// Nobody we trust vouches for it.
    #[error("cannot trust the manifest")]
    Verify {
        /// What is wrong.
        source: SignatureError,
    },
    /// It makes no sense, is for others, too old, or older than one that was seen.
    #[error("cannot use the manifest")]
    Use {
        /// What is wrong.
        source: AddonError,
    },
}

impl ManifestError {
    /// Whether this is a matter of trust, which time does not heal.
    pub fn is_trust(&self) -> bool {
        match self {
            ManifestError::Get { .. } => false,
            ManifestError::Verify { .. } | ManifestError::Use { .. } => true,
        }
    }
}

/// A manifest that may be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The operating system that it is for.
    pub os: OsVersion,
    url: Url,
    manifest: Manifest,
    version: Option<u64>,
    verified: bool,
}

/// Gets, verifies and judges the manifest for one version of the operating system.
pub(super) async fn follow(
    sources: &impl Sources,
    given: &Given<'_>,
    board: &Board,
    os: &OsVersion,
    url: &Url,
) -> Result<Followed, ManifestError> {
    let bytes = sources.document(url).await.map_err(|missing| not_here(url, missing))?;
    let asc = signature(sources, url, Form::OpenPgp, given.trusted.openpgp.is_some()).await?;
    let minisig = signature(sources, url, Form::Minisign, given.trusted.minisign.is_some()).await?;
    let signatures = Signatures { asc: asc.as_deref(), minisig: minisig.as_deref() };
    let now = given.clock.now();
    let checked = check(given.knobs.verification, given.trusted, url.as_str(), &bytes, signatures, now);
    let verified = match checked.map_err(|source| ManifestError::Verify { source })? {
        Checked::Signed(_) => true,
        Checked::Unverified(warning) => {
            warn!(%warning, "signature not looked at");
            false
        }
    };
    let use_it = |source| ManifestError::Use { source };
    let manifest = Manifest::parse(&bytes).map_err(use_it)?;
    let expected =
        Expected { board: board.clone(), os_version: os.clone(), now, highest_seen: given.seen.version(board, os) };
    let version = match judge(&manifest, &expected).map_err(use_it)?.rollback {
        Rollback::Protected(version) => Some(version),
        Rollback::Off(reason) => {
            warn!(reason, "an older manifest would not be noticed");
            None
        }
    };
    Ok(Followed { os: os.clone(), url: url.clone(), manifest, version, verified })
}

/// A signature that is not there is for the check to refuse; one that nobody would look at is not asked for.
async fn signature(
    sources: &impl Sources,
    url: &Url,
    form: Form,
    is_wanted: bool,
) -> Result<Option<Vec<u8>>, ManifestError> {
    if !is_wanted {
        return Ok(None);
    }
    let mut beside = url.clone();
    beside.set_path(&format!("{}{}", url.path(), form.suffix()));
    match sources.document(&beside).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Missing::Absent) => Ok(None),
        Err(missing) => Err(not_here(&beside, missing)),
    }
}

fn not_here(url: &Url, missing: Missing) -> ManifestError {
    let reason = match missing {
        Missing::Absent => "it is not there".to_owned(),
        Missing::Failed(reason) => reason,
    };
    ManifestError::Get { url: url.to_string(), reason }
}

impl Followed {
    /// A version of a package, if it is offered.
    pub(super) fn find(&self, name: &str, version: &AddonVersion) -> Option<WantedPackage> {
        let name = PackageName::parse(name).ok()?;
        let offered = self.manifest.find(&name, version)?.clone();
        let length = self.manifest.length(&offered.hash);
        Some(WantedPackage { name, os: self.os.clone(), offered, length, manifest: self.url.clone() })
    }

    pub(super) fn lacks(&self, package: &str, wanted: &str) -> ChoiceError {
        let offered = self.manifest.packages.iter().filter(|offered| offered.name.as_str() == package);
        let offered: Vec<&str> =
            offered.flat_map(|p| p.versions.iter().map(|version| version.version.as_str())).collect();
        ChoiceError::OfferPackage {
            package: package.to_owned(),
            wanted: wanted.to_owned(),
            os: self.os.clone(),
            offered: if offered.is_empty() { "none".to_owned() } else { offered.join(", ") },
        }
    }

    pub(super) fn told(&self) -> String {
        let version = self.version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
        let trust = if self.verified { "signed" } else { "NOT verified" };
        let packages = self.manifest.packages.iter().flat_map(|package| {
            package.versions.iter().map(move |version| format!("{} {}", package.name, version.version))
        });
        format!("manifest of {version}, {trust}: {}", packages.collect::<Vec<_>>().join(", "))
    }
}

/// The highest version of a signed manifest that was ever seen, by board and operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen {
    versions: BTreeMap<String, u64>,
}

impl Seen {
    /// What this machine has seen. A file that cannot be read is not taken for none: that would be the way back.
    pub fn read(places: &Places) -> Result<Self, HostError> {
        match read_file(places.addons_seen(), LIMIT) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| HostError::ReadFile {
                path: places.addons_seen(),
                source: io::Error::new(io::ErrorKind::InvalidData, error),
            }),
            Err(HostError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Seen::default()),
            Err(error) => Err(error),
        }
    }

    /// Keeps it.
    pub fn write(&self, places: &Places) -> Result<(), HostError> {
        let (path, text) = (places.addons_seen(), serde_json::to_vec(self).expect("numbers have a JSON form"));
        make_dir(path.parent().unwrap_or(&path), Mode::PUBLIC_DIR)?;
        write_file(path, text, Mode::PUBLIC)
    }

    fn version(&self, board: &Board, os: &OsVersion) -> Option<u64> {
        self.versions.get(&key(board, os)).copied()
    }

    /// Only what is signed counts: anybody can write a number that no later manifest exceeds.
    pub(super) fn take(&mut self, board: &Board, followed: &Followed) {
        if let Some(version) = followed.version.filter(|_| followed.verified) {
            self.versions.insert(key(board, &followed.os), version);
        }
    }
}

fn key(board: &Board, os: &OsVersion) -> String {
    format!("{board}/{os}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_kept_and_damage_is_not_taken_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert_eq!(Seen::read(&places).unwrap(), Seen::default());
        let seen = Seen { versions: [("amd64-usr/1".to_owned(), 7)].into() };
        seen.write(&places).unwrap();
        assert_eq!(Seen::read(&places).unwrap(), seen);
        assert_eq!(seen.version(&Board::amd64(), &OsVersion::parse("1").unwrap()), Some(7));
        assert_eq!(seen.version(&Board::amd64(), &OsVersion::parse("2").unwrap()), None);
        write_file(places.addons_seen(), "{", Mode::PUBLIC).unwrap();
        assert!(Seen::read(&places).is_err());
    }
}
