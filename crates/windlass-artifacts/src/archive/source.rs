//! The bytes of an archive: gzip taken off if it is there, and the two counts that give bombs away.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::Refusal;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// A short archive of zeros compresses a thousandfold in all honesty; below this nobody is harmed.
const RATIO_FREE: u64 = 1 << 20;

/// An archive's bytes after decompression.
pub(super) struct Source<R: Read> {
    stream: Stream<R>,
    ratio: u64,
    given: u64,
}

enum Stream<R: Read> {
    Plain(Counted<R>),
    Gzip(Box<GzDecoder<Counted<R>>>),
}

impl<R: Read> Source<R> {
    /// Looks at the first bytes to see whether they are compressed.
    pub(super) fn open(reader: R, ratio: u64) -> io::Result<Self> {
        // A reader may give a single byte at a time, so the two are fetched by hand and put back in front.
        let mut reader = reader;
        let mut front = Vec::new();
        reader.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut front)?;
        let gzip = front == GZIP_MAGIC;
        let counted =
            Counted { inner: BufReader::with_capacity(1 << 16, io::Cursor::new(front).chain(reader)), taken: 0 };
        let stream = if gzip { Stream::Gzip(Box::new(GzDecoder::new(counted))) } else { Stream::Plain(counted) };
        Ok(Source { stream, ratio, given: 0 })
    }

    /// Whether there is anything after the compressed stream, or after the plain one.
    pub(super) fn has_more(&mut self) -> io::Result<bool> {
        let counted = match &mut self.stream {
            Stream::Plain(counted) => counted,
            Stream::Gzip(decoder) => decoder.get_mut(),
        };
        Ok(!counted.fill_buf()?.is_empty())
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let decoder = match &mut self.stream {
            Stream::Plain(counted) => return counted.read(buffer),
            Stream::Gzip(decoder) => decoder,
        };
        let count = decoder.read(buffer).map_err(damaged)?;
        self.given += count as u64;
        let taken = decoder.get_ref().taken;
        if self.given > RATIO_FREE && self.given / self.ratio.max(1) > taken {
            return Err(io::Error::other(Refusal::Bomb { limit: self.ratio }));
        }
        Ok(count)
    }
}

/// The decoder reports damage with kinds that a file would never give; everything else is the reader's own trouble.
fn damaged(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => io::Error::other(Refusal::DamagedCompression),
        _ => error,
    }
}

struct Counted<R: Read> {
    inner: BufReader<io::Chain<io::Cursor<Vec<u8>>, R>>,
    taken: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken += count as u64;
        Ok(count)
    }
}

impl<R: Read> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.taken += count as u64;
        self.inner.consume(count);
    }
}
