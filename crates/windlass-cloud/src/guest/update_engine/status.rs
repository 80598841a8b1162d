//! What the engine is doing, in the words of the real one.

use serde::Serialize;
use zbus::Type;

/// The engine's states, under the names that its clients compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Nothing to do.
    Idle,
    /// Asking the channel.
    CheckingForUpdate,
    /// There is one.
    UpdateAvailable,
    /// Getting it.
    Downloading,
    /// Comparing digests.
    Verifying,
    /// Making it the next to boot.
    Finalizing,
    /// The next start takes it.
    UpdatedNeedReboot,
    /// It went wrong; the next attempt starts over.
    ReportingErrorEvent,
}

impl Operation {
    /// As it goes over the bus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "UPDATE_STATUS_IDLE",
            Self::CheckingForUpdate => "UPDATE_STATUS_CHECKING_FOR_UPDATE",
            Self::UpdateAvailable => "UPDATE_STATUS_UPDATE_AVAILABLE",
            Self::Downloading => "UPDATE_STATUS_DOWNLOADING",
            Self::Verifying => "UPDATE_STATUS_VERIFYING",
            Self::Finalizing => "UPDATE_STATUS_FINALIZING",
            Self::UpdatedNeedReboot => "UPDATE_STATUS_UPDATED_NEED_REBOOT",
            Self::ReportingErrorEvent => "UPDATE_STATUS_REPORTING_ERROR_EVENT",
        }
    }
}

/// What `GetStatus` answers and `StatusUpdate` carries, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Type)]
pub struct Status {
    /// Seconds since 1970, 0 for never.
    pub last_checked_time: i64,
    /// From 0 to 1, of the download.
    pub progress: f64,
    /// An [`Operation`]'s name.
    pub current_operation: String,
    /// Empty without an update.
    pub new_version: String,
    /// Bytes.
    pub new_size: i64,
}

impl Status {
    /// Of an engine that has not looked yet.
    pub fn idle() -> Self {
        Self {
            last_checked_time: 0,
            progress: 0.0,
            current_operation: Operation::Idle.as_str().to_owned(),
            new_version: String::new(),
            new_size: 0,
        }
    }

    /// The same, doing something else.
    pub fn doing(&self, operation: Operation) -> Self {
        Self { current_operation: operation.as_str().to_owned(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_signature_of_the_real_one() {
        assert_eq!(Status::SIGNATURE.to_string(), "(xdssx)");
        assert_eq!(Status::idle().doing(Operation::Verifying).current_operation, "UPDATE_STATUS_VERIFYING");
    }
}
