//! The machine base: a small Debian that boots under systemd-nspawn, made once by debootstrap and shared, read-only, by
//! every machine of the local cloud. In order:
//!
//! 1. [`make_root`]: a trimmed root without an identity (no machine id, host keys, name or resolver);
//! 2. images are made from it (`image::make_archive`), because some need its network tools;
//! 3. [`make_base`]: the root as one of two OS versions, with the image archives in it;
//! 4. [`make_preload`]: the images imported once into a containerd root, for machines to hard-link;
//! 5. [`pack_tree`] and [`unpack_tree`]: a tree as one file for the cache, and back.
//!
//! containerd, runc and the kubelet are not in the base: they come as extensions that match the cluster's version.
//! All of it needs root. Trees are made in a directory that the caller owns and throws away, so that nothing half-made
//! is ever found under a final name.

mod apt;
mod bootstrap;
mod error;
mod preload;
mod settle;
#[cfg(test)]
mod tests;
mod tree;

pub use apt::{Mirror, parse_sources};
pub use bootstrap::{PACKAGES, RootInputs, make_root};
pub use error::BaseError;
pub use preload::{Layers, PreloadInputs, make_preload};
pub use settle::{BaseInputs, OsVersion, make_base};
pub use tree::{pack_tree, unpack_tree};

use std::fmt;

/// Where archives lie in a base, for a machine whose runtime was cleaned.
pub const IMAGES: &str = "usr/share/windlass/images";

/// What is being done, told when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// debootstrap downloads and unpacks packages.
    Debootstrap,
    /// debootstrap is at one of its packages, in its own words.
    Package(String),
    /// What machines do not need goes.
    Trim,
    /// The root gets its configuration.
    Configure,
    /// An OS version is derived from the root.
    Derive,
    /// containerd imports this image archive, counted from 1.
    Import {
        /// Which one.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// A tree becomes a file.
    Pack,
    /// A file becomes a tree.
    Unpack,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Debootstrap => f.write_str("installing Debian packages"),
            Stage::Package(words) => f.write_str(words),
            Stage::Trim => f.write_str("removing what machines do not need"),
            Stage::Configure => f.write_str("configuring the root"),
            Stage::Derive => f.write_str("deriving an OS version"),
            Stage::Import { number, of } => write!(f, "importing image archive {number} of {of}"),
            Stage::Pack => f.write_str("packing"),
            Stage::Unpack => f.write_str("unpacking"),
        }
    }
}

/// Whoever wants to know how far it is.
pub type Observer<'a> = &'a (dyn Fn(Stage) + Send + Sync);

/// Everything here keeps owners and makes mounts.
fn need_root() -> Result<(), BaseError> {
    if nix::unistd::Uid::effective().is_root() { Ok(()) } else { Err(BaseError::BeRoot) }
}
