//! Why an addon was not made, not published or not followed.

use std::io;
use std::path::PathBuf;

use time::OffsetDateTime;
use windlass_steps::host::HostError;

use super::{Board, OsVersion};
use crate::archive::ArchiveError;
use crate::signature::KeyError;

/// A failed attempt around addons.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    /// The manifest is not a torcx package list that we can follow.
    #[error("cannot read the torcx manifest: {what}")]
    ParseManifest {
        /// What is wrong with it.
        what: String,
    },
    /// A package lies where it must not.
    #[error("refused the location {location:?}: {what}")]
    ResolveLocation {
        /// As the manifest has it.
        location: String,
        /// The rule.
        what: &'static str,
    },
    /// The template for the manifest's URL makes no sense.
    #[error("cannot use the URL template {template:?}: {what}")]
    ExpandTemplate {
        /// As it was given.
        template: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The manifest is for other machines.
    #[error("the manifest is for the board {found}, and this is {wanted}")]
    MatchBoard {
        /// This machine's.
        wanted: Board,
        /// The manifest's.
        found: Board,
    },
    /// The manifest is for another operating system.
    #[error("the manifest is for OS version {found}, and {wanted} was asked for")]
    MatchOsVersion {
        /// What was asked for.
        wanted: OsVersion,
        /// The manifest's.
        found: OsVersion,
    },
    /// The manifest's time is over.
    #[error("the manifest expired on {expires}")]
    UseExpired {
        /// When.
        expires: OffsetDateTime,
    },
    /// An older manifest, though validly signed, takes the place of a newer one.
    #[error("the manifest has version {found}, and version {seen} was seen before: this is a rollback")]
    RollBack {
        /// The highest version seen.
        seen: u64,
        /// The manifest's.
        found: u64,
    },
    /// A manifest without a version takes the place of one with a version.
    #[error("the manifest has no version, and version {seen} was seen before: this may be a rollback")]
    LoseVersion {
        /// The highest version seen.
        seen: u64,
    },
    /// `os-release` is not what os-release(5) says.
    #[error("cannot read os-release, line {line}: {what}")]
    ParseOsRelease {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The description of an extension makes no sense.
    #[error("cannot pack the extension {name}: {what}")]
    DescribeExtension {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// The extension could not be packed.
    #[error("cannot pack the extension {name}")]
    PackExtension {
        /// Its name.
        name: String,
        /// What is wrong.
        source: ArchiveError,
    },
    /// The extension could not be laid out as a directory.
    #[error("cannot lay out the extension {name}")]
    LayOutExtension {
        /// Its name.
        name: String,
        /// What is wrong.
        source: std::io::Error,
    },
    /// What is to be published makes no sense.
    #[error("cannot publish: {what}")]
    DescribePublication {
        /// What is wrong with it.
        what: String,
    },
    /// What is to be published is not what it should be, so nothing of ours is signed for it.
    #[error("{} is not trusted: {reason}", .path.display())]
    DistrustPackage {
        /// The archive.
        path: PathBuf,
        /// What it should be and what it is.
        reason: String,
    },
    /// A file of the bucket could not be read or written.
    #[error("cannot publish {}", .path.display())]
    PublishFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The manifest could not be put in its place.
    #[error("cannot publish the manifest")]
    PublishManifest {
        /// What is wrong.
        source: HostError,
    },
    /// The manifest could not be signed.
    #[error("cannot sign the manifest")]
    SignManifest {
        /// What is wrong with the keys.
        source: KeyError,
    },
}

impl AddonError {
    /// Whether the addon must not be trusted (exit code 9), as opposed to could not be had.
    pub fn is_trust(&self) -> bool {
        match self {
            AddonError::ParseManifest { .. }
            | AddonError::ResolveLocation { .. }
            | AddonError::MatchBoard { .. }
            | AddonError::MatchOsVersion { .. }
            | AddonError::UseExpired { .. }
            | AddonError::RollBack { .. }
            | AddonError::LoseVersion { .. }
            | AddonError::DistrustPackage { .. } => true,
            AddonError::ExpandTemplate { .. }
            | AddonError::ParseOsRelease { .. }
            | AddonError::DescribeExtension { .. }
            | AddonError::PackExtension { .. }
            | AddonError::LayOutExtension { .. }
            | AddonError::DescribePublication { .. }
            | AddonError::PublishFile { .. }
            | AddonError::PublishManifest { .. }
            | AddonError::SignManifest { .. } => false,
        }
    }
}
