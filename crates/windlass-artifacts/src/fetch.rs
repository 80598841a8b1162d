//! The fetch flow: everything that a cluster of one Kubernetes version needs, in the cache. In order: binaries, the
//! machine's root, images (some take tools from the root), bases, the preloaded containerd root, and runtime addons.
//! Whatever is there and was made from the same inputs is left alone.

mod error;
mod made;

pub use error::FetchError;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;
use windlass_spec::KubeVersion;
use windlass_spec::file::ArtifactSource;
use windlass_steps::host::{Commands, Mode};

use crate::cache::{Cache, Details, Entry, Key, Kind, SourceKind};
use crate::download::{Downloader, Limits};
use crate::image::ImageSet;
use crate::pins::{Modules, Pins, Release, Set};
use crate::progress::{Observer, Progress};
use crate::release::{self, Arch, Choice, Mirror, PATIENCE, Published, Registry, choose};
use crate::source::{Capacity, Source};
use made::Maker;

/// What fetching needs.
pub struct Fetch<'a, C> {
    /// Where everything goes.
    pub cache: &'a Cache,
    /// What is wanted.
    pub pins: &'a Pins,
    /// Our Go modules.
    pub modules: &'a Modules,
    /// Who runs commands.
    pub commands: &'a C,
    /// The mirror of released binaries.
    pub mirror: &'a Mirror,
    /// The registry of released images, if it is another than their names say.
    pub registry: Option<&'a Registry>,
    /// Where binaries come from.
    pub source: ArtifactSource,
    /// windlass' own program for machines.
    pub own_program: &'a Path,
    /// The host's apt configuration, whose Debian mirror the base is made from.
    pub apt: &'a Path,
}

/// How much is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What a local cluster needs.
    Local,
    /// That, and the tools for other platforms.
    All,
}

/// Everything that was fetched, and where the binaries came from.
#[derive(Debug)]
pub struct Fetched {
    /// The decision between mirror and source.
    pub choice: Choice,
    /// Every artifact of the Kubernetes version.
    pub entries: Vec<Entry>,
}

impl<C: Commands> Fetch<'_, C> {
    /// Fetches everything for one Kubernetes version.
    pub async fn run(
        &self,
        version: KubeVersion,
        extent: Extent,
        observer: Observer<'_>,
    ) -> Result<Fetched, FetchError> {
        let (choice, mut entries) = self.binaries(version, extent, observer).await?;
        // A multi-call binary is found once for each of its names.
        let mut seen = BTreeSet::new();
        entries.retain(|entry| seen.insert(entry.key.clone()));
        let own = self.own_program().await?;
        let maker = Maker {
            cache: self.cache,
            commands: self.commands,
            version,
            apt: self.apt,
            registry: self.registry,
            binaries: programs(&entries, &own),
            tree: OnceCell::new(),
            observer,
        };
        let root = maker.root().await?;
        let images = self.images(&maker, &choice, &root).await?;
        let bases = maker.bases(&root, &images).await?;
        let preload = maker.preload(&images).await?;
        let addons = maker.addons().await?;
        let extensions = maker.extensions(&addons).await?;
        entries.push(own);
        entries.push(root);
        entries.extend(images);
        entries.extend(bases);
        entries.push(preload);
        entries.extend(addons);
        entries.push(extensions);
        Ok(Fetched { choice, entries })
    }

    async fn binaries(
        &self,
        version: KubeVersion,
        extent: Extent,
        observer: Observer<'_>,
    ) -> Result<(Choice, Vec<Entry>), FetchError> {
        let local = self.pins.for_kubernetes(version, Set::Local);
        let extra = match extent {
            Extent::Local => Vec::new(),
            Extent::All => self.pins.for_kubernetes(version, Set::Extra),
        };
        let releases: Vec<_> = local.into_iter().chain(extra).collect();
        let building = Source {
            cache: self.cache,
            modules: self.modules,
            commands: self.commands,
            arch: Arch::of_this_host(),
            capacity: Capacity::of_this_host(),
        };
        if let Some(present) = self.present(&building, &releases)? {
            return Ok(present);
        }
        let choice = self.choose(version).await?;
        observer(Progress::said("artifacts", choice.to_string()));
        if choice.source == SourceKind::Source {
            return Ok((choice, building.build_all(&releases, observer).await?));
        }
        let downloader = self.downloader()?;
        let published =
            Published { cache: self.cache, mirror: self.mirror, downloader: &downloader, arch: Arch::of_this_host() };
        let mut entries = Vec::new();
        for release in releases {
            entries.extend(match published.fetch(release, observer).await {
                Err(error) if error.is_absent() && (self.may_choose() || release.release.is_empty()) => {
                    observer(Progress::said(release.title(), format!("building it: {}", causes(&error))));
                    building.build(release, observer).await?
                }
                fetched => fetched?,
            });
        }
        Ok((choice, entries))
    }

    /// All binaries, if they are there already: then neither a mirror nor a compiler is asked. Images come from where
    /// the binaries came from.
    fn present(
        &self,
        building: &Source<'_, C>,
        releases: &[&Release],
    ) -> Result<Option<(Choice, Vec<Entry>)>, FetchError> {
        let mut entries = Vec::new();
        for release in releases {
            let found = match building.present(release)? {
                None if self.source != ArtifactSource::Source => {
                    release::present(self.cache, release).map_err(|source| FetchError::UseCache { source })?
                }
                found => found,
            };
            let Some(found) = found else { return Ok(None) };
            entries.extend(found);
        }
        let released = entries.iter().any(|entry| entry.source == SourceKind::Release);
        let source = if released { SourceKind::Release } else { SourceKind::Source };
        Ok(Some((Choice { source, why: "everything is in the cache".to_owned() }, entries)))
    }

    /// Whether what mirror and registry do not have may be made here.
    fn may_choose(&self) -> bool {
        self.source == ArtifactSource::Auto
    }

    fn downloader(&self) -> Result<Downloader, FetchError> {
        Downloader::new(Limits::default()).map_err(|source| FetchError::StartDownloads { source })
    }

    async fn choose(&self, version: KubeVersion) -> Result<Choice, FetchError> {
        let chosen = |source, why: &str| Choice { source, why: why.to_owned() };
        match self.source {
            ArtifactSource::Source => Ok(chosen(SourceKind::Source, "it was asked for")),
            ArtifactSource::Release => Ok(chosen(SourceKind::Release, "it was asked for")),
            ArtifactSource::Auto => {
                let Some(kubernetes) = self.pins.release("kubernetes", version.as_str()) else {
                    return Ok(chosen(SourceKind::Source, "Kubernetes is not pinned as a release"));
                };
                let arch = Arch::of_this_host();
                Ok(choose(&self.downloader()?, self.mirror, kubernetes, arch, PATIENCE).await)
            }
        }
    }

    /// The program that this windlass came with.
    async fn own_program(&self) -> Result<Entry, FetchError> {
        if !self.own_program.is_file() {
            return Err(FetchError::FindOwnProgram { path: self.own_program.to_owned() });
        }
        let key = key(Kind::Binary, "windlass-node", env!("CARGO_PKG_VERSION"))?;
        let links = vec!["pause".to_owned()];
        let details = Details { links, inputs: None };
        let added = self.cache.add_aside(key, SourceKind::Made, self.own_program.to_owned(), Mode::EXECUTABLE, details);
        added.await.map_err(|source| FetchError::UseCache { source })
    }

    async fn images(&self, maker: &Maker<'_, C>, choice: &Choice, root: &Entry) -> Result<Vec<Entry>, FetchError> {
        let mut images = Vec::new();
        for set in ImageSet::ALL {
            let ours = matches!(set, ImageSet::Pause | ImageSet::WindlassNode);
            images.push(if choice.source == SourceKind::Release && !ours {
                self.published_images(maker, set, root).await?
            } else {
                maker.images(set, root).await?
            });
        }
        Ok(images)
    }

    /// From the registry. If we may choose, what it does not have is made, and what was made is kept.
    async fn published_images(&self, maker: &Maker<'_, C>, set: ImageSet, root: &Entry) -> Result<Entry, FetchError> {
        if self.may_choose()
            && let Some(made) = maker.made_images(set, root)?
        {
            return Ok(made);
        }
        match maker.pulled_images(set).await {
            Err(FetchError::Download { source }) if self.may_choose() && source.is_absent() => {
                (maker.observer)(Progress::said(set.as_str(), format!("making it: {}", causes(&source))));
                maker.images(set, root).await
            }
            pulled => pulled,
        }
    }
}

fn causes(error: &release::ReleaseError) -> String {
    windlass_steps::report::chain(error).join(": ")
}

/// Whether an artifact is of a version that this windlass would fetch.
pub fn is_pinned(pins: &Pins, key: &Key) -> bool {
    let kubernetes = |version: &str| KubeVersion::ALL.iter().any(|v| v.as_str() == version);
    match key.kind() {
        Kind::Binary if key.name() == "windlass-node" => key.version() == env!("CARGO_PKG_VERSION"),
        Kind::Binary => pins.releases().any(|release| {
            let built = release.binaries.iter().any(|b| b.name == key.name());
            let published = release.release.iter().any(|file| file.name == key.name());
            release.version == key.version() && (built || published)
        }),
        Kind::Image => ImageSet::ALL.iter().any(|set| {
            let current = |v: &KubeVersion| set.version(*v) == key.version();
            set.to_string() == key.name() && KubeVersion::ALL.iter().any(current)
        }),
        Kind::Base => key.name() == "root" || kubernetes(key.version()),
        Kind::Addon => {
            kubernetes(key.version()) || KubeVersion::ALL.iter().any(|v| v.companions().containerd == key.version())
        }
        Kind::Bundle => true,
    }
}

fn key(kind: Kind, name: &str, version: &str) -> Result<Key, FetchError> {
    Key::new(kind, name, version).map_err(|source| FetchError::UseCache { source })
}

/// Every program by each of its names, with the file it is.
fn programs(entries: &[Entry], own: &Entry) -> BTreeMap<String, Entry> {
    let mut programs = BTreeMap::new();
    for entry in entries.iter().chain([own]) {
        for name in entry.links.iter().map(String::as_str).chain([entry.key.name()]) {
            programs.insert(name.to_owned(), entry.clone());
        }
    }
    programs
}

/// The files of some programs by name.
fn paths(programs: &BTreeMap<String, Entry>) -> BTreeMap<String, PathBuf> {
    programs.iter().map(|(name, entry)| (name.clone(), entry.path.clone())).collect()
}

#[cfg(test)]
mod tests;
