//! The pins: which version of which component goes with which Kubernetes version, what it is called upstream, what its
//! digest is and how it is built. The file `artifacts/pins.yaml` and the Go modules beside it are embedded, so that the
//! binary needs no source tree; a test may bring its own.
//!
//! Where a mirror keeps the releases is a pin too ([`ReleaseFile`]). Paths are relative to the mirror's base, `$arch`
//! stands for `amd64` or `arm64`, and `.sha512` or `.sha256` lies beside every file:
//!
//! | component | path below the mirror |
//! |---|---|
//! | Kubernetes | `release/v1.36.3/bin/linux/$arch/<program>`, as dl.k8s.io has it |
//! | etcd | `etcd/v3.6.16/etcd-v3.6.16-linux-$arch.tar.gz` |
//! | containerd | `containerd/v2.2.9/containerd-2.2.9-linux-$arch.tar.gz` |
//! | runc | `runc/v1.4.3/runc.$arch` |
//! | CNI plugins | `cni-plugins/v1.9.1/cni-plugins-linux-$arch-v1.9.1.tgz` |
//! | CoreDNS | `coredns/v1.14.7/coredns_1.14.7_linux_$arch.tgz` |
//! | flannel | `flannel/v0.28.0/flanneld-$arch` |
//! | OpenTofu | `opentofu/v1.12.6/tofu_1.12.6_linux_$arch.tar.gz` |
//!
//! A component without such paths (Ignition, pause, the terraform providers) comes from its source alone.

mod modules;
mod parse;
mod read;

pub use modules::{Modules, ModulesError};

use windlass_spec::{KubeVersion, Problem};

const EMBEDDED: &str = include_str!("../../../artifacts/pins.yaml");

/// Everything that windlass can get, with what makes it trustworthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    /// In the order of the file.
    pub components: Vec<Component>,
}

/// One piece of software, in all its pinned versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name, such as `etcd`.
    pub name: String,
    /// Its licence, as SPDX names it.
    pub licence: String,
    /// When it is fetched.
    pub set: Set,
    /// Its versions.
    pub releases: Vec<Release>,
}

/// When a component is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Set {
    /// With every cluster on the local platform.
    Local,
    /// Only when a spec or `--all` asks.
    Extra,
}

/// One version of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The component's name.
    pub component: String,
    /// Its version, without a `v`.
    pub version: String,
    /// The Kubernetes versions that it goes with; empty for every one.
    pub kubernetes: Vec<KubeVersion>,
    /// Whose code it is; nothing if it is ours.
    pub upstream: Option<Upstream>,
    /// The folder of our Go module that builds it.
    pub directory: String,
    /// What the module builds.
    pub binaries: Vec<Binary>,
    /// The Debian packages that the build needs beside Go.
    pub needs: Vec<String>,
    /// What a mirror offers instead of a build; empty if nobody publishes it.
    pub release: Vec<ReleaseFile>,
}

/// The upstream Go module, and the digest by which Go's checksum database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its path, such as `k8s.io/kubernetes`.
    pub module: String,
    /// Its digest, `h1:…`, as `go.sum` has it.
    pub sum: String,
}

/// One program that a module builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// What it is called.
    pub name: String,
    /// The Go package to build.
    pub package: String,
    /// Whether C code takes part.
    pub cgo: Cgo,
    /// Build tags.
    pub tags: Vec<String>,
    /// Flags for the linker, beside those that every build gets.
    pub ldflags: Vec<String>,
    /// Other names under which it does other things.
    pub links: Vec<String>,
    /// How to see that it works.
    pub check: Check,
}

/// Whether C code takes part in a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgo {
    /// It does, and a C compiler is needed.
    On,
    /// Go alone.
    Off,
}

/// A first run of a new binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The name to run it by, and arguments.
    pub run: Vec<String>,
    /// What must be in its output.
    pub prints: String,
}

/// One program as a mirror offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseFile {
    /// What the program is called.
    pub name: String,
    /// The file below the mirror's base, with `$arch` in it.
    pub path: String,
    /// Where the program is inside the file; nothing if the file is the program.
    pub member: Option<String>,
    /// Other names under which it does other things.
    pub links: Vec<String>,
}

/// What is wrong with a pins file, all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pins have {} problem{}: {}", .problems.len(), if .problems.len() == 1 { "" } else { "s" }, listed(.problems))]
pub struct PinsError {
    /// In the order of the file; never empty.
    pub problems: Vec<Problem>,
}

impl Pins {
    /// The pins that this binary was made with.
    pub fn embedded() -> Result<Self, PinsError> {
        Pins::parse(EMBEDDED)
    }

    /// Reads a pins file.
    pub fn parse(text: &str) -> Result<Self, PinsError> {
        parse::parse(text)
    }

    /// Every release of every component.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.components.iter().flat_map(|component| &component.releases)
    }

    /// The releases of one set that go with one Kubernetes version.
    pub fn for_kubernetes(&self, version: KubeVersion, set: Set) -> Vec<&Release> {
        let components = self.components.iter().filter(|component| component.set == set);
        components.flat_map(|component| &component.releases).filter(|release| release.goes_with(version)).collect()
    }

    /// The component of this name.
    pub fn component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }

    /// Whether a program of this name and version is pinned, built or published.
    pub fn has_program(&self, name: &str, version: &str) -> bool {
        let built = |release: &Release| release.binaries.iter().any(|binary| binary.name == name);
        let published = |release: &Release| release.release.iter().any(|file| file.name == name);
        self.releases().any(|release| release.version == version && (built(release) || published(release)))
    }

    /// One release by component and version.
    pub fn release(&self, component: &str, version: &str) -> Option<&Release> {
        self.component(component)?.releases.iter().find(|release| release.version == version)
    }
}

impl Release {
    /// Whether it goes with this Kubernetes version.
    pub fn goes_with(&self, version: KubeVersion) -> bool {
        self.kubernetes.is_empty() || self.kubernetes.contains(&version)
    }

    /// What it is called in messages: `etcd 3.6.16`.
    pub fn title(&self) -> String {
        format!("{} {}", self.component, self.version)
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
