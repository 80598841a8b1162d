//! Versions: the Kubernetes versions that windlass installs, and what goes with each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A Kubernetes version that windlass installs. Others cannot be expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum KubeVersion {
    /// Kubernetes 1.35.4.
    V1_35_4,
    /// Kubernetes 1.36.3, the default.
    V1_36_3,
}

/// Why a text is not a version that windlass installs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(String);

impl KubeVersion {
    /// What a spec that names no version gets.
    pub const DEFAULT: KubeVersion = KubeVersion::V1_36_3;
    /// Every version that windlass installs, newest first.
    pub const ALL: [KubeVersion; 2] = [KubeVersion::V1_36_3, KubeVersion::V1_35_4];

    /// Takes `1.36.3` or `v1.36.3`; anything else is answered with the list.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let plain = text.strip_prefix('v').unwrap_or(text);
        KubeVersion::ALL.into_iter().find(|v| v.as_str() == plain).ok_or_else(|| {
            let list = KubeVersion::ALL.map(|v| v.as_str()).join(", ");
            VersionError(format!("Kubernetes {text} is not one that windlass installs: use one of {list}"))
        })
    }

    /// The version without its `v`.
    pub fn as_str(self) -> &'static str {
        match self {
            KubeVersion::V1_35_4 => "1.35.4",
            KubeVersion::V1_36_3 => "1.36.3",
        }
    }

    /// The versions of everything else that goes with this one.
    pub fn companions(self) -> Companions {
        match self {
            KubeVersion::V1_36_3 => Companions {
                etcd: "3.6.16",
                containerd: "2.2.9",
                runc: "1.4.3",
                cni: "1.9.1",
                core_dns: "1.14.7",
                flannel: "0.28.0",
                pause: "3.10.2",
            },
            KubeVersion::V1_35_4 => Companions {
                etcd: "3.6.16",
                containerd: "1.7.35",
                runc: "1.3.6",
                cni: "1.9.1",
                core_dns: "1.14.7",
                flannel: "0.28.0",
                pause: "3.10.2",
            },
        }
    }
}

/// The versions that a Kubernetes version is installed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Companions {
    /// etcd's.
    pub etcd: &'static str,
    /// containerd's: the runtime that seed 004's mapping chooses.
    pub containerd: &'static str,
    /// runc's.
    pub runc: &'static str,
    /// The CNI plugins'.
    pub cni: &'static str,
    /// CoreDNS'.
    pub core_dns: &'static str,
    /// flannel's.
    pub flannel: &'static str,
    /// The pause image's.
    pub pause: &'static str,
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for KubeVersion {
    type Error = VersionError;
    fn try_from(text: String) -> Result<Self, VersionError> {
        KubeVersion::parse(&text)
    }
}

impl From<KubeVersion> for String {
    fn from(version: KubeVersion) -> String {
        version.as_str().to_owned()
    }
}

/// Checks a component's version: three numbers, as `3.6.16`, with an optional `v` in front.
pub fn check_release(text: &str) -> Result<(), VersionError> {
    let plain = text.strip_prefix('v').unwrap_or(text);
    let numbers: Vec<_> = plain.split('.').collect();
    let number = |n: &&str| !n.is_empty() && n.len() < 6 && n.bytes().all(|b| b.is_ascii_digit());
    if numbers.len() == 3 && numbers.iter().all(number) {
        return Ok(());
    }
    Err(VersionError(format!("{text:?} is not a version: write three numbers, such as 3.6.16")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_v_is_optional_and_other_versions_get_the_list() {
        assert_eq!(KubeVersion::parse("v1.36.3"), Ok(KubeVersion::V1_36_3));
        assert_eq!(KubeVersion::parse("1.35.4"), Ok(KubeVersion::V1_35_4));
        for bad in ["1.36", "1.34.4", "vv1.36.3", "latest", "", "1.36.3 "] {
            let error = KubeVersion::parse(bad).unwrap_err().to_string();
            assert!(error.contains("1.36.3, 1.35.4"), "{bad}: {error}");
        }
    }

    #[test]
    fn component_versions_are_three_numbers() {
        assert!(check_release("3.6.16").is_ok() && check_release("v1.4.3").is_ok());
        for bad in ["3.6", "3.6.x", "", "3.6.16-rc1", "../3.6"] {
            assert!(check_release(bad).is_err(), "{bad}");
        }
    }
}
