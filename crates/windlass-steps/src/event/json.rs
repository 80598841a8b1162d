//! Events as JSON lines on any writer, which is the progress that `--output json` shows on stderr.

use std::io::{self, Write};

use super::{Event, Reader};

/// Writes each event as one line, at once.
#[derive(Debug)]
pub struct JsonLines<W> {
    writer: W,
}

impl<W: Write + Send> JsonLines<W> {
    /// Writes to this writer from now on.
    pub fn to(writer: W) -> Self {
        Self { writer }
    }
}

impl<W: Write + Send> Reader for JsonLines<W> {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.writer.write_all(&line)?;
        self.writer.flush()
    }
}
