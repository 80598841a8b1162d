//! A layer is a tar file of a directory tree. It is never held: sealing it streams the tar through a hash, writing it
//! streams the same tar into the archive, and both read the files where they lie.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::OciError;
use crate::digest::{Algorithm, Digest, Hasher};

const DIRECTORY_MODE: u32 = 0o755;

/// A layer in the making: paths within the image, and what is to be there. Everything belongs to root, and no time is
/// kept. A path that is put twice holds what came last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory { mode: u32 },
    File { from: PathBuf, mode: u32 },
    Bytes { bytes: Vec<u8>, mode: u32 },
    Link { target: String },
}

impl Layer {
    /// One with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a copy of a file there.
    pub fn file(&mut self, path: &str, from: impl Into<PathBuf>, mode: u32) -> &mut Self {
        self.put(path, Node::File { from: from.into(), mode })
    }

    /// Puts a small file there.
    pub fn bytes(&mut self, path: &str, bytes: impl Into<Vec<u8>>, mode: u32) -> &mut Self {
        self.put(path, Node::Bytes { bytes: bytes.into(), mode })
    }

    /// Puts a symbolic link there.
    pub fn link(&mut self, path: &str, target: &str) -> &mut Self {
        self.put(path, Node::Link { target: target.to_owned() })
    }

    /// Puts a directory there; those above a file need not be put.
    pub fn directory(&mut self, path: &str, mode: u32) -> &mut Self {
        self.put(path, Node::Directory { mode })
    }

    /// The paths that were put or are implied, sorted, without a slash in front.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// Reads everything once, for the digest.
    pub fn seal(self) -> Result<SealedLayer, OciError> {
        let mut meter = Meter::new(io::sink());
        self.write_tar(&mut meter)?;
        let (digest, size) = meter.finish();
        Ok(SealedLayer { layer: self, digest, size })
    }

    fn put(&mut self, path: &str, node: Node) -> &mut Self {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/') {
            self.nodes.entry(path[..end].to_owned()).or_insert(Node::Directory { mode: DIRECTORY_MODE });
        }
        self.nodes.insert(path.to_owned(), node);
        self
    }

    fn write_tar(&self, out: &mut impl Write) -> Result<(), OciError> {
        let mut tar = Builder::new(out);
        for (path, node) in &self.nodes {
            append(&mut tar, path, node).map_err(|source| OciError::AddFile { path: node.origin(path), source })?;
        }
        tar.finish().map_err(|source| OciError::AddFile { path: PathBuf::new(), source })
    }
}

impl Node {
    fn origin(&self, path: &str) -> PathBuf {
        match self {
            Node::File { from, .. } => from.clone(),
            Node::Directory { .. } | Node::Bytes { .. } | Node::Link { .. } => PathBuf::from(path),
        }
    }
}

/// A layer whose digest is known. Images that share one store it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedLayer {
    layer: Layer,
    digest: Digest,
    size: u64,
}

impl SealedLayer {
    /// The digest of the tar file, which is also its `diff_id`: our layers are not compressed.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Bytes of the tar file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The paths in it, sorted, without a slash in front.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.layer.paths()
    }

    /// Writes the tar file, and refuses to have written another one than was sealed.
    pub(super) fn write(&self, out: &mut impl Write) -> Result<(), OciError> {
        let mut meter = Meter::new(out);
        self.layer.write_tar(&mut meter)?;
        let (digest, size) = meter.finish();
        if (&digest, size) == (&self.digest, self.size) {
            return Ok(());
        }
        Err(OciError::WriteLayer { first: self.digest.to_string(), second: digest.to_string() })
    }
}

fn append(tar: &mut Builder<impl Write>, path: &str, node: &Node) -> io::Result<()> {
    match node {
        Node::Directory { mode } => tar.append_data(&mut header(EntryType::Directory, *mode, 0), path, io::empty()),
        Node::Bytes { bytes, mode } => {
            tar.append_data(&mut header(EntryType::Regular, *mode, bytes.len() as u64), path, bytes.as_slice())
        }
        Node::Link { target } => tar.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target),
        Node::File { from, mode } => append_file(tar, path, from, *mode),
    }
}

fn append_file(tar: &mut Builder<impl Write>, path: &str, from: &Path, mode: u32) -> io::Result<()> {
    let file = File::open(from)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let size = metadata.len();
    let exact = Exact { file, left: size };
    tar.append_data(&mut header(EntryType::Regular, mode, size), path, exact)
}

pub(super) fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

/// Gives as many bytes as were promised to the tar header, or an error.
struct Exact {
    file: File,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        match self.file.read(&mut buffer[..most])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}

/// Hashes and counts what passes.
struct Meter<W> {
    out: W,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> Meter<W> {
    fn new(out: W) -> Self {
        Self { out, hasher: Hasher::new(Algorithm::Sha256), size: 0 }
    }

    fn finish(self) -> (Digest, u64) {
        (self.hasher.finish(), self.size)
    }
}

impl<W: Write> Write for Meter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
