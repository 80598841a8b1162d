//! Writing an archive: plan every blob, then write the layout, the index and the blobs in the order of their digests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use oci_spec::image::{Descriptor, MediaType};
use tar::EntryType;

use super::json::{self, Document};
use super::layer::header;
use super::{ImageSummary, OciError, SealedLayer, Staged};
use crate::digest::Digest;

const BUFFER: usize = 1 << 20;
/// Members of a tar file begin on multiples of this.
const BLOCK: u64 = 512;

/// An image to be: what it is called, what is in it, and what it runs.
#[derive(Debug, Clone)]
pub struct Image<'a> {
    /// All of its names, in full: `registry.k8s.io/pause:3.10.2`.
    pub names: Vec<String>,
    /// From the lowest to the topmost.
    pub layers: Vec<&'a SealedLayer>,
    /// How it starts.
    pub run: Run,
}

/// How a container starts from an image unless its pod says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// `NAME=value`, in order.
    pub env: Vec<String>,
    /// `uid:gid`; root if nothing is said.
    pub user: Option<String>,
}

/// Writes the images into one archive, each shared layer once. The same input gives the same bytes.
pub fn write_archive(images: &[Image<'_>], out: &Path) -> Result<Vec<ImageSummary>, OciError> {
    let trouble = |source| OciError::WriteArchive { file: out.to_owned(), source };
    let mut plan = Plan::default();
    let mut summaries = Vec::new();
    for image in images {
        summaries.push(plan.image(image).map_err(trouble)?);
    }
    plan.write_checked(out, |_| Ok(summaries))
}

/// The members of an archive before they are written.
#[derive(Default)]
pub(super) struct Plan<'a> {
    pub(super) named: Vec<(String, Descriptor)>,
    pub(super) blobs: BTreeMap<Digest, Blob<'a>>,
}

/// Where a blob's bytes come from.
pub(super) enum Blob<'a> {
    Document(Vec<u8>),
    Layer(&'a SealedLayer),
    File { path: &'a Path, size: u64 },
}

impl<'a> Plan<'a> {
    fn image(&mut self, image: &Image<'a>) -> io::Result<ImageSummary> {
        let configuration = json::configuration(&image.run, &image.layers)?;
        let manifest = json::manifest(&configuration, &image.layers)?;
        let layers: u64 = image.layers.iter().map(|layer| layer.size()).sum();
        let descriptor = manifest.descriptor(MediaType::ImageManifest)?;
        let mut names = image.names.clone();
        names.sort();
        self.named.extend(names.iter().map(|name| (name.clone(), descriptor.clone())));
        let summary = ImageSummary {
            names,
            digest: manifest.digest.clone(),
            entrypoint: image.run.entrypoint.clone(),
            size: configuration.bytes.len() as u64 + layers,
        };
        self.blobs.extend(image.layers.iter().map(|layer| (layer.digest().clone(), Blob::Layer(layer))));
        self.document(configuration);
        self.document(manifest);
        Ok(summary)
    }

    pub(super) fn document(&mut self, document: Document) {
        self.blobs.insert(document.digest, Blob::Document(document.bytes));
    }

    /// Writes the archive and gives it its name only if the check, which sees the whole file, is content.
    pub(super) fn write_checked<T>(
        self,
        out: &Path,
        check: impl FnOnce(&File) -> Result<T, OciError>,
    ) -> Result<T, OciError> {
        let trouble = |source| OciError::WriteArchive { file: out.to_owned(), source };
        let staged = Staged::beside(out).map_err(trouble)?;
        let file = staged.file().map_err(trouble)?;
        self.write_members(file, out)?;
        let checked = check(file)?;
        staged.finish().map_err(trouble)?;
        Ok(checked)
    }

    fn write_members(&self, file: &File, out: &Path) -> Result<(), OciError> {
        let trouble = |source| OciError::WriteArchive { file: out.to_owned(), source };
        let mut tar = BufWriter::with_capacity(BUFFER, file);
        let layout = json::layout().map_err(trouble)?;
        let index = json::index(&self.named).map_err(trouble)?;
        member(&mut tar, "oci-layout", &Blob::Document(layout.bytes), out)?;
        member(&mut tar, "index.json", &Blob::Document(index.bytes), out)?;
        for (digest, blob) in &self.blobs {
            member(&mut tar, &format!("blobs/sha256/{}", digest.hex()), blob, out)?;
        }
        // Two empty blocks end a tar file.
        tar.write_all(&[0; 2 * BLOCK as usize]).and_then(|()| tar.flush()).map_err(trouble)
    }
}

fn member(tar: &mut impl Write, name: &str, blob: &Blob<'_>, out: &Path) -> Result<(), OciError> {
    let trouble = |source| OciError::WriteArchive { file: out.to_owned(), source };
    let size = match blob {
        Blob::Document(bytes) => bytes.len() as u64,
        Blob::Layer(layer) => layer.size(),
        Blob::File { size, .. } => *size,
    };
    let mut header = header(EntryType::Regular, 0o644, size);
    header.set_path(name).map_err(trouble)?;
    header.set_cksum();
    tar.write_all(header.as_bytes()).map_err(trouble)?;
    match blob {
        Blob::Document(bytes) => tar.write_all(bytes).map_err(trouble)?,
        Blob::Layer(layer) => layer.write(tar)?,
        Blob::File { path, size } => copy(path, *size, tar)?,
    }
    let padding = size.next_multiple_of(BLOCK) - size;
    tar.write_all(&[0; BLOCK as usize][..padding as usize]).map_err(trouble)
}

fn copy(path: &Path, size: u64, tar: &mut impl Write) -> Result<(), OciError> {
    let trouble = |source| OciError::AddFile { path: path.to_owned(), source };
    match File::open(path).and_then(|mut file| io::copy(&mut file, tar)).map_err(trouble)? {
        copied if copied == size => Ok(()),
        _ => Err(trouble(io::Error::other("it changed while it was read"))),
    }
}
