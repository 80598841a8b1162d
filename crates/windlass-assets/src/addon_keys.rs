//! The keys that sign the cluster's own bucket of runtime addons, under `assets/addons`. To this crate they are texts:
//! whoever makes them knows what they say. The public halves go to every machine, the private ones to none.

use windlass_spec::Secret;

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

/// One pair of keys for each form of signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddonKeys {
    /// The OpenPGP pair, in armour.
    pub openpgp: KeyTexts,
    /// The minisign pair.
    pub minisign: KeyTexts,
}

/// Both halves of a key as files have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTexts {
    /// What signs. It stays in the cluster directory.
    pub private: Secret<String>,
    /// What machines trust.
    pub public: String,
}

/// Where they lie in the cluster directory, and the endings of each pair.
const FOLDER: &str = "assets/addons";
const OPENPGP: &str = "asc";
const MINISIGN: &str = "minisign";

impl KeyTexts {
    fn files(&self, ending: &str) -> [AssetFile; 2] {
        let private = AssetFile::new(private_path(ending), self.private.expose().as_bytes());
        [private, AssetFile::new(public_path(ending), self.public.as_bytes())]
    }

    fn read(dir: &AssetDir, ending: &str) -> Result<Self, AssetError> {
        let private = dir.require_text(&private_path(ending), AddonKeys::NAME)?;
        let public = dir.require_text(&public_path(ending), AddonKeys::NAME)?;
        Ok(KeyTexts { private: Secret::new(private), public })
    }
}

impl AddonKeys {
    /// The file of the private OpenPGP key.
    pub fn openpgp_private() -> String {
        private_path(OPENPGP)
    }

    /// The file of the OpenPGP keys that machines trust.
    pub fn openpgp_public() -> String {
        public_path(OPENPGP)
    }

    /// The file of the private minisign key.
    pub fn minisign_private() -> String {
        private_path(MINISIGN)
    }

    /// The file of the minisign key that machines trust.
    pub fn minisign_public() -> String {
        public_path(MINISIGN)
    }
}

impl Asset for AddonKeys {
    const NAME: &'static str = "keys of the bucket of runtime addons";

    fn files(&self) -> Vec<AssetFile> {
        [self.openpgp.files(OPENPGP), self.minisign.files(MINISIGN)].concat()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        Ok(AddonKeys { openpgp: KeyTexts::read(dir, OPENPGP)?, minisign: KeyTexts::read(dir, MINISIGN)? })
    }
}

fn private_path(ending: &str) -> String {
    format!("{FOLDER}/signing-key.{ending}")
}

fn public_path(ending: &str) -> String {
    format!("{FOLDER}/public-key.{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> AddonKeys {
        let texts = |name: &str| KeyTexts {
            private: Secret::new(format!("canary of {name}\n")),
            public: format!("public half of {name}\n"),
        };
        AddonKeys { openpgp: texts("openpgp"), minisign: texts("minisign") }
    }

    #[test]
    fn the_keys_read_back_as_they_were_written_and_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let mut draft = AssetDir::open(dir.path()).unwrap().draft();
        draft.settle(keys()).unwrap();
        draft.commit().unwrap();
        assert_eq!(AddonKeys::read(&AssetDir::open(dir.path()).unwrap()).unwrap(), keys());
        assert!(!format!("{:?}", keys()).contains("canary"));
    }

    #[test]
    fn a_missing_key_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut draft = AssetDir::open(dir.path()).unwrap().draft();
        draft.settle(keys()).unwrap();
        draft.commit().unwrap();
        for file in keys().files() {
            let path = dir.path().join(&file.path);
            std::fs::remove_file(&path).unwrap();
            let error = AddonKeys::read(&AssetDir::open(dir.path()).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), format!("{} is missing", file.path));
            windlass_steps::host::write_file(&path, file.contents, windlass_steps::host::Mode::PRIVATE_FILE).unwrap();
        }
    }
}
