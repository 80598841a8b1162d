//! What windlass makes itself, from binaries and from each other. Each artifact remembers the digest of its inputs; as
//! long as they are the same, it is not made again.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio::sync::OnceCell;
use windlass_spec::KubeVersion;
use windlass_steps::host::{Commands, Mode};

use super::{FetchError, key, paths};
use crate::addon::{self, AddonVersion, Extension, Runtime, lay_out_extension, pack_extension};
use crate::base::{
    BaseInputs, Layers, OsVersion, PreloadInputs, RootInputs, Stage, make_base, make_preload, make_root, pack_tree,
    unpack_tree,
};
use crate::cache::{Cache, CacheError, Details, Entry, Kind, SourceKind, TempDir};
use crate::digest::{Algorithm, Digest};
use crate::download::Limits;
use crate::image::{ImageInputs, ImageSet, make_archive};
use crate::oci::write_pulled;
use crate::progress::{Happened, Observer, Progress, Teller, Way};
use crate::release::{Arch, Registry, pull_image};

/// The Debian release that machines are.
const DEBIAN: &str = "12";

/// The plugins that pod networks are made of.
const CNI_PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

/// The programs of a container runtime, in the order of [`Runtime`].
const RUNTIME: [&str; 4] = ["containerd", "containerd-shim-runc-v2", "ctr", "runc"];

/// What making needs.
pub(super) struct Maker<'a, C> {
    pub(super) cache: &'a Cache,
    pub(super) commands: &'a C,
    pub(super) version: KubeVersion,
    pub(super) apt: &'a Path,
    /// Where images are pulled from, if not from where their names say.
    pub(super) registry: Option<&'a Registry>,
    /// Every program by each of its names.
    pub(super) binaries: BTreeMap<String, Entry>,
    /// The machine's root as a tree, unpacked when it is first needed.
    pub(super) tree: OnceCell<TempDir>,
    pub(super) observer: Observer<'a>,
}

/// An artifact to be made: what it is called and what it is made from.
struct Wanted {
    source: SourceKind,
    kind: Kind,
    name: String,
    version: String,
    inputs: Digest,
    /// What the same thing from a bundle may have been made from instead.
    elsewhere: Option<Digest>,
}

impl Wanted {
    fn new(kind: Kind, name: impl Into<String>, version: impl Into<String>, inputs: &[&str]) -> Self {
        let inputs = made_from(inputs);
        Wanted { source: SourceKind::Made, kind, name: name.into(), version: version.into(), inputs, elsewhere: None }
    }

    fn pulled(self) -> Self {
        Wanted { source: SourceKind::Release, ..self }
    }

    /// As progress is told about it.
    fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

impl<C: Commands> Maker<'_, C> {
    /// Debian, made once and kept: everything else about machines derives from it.
    pub(super) async fn root(&self) -> Result<Entry, FetchError> {
        let wanted = Wanted::new(Kind::Base, "root", DEBIAN, crate::base::PACKAGES);
        let stages = self.stages(wanted.title());
        self.make(wanted, |room, out| async move {
            let root = room.join("root");
            let inputs = RootInputs { apt: self.apt, mirror: None, packages: None };
            make_root(&inputs, &root, self.commands, &stages).await?;
            pack_tree(&root, &out, &stages)?;
            Ok(())
        })
        .await
    }

    /// One set of images, from binaries and the root's tools.
    pub(super) async fn images(&self, set: ImageSet, root: &Entry) -> Result<Entry, FetchError> {
        let wanted = self.wanted_images(set, root);
        let stages = self.stages(wanted.title());
        self.make(wanted, |_, out| async move {
            let tree = self.tree(root, &stages).await?;
            let binaries = paths(&self.binaries);
            let inputs = ImageInputs { kubernetes: self.version, binaries: &binaries, root: &tree };
            make_archive(set, &inputs, &out).map_err(|source| FetchError::MakeImages { source })?;
            Ok(())
        })
        .await
    }

    /// One set of images, if it has been made from these binaries.
    pub(super) fn made_images(&self, set: ImageSet, root: &Entry) -> Result<Option<Entry>, FetchError> {
        self.present(&self.wanted_images(set, root))
    }

    fn wanted_images(&self, set: ImageSet, root: &Entry) -> Wanted {
        let mut inputs = vec![root.digest.to_string()];
        inputs.extend(set.programs().filter_map(|p| self.binaries.get(p)).map(|e| e.digest.to_string()));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let wanted = Wanted::new(Kind::Image, set.to_string(), set.version(self.version), &inputs);
        // A bundle may have been made where images came from a registry.
        let names = self.names(set);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Wanted { elsewhere: Some(made_from(&names)), ..wanted }
    }

    fn names(&self, set: ImageSet) -> Vec<String> {
        set.rows().map(|row| row.name(self.version)).collect()
    }

    /// One set of images from upstream's registry.
    pub(super) async fn pulled_images(&self, set: ImageSet) -> Result<Entry, FetchError> {
        let names = self.names(set);
        let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
        let wanted = Wanted::new(Kind::Image, set.to_string(), set.version(self.version), &inputs).pulled();
        self.make(wanted, |room, out| async move {
            let mut pulled = Vec::new();
            for (number, name) in names.iter().enumerate() {
                let place = room.join(format!("image-{number}"));
                windlass_steps::host::make_dir(&place, Mode::PRIVATE_DIR).map_err(|source| FetchError::UseCache {
                    source: CacheError::MakeCache { path: place.clone(), source },
                })?;
                let (arch, limits) = (Arch::of_this_host(), Limits::default());
                pulled.push(pull_image(name, self.registry, arch, &place, limits).await?);
            }
            write_pulled(&pulled, &out).map_err(|source| FetchError::PackImages { source })?;
            Ok(())
        })
        .await
    }

    /// The machine base in both OS versions, with the image archives and the programs of every machine in it.
    pub(super) async fn bases(&self, root: &Entry, images: &[Entry]) -> Result<Vec<Entry>, FetchError> {
        let placed = self.machine_programs()?;
        let programs: Vec<(String, PathBuf)> = placed.iter().map(|(to, e)| (to.clone(), e.path.clone())).collect();
        let programs = &programs;
        let mut bases = Vec::new();
        for os_version in OsVersion::ALL {
            let mut inputs = vec![os_version.as_str().to_owned(), root.digest.to_string()];
            inputs.extend(images.iter().map(|e| e.digest.to_string()));
            inputs.extend(placed.iter().map(|(to, e)| format!("{to} {}", e.digest)));
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            let wanted = Wanted::new(Kind::Base, os_version.base_name(), self.version.as_str(), &inputs);
            let stages = self.stages(wanted.title());
            let made = self.make(wanted, |room, out| async move {
                let (tree, base) = (self.tree(root, &stages).await?, room.join("base"));
                let archives = named_archives(&room, images)?;
                let inputs = BaseInputs { root: &tree, os_version, programs, images: &archives };
                make_base(&inputs, &base, self.commands, &stages).await?;
                pack_tree(&base, &out, &stages)?;
                Ok(())
            });
            bases.push(made.await?);
        }
        Ok(bases)
    }

    /// What every machine has from its first moment: our own program, and the plugins of pod networks. The container
    /// runtime and the kubelet are not among them: they follow the cluster's version, as extensions.
    fn machine_programs(&self) -> Result<Vec<(String, &Entry)>, FetchError> {
        let place = |folder: &str, name: &str| self.program(name).map(|entry| (format!("{folder}/{name}"), entry));
        let own = place("/opt/windlass/bin", "windlass-node");
        [own].into_iter().chain(CNI_PLUGINS.iter().map(|name| place("/opt/cni/bin", name))).collect()
    }

    /// The runtime and the kubelet as machines of this version have them in `/var/lib/extensions`, for both OS versions.
    /// A machine that starts with them needs to fetch nothing.
    /// They come from the same programs as the addons, in whose order they are.
    pub(super) async fn extensions(&self, addons: &[Entry]) -> Result<Entry, FetchError> {
        let extensions = self.all_extensions()?;
        let archives: Vec<_> = addons.iter().map(|addon| addon.path.clone()).collect();
        let inputs = extensions.iter().zip(addons);
        let inputs: Vec<String> = inputs.map(|(e, addon)| format!("{} {}", e.directory(), addon.digest)).collect();
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let wanted = Wanted::new(Kind::Base, "extensions", self.version.as_str(), &inputs);
        let stages = self.stages(wanted.title());
        self.make(wanted, |room, out| async move {
            let tree = room.join("extensions");
            for (extension, archive) in extensions.iter().zip(&archives) {
                let hash = File::open(archive).and_then(|file| Digest::of_reader(Algorithm::Sha512, file));
                let read = |source| CacheError::AddFile { file: archive.clone(), source };
                let hash = hash.map_err(|source| FetchError::UseCache { source: read(source) })?;
                lay_out_extension(extension, &hash, &tree).map_err(|source| FetchError::PackAddon { source })?;
            }
            pack_tree(&tree, &out, &stages)?;
            Ok(())
        })
        .await
    }

    fn all_extensions(&self) -> Result<Vec<Extension>, FetchError> {
        let mut extensions = Vec::new();
        for os_version in OsVersion::ALL {
            extensions.push(self.runtime_extension(os_version)?);
            extensions.push(self.kubelet_extension(os_version)?);
        }
        Ok(extensions)
    }

    /// The images as a containerd root that machines hard-link.
    pub(super) async fn preload(&self, images: &[Entry]) -> Result<Entry, FetchError> {
        let containerd = self.program("containerd")?;
        let ctr = self.program("ctr")?;
        let mut inputs = vec![containerd.digest.to_string()];
        inputs.extend(images.iter().map(|e| e.digest.to_string()));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let wanted = Wanted::new(Kind::Base, "preload", self.version.as_str(), &inputs);
        let stages = self.stages(wanted.title());
        self.make(wanted, |room, out| async move {
            let archives = named_archives(&room, images)?;
            let inputs = PreloadInputs {
                containerd: &containerd.path,
                ctr: &ctr.path,
                images: &archives,
                layers: Layers::Discard,
            };
            let tree = room.join("preload");
            make_preload(&inputs, &room.join("work"), &tree, self.commands, &stages).await?;
            pack_tree(&tree, &out, &stages)?;
            Ok(())
        })
        .await
    }

    /// The container runtime and the kubelet as extensions, for both OS versions.
    pub(super) async fn addons(&self) -> Result<Vec<Entry>, FetchError> {
        let version = self.version.companions().containerd;
        let mut addons = Vec::new();
        for os_version in OsVersion::ALL {
            let runtime = self.runtime_extension(os_version)?;
            addons.push(self.addon("containerd", version, os_version, runtime, &RUNTIME).await?);
            let kubelet = self.kubelet_extension(os_version)?;
            addons.push(self.addon("kubelet", self.version.as_str(), os_version, kubelet, &["kubelet"]).await?);
        }
        Ok(addons)
    }

    fn runtime_extension(&self, os_version: OsVersion) -> Result<Extension, FetchError> {
        let path = |name: &str| self.program(name).map(|entry| entry.path.clone());
        let [containerd, shim, ctr, runc] = RUNTIME;
        let runtime = Runtime { containerd: path(containerd)?, shim: path(shim)?, ctr: path(ctr)?, runc: path(runc)? };
        let version = self.version.companions().containerd;
        let version = AddonVersion::parse(version).expect("pinned versions are three numbers");
        Ok(Extension::containerd(version, addon_os(os_version), &runtime))
    }

    fn kubelet_extension(&self, os_version: OsVersion) -> Result<Extension, FetchError> {
        let kubelet = self.program("kubelet")?.path.clone();
        let made = Extension::kubelet(&self.version, addon_os(os_version), kubelet);
        made.map_err(|source| FetchError::PackAddon { source })
    }

    async fn addon(
        &self,
        name: &str,
        version: &str,
        os_version: OsVersion,
        extension: Extension,
        programs: &[&str],
    ) -> Result<Entry, FetchError> {
        let mut inputs = vec![os_version.as_str().to_owned(), extension.directory()];
        for program in programs {
            inputs.push(format!("{program} {}", self.program(program)?.digest));
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let wanted = Wanted::new(Kind::Addon, format!("{name}-os{os_version}"), version, &inputs);
        self.make(wanted, |_, out| async move {
            let create = |source| FetchError::UseCache { source: CacheError::AddFile { file: out.clone(), source } };
            let mut file = File::create(&out).map_err(create)?;
            pack_extension(&extension, &mut file).map_err(|source| FetchError::PackAddon { source })?;
            Ok(())
        })
        .await
    }

    async fn tree(&self, root: &Entry, stages: &(dyn Fn(Stage) + Send + Sync)) -> Result<PathBuf, FetchError> {
        let unpack = || async {
            let room = self.cache.temp_dir("root").map_err(|source| FetchError::UseCache { source })?;
            unpack_tree(&root.path, &room.path().join("root"), stages)?;
            Ok::<TempDir, FetchError>(room)
        };
        Ok(self.tree.get_or_try_init(unpack).await?.path().join("root"))
    }

    fn program(&self, name: &str) -> Result<&Entry, FetchError> {
        self.binaries.get(name).ok_or_else(|| FetchError::MakeImages {
            source: crate::image::ImageError::FindProgram { set: ImageSet::Kubernetes, program: name.to_owned() },
        })
    }

    /// Makes an artifact in a directory of its own, unless it is there and was made from the same inputs.
    async fn make<F, Fut>(&self, wanted: Wanted, work: F) -> Result<Entry, FetchError>
    where
        F: FnOnce(PathBuf, PathBuf) -> Fut,
        Fut: Future<Output = Result<(), FetchError>>,
    {
        let title = wanted.title();
        let teller = Teller { what: &title, observer: self.observer };
        let key = key(wanted.kind, &wanted.name, &wanted.version)?;
        let cached = |source| FetchError::UseCache { source };
        if let Some(entry) = self.present(&wanted)? {
            teller.tell(Happened::Present);
            return Ok(entry);
        }
        let announce = |waiting: &crate::cache::Waiting| teller.tell(Happened::Waiting(waiting.clone()));
        let _making = self.cache.lock(&title, announce).await.map_err(cached)?;
        if let Some(entry) = self.present(&wanted)? {
            teller.tell(Happened::Present);
            return Ok(entry);
        }
        let started = Instant::now();
        let way = if wanted.source == SourceKind::Release { Way::Download } else { Way::Make };
        teller.tell(Happened::Started { way });
        let room: TempDir = self.cache.temp_dir(&wanted.name).map_err(cached)?;
        let out = room.path().join("out");
        work(room.path().to_owned(), out.clone()).await?;
        let details = Details { links: Vec::new(), inputs: Some(wanted.inputs) };
        let added = self.cache.add_aside(key.clone(), wanted.source, out, Mode::PUBLIC, details);
        let entry = added.await.map_err(cached)?;
        teller.tell(Happened::Finished { took: started.elapsed() });
        Ok(entry)
    }

    /// What is there, if it was made from the same inputs. Of what an older bundle gave nobody knows them.
    fn present(&self, wanted: &Wanted) -> Result<Option<Entry>, FetchError> {
        let key = key(wanted.kind, &wanted.name, &wanted.version)?;
        let found = self.cache.find(&key).map_err(|source| FetchError::UseCache { source })?;
        let current = |e: &Entry| match (&e.inputs, e.source) {
            (None, source) => source == SourceKind::Bundle,
            (Some(own), SourceKind::Bundle) => *own == wanted.inputs || wanted.elsewhere.as_ref() == Some(own),
            (Some(own), SourceKind::Made | SourceKind::Release | SourceKind::Source) => *own == wanted.inputs,
        };
        Ok(found.filter(current))
    }

    /// Tells the stages of what is made under this title.
    fn stages(&self, what: String) -> impl Fn(Stage) + Send + Sync + '_ {
        let observer = self.observer;
        move |stage| {
            let happened = match stage {
                Stage::Package(words) => Happened::Detail(words),
                stage => Happened::Line(stage.to_string()),
            };
            observer(Progress { what: what.clone(), happened });
        }
    }
}

fn made_from(inputs: &[&str]) -> Digest {
    Digest::of(Algorithm::Sha256, inputs.join("\n").as_bytes())
}

fn addon_os(os_version: OsVersion) -> addon::OsVersion {
    addon::OsVersion::parse(os_version.as_str()).expect("a digit is an OS version")
}

/// Image archives under names that say what they are, copied beside the work.
fn named_archives(room: &Path, images: &[Entry]) -> Result<Vec<PathBuf>, FetchError> {
    let folder = room.join("images");
    let trouble = |source| FetchError::MakeBase {
        source: crate::base::BaseError::ChangeTree { attempt: "copy images to", path: folder.clone(), source },
    };
    std::fs::create_dir(&folder).map_err(trouble)?;
    let mut archives = Vec::new();
    for image in images {
        let path = folder.join(format!("{}-{}.tar", image.key.name(), image.key.version()));
        // A link would change the cached file's ctime, by which the cache knows that nobody touched it.
        std::fs::copy(&image.path, &path).map_err(trouble)?;
        archives.push(path);
    }
    Ok(archives)
}
