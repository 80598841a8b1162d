//! The documents of an image in one fixed form. oci-spec keeps annotations in hash maps, whose order differs from run to
//! run, so that every document is sorted before it is hashed.

use std::io;

use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor, ImageConfiguration, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, RootFsBuilder, SCHEMA_VERSION, Sha256Digest,
};
use serde::Serialize;

use super::{CONTAINERD_NAME, REF_NAME, Run, SealedLayer};
use crate::digest::{Algorithm, Digest};

/// When all our images were made: the same image has the same digest whenever it is made.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Bytes with their digest.
pub(super) struct Document {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
}

impl Document {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(Algorithm::Sha256, &bytes), bytes }
    }

    fn of(value: &impl Serialize) -> io::Result<Self> {
        let mut value = serde_json::to_value(value)?;
        value.sort_all_objects();
        Ok(Self::new(serde_json::to_vec(&value)?))
    }

    pub(super) fn descriptor(&self, media_type: MediaType) -> io::Result<Descriptor> {
        descriptor(media_type, &self.digest, self.bytes.len() as u64)
    }
}

pub(super) fn layout() -> io::Result<Document> {
    let layout = OciLayoutBuilder::default().image_layout_version("1.0.0").build();
    Document::of(&layout.map_err(io::Error::other)?)
}

pub(super) fn configuration(run: &Run, layers: &[&SealedLayer]) -> io::Result<Document> {
    let made = || -> oci_spec::Result<ImageConfiguration> {
        let mut config = ConfigBuilder::default().entrypoint(run.entrypoint.clone()).env(run.env.clone());
        if let Some(user) = &run.user {
            config = config.user(user.clone());
        }
        let diff_ids: Vec<String> = layers.iter().map(|layer| layer.digest().to_string()).collect();
        let rootfs = RootFsBuilder::default().typ("layers".to_owned()).diff_ids(diff_ids).build()?;
        ImageConfigurationBuilder::default()
            .created(CREATED)
            .architecture(Arch::default())
            .os(Os::Linux)
            .config(config.build()?)
            .rootfs(rootfs)
            .build()
    };
    Document::of(&made().map_err(io::Error::other)?)
}

pub(super) fn manifest(configuration: &Document, layers: &[&SealedLayer]) -> io::Result<Document> {
    let layers = layers.iter().map(|layer| descriptor(MediaType::ImageLayer, layer.digest(), layer.size()));
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(configuration.descriptor(MediaType::ImageConfig)?)
        .layers(layers.collect::<io::Result<Vec<_>>>()?)
        .build();
    Document::of(&manifest.map_err(io::Error::other)?)
}

/// The index has one entry per name: both annotations hold exactly one.
pub(super) fn index(named: &[(String, Descriptor)]) -> io::Result<Document> {
    let entries = named.iter().map(|(name, descriptor)| {
        let annotations = [CONTAINERD_NAME, REF_NAME].map(|key| (key.to_owned(), name.clone()));
        let mut entry = descriptor.clone();
        entry.set_annotations(Some(annotations.into()));
        entry
    });
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests(entries.collect::<Vec<_>>())
        .build();
    Document::of(&index.map_err(io::Error::other)?)
}

fn descriptor(media_type: MediaType, digest: &Digest, size: u64) -> io::Result<Descriptor> {
    let digest: Sha256Digest = digest.hex().parse().map_err(io::Error::other)?;
    Ok(Descriptor::new(media_type, size, digest))
}
