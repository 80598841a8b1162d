//! Embeds the Go modules of `artifacts/`, so that the binary builds everything without the source tree.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What a Go module of ours consists of; anything else in its folder is not for the build.
const SOURCES: [&str; 6] = ["go", "mod", "sum", "c", "h", "s"];

fn main() -> io::Result<()> {
    // Asked when it runs, not when it is compiled: a target directory may be shared by clones that come and go.
    let root = path_of("CARGO_MANIFEST_DIR")?.join("../../artifacts").canonicalize()?;
    writeln!(io::stdout(), "cargo::rerun-if-changed={}", root.display())?;
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        writeln!(table, "    ({name:?}, include_bytes!({file:?})),").map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    replace(&path_of("OUT_DIR")?.join("modules.rs"), &table)
}

fn path_of(name: &str) -> io::Result<PathBuf> {
    let set = env::var_os(name).ok_or_else(|| io::Error::other(format!("cargo sets {name}")))?;
    Ok(PathBuf::from(set))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_source = path.extension().is_some_and(|e| SOURCES.iter().any(|s| e == *s));
        let is_test = path.to_string_lossy().ends_with("_test.go");
        match path.is_dir() {
            true => collect(&path, files)?,
            false if is_source && !is_test => files.push(path),
            false => {}
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a build script writes where cargo says, and nobody reads it meanwhile")]
fn replace(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}
