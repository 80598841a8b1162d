//! The Go modules that build the pinned components: embedded in the binary, or read from a directory by a test.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windlass_steps::host::{self, HostError, Mode};

use crate::digest::{Algorithm, Digest, Hasher};

const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));
const FILE_LIMIT: u64 = 4 << 20;

/// Go modules by the name of their folder.
#[derive(Debug, Clone)]
pub struct Modules {
    files: BTreeMap<String, Cow<'static, [u8]>>,
}

/// Why a module cannot be read or written out.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// No module has this name.
    #[error("there is no Go module {directory} among the embedded ones")]
    FindModule {
        /// The folder that was asked for.
        directory: String,
    },
    /// A directory of modules could not be listed.
    #[error("cannot list the Go modules in {}", .path.display())]
    ListModules {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of a module could not be read or written.
    #[error("cannot copy the Go module file {}", .path.display())]
    CopyModule {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        source: HostError,
    },
}

impl Modules {
    /// The modules that this binary was made with.
    pub fn embedded() -> Self {
        let files = EMBEDDED.iter().map(|(name, bytes)| ((*name).to_owned(), Cow::Borrowed(*bytes)));
        Modules { files: files.collect() }
    }

    /// The modules in the folders of a directory, for stand-in pins.
    pub fn from_dir(root: &Path) -> Result<Self, ModulesError> {
        let mut files = BTreeMap::new();
        read_dir(root, "", &mut files)?;
        Ok(Modules { files })
    }

    /// Whether there is a module in this folder.
    pub fn contains(&self, directory: &str) -> bool {
        self.files.contains_key(&format!("{directory}/go.mod"))
    }

    /// One file of a module, such as `etcd/go.sum`.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(AsRef::as_ref)
    }

    /// Writes a module below `dest`, with the sibling modules that its `replace` lines name, and says where it is.
    pub fn write(&self, directory: &str, dest: &Path) -> Result<PathBuf, ModulesError> {
        for (name, bytes) in self.closure(directory)? {
            let path = dest.join(name);
            let trouble = |source| ModulesError::CopyModule { path: path.clone(), source };
            host::make_dir(path.parent().unwrap_or(dest), Mode::PRIVATE_DIR).map_err(trouble)?;
            host::write_file(&path, bytes, Mode::PUBLIC).map_err(trouble)?;
        }
        Ok(dest.join(directory))
    }

    /// The digest of everything that [`Modules::write`] would write, names included.
    pub fn digest(&self, directory: &str) -> Result<Digest, ModulesError> {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        for (name, bytes) in self.closure(directory)? {
            for part in [name.as_bytes(), bytes] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        Ok(hasher.finish())
    }

    /// The files of a module and of the siblings that it is built with.
    fn closure(&self, directory: &str) -> Result<Vec<(&str, &[u8])>, ModulesError> {
        let mut wanted = vec![directory.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(name) = wanted.pop() {
            if !self.contains(&name) {
                return Err(ModulesError::FindModule { directory: name });
            }
            let go_mod = self.file(&format!("{name}/go.mod")).unwrap_or_default();
            wanted.extend(siblings(&String::from_utf8_lossy(go_mod)).into_iter().filter(|s| !seen.contains(s)));
            seen.insert(name);
        }
        let belongs = |name: &str| name.split_once('/').is_some_and(|(folder, _)| seen.contains(folder));
        let files = self.files.iter().filter(|(name, _)| belongs(name));
        Ok(files.map(|(name, bytes)| (name.as_str(), bytes.as_ref())).collect())
    }
}

/// The folders that `replace … => ../folder` lines name.
fn siblings(go_mod: &str) -> Vec<String> {
    let target = |line: &str| line.split_once("=> ../").map(|(_, folder)| folder.trim().to_owned());
    go_mod.lines().filter(|line| !line.trim_start().starts_with("//")).filter_map(target).collect()
}

fn read_dir(dir: &Path, prefix: &str, files: &mut BTreeMap<String, Cow<'static, [u8]>>) -> Result<(), ModulesError> {
    let trouble = |source| ModulesError::ListModules { path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(trouble)? {
        let entry = entry.map_err(trouble)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        if path.is_dir() {
            read_dir(&path, &format!("{name}/"), files)?;
        } else if !prefix.is_empty() {
            let bytes = host::read_file(&path, FILE_LIMIT);
            let bytes = bytes.map_err(|source| ModulesError::CopyModule { path: path.clone(), source })?;
            files.insert(name, Cow::Owned(bytes));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_written_with_the_siblings_that_it_names() {
        let root = tempfile::tempdir().unwrap();
        let go_mod = "module a\nreplace (\n\tb => ../b\n)\n// replace c => ../c\n";
        for (name, text) in [("a/go.mod", go_mod), ("a/cmd/main.go", "x"), ("b/go.mod", "module b"), ("c/go.mod", "")] {
            host::make_dir(root.path().join(name).parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
            host::write_file(root.path().join(name), text, Mode::PUBLIC).unwrap();
        }
        let modules = Modules::from_dir(root.path()).unwrap();
        let out = tempfile::tempdir().unwrap();
        assert_eq!(modules.write("a", out.path()).unwrap(), out.path().join("a"));
        assert_eq!(fs::read_to_string(out.path().join("a/cmd/main.go")).unwrap(), "x");
        assert!(out.path().join("b/go.mod").exists() && !out.path().join("c").exists());
        let error = modules.write("d", out.path()).unwrap_err();
        assert!(error.to_string().contains("no Go module d"), "{error}");
        let before = modules.digest("a").unwrap();
        host::write_file(root.path().join("b/go.mod"), "module changed", Mode::PUBLIC).unwrap();
        assert_ne!(Modules::from_dir(root.path()).unwrap().digest("a").unwrap(), before);
    }
}
