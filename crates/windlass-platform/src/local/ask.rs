//! What the cloud's answers mean here.

use windlass_cloud_api::ClientError;

use crate::PlatformError;

/// The error of an attempt; a cloud that does not answer is told from one that refuses.
pub(super) fn act(attempt: impl Into<String>) -> impl FnOnce(ClientError) -> PlatformError {
    move |error| match error {
        ClientError::Connect { .. } => PlatformError::Reach { platform: "local", source: Box::new(error) },
        ClientError::Refused { ref refusal, .. } => {
            let hint = refusal.next.clone();
            PlatformError::Act { attempt: attempt.into(), source: Box::new(error), hint }
        }
        error => PlatformError::act(attempt, error),
    }
}

/// Whether the cloud says that there is no such thing.
pub(super) fn is_unknown(error: &ClientError) -> bool {
    error.status() == Some(404)
}
