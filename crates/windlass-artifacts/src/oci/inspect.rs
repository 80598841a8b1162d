//! Reading an archive of unknown origin. One pass over the tar file checks the name, kind, size and digest of every
//! member; then the documents are followed from the index down, and everything they mention must have been seen, with
//! the size and the kind they give it. Only documents are held in memory, and only up to a limit.

mod documents;
mod members;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use super::{ImageSummary, OciError};

/// Reads the whole archive and says what is in it, or why it is not to be trusted.
pub fn inspect(file: &Path) -> Result<Vec<ImageSummary>, OciError> {
    let opened = File::open(file).map_err(|source| OciError::ReadArchive { file: file.to_owned(), source })?;
    inspect_from(&opened, file)
}

/// The same for anything that can be read twice; the path is only for the error.
pub fn inspect_from(mut reader: impl Read + Seek, file: &Path) -> Result<Vec<ImageSummary>, OciError> {
    let members = members::Members::read(&mut reader);
    let summaries = members.and_then(|members| documents::Documents { reader: &mut reader, members }.summaries());
    summaries.map_err(|finding| match finding {
        Finding::Read(source) => OciError::ReadArchive { file: file.to_owned(), source },
        Finding::Distrust(reason) => OciError::TrustArchive { file: file.to_owned(), reason },
    })
}

/// Why an inspection ended early: the disk, or the archive.
enum Finding {
    Read(io::Error),
    Distrust(String),
}

impl Finding {
    /// The kernel's errors have a number; what the tar reader finds wrong with a member has none.
    fn from_tar(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Finding::Read(error),
            None => Finding::Distrust(format!("not a tar file: {error}")),
        }
    }
}

fn distrust<T>(reason: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Distrust(reason.into()))
}

#[cfg(test)]
mod tests;
