//! The keys and certificates as an asset, under `assets/pki`.

use windlass_pki::Pki;

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

impl Asset for Pki {
    const NAME: &'static str = "keys and certificates";

    fn files(&self) -> Vec<AssetFile> {
        let file = |f: windlass_pki::PkiFile| AssetFile::new(format!("assets/{}", f.path), f.contents.expose());
        Pki::files(self).into_iter().map(file).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        // A file that cannot be read is reported as missing by the reader, which names it.
        Pki::read(|path| dir.get(&format!("assets/{path}")).ok().flatten())
            .map_err(|source| AssetError::MakePki { source })
    }
}
