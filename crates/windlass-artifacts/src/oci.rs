//! OCI image archives: an image layout (`oci-layout`, `index.json`, `blobs/sha256/…`) in one tar file, as
//! `ctr images import` and `skopeo` take them. [`write_archive`] makes them from [`Layer`]s, always the same bytes from
//! the same input; [`inspect`] reads archives of unknown origin and believes nothing that it has not hashed.

mod error;
mod inspect;
mod json;
mod layer;
mod pulled;
mod staged;
mod write;

pub use error::OciError;
pub use inspect::{inspect, inspect_from};
pub use layer::{Layer, SealedLayer};
pub use pulled::{Pulled, write_pulled};
pub(crate) use staged::Staged;
pub use write::{Image, Run, write_archive};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The name under which containerd files an imported image.
pub const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The name under which other tools find an image in a layout.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// What an archive holds under one manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSummary {
    /// The names it will have after the import, sorted.
    pub names: Vec<String>,
    /// The manifest's digest, which is the image's.
    pub digest: Digest,
    /// What it starts when nothing else is said.
    pub entrypoint: Vec<String>,
    /// Bytes of its configuration and layers, as stored; shared layers count for every image.
    pub size: u64,
}
