//! The operating system that the next boot brings, by the word of the update engine.

use windlass_artifacts::addon::OsVersion;

use super::sources::{Sources, UpdateTrouble, UpgradeOs};
use super::{ChoiceError, Explanation};

const NEXT_OS: &str = "the next operating system";

/// An operating system that is staged: whatever boot comes next is one into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upcoming {
    /// The node flow boots into it.
    Booted(OsVersion),
    /// The boot is left to others: no update was asked for.
    Left(OsVersion),
}

impl Upcoming {
    /// Its version.
    pub fn version(&self) -> &OsVersion {
        match self {
            Upcoming::Booted(version) | Upcoming::Left(version) => version,
        }
    }

    /// Its version, if the node flow boots into it.
    pub fn booted(&self) -> Option<&OsVersion> {
        match self {
            Upcoming::Booted(version) => Some(version),
            Upcoming::Left(_) => None,
        }
    }
}

/// A machine without an update engine keeps its operating system, and so does one whose engine finds no update or fails:
/// the seed has "the next version, if any". An engine that was asked and says nothing more may be at work; then it has to
/// be asked again, because a staged update without its addons would leave the machine without a runtime.
pub(super) async fn next_os(
    sources: &impl Sources,
    upgrade: UpgradeOs,
    current: &OsVersion,
    explanation: &mut Explanation,
) -> Result<Option<Upcoming>, ChoiceError> {
    if upgrade == UpgradeOs::Unasked {
        return Ok(None);
    }
    let text = match sources.next_os(upgrade).await {
        Ok(Some(text)) => text,
        Ok(None) => {
            explanation.answered(NEXT_OS, "the update engine", "none");
            return Ok(None);
        }
        Err(UpdateTrouble::Absent(reason)) => {
            explanation.failed(NEXT_OS, "the update engine", &reason);
            explanation.chose("operating system", current, "there is no update engine to ask for another");
            return Ok(None);
        }
        Err(UpdateTrouble::Failed(reason)) => {
            explanation.failed(NEXT_OS, "the update engine", &reason);
            explanation.chose("operating system", current, "the update failed, which keeps no machine from joining");
            return Ok(None);
        }
        Err(UpdateTrouble::Stuck(reason)) => return Err(ChoiceError::UpdateOs { reason }),
    };
    let next =
        OsVersion::parse(&text).map_err(|_| ChoiceError::KnowNextOs { text: text.chars().take(64).collect() })?;
    explanation.answered(NEXT_OS, "the update engine", &next);
    let (comes, why): (fn(OsVersion) -> Upcoming, _) = match upgrade {
        UpgradeOs::Yes => (Upcoming::Booted, "the update engine has staged it"),
        UpgradeOs::Staged => (Upcoming::Booted, "the update engine had staged it before"),
        UpgradeOs::No | UpgradeOs::Unasked => {
            (Upcoming::Left, "the update engine had staged it, for whatever boot comes")
        }
    };
    explanation.chose("next operating system", &next, why);
    Ok(Some(next).filter(|next| next != current).map(comes))
}
