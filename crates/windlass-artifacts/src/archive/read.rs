//! Tar block by block. The library's own reader keeps going where we want to stop (long names of any length, records
//! after the end, `size` overrides), so only its header fields are used.

mod extended;

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::{ArchiveError, Limits, Refusal, member_path};
use extended::Extended;

pub(super) const BLOCK: usize = 512;
const EXTENDED_LIMIT: u64 = 1 << 16;

/// What kind of thing a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
}

/// A member whose header was read and whose name is plain.
#[derive(Debug)]
pub(crate) struct Member {
    /// Plain components only; empty for the root itself.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    /// The link's target as the archive has it.
    pub(crate) link: Vec<u8>,
}

/// Reads headers, and in between the data of the last member through [`Read`].
pub(crate) struct TarReader<R> {
    inner: R,
    limits: Limits,
    /// Bytes of the archive so far.
    offset: u64,
    members: u64,
    /// Data and padding of the current member that nobody has read yet.
    data: u64,
    padding: u64,
    current: String,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(inner: R, limits: Limits) -> Self {
        TarReader { inner, limits, offset: 0, members: 0, data: 0, padding: 0, current: String::new() }
    }

    /// Where in the archive the next byte is; after [`TarReader::next`], where the member's data starts.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next member, or nothing at the end marker.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, ArchiveError> {
        self.skip()?;
        let mut extended = Extended::default();
        loop {
            let mut block = [0; BLOCK];
            self.fill(&mut block)?;
            if block.iter().all(|b| *b == 0) {
                return self.end(&extended).map(|()| None);
            }
            let header = Header::from_byte_slice(&block);
            self.current = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            let size = self.check_header(header, &block)?;
            let kind = header.entry_type();
            if !extended.wants(kind) {
                return self.member(header, kind, size, extended).map(Some);
            }
            if size > EXTENDED_LIMIT {
                return Err(self.refuse(Refusal::Header { what: "an extended header is too long" }));
            }
            self.set_data(size);
            let mut content = vec![0; size as usize];
            self.read_exact(&mut content).map_err(|error| self.trouble(error))?;
            self.skip()?;
            extended.add(kind, &content).map_err(|refusal| self.refuse(refusal))?;
        }
    }

    /// After the end marker: nothing but zeros may follow.
    pub(crate) fn finish(mut self) -> Result<R, ArchiveError> {
        self.current.clear();
        let mut buffer = vec![0; 1 << 14];
        loop {
            let count = self.inner.read(&mut buffer).map_err(|error| self.trouble(error))?;
            self.offset += count as u64;
            if count == 0 {
                return Ok(self.inner);
            }
            if buffer[..count].iter().any(|b| *b != 0) {
                return Err(self.refuse(Refusal::TrailingData));
            }
            self.check_offset(0)?;
        }
    }

    /// A refusal in the name of the current member.
    pub(crate) fn refuse(&self, refusal: Refusal) -> ArchiveError {
        match self.current.is_empty() {
            true => ArchiveError::RefuseArchive { source: refusal },
            false => ArchiveError::RefuseMember { member: self.current.clone(), source: refusal },
        }
    }

    /// What a failed read of this archive means.
    pub(crate) fn trouble(&self, error: io::Error) -> ArchiveError {
        if let Some(refusal) = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()) {
            return self.refuse(refusal.clone());
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.refuse(Refusal::Truncated),
            _ => ArchiveError::ReadArchive { source: error },
        }
    }

    fn member(
        &mut self,
        header: &Header,
        kind: EntryType,
        size: u64,
        extended: Extended,
    ) -> Result<Member, ArchiveError> {
        let raw_path = extended.path.unwrap_or_else(|| header.path_bytes().into_owned());
        self.current = String::from_utf8_lossy(&raw_path).into_owned();
        let kind = plain_kind(kind).map_err(|refusal| self.refuse(refusal))?;
        self.members += 1;
        if self.members > self.limits.members {
            return Err(self.refuse(Refusal::TooMany { limit: self.limits.members }));
        }
        let path = member_path(&raw_path, self.limits.path_length).map_err(|refusal| self.refuse(refusal))?;
        if kind == Kind::File && (raw_path.ends_with(b"/") || path.is_empty()) {
            return Err(self.refuse(Refusal::FileWithSlash));
        }
        if kind != Kind::File && size != 0 {
            return Err(self.refuse(Refusal::Header { what: "something without content has a size" }));
        }
        let link = extended.link.or_else(|| header.link_name_bytes().map(|name| name.into_owned())).unwrap_or_default();
        let mode = header.mode().map_err(|_| self.refuse(Refusal::Header { what: "the mode is not a number" }))?;
        self.set_data(size);
        Ok(Member { path, kind, size, mode, link })
    }

    fn check_header(&self, header: &Header, block: &[u8; BLOCK]) -> Result<u64, ArchiveError> {
        let damaged = |what| self.refuse(Refusal::Header { what });
        // The checksum field itself counts as eight spaces.
        let sum: u32 =
            block.iter().enumerate().map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) }).sum();
        if header.cksum().ok() != Some(sum) {
            return Err(damaged("the checksum is wrong"));
        }
        let size = header.entry_size().map_err(|_| damaged("the size is not a number"))?;
        self.check_offset(size)?;
        Ok(size)
    }

    fn check_offset(&self, more: u64) -> Result<(), ArchiveError> {
        match self.offset.checked_add(more) {
            Some(total) if total <= self.limits.bytes => Ok(()),
            _ => Err(self.refuse(Refusal::TooLarge { limit: self.limits.bytes })),
        }
    }

    fn set_data(&mut self, size: u64) {
        self.data = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
    }

    /// Passes over what is left of the current member and its padding.
    pub(crate) fn skip(&mut self) -> Result<(), ArchiveError> {
        let mut buffer = [0; 4096];
        while self.data > 0 {
            let count = self.data.min(buffer.len() as u64) as usize;
            self.read_exact(&mut buffer[..count]).map_err(|error| self.trouble(error))?;
        }
        let padding = std::mem::take(&mut self.padding) as usize;
        self.fill(&mut buffer[..padding])?;
        // Every writer pads with zeros; checking it leaves no byte of an archive in which something could hide.
        match buffer[..padding].iter().all(|b| *b == 0) {
            true => Ok(()),
            false => Err(self.refuse(Refusal::Header { what: "its padding is not empty" })),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.inner.read_exact(buffer).map_err(|error| self.trouble(error))?;
        self.offset += buffer.len() as u64;
        self.check_offset(0)
    }

    /// The end marker is two empty blocks; only one of them is what a cut archive can look like.
    fn end(&mut self, extended: &Extended) -> Result<(), ArchiveError> {
        if !extended.is_empty() {
            return Err(self.refuse(Refusal::Header { what: "an extended header belongs to no member" }));
        }
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        self.current.clear();
        if block.iter().any(|b| *b != 0) { Err(self.refuse(Refusal::TrailingData)) } else { Ok(()) }
    }
}

impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = self.data.min(buffer.len() as u64) as usize;
        let count = self.inner.read(&mut buffer[..wanted])?;
        if count == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.data -= count as u64;
        self.offset += count as u64;
        Ok(count)
    }
}

fn plain_kind(kind: EntryType) -> Result<Kind, Refusal> {
    let what = match kind {
        EntryType::Regular => return Ok(Kind::File),
        EntryType::Directory => return Ok(Kind::Directory),
        EntryType::Symlink => return Ok(Kind::Symlink),
        EntryType::Link => return Ok(Kind::HardLink),
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a FIFO",
        EntryType::GNUSparse => "a sparse file",
        _ => "of an unknown kind",
    };
    Err(Refusal::Special { what })
}
