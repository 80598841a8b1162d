//! The document itself: files with their places, in two parts. bootkube's comes first on the machine, the add-ons' second.
//! Reading one checks every name, because names become paths of a machine.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_spec::Secret;

/// No document is larger: some hundred manifests of some ten kilobytes.
pub const DOCUMENT_LIMIT: usize = 16 << 20;
const VERSION: u32 = 1;
const MOST_FILES: usize = 2000;
const LONGEST_NAME: usize = 128;

/// The bootstrap machine's assets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What bootkube needs.
    pub bootkube: Vec<DocumentFile>,
    /// The add-ons.
    pub addons: Vec<DocumentFile>,
}

/// A file of the document, whose name is a name and no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFile {
    /// The folder that it lies in.
    pub folder: Folder,
    /// Its name there.
    pub name: String,
    /// With which permissions.
    pub mode: u32,
    /// What is in it; it may be a key.
    pub contents: Secret<String>,
}

/// A folder of the machine that the document may put files into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Folder {
    /// Keys and certificates.
    Keys,
    /// Kubeconfigs, and nothing else in their folder.
    Kubeconfigs,
    /// Static pods of the temporary control plane.
    Bootstrap,
    /// The self-hosted control plane: `bootkube.path` waits for this folder.
    ControlPlane,
    /// The add-ons: `addons.path` waits for this folder.
    Addons,
}

/// How the files of a folder come to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// Each by itself, among others.
    Each,
    /// The folder as a whole, in one motion: somebody waits for it.
    Whole,
}

impl Folder {
    /// The folders of bootkube's part, in the order in which they are to appear.
    pub const BOOTKUBE: [Folder; 4] = [Folder::Keys, Folder::Kubeconfigs, Folder::Bootstrap, Folder::ControlPlane];
    /// The folders of the add-ons' part.
    pub const ADDONS: [Folder; 1] = [Folder::Addons];

    /// Where it is on the machine.
    pub fn path(self) -> &'static str {
        match self {
            Folder::Keys => "/etc/kubernetes/pki",
            Folder::Kubeconfigs => "/etc/kubernetes",
            Folder::Bootstrap => "/opt/windlass/bootkube/bootstrap",
            Folder::ControlPlane => "/opt/windlass/bootkube/manifests",
            Folder::Addons => "/opt/windlass/addons/manifests",
        }
    }

    /// How its files come to be there.
    pub fn landing(self) -> Landing {
        match self {
            Folder::Keys | Folder::Kubeconfigs => Landing::Each,
            Folder::Bootstrap | Folder::ControlPlane | Folder::Addons => Landing::Whole,
        }
    }

    fn takes(self, name: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let named = !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain);
        named && (self != Folder::Kubeconfigs || name.ends_with(".kubeconfig"))
    }
}

/// Why a document is not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DocumentError {
    /// It is larger than any document.
    #[error("it is larger than {DOCUMENT_LIMIT} bytes, or has more than {MOST_FILES} files")]
    HoldDocument,
    /// It is not one, or one of another version. The reason quotes nothing of it.
    #[error("it is not a document of bootstrap assets: line {line}, column {column}")]
    ReadDocument {
        /// Where reading ended.
        line: usize,
        /// Where in that line.
        column: usize,
    },
    /// It is of another windlass.
    #[error("it is of version {version}, and this windlass reads {VERSION}")]
    ReadVersion {
        /// The version it says.
        version: u32,
    },
    /// A file of it belongs nowhere.
    #[error("it would write {path:?}, which is none of its places")]
    PlaceFile {
        /// The path it names.
        path: String,
    },
    /// Two files of it have one place.
    #[error("it has {path} twice")]
    RepeatFile {
        /// The path.
        path: String,
    },
    /// Its permissions are none.
    #[error("{path} cannot have the mode {mode:?}")]
    ReadMode {
        /// The path.
        path: String,
        /// What it says.
        mode: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    bootkube: Vec<WrittenFile>,
    addons: Vec<WrittenFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    path: String,
    mode: String,
    contents: String,
}

impl DocumentFile {
    /// A file that only root may read.
    pub fn private(folder: Folder, name: impl Into<String>, contents: impl Into<String>) -> Self {
        DocumentFile { folder, name: name.into(), mode: 0o600, contents: Secret::new(contents.into()) }
    }

    /// Its whole path on the machine.
    pub fn path(&self) -> String {
        format!("{}/{}", self.folder.path(), self.name)
    }

    fn parse(written: WrittenFile, folders: &[Folder]) -> Result<Self, DocumentError> {
        let WrittenFile { path, mode, contents } = written;
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let folder = folders.iter().find(|folder| folder.path() == parent && folder.takes(name));
        let Some(folder) = folder.copied() else { return Err(DocumentError::PlaceFile { path: shown(&path) }) };
        let bits = u32::from_str_radix(&mode, 8).ok().filter(|bits| *bits <= 0o777);
        match bits {
            Some(mode) => Ok(DocumentFile { folder, name: name.to_owned(), mode, contents: Secret::new(contents) }),
            None => Err(DocumentError::ReadMode { path, mode: shown(&mode) }),
        }
    }

    fn written(&self) -> WrittenFile {
        let contents = self.contents.expose().clone();
        WrittenFile { path: self.path(), mode: format!("{:04o}", self.mode), contents }
    }
}

/// A text from outside, as much of it as a message needs.
fn shown(text: &str) -> String {
    text.chars().take(200).collect()
}

impl Document {
    /// Takes the text of a document; every name in it is one of a place that the document may have.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > DOCUMENT_LIMIT {
            return Err(DocumentError::HoldDocument);
        }
        let written: Written = serde_json::from_slice(bytes)
            .map_err(|error| DocumentError::ReadDocument { line: error.line(), column: error.column() })?;
        if written.version != VERSION {
            return Err(DocumentError::ReadVersion { version: written.version });
        }
        if written.bootkube.len() + written.addons.len() > MOST_FILES {
            return Err(DocumentError::HoldDocument);
        }
        let part = |files: Vec<WrittenFile>, folders: &[Folder]| {
            files.into_iter().map(|file| DocumentFile::parse(file, folders)).collect::<Result<Vec<_>, _>>()
        };
        let bootkube = part(written.bootkube, &Folder::BOOTKUBE)?;
        let addons = part(written.addons, &Folder::ADDONS)?;
        let mut seen = BTreeSet::new();
        let repeated = bootkube.iter().chain(&addons).find(|file| !seen.insert((file.folder, file.name.as_str())));
        match repeated {
            Some(file) => Err(DocumentError::RepeatFile { path: file.path() }),
            None => Ok(Document { bootkube, addons }),
        }
    }

    /// The text; the same document always has the same.
    pub fn to_text(&self) -> String {
        let part = |files: &[DocumentFile]| files.iter().map(DocumentFile::written).collect();
        let written = Written { version: VERSION, bootkube: part(&self.bootkube), addons: part(&self.addons) };
        serde_json::to_string(&written).expect("texts and numbers have a JSON form") + "\n"
    }

    /// Every file, bootkube's first.
    pub fn files(&self) -> impl Iterator<Item = &DocumentFile> {
        self.bootkube.iter().chain(&self.addons)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document() -> Document {
        Document {
            bootkube: vec![
                DocumentFile::private(Folder::Keys, "sa.key", "key\n"),
                DocumentFile::private(Folder::Kubeconfigs, "admin.kubeconfig", "{}"),
                DocumentFile::private(Folder::Bootstrap, "kube-apiserver.yaml", "a: \"ü\"\n"),
                DocumentFile::private(Folder::ControlPlane, "kube-apiserver.yaml", "b: 1\n"),
            ],
            addons: vec![DocumentFile::private(Folder::Addons, "coredns.yaml", "c: 1\n")],
        }
    }

    fn of(part: &str, path: &str, mode: &str) -> String {
        let file = serde_json::json!([{ "path": path, "mode": mode, "contents": "canary" }]);
        let none = serde_json::json!([]);
        let (bootkube, addons) = if part == "bootkube" { (&file, &none) } else { (&none, &file) };
        serde_json::json!({ "version": 1, "bootkube": bootkube, "addons": addons }).to_string()
    }

    #[test]
    fn a_document_survives_its_text_and_always_has_the_same() {
        let text = document().to_text();
        assert_eq!(Document::parse(text.as_bytes()).unwrap(), document());
        assert_eq!(document().to_text(), text);
        assert!(!format!("{:?}", document()).contains("key\\n"), "contents are never shown");
    }

    #[test]
    fn a_file_that_belongs_nowhere_is_refused() {
        for (part, path) in [
            ("bootkube", "/opt/windlass/bootkube/manifests/../../../../etc/passwd"),
            ("bootkube", "/opt/windlass/bootkube/manifests/.."),
            ("bootkube", "/opt/windlass/bootkube/manifests/"),
            ("bootkube", "/opt/windlass/bootkube/manifests"),
            ("bootkube", "/opt/windlass/bootkube/manifests/a/b.yaml"),
            ("bootkube", "/opt/windlass/bootkube/manifests/.hidden.yaml"),
            ("bootkube", "/opt/windlass/bootkube/manifests/a\0.yaml"),
            ("bootkube", "/opt/windlass/bootkube/manifests/a b.yaml"),
            ("bootkube", "/opt/windlass/bootkube//a.yaml"),
            ("bootkube", "opt/windlass/bootkube/manifests/a.yaml"),
            ("bootkube", "a.yaml"),
            ("bootkube", ""),
            ("bootkube", "/etc/passwd"),
            ("bootkube", "/etc/kubernetes/kubelet.env"),
            ("bootkube", "/etc/kubernetes/manifests/a.yaml"),
            ("bootkube", "/etc/kubernetes/pki/../kubelet.env"),
            ("bootkube", "/opt/windlass/addons/manifests/a.yaml"),
            ("addons", "/opt/windlass/bootkube/manifests/a.yaml"),
            ("addons", "/etc/kubernetes/pki/ca.key"),
        ] {
            let error = Document::parse(of(part, path, "0600").as_bytes()).unwrap_err();
            assert!(matches!(error, DocumentError::PlaceFile { .. }), "{part} {path}: {error}");
            assert!(!error.to_string().contains("canary"));
        }
    }

    #[test]
    fn what_is_no_document_is_refused_without_being_quoted() {
        let twice = {
            let mut document = document();
            document.bootkube.push(document.bootkube[0].clone());
            document.to_text()
        };
        let good = of("addons", "/opt/windlass/addons/manifests/a.yaml", "0600");
        let cases = [
            (twice, DocumentError::RepeatFile { path: "/etc/kubernetes/pki/sa.key".to_owned() }),
            ("canary".to_owned(), DocumentError::ReadDocument { line: 1, column: 1 }),
            (good[..good.len() - 1].to_owned(), DocumentError::ReadDocument { line: 1, column: good.len() - 1 }),
            (good.replace("\"version\":1", "\"version\":2"), DocumentError::ReadVersion { version: 2 }),
            (" ".repeat(DOCUMENT_LIMIT + 1), DocumentError::HoldDocument),
        ];
        for (text, want) in cases {
            assert_eq!(Document::parse(text.as_bytes()).unwrap_err(), want);
        }
        assert!(Document::parse(good.replace("\"mode\"", "\"owner\"").as_bytes()).is_err());
        for mode in ["", "rw", "7777", "1777", "-1", "0o600"] {
            let text = of("addons", "/opt/windlass/addons/manifests/a.yaml", mode);
            assert!(matches!(Document::parse(text.as_bytes()), Err(DocumentError::ReadMode { .. })), "{mode}");
        }
    }

    #[test]
    fn too_many_files_are_refused() {
        let file = |n: usize| DocumentFile::private(Folder::Addons, format!("{n}.yaml"), "");
        let many = Document { bootkube: Vec::new(), addons: (0..=MOST_FILES).map(file).collect() };
        assert_eq!(Document::parse(many.to_text().as_bytes()).unwrap_err(), DocumentError::HoldDocument);
    }

    proptest! {
        #[test]
        fn no_path_leads_out_of_the_places(path in "(/opt/windlass/bootkube/manifests/|/etc/kubernetes/)?[a-z./\\\\]{0,12}") {
            if let Ok(document) = Document::parse(of("bootkube", &path, "0600").as_bytes()) {
                let file = &document.bootkube[0];
                prop_assert_eq!(file.path(), path);
                prop_assert!(!file.name.contains('/') && !file.name.starts_with('.'));
            }
        }
    }
}
