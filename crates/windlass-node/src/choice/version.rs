//! A version of Kubernetes as an API server or a file says it. A machine may join a cluster of a version that this windlass
//! does not install, so this is not one of [`windlass_spec::KubeVersion`].

use std::fmt;

use thiserror::Error;
use windlass_artifacts::addon::AddonVersion;

/// `v1.36.3`, also with what follows the third number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterVersion {
    number: AddonVersion,
    minor: String,
}

/// Why a text is no version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a version of Kubernetes: write it as v1.36.3")]
pub struct VersionError {
    text: String,
}

impl ClusterVersion {
    /// Takes three numbers, with an optional `v` in front and a pre-release or build behind.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let refused = || VersionError { text: text.chars().take(64).collect() };
        let plain = text.trim();
        let plain = plain.strip_prefix('v').unwrap_or(plain);
        let numbers = plain.split(['-', '+']).next().unwrap_or_default();
        let numbers: Vec<&str> = numbers.split('.').collect();
        let is_number = |n: &&str| !n.is_empty() && n.len() < 6 && n.bytes().all(|b| b.is_ascii_digit());
        let [major, minor, _] = numbers[..] else { return Err(refused()) };
        if !numbers.iter().all(is_number) {
            return Err(refused());
        }
        let number = AddonVersion::parse(plain).map_err(|_| refused())?;
        Ok(ClusterVersion { number, minor: format!("{major}.{minor}") })
    }

    /// The version in the file that the installer left, or the gate: the line `KUBELET_VERSION=`.
    pub fn of_env(text: &str) -> Option<Result<Self, VersionError>> {
        let value = text.lines().rev().find_map(|line| line.trim().strip_prefix(KUBELET_VERSION))?;
        Some(ClusterVersion::parse(value.trim_matches(['"', '\''])))
    }

    /// The same file with another version in it.
    pub fn put_into_env(&self, text: &str) -> String {
        let others = text.lines().filter(|line| !line.trim().starts_with(KUBELET_VERSION));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        format!("{KUBELET_VERSION}{self}\n{others}")
    }

    /// The version of the kubelet that goes with it: without the `v`, as addons are named.
    pub fn number(&self) -> &AddonVersion {
        &self.number
    }

    /// `1.36`, by which runtimes are mapped.
    pub fn minor(&self) -> &str {
        &self.minor
    }
}

const KUBELET_VERSION: &str = "KUBELET_VERSION=";

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers_and_what_follows() {
        for (text, shown, minor) in [
            ("v1.36.3", "v1.36.3", "1.36"),
            ("1.35.4", "v1.35.4", "1.35"),
            (" v1.10.0\n", "v1.10.0", "1.10"),
            ("v1.37.0-rc.1", "v1.37.0-rc.1", "1.37"),
            ("v1.36.3+vendor.2", "v1.36.3+vendor.2", "1.36"),
        ] {
            let version = ClusterVersion::parse(text).unwrap();
            assert_eq!((version.to_string().as_str(), version.minor()), (shown, minor));
        }
        for text in
            ["", "v", "1.36", "1.36.3.1", "v1.x.3", "latest", "v1.36.3/../x", "1.36.3 x", "1..3", "1.36.1234567"]
        {
            assert!(ClusterVersion::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_environment_file_has_one_version_the_last_as_for_systemd() {
        let of = |text: &str| ClusterVersion::of_env(text).map(|version| version.map(|v| v.to_string()));
        assert_eq!(of("A=b\nKUBELET_VERSION=v1.36.3\nKUBELET_ARGS='x'\n"), Some(Ok("v1.36.3".to_owned())));
        assert_eq!(of("KUBELET_VERSION=v1.35.4\nKUBELET_VERSION=\"v1.36.3\"\n"), Some(Ok("v1.36.3".to_owned())));
        assert_eq!(of("KUBELET_ARGS=''\n"), None);
        assert!(of("KUBELET_VERSION=new\n").unwrap().is_err());
        let put = ClusterVersion::parse("1.36.3").unwrap().put_into_env("KUBELET_VERSION=v1.35.4\nKUBELET_ARGS='x'\n");
        assert_eq!(put, "KUBELET_VERSION=v1.36.3\nKUBELET_ARGS='x'\n");
    }
}
