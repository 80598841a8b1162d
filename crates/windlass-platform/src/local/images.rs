//! What machines are made from: files of the artifact cache, told to the cloud as images.

use std::path::PathBuf;

use windlass_cloud_api::{ImageSpec, Label, Seed};

use super::label;
use crate::{ArtifactFile, PlatformError};

/// Where preloaded images lie on a machine.
const PRELOAD: &str = "/var/lib/containerd";
/// Where systemd looks for extensions.
const EXTENSIONS: &str = "/var/lib/extensions";

/// The machine base as one OS version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseImage {
    /// What the cloud calls it.
    pub name: String,
    /// The OS version in it.
    pub os_version: String,
    /// The packed tree.
    pub tree: ArtifactFile,
}

/// What machines are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// The OS versions, the one that machines boot first in front.
    pub bases: Vec<BaseImage>,
    /// The program of a first boot.
    pub ignition: PathBuf,
    /// The container images as a containerd root.
    pub preload: ArtifactFile,
    /// The container runtime and the kubelet as extensions.
    pub extensions: ArtifactFile,
}

impl Images {
    /// The image that machines boot first.
    pub(super) fn first(&self) -> Result<Label, PlatformError> {
        let first = self.bases.first().ok_or_else(|| PlatformError::act("choose an image", "there is none"))?;
        label(&first.name)
    }

    /// The image that an update leads to.
    pub(super) fn next(&self) -> Option<Label> {
        self.bases.get(1).and_then(|base| Label::parse(&base.name).ok())
    }

    pub(super) fn specs(&self) -> Result<Vec<(Label, ImageSpec)>, PlatformError> {
        self.bases.iter().map(|base| Ok((label(&base.name)?, self.spec(base)))).collect()
    }

    fn spec(&self, base: &BaseImage) -> ImageSpec {
        let seed = |file: &ArtifactFile, at: &str| Seed {
            tree: file.path.clone(),
            digest: file.digest.clone(),
            at: PathBuf::from(at),
        };
        ImageSpec {
            tree: base.tree.path.clone(),
            digest: base.tree.digest.clone(),
            os_version: base.os_version.clone(),
            ignition: Some(self.ignition.clone()),
            seeds: vec![seed(&self.preload, PRELOAD), seed(&self.extensions, EXTENSIONS)],
        }
    }
}
