//! What an asset is: something made by a function, written as files, and read back the same.

use std::fmt;
use std::path::PathBuf;

use windlass_steps::host::HostError;

use crate::directory::AssetDir;

/// Something that `prepare` makes and launch uses.
pub trait Asset: Sized {
    /// What it is called in messages.
    const NAME: &'static str;

    /// Its files, in a fixed order.
    fn files(&self) -> Vec<AssetFile>;

    /// The asset as its files say it, edits included: `read(write(a)) == a`.
    fn read(dir: &AssetDir) -> Result<Self, AssetError>;
}

/// A file of an asset. Every one is written with mode 0600, since any may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct AssetFile {
    /// Where it lies below the cluster directory, with `/` between its parts.
    pub path: String,
    /// What is in it.
    pub contents: Vec<u8>,
}

impl AssetFile {
    /// A file from its path and contents.
    pub fn new(path: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        AssetFile { path: path.into(), contents: contents.into() }
    }
}

impl fmt::Debug for AssetFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AssetFile({}, {} bytes)", self.path, self.contents.len())
    }
}

/// Why assets could not be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// A file that was there is gone.
    #[error("{path} is missing")]
    FindFile {
        /// The file.
        path: String,
    },
    /// A file does not hold what its name promises.
    #[error("{path} cannot be read as {asset}: {reason}")]
    ReadAsset {
        /// The file.
        path: String,
        /// The asset it belongs to.
        asset: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A link or directory stands where a file belongs.
    #[error("{path} is not a plain file")]
    OpenFile {
        /// The file.
        path: String,
    },
    /// Files that a user wrote would have to change.
    #[error("{}", overwrite_message(.paths))]
    Overwrite {
        /// The files.
        paths: Vec<String>,
    },
    /// The manifests could not be rendered.
    #[error("the manifests cannot be rendered")]
    RenderManifests {
        /// The cause.
        source: crate::manifest::ManifestError,
    },
    /// The keys and certificates could not be made or read.
    #[error("the keys and certificates cannot be made")]
    MakePki {
        /// The cause.
        source: windlass_pki::PkiError,
    },
    /// The keys of the bucket of runtime addons could not be drawn.
    #[error("the keys of the bucket of runtime addons cannot be made")]
    MakeAddonKeys {
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The cluster directory could not be used.
    #[error("{} cannot be used as a cluster directory", .directory.display())]
    UseDirectory {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: HostError,
    },
    /// Another windlass is at work in the directory.
    #[error("another windlass is at work in {}", .directory.display())]
    LockDirectory {
        /// The directory.
        directory: PathBuf,
    },
}

fn overwrite_message(paths: &[String]) -> String {
    let list = paths.join(", ");
    format!("the spec now asks for other contents of what you edited: {list}")
}
