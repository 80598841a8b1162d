//! Which container runtimes go with which version of Kubernetes: the table of seed document 004, in the format that its
//! bootstrapper read, so that a ConfigMap written for it can be read here. The first runtime of a list is preferred.

use std::collections::BTreeMap;

use thiserror::Error;
use windlass_artifacts::addon::AddonVersion;
use windlass_assets::config::runtime_mappings;
use windlass_spec::yaml::{Budget, Node, Value, read};

use super::version::ClusterVersion;

const KIND: &str = "VersionManifestV1";
const RUNTIME: &str = "containerd";
/// Many times what a table of all versions ever needs.
const BUDGET: Budget = Budget { bytes: 1 << 20, depth: 8, values: 10_000 };

/// The runtimes of each minor version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mappings {
    runtimes: BTreeMap<String, Vec<AddonVersion>>,
}

/// Why a text is no such table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read the runtime mappings: {what}")]
pub struct MappingError {
    what: String,
}

impl Mappings {
    /// Reads `kind: VersionManifestV1` with `versions.k8s.<minor>.containerd`, one version or a list of them.
    pub fn parse(bytes: &[u8]) -> Result<Self, MappingError> {
        let root = read(bytes, &BUDGET).map_err(|problems| wrong(problems.to_string()))?;
        let kind = root.get("kind").and_then(text);
        if kind.as_deref() != Some(KIND) {
            return Err(wrong(format!("its kind is not {KIND}")));
        }
        let Some(Value::Map(minors)) = root.at("versions.k8s").map(|node| &node.value) else {
            return Err(wrong("versions.k8s is not a mapping"));
        };
        let mut runtimes = BTreeMap::new();
        for entry in minors {
            // Others may be mapped too; a version without our runtime has none for us.
            if let Some(list) = entry.node.get(RUNTIME) {
                runtimes.insert(entry.key.clone(), versions(&entry.key, list)?);
            }
        }
        Ok(Mappings { runtimes })
    }

    /// The table that this program was built with.
    pub fn built_in() -> Self {
        Mappings::parse(runtime_mappings().as_bytes()).expect("a test reads what we write")
    }

    /// The runtimes for a version, the preferred one first; nothing if the table does not know the version.
    pub fn runtimes(&self, version: &ClusterVersion) -> Option<&[AddonVersion]> {
        self.runtimes.get(version.minor()).map(Vec::as_slice).filter(|list| !list.is_empty())
    }
}

fn versions(minor: &str, node: &Node) -> Result<Vec<AddonVersion>, MappingError> {
    let one = |node: &Node| {
        let text = text(node).ok_or_else(|| wrong(format!("line {}: a version of {RUNTIME} is wanted", node.line)))?;
        AddonVersion::parse(&text).map_err(|error| wrong(format!("Kubernetes {minor}: {error}")))
    };
    match &node.value {
        Value::List(items) => items.iter().map(one).collect(),
        _ => one(node).map(|version| vec![version]),
    }
}

/// A text, or a number as it was written: `1.10` is not `1.1`.
fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) | Value::Number(_, text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
    }
}

fn wrong(what: impl Into<String>) -> MappingError {
    MappingError { what: what.into() }
}

#[cfg(test)]
mod tests {
    use windlass_spec::KubeVersion;

    use super::*;

    fn version(text: &str) -> ClusterVersion {
        ClusterVersion::parse(text).unwrap()
    }

    #[test]
    fn the_built_in_table_knows_every_version_that_windlass_installs() {
        let table = Mappings::built_in();
        for kubernetes in KubeVersion::ALL {
            let runtimes = table.runtimes(&version(kubernetes.as_str())).unwrap();
            assert_eq!(runtimes[0].as_str(), kubernetes.companions().containerd);
        }
        assert_eq!(table.runtimes(&version("v1.2.3")), None);
    }

    #[test]
    fn lists_numbers_and_other_runtimes_are_read() {
        let table = "kind: VersionManifestV1\nversions:\n  k8s:\n    1.10:\n      containerd: [2.2.9, \"1.7\"]\n    1.8:\n      \
                     docker: [17.03]\n    \"1.36\":\n      containerd: 2.2.9\n    1.9:\n      containerd: []\n";
        let table = Mappings::parse(table.as_bytes()).unwrap();
        let runtimes =
            |v: &str| table.runtimes(&version(v)).map(|l| l.iter().map(|r| r.to_string()).collect::<Vec<_>>());
        assert_eq!(runtimes("v1.10.2"), Some(vec!["2.2.9".to_owned(), "1.7".to_owned()]));
        assert_eq!(runtimes("v1.36.0"), Some(vec!["2.2.9".to_owned()]));
        assert_eq!((runtimes("v1.8.0"), runtimes("v1.9.0"), runtimes("v1.1.0")), (None, None, None));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for text in [
            "",
            "[]",
            "kind: Other\nversions: {k8s: {}}",
            "kind: VersionManifestV1\n",
            "kind: VersionManifestV1\nversions: {k8s: []}\n",
            "kind: VersionManifestV1\nversions: {k8s: {1.36: {containerd: {}}}}\n",
            "kind: VersionManifestV1\nversions: {k8s: {1.36: {containerd: [../x]}}}\n",
            "kind: VersionManifestV1\nversions: {k8s: {1.36: {containerd: [true]}}}\n",
            "kind: [\n",
        ] {
            assert!(Mappings::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Mappings::parse(b"\xff\xfe").is_err());
    }
}
