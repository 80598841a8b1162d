//! Out of a bundle: blob after blob, in the list's order, none missing and none extra.

use std::error::Error;
use std::io::{BufReader, Read};

use super::blob::{At, Trouble, Verified};
use super::{Bundle, BundleEntry, BundleError, PATH_LIMIT};
use crate::archive::{Kind, Limits, TarReader};

/// What a sink says when it cannot take something.
pub type SinkError = Box<dyn Error + Send + Sync>;

/// Where a bundle's blobs go.
pub trait BlobSink {
    /// Takes one entry's blob.
    ///
    /// The reader gives the last bytes only if the digest of all of them is right, so whatever was read to its end is
    /// good, and whatever ended in an error must be thrown away. A sink that has the blob already may stop early.
    fn take(&mut self, entry: &BundleEntry, reader: &mut dyn Read) -> Result<(), SinkError>;
}

/// What an import brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Entries that were handed over.
    pub entries: usize,
    /// Bytes of blobs in the bundle.
    pub bytes: u64,
}

impl Bundle {
    /// Hands every blob to the sink and checks that the bundle is the list and nothing else.
    pub fn import(&self, sink: &mut impl BlobSink) -> Result<Imported, BundleError> {
        let blobs = self.index.blobs();
        let length = self.file.metadata().map_err(|source| self.unreadable(source))?.len();
        let limits = Limits { bytes: length, members: blobs.len() as u64 + 1, ratio: 1, path_length: PATH_LIMIT };
        let mut tar = TarReader::new(BufReader::with_capacity(1 << 16, At::new(&self.file, self.blobs)), limits);
        let mut imported = Imported { entries: 0, bytes: 0 };
        for entries in &blobs {
            let Some((first, others)) = entries.split_first() else { continue };
            expect_blob(&mut tar, first)?;
            let data = self.blobs + tar.offset();
            take(sink, first, &mut tar)?;
            for entry in others {
                take(sink, entry, At::new(&self.file, data))?;
            }
            imported.entries += entries.len();
            imported.bytes += first.size;
        }
        if let Some(extra) = tar.next().map_err(|source| BundleError::ReadMember { source })? {
            return Err(BundleError::RefuseMember { member: extra.path, what: "it is not in the list" });
        }
        tar.finish().map_err(|source| BundleError::ReadMember { source })?;
        Ok(imported)
    }

    fn unreadable(&self, source: std::io::Error) -> BundleError {
        BundleError::ReadBundle { path: self.path.clone(), source }
    }
}

fn expect_blob<R: Read>(tar: &mut TarReader<R>, entry: &BundleEntry) -> Result<(), BundleError> {
    let member = tar.next().map_err(|source| BundleError::ReadMember { source })?;
    let Some(member) = member else {
        return Err(BundleError::FindBlob { name: entry.title() });
    };
    let wrong = |what| BundleError::RefuseMember { member: member.path.clone(), what };
    if member.path != entry.path() || member.kind != Kind::File {
        return Err(wrong("the list has another blob here"));
    }
    if member.size != entry.size {
        return Err(wrong("the list has another size for it"));
    }
    Ok(())
}

fn take(sink: &mut impl BlobSink, entry: &BundleEntry, source: impl Read) -> Result<(), BundleError> {
    let mut reader = Verified::new(source, entry.size, &entry.digest);
    let taken = sink.take(entry, &mut reader);
    match (reader.finish(), taken) {
        (Some(Trouble::Digest), _) => {
            Err(BundleError::MatchDigest { name: entry.title(), digest: entry.digest.clone() })
        }
        (Some(Trouble::Read(error)), _) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(BundleError::FindBlob { name: entry.title() })
        }
        (Some(Trouble::Read(source)), _) => {
            Err(BundleError::ReadMember { source: crate::archive::ArchiveError::ReadArchive { source } })
        }
        (None, Err(source)) => Err(BundleError::StoreBlob { name: entry.title(), source }),
        (None, Ok(())) => Ok(()),
    }
}
