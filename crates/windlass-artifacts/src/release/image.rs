//! Images from a registry, pulled byte for byte: whatever is named by a digest is checked against it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream::StreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use serde::Deserialize;
use tokio::time::timeout;

use super::{Arch, ReleaseError};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::download::{Limits, install_crypto};
use crate::oci::Pulled;

const ACCEPTED: [&str; 4] =
    [OCI_IMAGE_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, IMAGE_MANIFEST_LIST_MEDIA_TYPE];

/// A registry that has the images of others, each under its own name below this one's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    place: String,
}

impl Registry {
    /// Takes a host with a port and a path, if it has them: `registry.example:5000/mirror`.
    pub fn parse(text: &str) -> Result<Self, ReleaseError> {
        let wrong = |reason: &str| ReleaseError::NameRegistry { text: text.to_owned(), reason: reason.to_owned() };
        let place = text.trim_end_matches('/');
        let example = reference(&format!("{place}/image:tag"))
            .map_err(|_| wrong("a host is wanted, with its port and path, such as registry.example:5000/mirror"))?;
        match place.split('/').next() == Some(example.registry()) {
            true => Ok(Registry { place: place.to_owned() }),
            false => Err(wrong("its first part is not a host: that has a dot or a port, or is localhost")),
        }
    }

    /// An image's name here: this place stands where the name's own registry did.
    fn name(&self, image: &Reference) -> Result<Reference, ReleaseError> {
        let whole = image.whole();
        let rest = whole.strip_prefix(image.registry()).unwrap_or(&whole).trim_start_matches('/');
        reference(&format!("{}/{rest}", self.place))
    }
}

fn reference(image: &str) -> Result<Reference, ReleaseError> {
    image.parse().map_err(|error: oci_client::ParseError| ReleaseError::NameImage {
        text: image.to_owned(),
        reason: error.to_string(),
    })
}

/// Pulls an image for Linux into files below `room`; [`crate::oci::write_pulled`] makes an archive of it. It keeps its
/// name also if it comes from another registry than its name says.
///
/// A registry on this host is spoken to by plain http, any other by https. A name with a digest is exactly that image;
/// a name with a tag is what the registry says it is.
pub async fn pull_image(
    image: &str,
    from: Option<&Registry>,
    arch: Arch,
    room: &Path,
    limits: Limits,
) -> Result<Pulled, ReleaseError> {
    let named = reference(image)?;
    let reference = from.map_or_else(|| Ok(named.clone()), |registry| registry.name(&named))?;
    let pull = Pull { image, client: client(&reference, limits).map_err(failed(image))?, limits };
    let mut manifest = pull.manifest(&reference).await?;
    if let Some(index) = parse::<Index>(&manifest).filter(|index| !index.manifests.is_empty()) {
        let entry = index.manifests.into_iter().find(|entry| entry.is_for(arch));
        let entry = entry.ok_or_else(|| pull.distrust(format!("it has no variant for linux/{}", arch.as_str())))?;
        manifest = pull.manifest(&reference.clone_with_digest(entry.digest.to_string())).await?;
    }
    let parsed: Manifest = parse(&manifest).ok_or_else(|| pull.distrust("its manifest cannot be read".to_owned()))?;
    let wanted: BTreeMap<Digest, u64> =
        std::iter::once(&parsed.config).chain(&parsed.layers).map(|blob| (blob.digest.clone(), blob.size)).collect();
    if wanted.values().fold(0, |sum: u64, size| sum.saturating_add(*size)) > limits.size {
        return Err(pull.distrust(format!("it is larger than {} bytes", limits.size)));
    }
    let mut blobs = BTreeMap::new();
    for (digest, size) in wanted {
        let path = room.join(digest.hex());
        pull.blob(&reference, &digest, size, &path).await?;
        blobs.insert(digest, path);
    }
    let media_type = parsed.media_type.unwrap_or_else(|| OCI_IMAGE_MEDIA_TYPE.to_owned());
    Ok(Pulled { name: named.whole(), manifest, media_type, blobs })
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<IndexEntry>,
}

#[derive(Deserialize)]
struct IndexEntry {
    digest: Digest,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    media_type: Option<String>,
    config: Blob,
    layers: Vec<Blob>,
}

#[derive(Deserialize)]
struct Blob {
    digest: Digest,
    size: u64,
}

impl IndexEntry {
    fn is_for(&self, arch: Arch) -> bool {
        self.platform.as_ref().is_some_and(|p| p.os == "linux" && p.architecture == arch.as_str())
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

fn client(reference: &Reference, limits: Limits) -> Result<Client, OciDistributionError> {
    install_crypto();
    let registry = reference.resolve_registry();
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let on_this_host = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let protocol = if on_this_host { ClientProtocol::Http } else { ClientProtocol::Https };
    Client::try_from(ClientConfig {
        protocol,
        connect_timeout: Some(limits.stall),
        read_timeout: Some(limits.stall),
        user_agent: concat!("windlass/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

struct Pull<'a> {
    image: &'a str,
    client: Client,
    limits: Limits,
}

impl Pull<'_> {
    /// The manifest as the registry has it. The client holds it in memory whatever its size, so its time is bounded.
    async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, ReleaseError> {
        let auth = RegistryAuth::Anonymous;
        let pulled = self.client.pull_manifest_raw(reference, &auth, &ACCEPTED);
        let (bytes, _) = self.within(pulled).await?.map_err(failed(self.image))?;
        let found = Digest::of(Algorithm::Sha256, &bytes);
        match reference.digest() {
            Some(want) if found.to_string() != want => {
                Err(self.distrust(format!("its manifest should be {want} and is {found}")))
            }
            _ => Ok(bytes.to_vec()),
        }
    }

    async fn blob(&self, reference: &Reference, want: &Digest, size: u64, path: &Path) -> Result<(), ReleaseError> {
        let name = want.to_string();
        let response = self.within(self.client.pull_blob_stream(reference, name.as_str())).await?;
        let mut stream = response.map_err(failed(self.image))?.stream;
        let mut file = create(path)?;
        let (mut hasher, mut got) = (Hasher::new(want.algorithm()), 0);
        while let Some(chunk) = self.within(stream.next()).await? {
            let chunk = chunk.map_err(|error| self.broken(error))?;
            got += chunk.len() as u64;
            if got > size {
                return Err(self.distrust(format!("{want} is longer than the {size} bytes of the manifest")));
            }
            hasher.update(&chunk);
            file.write_all(&chunk).map_err(|source| ReleaseError::KeepBlob { path: path.to_owned(), source })?;
        }
        match (got, hasher.finish()) {
            (got, found) if got == size && found == *want => Ok(()),
            (got, found) => Err(self.distrust(format!("{want} of {size} bytes is {found} of {got} bytes"))),
        }
    }

    async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, ReleaseError> {
        let limit: Duration = self.limits.stall;
        let stalled = |_| ReleaseError::Stalled { image: self.image.to_owned(), seconds: limit.as_secs_f32() };
        timeout(limit, work).await.map_err(stalled)
    }

    fn broken(&self, error: io::Error) -> ReleaseError {
        let is_digest = error.get_ref().is_some_and(|inner| inner.is::<DigestError>());
        match is_digest {
            true => self.distrust(error.to_string()),
            false => ReleaseError::Pull {
                image: self.image.to_owned(),
                source: Box::new(OciDistributionError::IoError(error)),
            },
        }
    }

    fn distrust(&self, reason: String) -> ReleaseError {
        ReleaseError::DistrustImage { image: self.image.to_owned(), reason }
    }
}

fn failed(image: &str) -> impl Fn(OciDistributionError) -> ReleaseError {
    move |source| ReleaseError::Pull { image: image.to_owned(), source: Box::new(source) }
}

fn create(path: &Path) -> Result<std::fs::File, ReleaseError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|source| ReleaseError::KeepBlob { path: PathBuf::from(path), source })
}

#[cfg(test)]
mod tests;
