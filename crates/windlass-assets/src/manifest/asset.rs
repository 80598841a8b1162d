//! The manifests as files of the cluster directory.

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

use super::{ManifestError, Manifests};

const FOLDER: &str = "assets/manifests/";

impl Asset for Manifests {
    const NAME: &'static str = "manifests";

    fn files(&self) -> Vec<AssetFile> {
        Manifests::files(self).map(|(path, text)| AssetFile::new(format!("{FOLDER}{path}"), text)).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let read = |path: String| {
            let text = dir.require_text(&path, Self::NAME)?;
            Ok((path[FOLDER.len()..].to_owned(), text))
        };
        let files: Vec<_> = dir.known(FOLDER).into_iter().map(read).collect::<Result<_, AssetError>>()?;
        Manifests::from_files(files).map_err(unreadable)
    }
}

/// What is wrong with an edited manifest, in the terms of the directory it lies in.
fn unreadable(error: ManifestError) -> AssetError {
    let asset = Manifests::NAME;
    let refuse = |path: &str, reason| AssetError::ReadAsset { path: format!("{FOLDER}{path}"), asset, reason };
    match &error {
        ManifestError::RenderTemplate { .. } => AssetError::RenderManifests { source: error },
        ManifestError::NamePath { path } => refuse(path, "no manifest has such a name".to_owned()),
        ManifestError::ReadYaml { path, source } => {
            refuse(path, source.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        ManifestError::ReadObject { path, line, missing } => refuse(path, format!("line {line}: {missing} is missing")),
    }
}
