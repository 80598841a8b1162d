//! The layers of a set. The largest and most shared one comes first in every image: containerd unpacks a layer once for
//! every different stack below it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::root::{follow, on_host};
use super::table::Extras;
use super::tools::{FromRoot, missing, read};
use super::{ImageError, ImageInputs, ImageRow, ImageSet};
use crate::oci::{Layer, SealedLayer};

const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
const PASSWD: &str = "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnobody:x:65534:\n";
/// Without it glibc and Go ask DNS before `/etc/hosts`.
const NSSWITCH: &str = "hosts: files dns\n";

/// The sealed layers of a set.
pub(super) struct Layers {
    /// By the file that the program comes from: the program, then its libraries if it has any.
    programs: BTreeMap<PathBuf, Vec<SealedLayer>>,
    /// Which file a program comes from.
    files: BTreeMap<&'static str, PathBuf>,
    support: Option<SealedLayer>,
    tools: Option<SealedLayer>,
}

impl Layers {
    /// The layers of one image, lowest first.
    pub(super) fn of(&self, row: &ImageRow) -> Vec<&SealedLayer> {
        let mut files: Vec<&PathBuf> = Vec::new();
        for file in row.programs.iter().filter_map(|(name, _)| self.files.get(name)) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let programs = files.into_iter().filter_map(|file| self.programs.get(file)).flatten();
        let (support, tools) = match row.extras {
            Extras::Nothing => (None, None),
            Extras::Support => (self.support.as_ref(), None),
            Extras::NetworkTools => (self.support.as_ref(), self.tools.as_ref()),
        };
        programs.chain(support).chain(tools).collect()
    }
}

/// Reads every file of the set once.
pub(super) fn make(set: ImageSet, inputs: &ImageInputs<'_>) -> Result<Layers, ImageError> {
    let seal = |layer: Layer| layer.seal().map_err(|source| ImageError::WriteImages { set, source });
    let wants = |extras: &[Extras]| set.rows().any(|row| extras.contains(&row.extras));
    let support = wants(&[Extras::Support, Extras::NetworkTools]).then(|| support(inputs.root)).transpose()?;
    let tools = wants(&[Extras::NetworkTools]).then(|| FromRoot::new(inputs.root)?.network_tools()).transpose()?;
    let files = files(set, inputs)?;
    let mut programs = BTreeMap::new();
    for file in files.values() {
        if !programs.contains_key(file) {
            let mut layers = vec![seal(program(set, file, &files))?];
            let libraries = libraries(file, inputs.root)?;
            if libraries.paths().next().is_some() {
                layers.push(seal(libraries)?);
            }
            programs.insert(file.clone(), layers);
        }
    }
    Ok(Layers { programs, files, support: support.map(seal).transpose()?, tools: tools.map(seal).transpose()? })
}

fn files(set: ImageSet, inputs: &ImageInputs<'_>) -> Result<BTreeMap<&'static str, PathBuf>, ImageError> {
    let file = |name: &'static str| {
        let path =
            inputs.binaries.get(name).ok_or_else(|| ImageError::FindProgram { set, program: name.to_owned() })?;
        // Links to one multi-call binary are one file.
        let path = fs::canonicalize(path).map_err(|source| ImageError::ReadProgram { path: path.clone(), source })?;
        Ok((name, path))
    };
    set.programs().map(file).collect()
}

/// The file under the only name it has, or under the multi-call name with a link for each program.
fn program(set: ImageSet, file: &Path, files: &BTreeMap<&'static str, PathBuf>) -> Layer {
    let places = set.rows().flat_map(|row| row.programs);
    let places: Vec<_> = places.filter(|(name, _)| files.get(name).is_some_and(|own| own == file)).collect();
    let mut layer = Layer::new();
    if let [(name, directory)] = places.as_slice() {
        layer.file(&format!("{directory}/{name}"), file, 0o755);
        return layer;
    }
    for (name, directory) in places {
        layer.file(&format!("{directory}/{}", set.as_str()), file, 0o755);
        if *name != set.as_str() {
            layer.link(&format!("{directory}/{name}"), set.as_str());
        }
    }
    layer
}

fn libraries(program: &Path, root: &Path) -> Result<Layer, ImageError> {
    let needs = read(program)?;
    match needs.interpreter {
        None => Ok(Layer::new()),
        Some(_) => FromRoot::new(root)?.libraries_of(program, &needs),
    }
}

fn support(root: &Path) -> Result<Layer, ImageError> {
    let mut layer = Layer::new();
    let certificates =
        follow(root, CERTIFICATES).map_err(|source| missing(root, &format!("/{CERTIFICATES}"), source))?;
    layer.file(CERTIFICATES, on_host(root, &certificates), 0o644);
    layer.bytes("etc/passwd", PASSWD, 0o644).bytes("etc/group", GROUP, 0o644);
    layer.bytes("etc/nsswitch.conf", NSSWITCH, 0o644);
    layer.directory("tmp", 0o1777).directory("run", 0o755).directory("var/tmp", 0o1777);
    Ok(layer)
}
