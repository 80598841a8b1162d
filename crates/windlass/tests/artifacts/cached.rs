//! The full cache, read, and caches of a test's own beside it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tempfile::TempDir;
use windlass_artifacts::pins::{Pins, Release, Set};
use windlass_spec::KubeVersion;
use windlass_steps::host::{CommandSpec, Mode, Output, cmd, make_dir, run_blocking};

pub const VERSION: KubeVersion = KubeVersion::DEFAULT;

/// One line of `artifacts list -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub name: String,
    pub version: String,
    pub kind: String,
    pub digest: String,
    pub size: u64,
    pub path: PathBuf,
    pub source: String,
}

impl Artifact {
    /// The name of its record below `entries/`.
    pub fn record(&self) -> String {
        format!("{}/{}@{}.json", self.kind, self.name, self.version)
    }
}

/// The cache that `cargo xtask test` filled.
pub fn full() -> PathBuf {
    std::env::var_os("WINDLASS_TEST_CACHE").map_or_else(|| PathBuf::from("/var/cache/windlass"), PathBuf::from)
}

/// `windlass artifacts …`; the codes that the tests ask about are no errors.
pub fn artifacts(program: &Path, cache: &Path, arguments: &[&str]) -> CommandSpec {
    let command = cmd(program).arg("--cache").arg(cache).arg("artifacts").args(arguments);
    [1, 2, 9].into_iter().fold(command, CommandSpec::accept)
}

/// Runs it on a cache that it only reads.
pub fn list(cache: &Path) -> Vec<Artifact> {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let listed = run_blocking(artifacts(program, cache, &["list", "-o", "json"])).unwrap();
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    serde_json::from_slice(&listed.stdout).unwrap()
}

/// The version that the full cache is full for: the default, or what a word to the test program says, such as
/// `kubernetes=1.35.4`.
pub fn asked() -> KubeVersion {
    let words: Vec<String> = std::env::args().collect();
    let word = words.iter().find_map(|word| word.strip_prefix("kubernetes="));
    word.map_or(VERSION, |version| KubeVersion::parse(version).unwrap())
}

/// What is pinned for the version that the tests are about.
pub fn pinned(pins: &Pins) -> Vec<&Release> {
    pins.for_kubernetes(VERSION, Set::Local)
}

/// Every program of the full cache by each of its names, in one directory.
pub struct Programs {
    dir: TempDir,
    pub names: BTreeMap<String, String>,
}

impl Programs {
    /// Links to the cache's files; a multi-call binary knows by the link what it is.
    pub fn linked() -> Self {
        Programs::of(VERSION)
    }

    /// The programs of a Kubernetes version.
    pub fn of(version: KubeVersion) -> Self {
        let (dir, listed) = (tempfile::tempdir().unwrap(), list(&full()));
        let mut names = BTreeMap::new();
        for release in Pins::embedded().unwrap().for_kubernetes(version, Set::Local) {
            for binary in &release.binaries {
                let file = binary_file(&listed, &binary.name, &release.version);
                for name in binary.links.iter().chain([&binary.name]) {
                    symlink(&file, dir.path().join(name)).unwrap();
                    names.insert(name.clone(), release.version.clone());
                }
            }
        }
        let own = ("windlass-node".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        symlink(binary_file(&listed, &own.0, &own.1), dir.path().join(&own.0)).unwrap();
        names.insert(own.0, own.1);
        Programs { dir, names }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn binary_file(listed: &[Artifact], name: &str, version: &str) -> PathBuf {
    let found = listed.iter().find(|a| a.kind == "binary" && a.name == name && a.version == version);
    found.unwrap_or_else(|| panic!("{name} {version} is not in the cache: windlass artifacts fetch")).path.clone()
}

/// A cache of the test's own, and a windlass that believes to have come with the windlass-node that is in the cache.
pub struct Place {
    dir: TempDir,
    pub program: PathBuf,
}

/// What a cache begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing at all.
    Empty,
    /// All records of the full cache, and its files: what is made again comes out the same, and adds nothing to them.
    Shared,
}

impl Place {
    pub fn new(content: Content) -> Self {
        // Beside the usual place of caches, because files are renamed between the two.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let programs = dir.path().join("bin");
        make_dir(&programs, Mode::PUBLIC_DIR).unwrap();
        let program = programs.join("windlass");
        fs::copy(env!("CARGO_BIN_EXE_windlass"), &program).unwrap();
        let node = binary_file(&list(&full()), "windlass-node", env!("CARGO_PKG_VERSION"));
        fs::copy(node, programs.join("windlass-node")).unwrap();
        let place = Place { dir, program };
        make_dir(place.cache(), Mode::PUBLIC_DIR).unwrap();
        if content == Content::Shared {
            list(&full()).iter().for_each(|artifact| place.copy_record(artifact));
            symlink(full().join("blobs"), place.cache().join("blobs")).unwrap();
        }
        place
    }

    pub fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// A file beside the cache.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Takes an artifact of the full cache in, with a copy of its file.
    pub fn copy(&self, artifact: &Artifact) {
        self.copy_record(artifact);
        let file = self.cache().join("blobs/sha256").join(artifact.path.file_name().unwrap());
        make_dir(file.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        fs::copy(&artifact.path, file).unwrap();
    }

    fn copy_record(&self, artifact: &Artifact) {
        let (from, to) = (full().join("entries"), self.cache().join("entries"));
        make_dir(to.join(&artifact.kind), Mode::PUBLIC_DIR).unwrap();
        fs::copy(from.join(artifact.record()), to.join(artifact.record())).unwrap();
    }

    /// A command line for somebody else to run.
    pub fn words(&self, arguments: &[&str]) -> Vec<String> {
        let (program, cache) = (self.program.display().to_string(), self.cache().display().to_string());
        let mut words = vec![program, "--cache".to_owned(), cache, "artifacts".to_owned()];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        words
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        run_blocking(artifacts(&self.program, &self.cache(), arguments)).unwrap()
    }

    /// Runs it and wants it to succeed.
    pub fn done(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        output
    }
}

/// Kind, name, version and digest of everything, in order.
pub fn digests(listed: &[Artifact]) -> Vec<[&str; 4]> {
    let mut lines: Vec<_> = listed.iter().map(line).collect();
    lines.sort_unstable();
    lines
}

fn line(Artifact { kind, name, version, digest, .. }: &Artifact) -> [&str; 4] {
    [kind, name, version, digest]
}
