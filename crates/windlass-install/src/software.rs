//! The artifacts that a launch on this host needs, found in the cache and seen to be what was put there.

use std::path::{Path, PathBuf};

use windlass_artifacts::addon::{AddonVersion, OfferedPackage, PackageName};
use windlass_artifacts::base::OsVersion;
use windlass_artifacts::cache::{Cache, CacheError, Entry, Key, Kind};
use windlass_artifacts::pins::Pins;
use windlass_platform::ArtifactFile;
use windlass_platform::local::{BaseImage, Images};
use windlass_spec::KubeVersion;
use windlass_steps::report::chain;

/// What a launch needs from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    /// What machines are made from.
    pub images: Images,
    /// What machines find in the cluster's bucket.
    pub addons: Vec<Addon>,
    /// kubectl; a program that is several goes by the name it is called by.
    pub kubectl: PathBuf,
}

/// A runtime addon for one OS version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addon {
    /// The OS version that it fits.
    pub os_version: OsVersion,
    /// What it is.
    pub package: OfferedPackage,
}

/// Looks for everything, and tells all that is missing or not trusted.
pub fn find(cache: &Cache, version: KubeVersion) -> Result<Software, Vec<String>> {
    let mut search = Search { cache, problems: Vec::new() };
    let mut base = |name: &str| {
        let found = entry(cache, Kind::Base, name, version.as_str());
        search.keep(format!("{name} {version}"), found).map(|entry| file(&entry))
    };
    let bases: Vec<_> = OsVersion::ALL.into_iter().map(|os| (os, base(&os.base_name()))).collect();
    let (preload, extensions) = (base("preload"), base("extensions"));
    let addons = search.addons(version);
    let ignition = search.keep("ignition".to_owned(), ignition(cache));
    let kubectl = search.keep(format!("kubectl {version}"), cache.program("kubectl", version.as_str()));
    let image = |(os, tree): (OsVersion, Option<ArtifactFile>)| {
        Some(BaseImage { name: os.base_name(), os_version: os.as_str().to_owned(), tree: tree? })
    };
    let bases: Option<Vec<BaseImage>> = bases.into_iter().map(image).collect();
    match (bases, preload, extensions, addons, ignition, kubectl) {
        (Some(bases), Some(preload), Some(extensions), Some(addons), Some(ignition), Some(kubectl)) => Ok(Software {
            images: Images { bases, ignition: ignition.path, preload, extensions },
            addons,
            kubectl: kubectl.path,
        }),
        _ => Err(search.problems),
    }
}

/// What was not found so far, and why.
struct Search<'a> {
    cache: &'a Cache,
    problems: Vec<String>,
}

impl Search<'_> {
    fn keep<T>(&mut self, what: String, found: Result<Option<T>, CacheError>) -> Option<T> {
        match found {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {
                let cache = self.cache.root().display();
                self.problems.push(format!("{what} is not in the cache {cache}: windlass artifacts fetch"));
            }
            Err(error) => self.problems.push(format!("{what} cannot be used: {}", chain(&error).join(": "))),
        }
        None
    }

    /// The container runtime and the kubelet of this version, for each OS version.
    fn addons(&mut self, version: KubeVersion) -> Option<Vec<Addon>> {
        let wanted = OsVersion::ALL.into_iter().flat_map(|os| {
            [("containerd", version.companions().containerd), ("kubelet", version.as_str())]
                .map(|(name, version)| (os, name, version))
        });
        let found: Vec<Option<Addon>> = wanted
            .map(|(os, name, version)| {
                let found = addon(self.cache, os, name, version);
                self.keep(format!("addon {name} {version} for OS version {os}"), found)
            })
            .collect();
        found.into_iter().collect()
    }
}

fn addon(cache: &Cache, os_version: OsVersion, name: &str, version: &str) -> Result<Option<Addon>, CacheError> {
    let Some(entry) = entry(cache, Kind::Addon, &format!("{name}-os{os_version}"), version)? else {
        return Ok(None);
    };
    let package = OfferedPackage {
        name: PackageName::parse(name).expect("a program's name is one of a package"),
        version: AddonVersion::parse(version).expect("pinned versions are three numbers"),
        hash: cache.sha512(&entry)?,
        archive: entry.path,
        digest: entry.digest,
        length: entry.size,
    };
    Ok(Some(Addon { os_version, package }))
}

fn entry(cache: &Cache, kind: Kind, name: &str, version: &str) -> Result<Option<Entry>, CacheError> {
    Key::new(kind, name, version).and_then(|key| cache.find(&key))
}

impl Software {
    /// Stands in for everything with one file: a simulated machine boots nothing.
    pub fn simulated(file: &Path) -> Self {
        let tree = ArtifactFile { path: file.to_owned(), digest: format!("sha256:{}", "0".repeat(64)) };
        let base = BaseImage { name: "base-1".to_owned(), os_version: "1".to_owned(), tree: tree.clone() };
        let images = Images { bases: vec![base], ignition: file.to_owned(), preload: tree.clone(), extensions: tree };
        Software { images, addons: Vec::new(), kubectl: file.to_owned() }
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

#[cfg(test)]
mod tests {
    use windlass_artifacts::cache::SourceKind;
    use windlass_artifacts::digest::{Algorithm, Digest};
    use windlass_steps::host::{Mode, write_file};

    use super::*;

    fn add(cache: &Cache, kind: Kind, name: &str, version: &str) {
        let room = cache.temp_dir("test").unwrap();
        let path = room.path().join("file");
        write_file(&path, format!("{name} {version}"), Mode::PUBLIC).unwrap();
        cache.add_file(&Key::new(kind, name, version).unwrap(), SourceKind::Made, &path, Mode::PUBLIC).unwrap();
    }

    #[test]
    fn a_launch_needs_the_addons_of_its_version_for_both_systems() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let (version, other) = (KubeVersion::V1_36_3, KubeVersion::V1_35_4);
        for name in ["base-1", "base-2", "preload", "extensions"] {
            add(&cache, Kind::Base, name, version.as_str());
        }
        add(&cache, Kind::Binary, "kubectl", version.as_str());
        let ignition = Pins::embedded().unwrap().component("ignition").unwrap().releases[0].version.clone();
        add(&cache, Kind::Binary, "ignition", &ignition);
        for name in ["kubelet-os1", "kubelet-os2"] {
            add(&cache, Kind::Addon, name, other.as_str());
        }
        let containerd = version.companions().containerd;
        for os in ["os1", "os2"] {
            add(&cache, Kind::Addon, &format!("containerd-{os}"), containerd);
        }
        add(&cache, Kind::Addon, "kubelet-os2", version.as_str());
        let missing = find(&cache, version).unwrap_err();
        let [missing] = &missing[..] else { panic!("{missing:?}") };
        assert!(missing.starts_with("addon kubelet 1.36.3 for OS version 1 is not in the cache"), "{missing}");
        add(&cache, Kind::Addon, "kubelet-os1", version.as_str());
        let software = find(&cache, version).unwrap();
        let shown: Vec<String> = software
            .addons
            .iter()
            .map(|Addon { os_version, package }| format!("{os_version} {} {}", package.name, package.version))
            .collect();
        let runtime = |os| format!("{os} containerd {containerd}");
        assert_eq!(shown, [runtime(1), "1 kubelet 1.36.3".into(), runtime(2), "2 kubelet 1.36.3".into()]);
        let package = &software.addons[1].package;
        assert_eq!(package.hash, Digest::of(Algorithm::Sha512, b"kubelet-os1 1.36.3"));
        assert_eq!(package.length, 18);
    }
}
