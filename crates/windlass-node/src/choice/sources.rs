//! Who is asked. Each answer is final: whoever asks has tried as often as it makes sense, and "no answer" is for good.

use std::fmt;

use windlass_artifacts::download::Url;

/// Whether an update of the operating system is asked for: `--upgrade-os`, and what others than the node flow want of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeOs {
    /// The update engine is asked to look for one, and to stage it.
    Yes,
    /// It is only asked what it has staged already, and that is what the machine boots into.
    Staged,
    /// It is only asked what it has staged already, and nobody boots for that.
    No,
    /// It is not asked: only the operating system that runs matters.
    Unasked,
}

/// Why a source gave no answer, for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    reason: String,
}

impl Unanswered {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Unanswered { reason: reason.into() }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Why there is no next operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateTrouble {
    /// This operating system has no update engine.
    Absent(String),
    /// The engine says that it failed; nothing is staged.
    Failed(String),
    /// The engine was asked and does not come to an end.
    Stuck(String),
}

/// Why a document of the bucket is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The bucket has no such document.
    Absent,
    /// The bucket gave no answer, or a wrong one.
    Failed(String),
}

/// Everybody who is asked.
#[expect(async_fn_in_trait, reason = "one flow asks, on one thread")]
pub trait Sources {
    /// The version that the API says it has.
    async fn api_version(&self) -> Result<String, Unanswered>;

    /// The mappings in the cluster's ConfigMap.
    async fn api_mappings(&self) -> Result<Vec<u8>, Unanswered>;

    /// The `kubelet.env` that the installer left.
    fn installer_env(&self) -> Result<String, Unanswered>;

    /// The mappings that the installer left.
    fn installer_mappings(&self) -> Result<Vec<u8>, Unanswered>;

    /// The text of `/usr/lib/os-release`.
    fn os_release(&self) -> Result<Vec<u8>, Unanswered>;

    /// The version of the operating system that is staged, after an update if one is wanted.
    async fn next_os(&self, upgrade: UpgradeOs) -> Result<Option<String>, UpdateTrouble>;

    /// A document of the bucket.
    async fn document(&self, url: &Url) -> Result<Vec<u8>, Missing>;
}
