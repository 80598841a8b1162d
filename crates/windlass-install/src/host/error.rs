//! Why set-up did not come to its end, each with what to do about it.

use thiserror::Error;
use windlass_steps::host::HostError;

use super::{Group, REQUIREMENTS};

/// A set-up that did not succeed; what was installed before it stopped stays.
#[derive(Debug, Error)]
pub enum SetupError {
    /// Packages belong to the whole machine.
    #[error("cannot install {} without root", .packages.join(", "))]
    InstallWithoutRoot {
        /// What was asked for.
        group: Group,
        /// The packages that are missing.
        packages: Vec<&'static str>,
    },
    /// The table speaks of Debian's packages, and this host does not know them.
    #[error("cannot install {}: this host has no apt-get", .packages.join(", "))]
    InstallWithoutApt {
        /// The packages that are missing.
        packages: Vec<&'static str>,
    },
    /// apt-get said no.
    #[error("cannot install {}{}", .packages.join(", "), also(.update.as_deref()))]
    InstallPackages {
        /// The packages that were asked for.
        packages: Vec<&'static str>,
        /// What was wrong with `apt-get update`, if it failed before.
        update: Option<Box<HostError>>,
        /// What was wrong with `apt-get install`.
        source: HostError,
    },
    /// cargo said no.
    #[error("cannot install {name} {version} from crates.io")]
    InstallTool {
        /// The crate.
        name: &'static str,
        /// The version that was asked for.
        version: &'static str,
        /// What was wrong with `cargo install`.
        source: HostError,
    },
    /// A kernel setting needs root.
    #[error("cannot set {name} to {value} without root")]
    RaiseWithoutRoot {
        /// Its name.
        name: &'static str,
        /// The value.
        value: u64,
    },
    /// The kernel said no, or the setting cannot be kept.
    #[error("cannot set {name} to {value}")]
    Raise {
        /// Its name.
        name: &'static str,
        /// The value.
        value: u64,
        /// Why not.
        source: std::io::Error,
    },
    /// Everything was installed without an error, and still something is not there.
    #[error("still missing after the installation: {}", .missing.join(", "))]
    StillMissing {
        /// The packages, with the programs that were looked for.
        missing: Vec<String>,
    },
}

impl SetupError {
    /// What to do about it; it suits a `next:` line.
    pub fn hint(&self) -> String {
        match self {
            Self::InstallWithoutRoot { group: Group::Base, .. } => "run `sudo windlass host setup`".to_owned(),
            // Not `sudo windlass host setup --dev`: cargo's tools would land in root's home.
            Self::InstallWithoutRoot { group: Group::Dev, packages } => {
                format!("run `sudo apt-get install --no-install-recommends {}`, then repeat this", packages.join(" "))
            }
            Self::InstallWithoutApt { packages } => {
                let wanted = REQUIREMENTS.iter().filter(|one| packages.contains(&one.package));
                let signs: Vec<_> = wanted.map(|one| one.sign()).collect();
                format!("install by hand, into /usr/bin or /usr/local/bin: {}", signs.join(", "))
            }
            Self::InstallPackages { .. } => "look at what apt-get says, then repeat this".to_owned(),
            Self::InstallTool { name, version, .. } => {
                format!("look at what `cargo install --locked --version {version} {name}` says, then repeat this")
            }
            Self::RaiseWithoutRoot { name, value } | Self::Raise { name, value, .. } => {
                format!("run `sudo sysctl -w {name}={value}`, then repeat this")
            }
            Self::StillMissing { .. } => "look at `windlass host check` and at what the packages contain".to_owned(),
        }
    }
}

fn also(update: Option<&HostError>) -> String {
    update.map_or_else(String::new, |error| format!("; before that, {error}"))
}
