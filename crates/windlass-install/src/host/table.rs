//! The one list of what windlass needs from outside: a package, what it is for, and the program that shows it is there.

use serde::{Serialize, Serializer};

/// Everything that windlass as built so far needs beside Rust, gcc and Go.
pub const REQUIREMENTS: [Requirement; 20] = [
    debian("ignition", Group::Base, "ignition-validate", "checks the Ignition configs that windlass makes"),
    debian("debootstrap", Group::Base, "debootstrap", "makes the root of machines"),
    debian("pkgconf", Group::Base, "pkg-config", "finds libraries while runc and Ignition are built"),
    debian("libseccomp-dev", Group::Base, "/usr/include/seccomp.h", "is linked into runc"),
    debian("libblkid-dev", Group::Base, "/usr/include/blkid/blkid.h", "is linked into Ignition"),
    debian("systemd-container", Group::Base, "systemd-nspawn", "runs the machines of the local cloud"),
    debian("util-linux", Group::Base, "nsenter", "enters machines and namespaces, and makes loop devices of volumes"),
    debian("nftables", Group::Base, "/usr/sbin/nft", "cuts, loses and translates packets in the local cloud"),
    Requirement {
        package: "fs.inotify.max_user_instances",
        source: Source::Kernel { at_least: 1024 },
        group: Group::Base,
        program: "/proc/sys/fs/inotify/max_user_instances",
        purpose: "lets systemd, containerd and the kubelet of every machine watch files",
    },
    debian("openssl", Group::Dev, "openssl", "checks the certificate chains in the tests"),
    debian("systemd", Group::Dev, "systemd-analyze", "checks the systemd units in the tests"),
    debian("containerd", Group::Dev, "containerd", "imports images in the tests"),
    debian("skopeo", Group::Dev, "skopeo", "checks image archives in the tests"),
    debian("e2fsprogs", Group::Dev, "/usr/sbin/mkfs.ext4", "makes file systems on volumes in the tests"),
    debian("iproute2", Group::Dev, "ip", "shows in the tests that the host's network stays as it was"),
    debian("passt", Group::Dev, "pasta", "lets machines out in the tests of egress"),
    debian("haproxy", Group::Dev, "/usr/sbin/haproxy", "is measured beside the balancer of the local cloud"),
    debian("docker-registry", Group::Dev, "docker-registry", "gives images to pull in the tests"),
    debian("chromium", Group::Dev, "chromium", "looks at the dashboard in the tests"),
    Requirement {
        package: "cargo-deny",
        source: Source::CratesIo { version: "0.20.2" },
        group: Group::Dev,
        program: "cargo-deny",
        purpose: "checks licences, sources and duplicates of the dependencies",
    },
];

pub(super) const fn debian(
    package: &'static str,
    group: Group,
    program: &'static str,
    purpose: &'static str,
) -> Requirement {
    Requirement { package, source: Source::Debian, group, program, purpose }
}

/// One row: what to install, and how to tell that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// The name to install it by.
    pub package: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// Who needs it.
    pub group: Group,
    /// The program, or the file if it is a path, whose presence shows that the package is there, however it came.
    pub program: &'static str,
    /// What windlass does with it.
    pub purpose: &'static str,
}

impl Requirement {
    /// The package with its program where that has another name, for lists of what to install by hand.
    pub(super) fn sign(&self) -> String {
        match self.package == self.program || self.program.starts_with('/') {
            true => self.package.to_owned(),
            false => format!("{} (the program {})", self.package, self.program),
        }
    }
}

/// Who needs a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Everyone who runs windlass.
    Base,
    /// Who works on windlass; whoever asks for this gets [`Group::Base`] too.
    Dev,
}

impl Group {
    /// Whether asking for this group asks for that one.
    pub fn includes(self, other: Group) -> bool {
        match self {
            Group::Base => other == Group::Base,
            Group::Dev => true,
        }
    }
}

/// Where a requirement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Debian's packages, by apt; they belong to the whole machine and need root.
    Debian,
    /// A setting of the kernel, which has at least this value.
    Kernel {
        /// The value.
        at_least: u64,
    },
    /// crates.io, by `cargo install`; it goes into the user's own cargo home.
    CratesIo {
        /// The version to install; a later one that is there already will do.
        version: &'static str,
    },
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Source::Debian => "debian",
            Source::Kernel { .. } => "kernel",
            Source::CratesIo { .. } => "crates.io",
        })
    }
}

/// Compares versions by their numbers; a version that has none is never enough.
pub(super) fn is_at_least(found: &str, wanted: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let plain = text.split(['-', '+']).next().unwrap_or(text);
        plain.split('.').map(|part| part.parse().ok()).collect()
    };
    matches!((numbers(found), numbers(wanted)), (Some(found), Some(wanted)) if found >= wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let cases = [
            ("0.20.2", true),
            ("0.20.10", true),
            ("1.0.0", true),
            ("0.21.0-pre.1", true),
            ("0.20.1", false),
            ("0.9.9", false),
            ("", false),
            ("unknown", false),
        ];
        for (found, want) in cases {
            assert_eq!(is_at_least(found, "0.20.2"), want, "{found}");
        }
    }

    #[test]
    fn every_package_is_listed_once() {
        for (at, one) in REQUIREMENTS.iter().enumerate() {
            assert!(REQUIREMENTS[at + 1..].iter().all(|other| other.package != one.package), "{}", one.package);
        }
    }

    #[test]
    fn developers_need_what_users_need() {
        assert!(Group::Dev.includes(Group::Base) && Group::Dev.includes(Group::Dev));
        assert!(Group::Base.includes(Group::Base) && !Group::Base.includes(Group::Dev));
    }
}
