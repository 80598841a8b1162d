//! The complete spec as an asset: `complete.yaml`. It is itself a valid spec, so an edited one is used.

use windlass_spec::CompleteSpec;
use windlass_spec::file::read_and_complete;

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

const PATH: &str = "complete.yaml";

impl Asset for CompleteSpec {
    const NAME: &'static str = "the complete spec";

    fn files(&self) -> Vec<AssetFile> {
        vec![AssetFile::new(PATH, self.to_yaml())]
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let read = read_and_complete(&dir.require(PATH)?);
        read.map(|(_, spec)| spec).map_err(|problems| AssetError::ReadAsset {
            path: PATH.to_owned(),
            asset: Self::NAME,
            reason: problems.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        })
    }
}
