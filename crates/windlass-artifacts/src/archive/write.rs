//! Archives made by us: members in order of their names, no times, no owners, two modes. The same content gives the
//! same bytes on every machine, so that a digest says what is inside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use super::name::link_target;
use super::{ArchiveError, Limits, Refusal, member_path};

/// What ustar's eleven octal digits can say; beyond it readers differ.
const LARGEST: u64 = (8 << 30) - 1;

/// Where a file's content comes from.
#[derive(Debug, Clone)]
pub enum Content {
    /// From here.
    Bytes(Vec<u8>),
    /// From a file, read when the archive is written.
    File(PathBuf),
}

/// The two modes that files in our archives have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// 0644.
    Data,
    /// 0755.
    Program,
}

impl FileMode {
    fn bits(self) -> u32 {
        match self {
            FileMode::Data => 0o644,
            FileMode::Program => 0o755,
        }
    }
}

/// An archive in the making.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    members: BTreeMap<String, Planned>,
}

#[derive(Debug, Clone)]
enum Planned {
    Directory,
    File { content: Content, mode: FileMode },
    Symlink { target: String },
}

impl Writer {
    /// An empty one.
    pub fn new() -> Self {
        Writer::default()
    }

    /// Adds a file, and the directories above it.
    pub fn file(&mut self, path: &str, content: Content, mode: FileMode) -> Result<(), ArchiveError> {
        self.add(path, |_| Ok(Planned::File { content, mode }))
    }

    /// Adds an empty directory, and those above it.
    pub fn directory(&mut self, path: &str) -> Result<(), ArchiveError> {
        self.add(path, |_| Ok(Planned::Directory))
    }

    /// Adds a symbolic link that stays inside.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), ArchiveError> {
        self.add(path, |path| {
            let target = link_target(path, target.as_bytes(), Limits::default().path_length)?;
            Ok(Planned::Symlink { target })
        })
    }

    /// Writes it as plain tar.
    pub fn write_tar(&self, out: impl Write) -> Result<(), ArchiveError> {
        let mut builder = tar::Builder::new(out);
        for (path, planned) in &self.members {
            append(&mut builder, path, planned)?;
        }
        builder.into_inner().and_then(|mut out| out.flush()).map_err(|source| ArchiveError::WriteArchive { source })
    }

    /// Writes it as tar in gzip.
    pub fn write_tar_gz(&self, out: impl Write) -> Result<(), ArchiveError> {
        // 255 is "unknown": the system that packed it is not content.
        let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(out, Compression::new(6));
        self.write_tar(&mut gzip)?;
        let written = gzip.finish().and_then(|mut out| out.flush());
        written.map_err(|source| ArchiveError::WriteArchive { source })
    }

    fn add(&mut self, raw: &str, plan: impl FnOnce(&str) -> Result<Planned, Refusal>) -> Result<(), ArchiveError> {
        let refuse = |source| ArchiveError::RefuseMember { member: raw.to_owned(), source };
        let path = member_path(raw.as_bytes(), Limits::default().path_length).map_err(refuse)?;
        if path.is_empty() {
            return Err(refuse(Refusal::EmptyComponent));
        }
        let planned = plan(&path).map_err(refuse)?;
        if raw.ends_with('/') && !matches!(planned, Planned::Directory) {
            return Err(refuse(Refusal::FileWithSlash));
        }
        for (at, _) in path.match_indices('/') {
            let above = &path[..at];
            match self.members.entry(above.to_owned()).or_insert(Planned::Directory) {
                Planned::Directory => {}
                _ => return Err(refuse(Refusal::ThroughMember { through: above.to_owned() })),
            }
        }
        let is_directory = matches!(planned, Planned::Directory);
        match self.members.insert(path, planned) {
            None => Ok(()),
            Some(Planned::Directory) if is_directory => Ok(()),
            Some(_) => Err(refuse(Refusal::Duplicate)),
        }
    }
}

/// Appends one file of exactly `size` bytes.
pub(crate) fn append_file(
    builder: &mut tar::Builder<impl Write>,
    path: &str,
    content: impl Read,
    size: u64,
    mode: FileMode,
) -> Result<(), ArchiveError> {
    if size > LARGEST {
        let source = Refusal::TooLarge { limit: LARGEST };
        return Err(ArchiveError::RefuseMember { member: path.to_owned(), source });
    }
    let mut header = header(EntryType::Regular, mode.bits());
    header.set_size(size);
    let written = append_header(builder, &mut header, path, None, Exact { inner: content, left: size });
    written.map_err(|source| ArchiveError::WriteArchive { source })
}

fn append(builder: &mut tar::Builder<impl Write>, path: &str, planned: &Planned) -> Result<(), ArchiveError> {
    let failed = |source| ArchiveError::WriteArchive { source };
    match planned {
        Planned::Directory => {
            let mut header = header(EntryType::Directory, 0o755);
            append_header(builder, &mut header, &format!("{path}/"), None, io::empty()).map_err(failed)
        }
        Planned::Symlink { target } => {
            let mut header = header(EntryType::Symlink, 0o777);
            append_header(builder, &mut header, path, Some(target), io::empty()).map_err(failed)
        }
        Planned::File { content: Content::Bytes(bytes), mode } => {
            append_file(builder, path, bytes.as_slice(), bytes.len() as u64, *mode)
        }
        Planned::File { content: Content::File(source), mode } => {
            let unreadable = |error| ArchiveError::ReadSource { path: source.clone(), source: error };
            let file = File::open(source).map_err(unreadable)?;
            let size = file.metadata().map_err(unreadable)?.len();
            append_file(builder, path, file, size, *mode)
        }
    }
}

/// Writes PAX records only for what ustar's fields cannot hold.
fn append_header(
    builder: &mut tar::Builder<impl Write>,
    header: &mut Header,
    path: &str,
    target: Option<&str>,
    content: impl Read,
) -> io::Result<()> {
    let mut records: Vec<(&str, &[u8])> = Vec::new();
    if header.set_path(path).is_err() {
        header.set_path("long-name")?;
        records.push(("path", path.as_bytes()));
    }
    if let Some(target) = target
        && header.set_link_name(target).is_err()
    {
        header.set_link_name("long-name")?;
        records.push(("linkpath", target.as_bytes()));
    }
    if !records.is_empty() {
        builder.append_pax_extensions(records)?;
    }
    header.set_cksum();
    builder.append(header, content)
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// A file that changes its length while it is packed would shift everything after it.
struct Exact<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match (self.left.checked_sub(count as u64), count) {
            (Some(left), 0) if left > 0 && !buffer.is_empty() => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was packed"))
            }
            (Some(left), _) => {
                self.left = left;
                Ok(count)
            }
            (None, _) => Err(io::Error::new(io::ErrorKind::InvalidData, "the file became longer while it was packed")),
        }
    }
}
