//! The serial log: what a machine said on its console, the newest end of it, in two files of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::{MachineError, change};

/// Of each of the two files.
const HALF: u64 = 8 << 20;

/// Writes a log; the older half of a full one is dropped.
pub struct Log {
    path: PathBuf,
    file: File,
    size: u64,
    half: u64,
}

impl Log {
    /// Goes on where the log ends.
    pub fn open(path: &Path) -> Result<Self, MachineError> {
        Self::with_half(path, HALF).map_err(change("open", path))
    }

    /// Reads from this until its end, writing everything down.
    pub fn follow(&mut self, mut from: impl Read) -> Result<(), MachineError> {
        let mut chunk = [0; 16 << 10];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => self.write(&chunk[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(change("read the console for", &self.path)(error)),
            }
        }
    }

    fn with_half(path: &Path, half: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, half })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), MachineError> {
        if self.size + bytes.len() as u64 > self.half {
            let turned = fs::rename(&self.path, older(&self.path));
            *self = turned.and_then(|()| Self::with_half(&self.path, self.half)).map_err(change("turn", &self.path))?;
        }
        self.file.write_all(bytes).map_err(change("write to", &self.path))?;
        self.size += bytes.len() as u64;
        Ok(())
    }
}

/// The last bytes of a log, at most this many; nothing if there is none yet.
pub fn tail(path: &Path, bytes: u64) -> Result<Vec<u8>, MachineError> {
    let newer = end_of(path, bytes)?;
    let missing = bytes - newer.len() as u64;
    let older = if missing > 0 { end_of(&older(path), missing)? } else { Vec::new() };
    Ok([older, newer].concat())
}

fn end_of(path: &Path, bytes: u64) -> Result<Vec<u8>, MachineError> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.map_err(change("open", path))?,
    };
    let mut read = || {
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(bytes)))?;
        let mut end = Vec::new();
        (&file).take(bytes).read_to_end(&mut end)?;
        Ok(end)
    };
    read().map_err(|source: io::Error| change("read", path)(source))
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_end_and_never_grows_beyond_two_halves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        assert_eq!(tail(&path, 10).unwrap(), b"");
        let mut log = Log::with_half(&path, 10).unwrap();
        for word in ["one ", "two ", "three ", "four ", "five "] {
            log.follow(word.as_bytes()).unwrap();
        }
        assert_eq!(tail(&path, 100).unwrap(), b"three four five ");
        assert_eq!(tail(&path, 7).unwrap(), b"r five ");
        assert_eq!(tail(&path, 3).unwrap(), b"ve ");
        drop(log);
        Log::with_half(&path, 10).unwrap().follow("six".as_bytes()).unwrap();
        assert_eq!(tail(&path, 8).unwrap(), b"five six");
    }
}
