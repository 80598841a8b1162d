//! The Kubernetes manifests of a cluster, rendered from the YAML templates in `templates/`.
//!
//! What becomes a static pod lies in the groups `bootstrap` and `master`; what is applied to the API lies in
//! `control-plane` and `addons`. Which of them a cluster has is decided by its topology, network plugin and addons.

mod addon;
mod asset;
mod control_plane;
mod document;
mod mount;
mod probe;
mod template;

use std::collections::BTreeMap;

use windlass_spec::{CompleteSpec, Problems};

pub use document::{Object, documents, objects};

/// The manifests of a cluster, by path below `manifests/`, such as `control-plane/kube-apiserver.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifests {
    files: BTreeMap<String, String>,
}

/// Who uses a manifest, and so the folder it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Static pods of the bootstrap machine: the temporary control plane.
    Bootstrap,
    /// Static pods of every master.
    Master,
    /// The self-hosted control plane, which bootkube applies.
    ControlPlane,
    /// What is applied once there is a control plane.
    Addons,
}

impl Group {
    /// Every group, in the order of use.
    pub const ALL: [Group; 4] = [Group::Bootstrap, Group::Master, Group::ControlPlane, Group::Addons];

    /// The folder's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Group::Bootstrap => "bootstrap",
            Group::Master => "master",
            Group::ControlPlane => "control-plane",
            Group::Addons => "addons",
        }
    }
}

/// Why manifests could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A template and the values it was given do not fit.
    #[error("cannot render {template}")]
    RenderTemplate {
        /// The template's path below `templates/`.
        template: &'static str,
        /// Where it went wrong.
        source: minijinja::Error,
    },
    /// A file has a name that no manifest has.
    #[error("{path} is not the path of a manifest: use <group>/<name>.yaml")]
    NamePath {
        /// The path.
        path: String,
    },
    /// A document of a manifest is not YAML.
    #[error("cannot read {path} as YAML")]
    ReadYaml {
        /// The manifest's path.
        path: String,
        /// All that is wrong with it, by line of the file.
        source: Problems,
    },
    /// A document is YAML, but no Kubernetes object.
    #[error("{path}, line {line}: {missing} is missing")]
    ReadObject {
        /// The manifest's path.
        path: String,
        /// The line on which the document starts.
        line: usize,
        /// What every object has and this one has not.
        missing: &'static str,
    },
}

impl Manifests {
    /// Renders every manifest of a cluster. The same spec gives the same bytes.
    pub fn make(spec: &CompleteSpec) -> Result<Self, ManifestError> {
        let mut files = BTreeMap::new();
        for (group, name, text) in control_plane::render(spec)?.into_iter().chain(addon::render(spec)?) {
            files.insert(format!("{}/{name}.yaml", group.as_str()), text);
        }
        Ok(Manifests { files })
    }

    /// Takes manifests as they lie on a disk, edits included; whatever is not a manifest is refused.
    pub fn from_files(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, ManifestError> {
        let files: BTreeMap<String, String> = files.into_iter().collect();
        for (path, text) in &files {
            check_path(path)?;
            objects(path, text)?;
        }
        Ok(Manifests { files })
    }

    /// Every manifest: its path below `manifests/` and its text, in the order of the paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The manifests of one group: each file's name and its text.
    pub fn group(&self, group: Group) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(move |(path, text)| {
            let name = path.strip_prefix(group.as_str())?.strip_prefix('/')?;
            Some((name, text))
        })
    }

    /// The Kubernetes objects of one group, in the order of files and documents.
    pub fn objects(&self, group: Group) -> Result<Vec<Object>, ManifestError> {
        let mut all = Vec::new();
        for (name, text) in self.group(group) {
            all.extend(objects(&format!("{}/{name}", group.as_str()), text)?);
        }
        Ok(all)
    }
}

/// A path becomes a file's name on machines, so only plain names pass.
fn check_path(path: &str) -> Result<(), ManifestError> {
    let plain =
        |name: &str| !name.starts_with('.') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let good = path.split_once('/').is_some_and(|(group, name)| {
        Group::ALL.iter().any(|g| g.as_str() == group)
            && name.strip_suffix(".yaml").is_some_and(|n| !n.is_empty() && plain(n))
    });
    if good { Ok(()) } else { Err(ManifestError::NamePath { path: path.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_in_known_groups_are_manifests() {
        for (path, good) in [
            ("addons/coredns.yaml", true),
            ("addons/my-own_2.yaml", true),
            ("coredns.yaml", false),
            ("addons/../../etc/passwd.yaml", false),
            ("addons/.hidden.yaml", false),
            ("addons/.yaml", false),
            ("other/coredns.yaml", false),
            ("addons/coredns.json", false),
            ("addons/a b.yaml", false),
        ] {
            assert_eq!(check_path(path).is_ok(), good, "{path}");
        }
    }
}
