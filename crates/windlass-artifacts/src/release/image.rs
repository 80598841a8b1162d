//! Images from a registry, pulled byte for byte: whatever is named by a digest is checked against it. The registry's own
//! client only logs in: it would hold manifests of any size in memory, and follow redirects from https to plain http.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OCI_IMAGE_MEDIA_TYPE;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::time::timeout;

use super::{Arch, ReleaseError};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::download::{DownloadError, Downloader, Limits, Url, install_crypto};
use crate::oci::Pulled;

/// OCI's and Docker's, images and lists of images.
const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// No manifest is longer: registries need not take longer ones either.
const MANIFEST_LIMIT: u64 = 4 << 20;

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
    let pull = Pull::of(image, &reference, limits)?;
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

fn is_on_this_host(reference: &Reference) -> bool {
    let registry = reference.resolve_registry();
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

fn client(reference: &Reference, limits: Limits) -> Result<Client, OciDistributionError> {
    install_crypto();
    let protocol = if is_on_this_host(reference) { ClientProtocol::Http } else { ClientProtocol::Https };
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
    downloader: Downloader,
    limits: Limits,
}

impl<'a> Pull<'a> {
    fn of(image: &'a str, reference: &Reference, limits: Limits) -> Result<Self, ReleaseError> {
        let client = client(reference, limits)
            .map_err(|source| ReleaseError::LogIn { image: image.to_owned(), source: Box::new(source) })?;
        let downloader = Downloader::new(limits).map_err(failed(image))?;
        Ok(Pull { image, client, downloader, limits })
    }

    /// The manifest as the registry has it.
    async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, ReleaseError> {
        let name = reference.digest().or_else(|| reference.tag()).unwrap_or("latest");
        let mut headers = self.logged_in(reference).await?;
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        let answer = self.downloader.ask(&self.url(reference, "manifests", name)?, headers, MANIFEST_LIMIT).await;
        let bytes = answer.map_err(failed(self.image))?.whole().await.map_err(failed(self.image))?;
        let found = Digest::of(Algorithm::Sha256, &bytes);
        match reference.digest() {
            Some(want) if found.to_string() != want => {
                Err(self.distrust(format!("its manifest should be {want} and is {found}")))
            }
            _ => Ok(bytes),
        }
    }

    async fn blob(&self, reference: &Reference, want: &Digest, size: u64, path: &Path) -> Result<(), ReleaseError> {
        let url = self.url(reference, "blobs", &want.to_string())?;
        let headers = self.logged_in(reference).await?;
        let mut answer = self.downloader.ask(&url, headers, size).await.map_err(failed(self.image))?;
        let mut file = create(path)?;
        let (mut hasher, mut got) = (Hasher::new(want.algorithm()), 0);
        while let Some(piece) = answer.piece().await.map_err(failed(self.image))? {
            got += piece.len() as u64;
            hasher.update(&piece);
            file.write_all(&piece).map_err(|source| ReleaseError::KeepBlob { path: path.to_owned(), source })?;
        }
        match (got, hasher.finish()) {
            (got, found) if got == size && found == *want => Ok(()),
            (got, found) => Err(self.distrust(format!("{want} of {size} bytes is {found} of {got} bytes"))),
        }
    }

    /// What a request needs to be let in. Tokens live for as little as a minute, so that each request has its own.
    async fn logged_in(&self, reference: &Reference) -> Result<HeaderMap, ReleaseError> {
        let login = self.client.auth(reference, &RegistryAuth::Anonymous, RegistryOperation::Pull);
        let token = timeout(self.limits.stall, login).await.map_err(|_| ReleaseError::Stalled {
            image: self.image.to_owned(),
            seconds: self.limits.stall.as_secs_f32(),
        })?;
        let failed = |source| ReleaseError::LogIn { image: self.image.to_owned(), source: Box::new(source) };
        let mut headers = HeaderMap::new();
        if let Some(token) = token.map_err(failed)? {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| self.distrust("its registry gives a token that is none".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    fn url(&self, reference: &Reference, kind: &str, name: &str) -> Result<Url, ReleaseError> {
        let scheme = if is_on_this_host(reference) { "http" } else { "https" };
        let (registry, repository) = (reference.resolve_registry(), reference.repository());
        let text = format!("{scheme}://{registry}/v2/{repository}/{kind}/{name}");
        let wrong = |reason: String| ReleaseError::NameImage { text: self.image.to_owned(), reason };
        Url::parse(&text).map_err(|error| wrong(error.to_string()))
    }

    fn distrust(&self, reason: String) -> ReleaseError {
        ReleaseError::DistrustImage { image: self.image.to_owned(), reason }
    }
}

fn failed(image: &str) -> impl Fn(DownloadError) -> ReleaseError {
    move |source| ReleaseError::Pull { image: image.to_owned(), source: Box::new(source) }
}

fn create(path: &Path) -> Result<std::fs::File, ReleaseError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|source| ReleaseError::KeepBlob { path: PathBuf::from(path), source })
}

#[cfg(test)]
mod tests;
