//! Golden cases: a spec, and what is made of it. `cargo xtask golden --accept` rewrites the expectations;
//! the diff is reviewed like any other.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use time::macros::datetime;
use windlass_assets::AssetDir;
use windlass_install::plan::Plan;
use windlass_install::prepare::prepare;
use windlass_pki::SeededKeys;
use windlass_steps::host::{Mode, make_dir, write_file};

/// What is compared to the byte. Keys and what holds them are in the plan by their digests.
const COMPARED: &[&str] = &["complete.yaml", "metadata.json", "assets/manifests", "assets/config"];

fn files_below(root: &Path, at: &Path, found: &mut BTreeMap<String, String>) {
    let path = root.join(at);
    if path.is_file() {
        let text = fs::read_to_string(&path).unwrap();
        found.insert(at.display().to_string(), text);
    } else if path.is_dir() {
        for entry in fs::read_dir(&path).unwrap() {
            files_below(root, &at.join(entry.unwrap().file_name()), found);
        }
    }
}

fn made(spec: &Path) -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read(spec).unwrap();
    let now = datetime!(2026-01-15 12:00 UTC);
    prepare(dir.path().join("c"), &text, &mut SeededKeys::new("golden"), now).unwrap();
    let mut found = BTreeMap::new();
    for part in COMPARED {
        files_below(&dir.path().join("c"), Path::new(part), &mut found);
    }
    let plan = Plan::of(&AssetDir::open(dir.path().join("c")).unwrap()).unwrap();
    found.insert("plan.txt".into(), plan.to_string());
    found
}

fn accept(expected: &Path, made: &BTreeMap<String, String>) {
    if expected.exists() {
        fs::remove_dir_all(expected).unwrap();
    }
    for (path, text) in made {
        let path = expected.join(path);
        make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(&path, text, Mode::PUBLIC).unwrap();
    }
}

#[test]
fn every_golden_case_comes_out_as_expected() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let cases: Vec<PathBuf> = fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(cases.len() >= 3);
    for case in cases {
        let made = made(&case.join("spec.yaml"));
        let expected = case.join("expected");
        if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|v| v == "accept") {
            accept(&expected, &made);
        }
        let mut wanted = BTreeMap::new();
        files_below(&expected, Path::new(""), &mut wanted);
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&made), names(&wanted), "{}: run cargo xtask golden --accept", case.display());
        for (path, text) in &made {
            assert_eq!(text, &wanted[path], "{}/{path}: run cargo xtask golden --accept", case.display());
        }
    }
}
