//! Programs from the machine's root with everything they load: the libraries they name, those that these name in turn,
//! the loader, and the plugins that are opened at run time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::ImageError;
use super::elf::{Needs, needs};
use super::root::{Found, follow, on_host};
use crate::oci::Layer;

/// What kube-proxy and flannel run. Names of iptables that lead to both of its kinds are Debian's alternatives.
const TOOLS: &[&str] = &[
    "/usr/sbin/nft",
    "/usr/sbin/conntrack",
    "/usr/sbin/ipset",
    "/usr/sbin/ip",
    "/usr/sbin/iptables",
    "/usr/sbin/iptables-save",
    "/usr/sbin/iptables-restore",
    "/usr/sbin/iptables-nft",
    "/usr/sbin/iptables-nft-save",
    "/usr/sbin/iptables-nft-restore",
    "/usr/sbin/iptables-legacy",
    "/usr/sbin/iptables-legacy-save",
    "/usr/sbin/iptables-legacy-restore",
    "/usr/sbin/ip6tables",
    "/usr/sbin/ip6tables-save",
    "/usr/sbin/ip6tables-restore",
    "/usr/sbin/ip6tables-nft",
    "/usr/sbin/ip6tables-nft-save",
    "/usr/sbin/ip6tables-nft-restore",
    "/usr/sbin/ip6tables-legacy",
    "/usr/sbin/ip6tables-legacy-save",
    "/usr/sbin/ip6tables-legacy-restore",
];

/// A layer of things from the root, and what was already put into it.
pub(super) struct FromRoot<'a> {
    root: &'a Path,
    libraries: Vec<String>,
    layer: Layer,
    done: BTreeSet<String>,
}

impl<'a> FromRoot<'a> {
    pub(super) fn new(root: &'a Path) -> Result<Self, ImageError> {
        let own = triplets(root)?.into_iter().map(|triplet| format!("/usr/lib/{triplet}"));
        let libraries = own.chain(["/usr/lib64", "/usr/lib", "/lib64", "/lib"].map(str::to_owned)).collect();
        Ok(Self { root, libraries, layer: Layer::new(), done: BTreeSet::new() })
    }

    /// The network tools and the plugins of iptables.
    pub(super) fn network_tools(mut self) -> Result<Layer, ImageError> {
        for tool in TOOLS {
            self.add(tool)?;
        }
        for triplet in triplets(self.root)? {
            self.plugins(&format!("/usr/lib/{triplet}/xtables"))?;
        }
        Ok(self.layer)
    }

    /// The libraries of a program that lies elsewhere.
    pub(super) fn libraries_of(mut self, program: &Path, needs: &Needs) -> Result<Layer, ImageError> {
        self.add_needs(program, needs, None)?;
        Ok(self.layer)
    }

    fn plugins(&mut self, directory: &str) -> Result<(), ImageError> {
        let trouble = |source| missing(self.root, directory, source);
        let listed = match fs::read_dir(self.root.join(directory.trim_start_matches('/'))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(trouble)?,
        };
        let mut names = Vec::new();
        for entry in listed {
            names.push(entry.map_err(trouble)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        names.into_iter().try_for_each(|name| self.add(&format!("{directory}/{name}")))
    }

    fn add(&mut self, path: &str) -> Result<(), ImageError> {
        let found = follow(self.root, path).map_err(|source| missing(self.root, path, source))?;
        self.put(found)
    }

    fn put(&mut self, found: Found) -> Result<(), ImageError> {
        for (link, target) in &found.links {
            self.layer.link(link, target);
        }
        if !self.done.insert(found.path.clone()) {
            return Ok(());
        }
        let file = on_host(self.root, &found);
        self.layer.file(&found.path, &file, 0o755);
        let origin = found.path.rsplit_once('/').map(|(directory, _)| format!("/{directory}"));
        self.add_needs(&file, &read(&file)?, origin.as_deref())
    }

    fn add_needs(&mut self, program: &Path, needs: &Needs, origin: Option<&str>) -> Result<(), ImageError> {
        if let Some(interpreter) = &needs.interpreter {
            self.add(interpreter)?;
        }
        needs.libraries.iter().try_for_each(|library| {
            let found = self.find(library, &needs.search, origin).ok_or_else(|| ImageError::FindLibrary {
                library: library.clone(),
                program: program.to_owned(),
                root: self.root.to_owned(),
            })?;
            self.put(found)
        })
    }

    fn find(&self, library: &str, search: &[String], origin: Option<&str>) -> Option<Found> {
        let own = search.iter().map(|directory| directory.replace("$ORIGIN", origin.unwrap_or_default()));
        let mut directories = own.chain(self.libraries.iter().cloned());
        directories.find_map(|directory| follow(self.root, &format!("{directory}/{library}")).ok())
    }
}

pub(super) fn read(program: &Path) -> Result<Needs, ImageError> {
    needs(program).map_err(|source| ImageError::ReadProgram { path: program.to_owned(), source })
}

/// Debian keeps the libraries of each architecture in a directory of its own, such as `x86_64-linux-gnu`.
fn triplets(root: &Path) -> Result<Vec<String>, ImageError> {
    let directory = root.join("usr/lib");
    let trouble = |source| missing(root, "/usr/lib", source);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(trouble)? {
        let name = entry.map_err(trouble)?.file_name().to_string_lossy().into_owned();
        if name.ends_with("-linux-gnu") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

pub(super) fn missing(root: &Path, path: &str, source: std::io::Error) -> ImageError {
    ImageError::FindInRoot { path: path.to_owned(), root: PathBuf::from(root), source }
}
