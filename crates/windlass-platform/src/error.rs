//! Why a platform did not do what it was asked.

use thiserror::Error;

/// The cause below an attempt.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a platform did not do what it was asked.
#[derive(Debug, Error)]
pub enum PlatformError {
    /// Nobody answers for the platform.
    #[error("cannot reach the {platform} platform")]
    Reach {
        /// Which platform.
        platform: &'static str,
        /// Why not.
        source: Cause,
    },
    /// It answered, and it did not do it.
    #[error("cannot {attempt}")]
    Act {
        /// What was tried, so that it reads well after "cannot".
        attempt: String,
        /// Why it was not done.
        source: Cause,
        /// What to do about it, where the platform knows.
        hint: Option<String>,
    },
}

impl PlatformError {
    /// A failed attempt and its cause.
    pub fn act(attempt: impl Into<String>, source: impl Into<Cause>) -> Self {
        PlatformError::Act { attempt: attempt.into(), source: source.into(), hint: None }
    }

    /// What to do about it, where the platform knows.
    pub fn hint(&self) -> Option<&str> {
        match self {
            PlatformError::Act { hint, .. } => hint.as_deref(),
            PlatformError::Reach { .. } => None,
        }
    }
}
