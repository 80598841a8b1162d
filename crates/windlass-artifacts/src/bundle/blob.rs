//! Readers of a bundle's bytes: at a place in the file, and with a digest that must come out right.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use crate::digest::{Digest, Hasher};

/// Reads a file from a place on, without moving anyone else's.
pub(super) struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl<'a> At<'a> {
    pub(super) fn new(file: &'a File, offset: u64) -> Self {
        At { file, offset }
    }
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// What went wrong while a blob was read.
pub(super) enum Trouble {
    /// Its digest is another one.
    Digest,
    /// The bundle could not be read.
    Read(io::Error),
}

/// Gives a blob's bytes, the last of them only if the digest of all is right: nobody ever holds a whole bad blob.
pub(super) struct Verified<R> {
    inner: R,
    left: u64,
    hasher: Option<Hasher>,
    want: Digest,
    trouble: Option<Trouble>,
}

impl<R: Read> Verified<R> {
    pub(super) fn new(inner: R, size: u64, want: &Digest) -> Self {
        let hasher = Some(Hasher::new(want.algorithm()));
        Verified { inner, left: size, hasher, want: want.clone(), trouble: None }
    }

    /// Reads what nobody wanted, and answers with what went wrong, if anything did.
    pub(super) fn finish(mut self) -> Option<Trouble> {
        let mut buffer = vec![0; 1 << 16];
        while self.trouble.is_none() {
            match self.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        self.trouble
    }

    fn advance(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.left -= bytes.len() as u64;
        match self.left {
            0 if self.hasher.take().is_some_and(|hasher| hasher.finish() != self.want) => Err(Trouble::Digest),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.trouble.is_some() {
            return Err(io::Error::other("the bundle is damaged"));
        }
        let wanted = self.left.min(buffer.len() as u64) as usize;
        let count = match self.inner.read(&mut buffer[..wanted]) {
            Ok(0) if wanted > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        let outcome = match count {
            Ok(count) => self.advance(&buffer[..count]).map(|()| count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => Err(Trouble::Read(error)),
        };
        outcome.map_err(|trouble| {
            self.trouble = Some(trouble);
            // A caller that ignores the error must not find the bytes either.
            buffer[..wanted].fill(0);
            io::Error::other("the bundle is damaged")
        })
    }
}
