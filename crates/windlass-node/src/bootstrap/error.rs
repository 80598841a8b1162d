//! Why a machine is not ready for its kubelet, and what to do about it.

use std::path::PathBuf;

use thiserror::Error;
use windlass_artifacts::addon::AddonError;
use windlass_artifacts::signature::KeyError;
use windlass_steps::host::HostError;

use super::files::FileError;
use super::identity::IdentityError;
use super::merge::MergeError;
use super::runtime::RuntimeError;
use crate::choice::{ChoiceError, RealError, VersionError};
use crate::exit::{Exit, Failure};
use crate::extension::{InstallError, ListError, StageError};
use crate::facts::FactsError;
use crate::join::{self, JoinError};
use crate::runtime_data::DataError;

/// Why a machine is not ready for its kubelet.
#[derive(Debug, Error)]
pub enum BootstrapError {
    /// It does not know who it is.
    #[error("cannot learn who this machine is")]
    LearnFacts {
        /// Why not.
        source: IdentityError,
    },
    /// It cannot write that down.
    #[error("cannot keep who this machine is")]
    KeepFacts {
        /// Why not.
        source: FactsError,
    },
    /// `--force-kube-version` makes no sense.
    #[error("cannot force the version of Kubernetes")]
    ForceVersion {
        /// Why not.
        source: VersionError,
    },
    /// The gate does not say which version this node has.
    #[error("{} does not say which version of the kubelet this node has", path.display())]
    FindOwnVersion {
        /// The gate.
        path: PathBuf,
    },
    /// A reboot was asked for, and there is nothing to boot into.
    #[error("the update engine has staged no other operating system")]
    FindNextOs,
    /// `--torcx-manifest-url` makes no sense.
    #[error("cannot use the address of addon manifests")]
    TakeUrl {
        /// Why not.
        source: AddonError,
    },
    /// The keys for addon manifests are not there.
    #[error("cannot read whose signatures on addon manifests count")]
    ReadKeys {
        /// Why not.
        source: HostError,
    },
    /// The keys for addon manifests are none.
    #[error("cannot use the keys for addon manifests")]
    UseKeys {
        /// Why not.
        source: KeyError,
    },
    /// Nobody can tell an older manifest.
    #[error("cannot tell which addon manifests were seen before")]
    ReadSeen {
        /// Why not.
        source: HostError,
    },
    /// The manifests that were followed cannot be remembered.
    #[error("cannot remember which addon manifests were followed")]
    KeepSeen {
        /// Why not.
        source: HostError,
    },
    /// Nobody can be asked.
    #[error("cannot ask what to run")]
    BeginToAsk {
        /// Why not.
        source: RealError,
    },
    /// It is not known what to run.
    #[error("cannot choose what to run")]
    Choose {
        /// Why not.
        source: ChoiceError,
    },
    /// What is there is not known.
    #[error("cannot tell which addons are installed")]
    ListAddons {
        /// Why not.
        source: ListError,
    },
    /// An addon cannot be had.
    #[error("cannot stage the addons")]
    StageAddons {
        /// Why not.
        source: StageError,
    },
    /// An addon cannot be put in place.
    #[error("cannot install the addons")]
    InstallAddons {
        /// Why not.
        source: InstallError,
    },
    /// An addon is in place and not effective.
    #[error("cannot merge the addons")]
    MergeAddons {
        /// Why not.
        source: MergeError,
    },
    /// The container runtime is not there, or not known.
    #[error("cannot configure the container runtime")]
    ConfigureRuntime {
        /// Why not.
        source: RuntimeError,
    },
    /// The kernel does not say what it allows.
    #[error("cannot tell what the kernel allows")]
    ReadStatus {
        /// Why not.
        source: HostError,
    },
    /// A file is missing or cannot be written.
    #[error("cannot prepare this machine")]
    PlaceFiles {
        /// Why not.
        source: FileError,
    },
    /// A worker has no credentials for the API.
    #[error("cannot join the cluster")]
    Join {
        /// Why not.
        source: JoinError,
    },
    /// Nobody could tell later why this machine runs what it runs.
    #[error("cannot keep why this machine runs what it runs")]
    KeepExplanation {
        /// Why not.
        source: HostError,
    },
    /// A boot is due and cannot be noted.
    #[error("cannot note that this machine is to boot again")]
    NoteReboot {
        /// Why not.
        source: HostError,
    },
    /// It cannot be noted whose the runtime's data is.
    #[error("cannot note whose the container runtime's data is")]
    NoteData {
        /// Why not.
        source: DataError,
    },
    /// The machine does not boot again.
    #[error("cannot boot this machine again")]
    Reboot {
        /// Why not.
        source: HostError,
    },
}

impl BootstrapError {
    /// As systemd and people hear it.
    pub(super) fn failure(&self) -> Failure {
        const DISK: &str = "see that the machine's disk is well and has room";
        const BUCKET: &str = "see that the cluster's object store has the addons, and who signed them";
        let trust = |is_final: bool| if is_final { Exit::Permanent } else { Exit::TryAgain };
        let (exit, next) = match self {
            BootstrapError::LearnFacts { source: IdentityError::Ask { .. } } => {
                (Exit::TryAgain, "see that the platform's metadata service answers at 169.254.169.254")
            }
            BootstrapError::LearnFacts { .. } => (Exit::Permanent, "see what the platform says about this machine"),
            BootstrapError::FindNextOs => (Exit::TryAgain, "see what the machine's update engine says"),
            BootstrapError::FindOwnVersion { .. } => {
                (Exit::Permanent, "see KUBELET_VERSION in /etc/kubernetes/kubelet.env")
            }
            BootstrapError::ForceVersion { .. } | BootstrapError::TakeUrl { .. } => {
                (Exit::Permanent, "see BOOTSTRAP_ARGS in /etc/kubernetes/installer/bootstrap.env")
            }
            BootstrapError::ReadKeys { .. } | BootstrapError::UseKeys { .. } => {
                (Exit::Permanent, "see /etc/windlass/addon-keys.asc and /etc/windlass/addon-key.minisign")
            }
            BootstrapError::Choose { source } => {
                (trust(source.is_final()), "see `windlass-node bootstrap --dry-run` on this machine")
            }
            BootstrapError::StageAddons { source } => (trust(source.is_trust()), BUCKET),
            BootstrapError::BeginToAsk { .. } => (Exit::TryAgain, "see what the machine's journal says"),
            BootstrapError::MergeAddons { source: MergeError::Refresh { .. } } => {
                (Exit::TryAgain, "see what `systemd-sysext status` says")
            }
            BootstrapError::ConfigureRuntime { source: RuntimeError::KnowVersion { .. } } => {
                (Exit::Permanent, "install a runtime that goes with the cluster's version")
            }
            BootstrapError::ConfigureRuntime { .. } => (Exit::TryAgain, "see that the runtime's extension is merged"),
            BootstrapError::PlaceFiles { source: FileError::Write { .. } }
            | BootstrapError::KeepFacts { .. }
            | BootstrapError::ReadSeen { .. }
            | BootstrapError::KeepSeen { .. }
            | BootstrapError::ListAddons { .. }
            | BootstrapError::InstallAddons { .. }
            | BootstrapError::MergeAddons { .. }
            | BootstrapError::KeepExplanation { .. }
            | BootstrapError::NoteReboot { .. }
            | BootstrapError::NoteData { .. }
            | BootstrapError::ReadStatus { .. } => (Exit::TryAgain, DISK),
            BootstrapError::PlaceFiles { .. } => {
                (Exit::Permanent, "see what Ignition wrote to /etc/kubernetes/installer")
            }
            BootstrapError::Reboot { .. } => (Exit::TryAgain, "see what `systemctl reboot` says on this machine"),
            BootstrapError::Join { source } => return join::failure_of(self, source),
        };
        Failure::of(exit, self, next)
    }
}
