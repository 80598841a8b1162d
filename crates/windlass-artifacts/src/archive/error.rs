//! Why an archive was not taken, or not written. A refusal names the member and the rule that it breaks.

use std::io;
use std::path::PathBuf;

/// A failed attempt to read or write an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// One member breaks a rule; the whole archive is refused for it.
    #[error("refused the archive for its member {}", quote(.member))]
    RefuseMember {
        /// Its name as the archive has it.
        member: String,
        /// The rule.
        source: Refusal,
    },
    /// The archive breaks a rule between its members or as a whole.
    #[error("refused the archive")]
    RefuseArchive {
        /// The rule.
        source: Refusal,
    },
    /// The archive could not be read.
    #[error("cannot read the archive")]
    ReadArchive {
        /// What the reader said.
        source: io::Error,
    },
    /// The place to unpack into is not an empty directory of ours.
    #[error("cannot unpack into {}: an empty directory of our own is wanted", .path.display())]
    UseDestination {
        /// The place.
        path: PathBuf,
        /// What the kernel said, or what is wrong with it.
        source: io::Error,
    },
    /// A good member could not be written.
    #[error("cannot unpack {}", quote(.member))]
    PlaceMember {
        /// Its name.
        member: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive was refused or could not be unpacked, and what had been unpacked could not be removed.
    #[error("cannot remove what was unpacked into {} before it failed ({cleanup})", .path.display())]
    LeavePieces {
        /// The destination.
        path: PathBuf,
        /// Why the pieces are still there.
        cleanup: io::Error,
        /// Why unpacking failed in the first place.
        source: Box<ArchiveError>,
    },
    /// A file that was to go into an archive could not be read.
    #[error("cannot read {} to pack it", .path.display())]
    ReadSource {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive could not be written.
    #[error("cannot write the archive")]
    WriteArchive {
        /// What the writer said.
        source: io::Error,
    },
}

impl ArchiveError {
    /// Whether the archive is to blame, so that it must not be trusted (exit code 9), not the machine.
    pub fn is_trust(&self) -> bool {
        match self {
            ArchiveError::RefuseMember { .. } | ArchiveError::RefuseArchive { .. } => true,
            ArchiveError::LeavePieces { source, .. } => source.is_trust(),
            ArchiveError::ReadArchive { .. }
            | ArchiveError::UseDestination { .. }
            | ArchiveError::PlaceMember { .. }
            | ArchiveError::ReadSource { .. }
            | ArchiveError::WriteArchive { .. } => false,
        }
    }

    /// The rule that was broken, if one was.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            ArchiveError::RefuseMember { source, .. } | ArchiveError::RefuseArchive { source } => Some(source),
            ArchiveError::LeavePieces { source, .. } => source.refusal(),
            _ => None,
        }
    }
}

/// A rule that archives must keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name starts at the root of the file system.
    #[error("its path is absolute")]
    AbsolutePath,
    /// The name climbs out with `..`.
    #[error("its path has a component `..`")]
    ParentComponent,
    /// The name has an empty component or a `.` in the middle.
    #[error("its path has an empty component or a component `.`")]
    EmptyComponent,
    /// The name has bytes that no honest file name has.
    #[error("its path has control characters, NUL or bytes that are not UTF-8")]
    ControlCharacter,
    /// The name is longer than the limit.
    #[error("its path is longer than {limit} bytes")]
    LongPath {
        /// The limit.
        limit: usize,
    },
    /// A file's name ends like a directory's: readers of tar disagree on what that is.
    #[error("it is a file with a path that ends in `/`")]
    FileWithSlash,
    /// Another member has this path.
    #[error("another member has the same path")]
    Duplicate,
    /// A part of the path is not a directory but an earlier file or link.
    #[error("its path leads through {through:?}, which is an earlier member and not a directory")]
    ThroughMember {
        /// That member.
        through: String,
    },
    /// The link's target is outside, or can be.
    #[error("it links to {target:?}, which can leave the destination")]
    LinkOutside {
        /// As the archive has it.
        target: String,
    },
    /// The hard link's target is not an earlier regular file of this archive.
    #[error("it is a hard link to {target:?}, which is not an earlier file of this archive")]
    LinkUnknown {
        /// As the archive has it.
        target: String,
    },
    /// A device, a FIFO, a sparse file or something unheard of.
    #[error("it is {what}, and only files, directories and links are taken")]
    Special {
        /// In words.
        what: &'static str,
    },
    /// A header that is not well formed.
    #[error("its header is damaged: {what}")]
    Header {
        /// In words.
        what: &'static str,
    },
    /// An extended header sets something that we do not let it set.
    #[error("its extended header sets {key:?}")]
    ExtendedKey {
        /// The record's key.
        key: String,
    },
    /// The data goes over the limit in bytes, or says that it will.
    #[error("it goes over the limit of {limit} bytes for the whole archive")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// More members than the limit.
    #[error("there are more than {limit} members")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// So much from so little is an attack.
    #[error("it is a decompression bomb: more than {limit} bytes for each compressed one")]
    Bomb {
        /// The limit.
        limit: u64,
    },
    /// The archive ends too early.
    #[error("the archive ends in the middle")]
    Truncated,
    /// There is something after the end.
    #[error("there is something after the end of the archive")]
    TrailingData,
    /// The compressed stream is damaged.
    #[error("the compressed data is damaged")]
    DamagedCompression,
}

/// A name from outside, safe for a terminal and not endless.
pub(crate) fn quote(name: &str) -> String {
    let shown: String = name.chars().take(200).flat_map(char::escape_debug).collect();
    if name.chars().nth(200).is_some() { format!("\"{shown}…\"") } else { format!("\"{shown}\"") }
}
