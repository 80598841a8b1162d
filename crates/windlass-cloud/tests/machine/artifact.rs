//! What `windlass artifacts fetch` got, as its own list tells.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use windlass_steps::host::{cmd, run_blocking};

/// A file of the cache.
pub struct Artifact {
    /// `sha256:…`.
    pub digest: String,
    pub path: PathBuf,
}

impl Artifact {
    pub fn found(name: &str) -> Self {
        static LIST: OnceLock<Value> = OnceLock::new();
        let list = LIST.get_or_init(|| {
            let list = run_blocking(cmd(windlass()).args(["artifacts", "list", "-o", "json"])).unwrap();
            serde_json::from_slice(&list.stdout).unwrap()
        });
        let found = list.as_array().unwrap().iter().find(|one| one["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no {name}: run `windlass artifacts fetch` first"));
        let word = |field: &str| found[field].as_str().unwrap().to_owned();
        Self { digest: word("digest"), path: PathBuf::from(word("path")) }
    }
}

/// Given, or beside our own program, or installed.
fn windlass() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_windlass-cloud")).with_file_name("windlass");
    let given = std::env::var_os("WINDLASS_PROGRAM").map(PathBuf::from);
    given.or_else(|| beside.exists().then_some(beside)).unwrap_or_else(|| PathBuf::from("windlass"))
}
