//! Tar archives, read with suspicion and written the same way every time.
//!
//! Whatever comes from a network is unpacked by [`extract`], which takes plain files, directories and links that
//! stay inside, into an empty directory, within [`Limits`], and refuses everything else by the member's name. A
//! [`Writer`] makes archives whose bytes depend on their content alone.

mod error;
mod name;
mod place;
mod read;
mod source;
mod walk;
mod write;

use std::io::Read;
use std::path::Path;

pub use error::{ArchiveError, Refusal};
pub use write::{Content, FileMode, Writer};

pub(crate) use name::member_path;
pub(crate) use read::{Kind, TarReader};
pub(crate) use write::append_file;

use place::{Directory, Nowhere};
use walk::walk;

/// How much an archive may ask of us before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes after decompression, headers and padding included.
    pub bytes: u64,
    /// Members of any kind, and as many directories that members imply.
    pub members: u64,
    /// Bytes after decompression for each byte before, once there is more than a mebibyte.
    pub ratio: u64,
    /// Bytes in a member's path, and in a link's target.
    pub path_length: usize,
}

impl Default for Limits {
    /// Enough for any release archive of the components that windlass knows.
    fn default() -> Self {
        Limits { bytes: 4 << 30, members: 20_000, ratio: 200, path_length: 1024 }
    }
}

/// A member that was taken out of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Relative to the destination, with plain components only.
    pub path: String,
    /// What it is.
    pub kind: ExtractedKind,
}

/// What a member became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtractedKind {
    /// A regular file.
    File {
        /// Its length in bytes.
        size: u64,
        /// Its permission bits: the archive's, without set-id bits and without write access for others.
        mode: u32,
    },
    /// A directory, mode 0755.
    Directory,
    /// A symbolic link to somewhere inside the destination.
    Symlink {
        /// As written in the archive.
        target: String,
    },
    /// A second name for a file that came earlier in the same archive.
    HardLink {
        /// That file's path.
        target: String,
    },
}

/// Unpacks a tar archive, plain or in gzip, into an empty directory of ours.
///
/// When it fails, the destination is empty again, and nothing outside it was ever touched.
pub fn extract(reader: impl Read, limits: &Limits, destination: &Path) -> Result<Vec<Extracted>, ArchiveError> {
    let mut place = Directory::open(destination)?;
    match walk(reader, limits, &mut place) {
        Ok(extracted) => Ok(extracted),
        Err(refusal) => match place.clear() {
            Ok(()) => Err(refusal),
            Err(cleanup) => {
                Err(ArchiveError::LeavePieces { path: destination.to_owned(), cleanup, source: Box::new(refusal) })
            }
        },
    }
}

/// Reads a whole archive by the same rules as [`extract`] and writes nothing.
pub fn inspect(reader: impl Read, limits: &Limits) -> Result<Vec<Extracted>, ArchiveError> {
    walk(reader, limits, &mut Nowhere)
}
