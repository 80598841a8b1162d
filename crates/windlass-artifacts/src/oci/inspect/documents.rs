//! The documents of the archive, followed from the index down.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayout};
use serde::de::DeserializeOwned;

use super::members::{Members, Place};
use super::{Finding, distrust};
use crate::digest::{Algorithm, Digest};
use crate::oci::{CONTAINERD_NAME, ImageSummary, REF_NAME};

const IMAGES: usize = 256;
const LAYERS: usize = 128;
const NAME: usize = 255;
/// What registries that came before OCI call the same things.
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// The archive once its members are known.
pub(super) struct Documents<'a, R> {
    pub(super) reader: &'a mut R,
    pub(super) members: Members,
}

impl<R: Read + Seek> Documents<'_, R> {
    pub(super) fn summaries(mut self) -> Result<Vec<ImageSummary>, Finding> {
        let layout: OciLayout = self.parse("oci-layout", self.members.layout, None)?;
        if layout.image_layout_version() != "1.0.0" {
            return distrust(format!("the layout version {:?} is unknown", layout.image_layout_version()));
        }
        let index: ImageIndex = self.parse("index.json", self.members.index, None)?;
        schema("index.json", index.schema_version())?;
        if index.manifests().is_empty() || index.manifests().len() > IMAGES {
            return distrust(format!("it has {} images", index.manifests().len()));
        }
        let mut images: BTreeMap<Digest, ImageSummary> = BTreeMap::new();
        let mut used = BTreeSet::new();
        let mut order = Vec::new();
        for entry in index.manifests() {
            let digest = digest_of(entry)?;
            if !images.contains_key(&digest) {
                images.insert(digest.clone(), self.image(entry, &mut used)?);
                order.push(digest.clone());
            }
            let name = name_of(entry)?;
            if images.values().any(|image| image.names.contains(&name)) {
                return distrust(format!("the name {name} is there twice"));
            }
            images.entry(digest).and_modify(|image| image.names.push(name));
        }
        if let Some(stray) = self.members.blobs.keys().find(|digest| !used.contains(*digest)) {
            return distrust(format!("no image has the blob {stray}"));
        }
        let ordered = order.into_iter().filter_map(|digest| images.remove(&digest));
        Ok(ordered.map(with_sorted_names).collect())
    }

    fn image(&mut self, entry: &Descriptor, used: &mut BTreeSet<Digest>) -> Result<ImageSummary, Finding> {
        expect_type(entry, "a manifest", &[MediaType::ImageManifest.as_ref(), DOCKER_MANIFEST])?;
        let place = self.find(entry, used)?;
        let digest = digest_of(entry)?;
        let manifest: ImageManifest = self.parse("a manifest", place, Some(&digest))?;
        schema("a manifest", manifest.schema_version())?;
        if manifest.media_type().as_ref().is_some_and(|own| own != entry.media_type()) {
            return distrust(format!("the manifest {digest} and the index name different media types"));
        }
        let config = manifest.config();
        expect_type(config, "a configuration", &[MediaType::ImageConfig.as_ref(), DOCKER_CONFIG])?;
        let place = self.find(config, used)?;
        let configuration: ImageConfiguration = self.parse("a configuration", place, Some(&digest_of(config)?))?;
        let mut size = config.size();
        for layer in self.layers(&manifest, &configuration)? {
            size = size.saturating_add(self.find(layer, used)?.size);
        }
        let run = configuration.config().as_ref();
        let entrypoint = run.and_then(|run| run.entrypoint().clone()).unwrap_or_default();
        Ok(ImageSummary { names: Vec::new(), digest, entrypoint, size })
    }

    fn layers<'m>(
        &self,
        manifest: &'m ImageManifest,
        configuration: &ImageConfiguration,
    ) -> Result<&'m [Descriptor], Finding> {
        let (layers, diff_ids) = (manifest.layers(), configuration.rootfs().diff_ids());
        if layers.is_empty() || layers.len() > LAYERS || layers.len() != diff_ids.len() {
            return distrust(format!("an image has {} layers and {} diff ids", layers.len(), diff_ids.len()));
        }
        let plain = MediaType::ImageLayer;
        let gzip = MediaType::ImageLayerGzip;
        let zstd = MediaType::ImageLayerZstd;
        for (layer, diff_id) in layers.iter().zip(diff_ids) {
            expect_type(layer, "a layer", &[plain.as_ref(), gzip.as_ref(), zstd.as_ref(), DOCKER_LAYER])?;
            if layer.media_type() == &plain && *diff_id != layer.digest().to_string() {
                return distrust(format!("the layer {} has another diff id, {diff_id}", layer.digest()));
            }
        }
        Ok(layers)
    }

    fn find(&self, wanted: &Descriptor, used: &mut BTreeSet<Digest>) -> Result<Place, Finding> {
        let digest = digest_of(wanted)?;
        let Some(place) = self.members.blobs.get(&digest).copied() else {
            return distrust(format!("the blob {digest} is missing"));
        };
        if place.size != wanted.size() {
            return distrust(format!("the blob {digest} has {} bytes, not {}", place.size, wanted.size()));
        }
        used.insert(digest);
        Ok(place)
    }

    /// Blobs are hashed again: the file may have changed since the first pass.
    fn parse<T: DeserializeOwned>(&mut self, what: &str, place: Place, digest: Option<&Digest>) -> Result<T, Finding> {
        let bytes = place.document(what, self.reader)?;
        if digest.is_some_and(|digest| Digest::of(Algorithm::Sha256, &bytes) != *digest) {
            return distrust(format!("{what} changed while it was read"));
        }
        serde_json::from_slice(&bytes).or_else(|error| distrust(format!("{what} cannot be read: {error}")))
    }
}

fn with_sorted_names(mut image: ImageSummary) -> ImageSummary {
    image.names.sort();
    image
}

fn schema(what: &str, version: u32) -> Result<(), Finding> {
    if version == 2 { Ok(()) } else { distrust(format!("{what} has the schema version {version}")) }
}

fn digest_of(descriptor: &Descriptor) -> Result<Digest, Finding> {
    match Digest::parse(descriptor.digest().as_ref()) {
        Ok(digest) if digest.algorithm() == Algorithm::Sha256 => Ok(digest),
        _ => distrust(format!("the digest {} is not a SHA-256 one", descriptor.digest())),
    }
}

fn expect_type(descriptor: &Descriptor, what: &str, types: &[&str]) -> Result<(), Finding> {
    let found = descriptor.media_type().as_ref();
    match types.contains(&found) {
        true => Ok(()),
        false => distrust(format!("{what} has the media type {found:?}")),
    }
}

fn name_of(entry: &Descriptor) -> Result<String, Finding> {
    let annotations = entry.annotations().as_ref();
    let written = |key| annotations.and_then(|annotations| annotations.get(key));
    let Some(name) = written(CONTAINERD_NAME).or_else(|| written(REF_NAME)) else {
        return distrust(format!("the image {} has no name", entry.digest()));
    };
    let sound = |c: char| c.is_ascii_alphanumeric() || "._-:/@".contains(c);
    let parts = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    match name.len() <= NAME && parts && name.chars().all(sound) {
        true => Ok(name.clone()),
        false => distrust(format!("{:?} is not the name of an image", name.chars().take(NAME).collect::<String>())),
    }
}
