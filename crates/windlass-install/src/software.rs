//! The artifacts that a launch on this host needs, found in the cache and seen to be what was put there.

use std::path::{Path, PathBuf};

use windlass_artifacts::base::OsVersion;
use windlass_artifacts::cache::{Cache, CacheError, Entry, Key, Kind};
use windlass_artifacts::pins::Pins;
use windlass_platform::local::{ArtifactFile, BaseImage, Images};
use windlass_spec::KubeVersion;
use windlass_steps::report::chain;

/// What a launch needs from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    /// What machines are made from.
    pub images: Images,
    /// kubectl; a program that is several goes by the name it is called by.
    pub kubectl: PathBuf,
}

/// Looks for everything, and tells all that is missing or not trusted.
pub fn find(cache: &Cache, version: KubeVersion) -> Result<Software, Vec<String>> {
    let mut problems = Vec::new();
    let mut keep = |what: String, found: Result<Option<Entry>, CacheError>| match found {
        Ok(Some(entry)) => Some(entry),
        Ok(None) => {
            problems.push(format!("{what} is not in the cache {}: windlass artifacts fetch", cache.root().display()));
            None
        }
        Err(error) => {
            problems.push(format!("{what} cannot be used: {}", chain(&error).join(": ")));
            None
        }
    };
    let mut base = |name: &str| {
        let found = Key::new(Kind::Base, name, version.as_str()).and_then(|key| cache.find(&key));
        keep(format!("{name} {version}"), found).map(|entry| file(&entry))
    };
    let bases: Vec<_> = OsVersion::ALL.into_iter().map(|os| (os, base(&os.base_name()))).collect();
    let (preload, extensions) = (base("preload"), base("extensions"));
    let ignition = keep("ignition".to_owned(), ignition(cache));
    let kubectl = keep(format!("kubectl {version}"), cache.program("kubectl", version.as_str()));
    let image = |(os, tree): (OsVersion, Option<ArtifactFile>)| {
        Some(BaseImage { name: os.base_name(), os_version: os.as_str().to_owned(), tree: tree? })
    };
    let bases: Option<Vec<BaseImage>> = bases.into_iter().map(image).collect();
    match (bases, preload, extensions, ignition, kubectl) {
        (Some(bases), Some(preload), Some(extensions), Some(ignition), Some(kubectl)) => Ok(Software {
            images: Images { bases, ignition: ignition.path, preload, extensions },
            kubectl: kubectl.path,
        }),
        _ => Err(problems),
    }
}

impl Software {
    /// Stands in for everything with one file: a simulated machine boots nothing.
    pub fn simulated(file: &Path) -> Self {
        let tree = ArtifactFile { path: file.to_owned(), digest: format!("sha256:{}", "0".repeat(64)) };
        let base = BaseImage { name: "base-1".to_owned(), os_version: "1".to_owned(), tree: tree.clone() };
        let images = Images { bases: vec![base], ignition: file.to_owned(), preload: tree.clone(), extensions: tree };
        Software { images, kubectl: file.to_owned() }
    }
}

/// Of whichever version is pinned.
fn ignition(cache: &Cache) -> Result<Option<Entry>, CacheError> {
    let pins = Pins::embedded().ok();
    let versions = pins.iter().filter_map(|pins| pins.component("ignition")).flat_map(|component| &component.releases);
    for release in versions {
        if let Some(entry) = cache.program("ignition", &release.version)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn file(entry: &Entry) -> ArtifactFile {
    ArtifactFile { path: entry.path.clone(), digest: entry.digest.to_string() }
}
