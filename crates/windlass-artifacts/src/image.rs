//! Our images: one table of what goes where, made into archives from binaries and the machine's root. Their names are
//! upstream's, so that manifests are the same whether an image was made here or pulled.
//!
//! Each image is scratch plus a program. Most programs are static; one that is not gets its libraries from the root.
//! kube-proxy and flannel run `nft`, `iptables` and `ip`, which come from the root as well, with everything they load.

mod elf;
mod error;
mod layers;
mod root;
mod table;
#[cfg(test)]
mod tests;
mod tools;

pub use error::ImageError;
pub use table::{ImageRow, ImageSet, TABLE};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_spec::KubeVersion;

use crate::oci::{Image, ImageSummary, Run, write_archive};

/// Where every program is looked for that a manifest names without a path.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What images are made from.
#[derive(Debug, Clone)]
pub struct ImageInputs<'a> {
    /// The Kubernetes version, which decides all other versions.
    pub kubernetes: KubeVersion,
    /// The file of each program by its name; several names may share one file, as a multi-call binary does.
    pub binaries: &'a BTreeMap<String, PathBuf>,
    /// The root of a machine, as `base::make_root` leaves it.
    pub root: &'a Path,
}

/// Makes the archive of a set. The same input gives the same digests, wherever the files lie.
pub fn make_archive(set: ImageSet, inputs: &ImageInputs<'_>, out: &Path) -> Result<Vec<ImageSummary>, ImageError> {
    let layers = layers::make(set, inputs)?;
    let images: Vec<Image<'_>> = set
        .rows()
        .map(|row| Image {
            names: vec![row.name(inputs.kubernetes)],
            layers: layers.of(row),
            run: Run {
                entrypoint: vec![row.entrypoint.to_owned()],
                env: vec![PATH.to_owned()],
                user: row.user.map(str::to_owned),
            },
        })
        .collect();
    write_archive(&images, out).map_err(|source| ImageError::WriteImages { set, source })
}
