//! Hearing what a command says while it still runs: complete lines, as they come, to whoever wants to show them, and what
//! is worth keeping to the caller when it has ended.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::Output;

pub(super) const STDERR_TAIL: usize = 8 << 10;
const CHUNK: usize = 16 << 10;
/// A line longer than this is told in pieces, so that a stream without line breaks cannot fill the memory.
const LINE_LIMIT: usize = 64 << 10;

/// Where a command said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// On stdout.
    Out,
    /// On stderr.
    Err,
}

/// What the follower makes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It stays in the output, or in the end of stderr that a failure shows.
    Keep,
    /// It was progress and tells nothing to anyone later, so that it does not push aside what does.
    Drop,
}

/// Whoever listens; it is called between two reads of the command's output and should not take long.
pub type Follower<'a> = &'a (dyn Fn(Stream, &str) -> Heard + Send + Sync);

/// What stays of a stream.
pub(super) trait Kept {
    fn keep(&mut self, bytes: &[u8]);

    /// Whether there is more than may be kept, and listening on is of no use.
    fn is_over(&self) -> bool;
}

/// Cuts a stream into lines for its follower and keeps what is to be kept; without a follower, everything.
pub(super) struct Ear<'a, K> {
    pub(super) kept: K,
    stream: Stream,
    follower: Option<Follower<'a>>,
    pending: Vec<u8>,
}

impl<'a, K: Kept> Ear<'a, K> {
    pub(super) fn new(stream: Stream, follower: Option<Follower<'a>>, kept: K) -> Self {
        Ear { kept, stream, follower, pending: Vec::new() }
    }

    /// Listens to the end, or until it is too much.
    pub(super) async fn listen(&mut self, mut pipe: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        while !self.kept.is_over() {
            match pipe.read(&mut chunk).await? {
                0 => {
                    self.end();
                    break;
                }
                read => self.hear(&chunk[..read]),
            }
        }
        Ok(())
    }

    /// Takes the next piece of the stream, which may end anywhere.
    fn hear(&mut self, chunk: &[u8]) {
        if self.follower.is_none() {
            return self.kept.keep(chunk);
        }
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.pending.len() > LINE_LIMIT {
                self.end();
            }
        }
    }

    /// Takes what is pending for a line; the last one may lack its line break.
    pub(super) fn end(&mut self) {
        let line = std::mem::take(&mut self.pending);
        let Some(follower) = self.follower.filter(|_| !line.is_empty()) else { return };
        let text = String::from_utf8_lossy(&line);
        match follower(self.stream, text.trim_end_matches(['\n', '\r'])) {
            Heard::Keep => self.kept.keep(&line),
            Heard::Drop => {}
        }
    }
}

/// All of a stream, up to what the caller is ready to hold.
pub(super) struct Whole {
    pub(super) bytes: Vec<u8>,
    limit: usize,
}

impl Whole {
    pub(super) fn up_to(limit: usize) -> Self {
        Whole { bytes: Vec::new(), limit }
    }
}

impl Kept for Whole {
    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn is_over(&self) -> bool {
        self.bytes.len() > self.limit
    }
}

/// The end of a stream, whatever its length.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        match (self.cut, text.split_once('\n')) {
            (true, Some((_, rest))) if !rest.is_empty() => format!("[...]\n{rest}"),
            (true, _) => format!("[...]{text}"),
            (false, _) => text.into_owned(),
        }
    }
}

impl Kept for Tail {
    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > STDERR_TAIL {
            self.bytes.drain(..self.bytes.len() - STDERR_TAIL);
            self.cut = true;
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// Tells what a command left behind, for those that cannot tell it earlier.
pub(super) fn replay(output: Output, follower: Follower<'_>) -> Output {
    let heard = |stream, bytes: &[u8]| {
        let mut ear = Ear::new(stream, Some(follower), Whole::up_to(bytes.len()));
        ear.hear(bytes);
        ear.end();
        ear.kept.bytes
    };
    let stderr = String::from_utf8_lossy(&heard(Stream::Err, output.stderr.as_bytes())).into_owned();
    let stdout = heard(Stream::Out, &output.stdout);
    Output { stdout, stderr, ..output }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What was told and what was kept, if lines that begin with a dot are progress.
    fn heard(chunks: &[&[u8]]) -> (Vec<String>, Vec<u8>) {
        let told = Mutex::new(Vec::new());
        let follower = |_: Stream, line: &str| {
            told.lock().unwrap().push(line.to_owned());
            if line.starts_with('.') { Heard::Drop } else { Heard::Keep }
        };
        let mut ear = Ear::new(Stream::Err, Some(&follower), Whole::up_to(usize::MAX));
        chunks.iter().for_each(|chunk| ear.hear(chunk));
        ear.end();
        let kept = ear.kept.bytes;
        (told.into_inner().unwrap(), kept)
    }

    /// The pieces of a stream, the lines that are told, and what is kept.
    type Case<'a> = (&'a [&'a [u8]], &'a [&'a str], &'a [u8]);

    #[test]
    fn lines_are_told_whole_wherever_the_pieces_end() {
        let cases: [Case<'_>; 6] = [
            (&[b"one\ntwo\n"], &["one", "two"], b"one\ntwo\n"),
            (&[b"o", b"ne\nt", b"wo\n"], &["one", "two"], b"one\ntwo\n"),
            (&[b"a\n.b\nc"], &["a", ".b", "c"], b"a\nc"),
            (&[b"a\r\n\n"], &["a", ""], b"a\r\n\n"),
            (&[b"\xc3", b"\xa9\xff\n"], &["é\u{fffd}"], b"\xc3\xa9\xff\n"),
            (&[], &[], b""),
        ];
        for (chunks, told, kept) in cases {
            let (lines, bytes) = heard(chunks);
            assert_eq!((lines.iter().map(String::as_str).collect::<Vec<_>>(), bytes.as_slice()), (told.to_vec(), kept));
        }
    }

    #[test]
    fn a_stream_without_line_breaks_is_told_in_pieces() {
        let chunks = vec![[b'x'; 1000].as_slice(); 200];
        let (lines, kept) = heard(&chunks);
        assert_eq!((lines.len(), kept.len()), (4, 200_000));
        assert!(lines.iter().all(|line| line.len() <= LINE_LIMIT + 1000));
    }

    #[test]
    fn nobody_listening_keeps_everything() {
        let mut ear = Ear::new(Stream::Out, None, Whole::up_to(100));
        ear.hear(b"half a li");
        ear.end();
        assert_eq!(ear.kept.bytes, b"half a li");
    }
}
