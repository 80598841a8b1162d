//! What a machine is to run: the versions of its kubelet, its container runtime and its operating system, from the sources
//! of seed document 004 and in its order. Choosing asks and decides; it changes nothing on the machine, but for an update
//! of the operating system that the platform stages when it is asked for one.
//!
//! 1. The cluster's version: what was forced, else the API's `/version`, else the installer's `kubelet.env`.
//! 2. The runtimes for it: the cluster's ConfigMap, else the installer's file, else the table in this program; on a machine
//!    that works already without the cluster's word what it had comes first.
//! 3. The operating system's version, and the next one, from `os-release` and the update engine.
//! 4. What the bucket offers for both, by signed manifests; of the runtimes the first that is offered for the next one.
//!
//! An API that does not answer is passed over; a bucket that does not answer is a failure, because there is no other.

mod explain;
mod manifest;
mod mapping;
mod next;
mod real;
mod sources;
mod version;

use thiserror::Error;
use tracing::warn;
use windlass_artifacts::addon::{
    AddonError, AddonVersion, Board, ManifestUrl, OsRelease, OsVersion, PackageName, PackageVersion,
};
use windlass_artifacts::download::Url;
use windlass_artifacts::signature::{Trusted, Verification};
use windlass_steps::clock::Clock;
use windlass_steps::host::HostError;
use windlass_steps::report::chain;

pub use explain::{Asked, Chosen, Explanation, Later};
pub use manifest::{Followed, ManifestError, Seen};
pub use mapping::{MappingError, Mappings};
pub use next::Upcoming;
pub use real::{Machine, RealError};
pub use sources::{Missing, Sources, Unanswered, UpdateTrouble, UpgradeOs};
pub use version::{ClusterVersion, VersionError};

const RUNTIME: &str = "containerd";
const KUBELET: &str = "kubelet";
const VERSION: &str = "the cluster's version";
const RUNTIMES: &str = "the runtimes for it";
const OS: &str = "the operating system";

/// Whether runtime addons are looked at: `--torcx-skip-setup` says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addons {
    /// They are fetched and installed.
    Set,
    /// The machine keeps what it has.
    Skip,
}

/// How to choose: seed document 004's knobs.
#[derive(Debug, Clone)]
pub struct Knobs {
    /// Whether an update of the operating system is asked for.
    pub upgrade_os: UpgradeOs,
    /// Whether addons are looked at.
    pub addons: Addons,
    /// Whether signatures are.
    pub verification: Verification,
    /// The version, if nobody is to be asked.
    pub version: Option<Forced>,
    /// The runtimes that this machine has had, which are preferred if the cluster does not say which it is to have; none on
    /// a machine that has not worked yet, because what it came with need not be what its cluster wants.
    pub had: Vec<AddonVersion>,
    /// Where manifests are.
    pub manifests: ManifestUrl,
}

/// A version for which nobody is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forced {
    /// The version.
    pub version: ClusterVersion,
    /// Why nobody is asked.
    pub why: &'static str,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The cluster's version, which the kubelet follows.
    pub kubernetes: ClusterVersion,
    /// The operating system that runs.
    pub os: OsVersion,
    /// The one that the next boot brings.
    pub next_os: Option<Upcoming>,
    /// What is to be installed; nothing where addons are not looked at.
    pub setup: Option<Setup>,
}

/// The addons of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The container runtime's version.
    pub runtime: AddonVersion,
    /// The packages of runtime and kubelet, for each version of the operating system.
    pub packages: Vec<WantedPackage>,
    /// The manifests' versions, to be remembered before anything is done about them.
    pub seen: Seen,
}

/// A package to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPackage {
    /// What it is.
    pub name: PackageName,
    /// The operating system that it is for.
    pub os: OsVersion,
    /// What the signed manifest says about it.
    pub offered: PackageVersion,
    /// How long its archive is, if the manifest says so.
    pub length: Option<u64>,
    /// The manifest that offers it: locations are relative to it.
    pub manifest: Url,
}

/// Why nothing was chosen.
#[derive(Debug, Error)]
pub enum ChoiceError {
    /// Nobody knows the cluster's version.
    #[error("nobody says which version of Kubernetes this cluster has")]
    FindVersion,
    /// Nobody knows a runtime for that version.
    #[error("nobody says which container runtime goes with Kubernetes {version}")]
    FindRuntime {
        /// The version.
        version: ClusterVersion,
    },
    /// The machine does not say which operating system it runs.
    #[error("cannot tell which operating system this is: {reason}")]
    KnowOs {
        /// Why not.
        reason: String,
    },
    /// The update engine's word is no version.
    #[error("cannot use {text:?} as the version of an operating system")]
    KnowNextOs {
        /// What it said.
        text: String,
    },
    /// The operating system cannot be updated, and that was asked for.
    #[error("cannot update the operating system: {reason}")]
    UpdateOs {
        /// Why not.
        reason: String,
    },
    /// The manifest's address cannot be made.
    #[error("cannot tell where the addons for OS version {os} are")]
    LocateManifest {
        /// The version.
        os: OsVersion,
        /// What is wrong.
        source: AddonError,
    },
    /// There is no manifest to follow.
    #[error("cannot follow the addon manifest for OS version {os}")]
    FollowManifest {
        /// The version.
        os: OsVersion,
        /// Why not.
        source: ManifestError,
    },
    /// The bucket does not have what the versions want.
    #[error("the bucket offers no {package} {wanted} for OS version {os}: it has {offered}")]
    OfferPackage {
        /// The package.
        package: String,
        /// The versions that would do.
        wanted: String,
        /// The operating system.
        os: OsVersion,
        /// What there is instead.
        offered: String,
    },
    /// What was seen before cannot be read, so that nobody can tell an older manifest.
    #[error("cannot tell which manifests were seen before")]
    ReadSeen {
        /// Why not.
        source: HostError,
    },
}

impl ChoiceError {
    /// Whether the same will fail again, whoever asks.
    pub fn is_final(&self) -> bool {
        match self {
            ChoiceError::FollowManifest { source, .. } => source.is_trust(),
            ChoiceError::FindVersion
            | ChoiceError::FindRuntime { .. }
            | ChoiceError::KnowOs { .. }
            | ChoiceError::KnowNextOs { .. }
            | ChoiceError::LocateManifest { .. } => true,
            ChoiceError::UpdateOs { .. } | ChoiceError::OfferPackage { .. } | ChoiceError::ReadSeen { .. } => false,
        }
    }
}

/// What choosing goes by, besides the sources.
pub struct Given<'a> {
    /// How to choose.
    pub knobs: &'a Knobs,
    /// Whose signatures count.
    pub trusted: &'a Trusted,
    /// The manifests' versions that were seen before.
    pub seen: &'a Seen,
    /// What time it is.
    pub clock: &'a dyn Clock,
}

/// Asks and decides, and writes down why.
pub async fn choose(
    sources: &impl Sources,
    given: &Given<'_>,
    explanation: &mut Explanation,
) -> Result<Choice, ChoiceError> {
    let kubernetes = version(sources, given.knobs, explanation).await?;
    let runtimes = match given.knobs.addons {
        Addons::Set => Some(runtimes(sources, given.knobs, &kubernetes, explanation).await?),
        Addons::Skip => None,
    };
    let (os, board) = operating_system(sources, explanation)?;
    let next_os = next::next_os(sources, given.knobs.upgrade_os, &os, explanation).await?;
    let setup = match runtimes {
        Some(runtimes) => {
            let wish = Wish { kubernetes: &kubernetes, runtimes: &runtimes, board: &board };
            Some(setup(sources, given, &wish, (&os, next_os.as_ref()), explanation).await?)
        }
        None => {
            explanation.chose("addons", "none", "--torcx-skip-setup asks for that");
            None
        }
    };
    Ok(Choice { kubernetes, os, next_os, setup })
}

async fn version(
    sources: &impl Sources,
    knobs: &Knobs,
    explanation: &mut Explanation,
) -> Result<ClusterVersion, ChoiceError> {
    if let Some(Forced { version, why }) = &knobs.version {
        explanation.chose("Kubernetes", version, why);
        return Ok(version.clone());
    }
    let said = sources.api_version().await.and_then(|text| understood(ClusterVersion::parse(&text)));
    if let Some(version) = told(VERSION, "the API", said, explanation) {
        explanation.chose("Kubernetes", &version, "the API says so");
        return Ok(version);
    }
    let said = sources.installer_env().and_then(|text| match ClusterVersion::of_env(&text) {
        Some(version) => understood(version),
        None => Err(Unanswered::new("it has no KUBELET_VERSION")),
    });
    let version = told(VERSION, "the installer's kubelet.env", said, explanation).ok_or(ChoiceError::FindVersion)?;
    explanation.chose("Kubernetes", &version, "the installer says so and the API gave no answer");
    Ok(version)
}

/// A source that does not know the version is as one that gives no answer.
async fn runtimes(
    sources: &impl Sources,
    knobs: &Knobs,
    version: &ClusterVersion,
    explanation: &mut Explanation,
) -> Result<Vec<AddonVersion>, ChoiceError> {
    let known = |said: Result<Vec<u8>, Unanswered>| {
        let mappings = said.and_then(|bytes| understood(Mappings::parse(&bytes)))?;
        of_version(&mappings, version)
    };
    let mut take = |source: &'static str, said| {
        let said = told(RUNTIMES, source, said, explanation);
        said.map(|runtimes: Runtimes| (runtimes, source))
    };
    let of_cluster = take("the cluster's ConfigMap", known(sources.api_mappings().await));
    let had = if of_cluster.is_none() { knobs.had.as_slice() } else { &[] };
    let mut found = of_cluster;
    if found.is_none() {
        found = take("the installer's runtime-mappings.yaml", known(sources.installer_mappings()));
    }
    if found.is_none() {
        found = take("the table in windlass-node", of_version(&Mappings::built_in(), version));
    }
    let (mapped, source) = found.ok_or_else(|| ChoiceError::FindRuntime { version: version.clone() })?;
    let why = format!("{source} maps them to Kubernetes {}", version.minor());
    if had.is_empty() {
        explanation.chose("runtimes", &mapped, why);
        return Ok(mapped.0);
    }
    let others = mapped.0.into_iter().filter(|runtime| !had.contains(runtime));
    let all = Runtimes(had.iter().cloned().chain(others).collect());
    explanation.chose("runtimes", &all, format!("this machine had {}, {why}", listed(had.iter())));
    Ok(all.0)
}

struct Runtimes(Vec<AddonVersion>);

impl std::fmt::Display for Runtimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&listed(self.0.iter()))
    }
}

fn of_version(mappings: &Mappings, version: &ClusterVersion) -> Result<Runtimes, Unanswered> {
    let runtimes = mappings.runtimes(version);
    let unknown = || Unanswered::new(format!("it has nothing for Kubernetes {}", version.minor()));
    runtimes.map(|list| Runtimes(list.to_vec())).ok_or_else(unknown)
}

fn operating_system(sources: &impl Sources, explanation: &mut Explanation) -> Result<(OsVersion, Board), ChoiceError> {
    let unknown = |reason: String| ChoiceError::KnowOs { reason };
    let bytes = sources.os_release().map_err(|unanswered| unknown(unanswered.to_string()))?;
    let release = OsRelease::parse(&bytes).map_err(|error| unknown(error.to_string()))?;
    let version = release.version_id().ok_or_else(|| unknown("os-release has no VERSION_ID".to_owned()))?;
    let version = OsVersion::parse(version).map_err(|error| unknown(error.to_string()))?;
    // Older releases of Container Linux did not say, and Debian does not.
    let board = match release.value("COREOS_BOARD") {
        Some(board) => Board::parse(board).map_err(|error| unknown(error.to_string()))?,
        None => Board::amd64(),
    };
    explanation.answered(OS, "/usr/lib/os-release", format!("{} {version}, board {board}", release.id()));
    Ok((version, board))
}

/// What is wanted of the bucket.
struct Wish<'a> {
    kubernetes: &'a ClusterVersion,
    runtimes: &'a [AddonVersion],
    board: &'a Board,
}

/// The operating system that the machine is about to work on decides, the next one if the flow boots into it; the other one
/// gets the same if it is offered for it too.
async fn setup(
    sources: &impl Sources,
    given: &Given<'_>,
    wish: &Wish<'_>,
    (current, next): (&OsVersion, Option<&Upcoming>),
    explanation: &mut Explanation,
) -> Result<Setup, ChoiceError> {
    let decides = next.and_then(Upcoming::booted).unwrap_or(current);
    let first = follow(sources, given, wish.board, decides, explanation).await?;
    let runtime = wish.runtimes.iter().find(|version| first.find(RUNTIME, version).is_some());
    let runtime = runtime.ok_or_else(|| first.lacks(RUNTIME, &listed(wish.runtimes.iter())))?.clone();
    let kubelet = wish.kubernetes.number();
    let mut packages = vec![
        first.find(RUNTIME, &runtime).ok_or_else(|| first.lacks(RUNTIME, runtime.as_str()))?,
        first.find(KUBELET, kubelet).ok_or_else(|| first.lacks(KUBELET, kubelet.as_str()))?,
    ];
    let why = format!("the first of {} that the bucket has for OS version {}", listed(wish.runtimes.iter()), first.os);
    explanation.chose("container runtime", format!("{RUNTIME} {runtime}"), why);
    explanation.chose("kubelet", format!("v{kubelet}"), "it follows the cluster's version");
    let mut seen = given.seen.clone();
    seen.take(wish.board, &first);
    if let Some(second) = second(sources, given, wish, (current, next), explanation).await? {
        packages.extend(second.find(RUNTIME, &runtime));
        packages.extend(second.find(KUBELET, kubelet));
        seen.take(wish.board, &second);
    }
    Ok(Setup { runtime, packages, seen })
}

/// What the bucket offers for the operating system that does not decide. The machine works without addons for one that it
/// does not boot into by itself, and gets them before or after whatever boot brings that.
async fn second(
    sources: &impl Sources,
    given: &Given<'_>,
    wish: &Wish<'_>,
    (current, next): (&OsVersion, Option<&Upcoming>),
    explanation: &mut Explanation,
) -> Result<Option<Followed>, ChoiceError> {
    match next {
        None => Ok(None),
        Some(Upcoming::Booted(_)) => follow(sources, given, wish.board, current, explanation).await.map(Some),
        Some(Upcoming::Left(next)) => match follow(sources, given, wish.board, next, explanation).await {
            Ok(followed) => Ok(Some(followed)),
            Err(error) => {
                warn!(os = %next, reason = chain(&error).join(": "), "no addons for the staged OS yet");
                Ok(None)
            }
        },
    }
}

async fn follow(
    sources: &impl Sources,
    given: &Given<'_>,
    board: &Board,
    os: &OsVersion,
    explanation: &mut Explanation,
) -> Result<Followed, ChoiceError> {
    let locate = |source| ChoiceError::LocateManifest { os: os.clone(), source };
    let url = given.knobs.manifests.expand(board, os).map_err(locate)?;
    let question = format!("addons for OS version {os}");
    match manifest::follow(sources, given, board, os, &url).await {
        Ok(followed) => {
            explanation.answered(&question, &url, followed.told());
            Ok(followed)
        }
        Err(source) => {
            explanation.failed(&question, &url, &source);
            Err(ChoiceError::FollowManifest { os: os.clone(), source })
        }
    }
}

fn understood<T>(parsed: Result<T, impl std::fmt::Display>) -> Result<T, Unanswered> {
    parsed.map_err(|error| Unanswered::new(error.to_string()))
}

/// Writes an answer down and hands it on.
fn told<T: std::fmt::Display>(
    question: &str,
    source: &str,
    said: Result<T, Unanswered>,
    explanation: &mut Explanation,
) -> Option<T> {
    match said {
        Ok(answer) => {
            explanation.answered(question, source, &answer);
            Some(answer)
        }
        Err(unanswered) => {
            explanation.failed(question, source, &unanswered);
            None
        }
    }
}

fn listed<'a>(versions: impl Iterator<Item = &'a AddonVersion>) -> String {
    versions.map(AddonVersion::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
