//! What the bootstrap machine gets after its first boot: manifests of the temporary and of the self-hosted control plane,
//! the keys that only they need, and the add-ons. It is one document, which the machine pulls from the cluster's object
//! store or launch pushes over SSH ([`Delivery`](windlass_spec::file::Delivery)); the machine's `bootkube.path` and
//! `addons.path` wait for what is in it.

mod document;

use windlass_spec::Secret;
use windlass_spec::file::Topology;

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;
use crate::ignition::{self, Parts};
use crate::lock::digest;
use crate::manifest::Group;

pub use document::{DOCUMENT_LIMIT, Document, DocumentError, DocumentFile, Folder, Landing};

const PATH: &str = "assets/bootstrap-assets.json";

/// The document of a cluster as text; a cluster without a bootstrap machine has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapAssets {
    text: Option<Secret<String>>,
}

impl BootstrapAssets {
    /// Gathers it from what the other assets say, edits included.
    pub fn make(parts: Parts<'_>) -> Self {
        let text = (parts.spec.spec.topology == Topology::SelfHosted).then(|| Secret::new(gather(parts).to_text()));
        BootstrapAssets { text }
    }

    /// The text that the machine takes.
    pub fn text(&self) -> Option<&str> {
        self.text.as_ref().map(|text| text.expose().as_str())
    }

    /// What the machine knows the text by.
    pub fn digest(&self) -> Option<String> {
        self.text().map(|text| digest(text.as_bytes()))
    }
}

/// Where a machine fetches the document, and what it knows it by: two lines of a file that the platform fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whoever has the URL may have the document, until it expires.
    pub url: Secret<String>,
    /// The digest of the document.
    pub digest: String,
}

impl Origin {
    /// Takes the text of such a file.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (url, digest) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let whole = lines.next().is_none() && !url.is_empty() && !digest.is_empty();
        whole.then(|| Origin { url: Secret::new(url), digest })
    }

    /// The text of the file.
    pub fn to_text(&self) -> Secret<String> {
        Secret::new(format!("{}\n{}\n", self.url.expose(), self.digest))
    }
}

fn gather(parts: Parts<'_>) -> Document {
    let of = |folder: Folder, group: Group| {
        parts.manifests.group(group).map(move |(name, text)| DocumentFile::private(folder, name, text))
    };
    let mut bootkube = ignition::bootkube_secrets(parts);
    bootkube.extend(of(Folder::Bootstrap, Group::Bootstrap));
    bootkube.extend(of(Folder::ControlPlane, Group::ControlPlane));
    Document { bootkube, addons: of(Folder::Addons, Group::Addons).collect() }
}

impl Asset for BootstrapAssets {
    const NAME: &'static str = "the bootstrap machine's assets";

    fn files(&self) -> Vec<AssetFile> {
        self.text().map(|text| AssetFile::new(PATH, text)).into_iter().collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let known = dir.known(PATH).pop();
        let text = known.map(|path| dir.require_text(&path, Self::NAME).map(Secret::new)).transpose()?;
        Ok(BootstrapAssets { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_survives_its_text_and_is_not_shown() {
        let origin =
            Origin { url: Secret::new("http://a/b?signature=canary".to_owned()), digest: "sha256:00".to_owned() };
        assert_eq!(Origin::parse(origin.to_text().expose()), Some(origin.clone()));
        assert!(!format!("{origin:?}").contains("canary"));
        for text in ["", "\n", "http://a", "http://a\n", "\nsha256:00\n", "http://a\nsha256:00\nmore\n"] {
            assert_eq!(Origin::parse(text), None, "{text:?}");
        }
    }
}
