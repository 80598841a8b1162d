//! Whether a machine may follow a manifest whose signature is good: a valid signature says who wrote it, not that it
//! is the newest, nor that it is meant for this machine.

use time::OffsetDateTime;

use super::{AddonError, Board, Manifest, OsVersion};

/// What the machine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// What kind of machine it is.
    pub board: Board,
    /// The OS version that addons are wanted for: the current one or the next.
    pub os_version: OsVersion,
    /// The time.
    pub now: OffsetDateTime,
    /// The highest version ever seen for this board and this OS version.
    pub highest_seen: Option<u64>,
}

/// A manifest that may be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Whether an older manifest would have been noticed.
    pub rollback: Rollback,
}

/// Whether rollback protection worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rollback {
    /// It did; the machine keeps this version as the highest seen.
    Protected(u64),
    /// It could not, for this reason, which the user should hear.
    Off(&'static str),
}

/// Refuses a manifest for other machines, an expired one, and an older one than was seen before.
pub fn judge(manifest: &Manifest, expected: &Expected) -> Result<Judged, AddonError> {
    let Some(stamp) = &manifest.stamp else {
        // Else leaving the object away would be the way to roll back.
        return match expected.highest_seen {
            Some(seen) => Err(AddonError::LoseVersion { seen }),
            None => Ok(Judged { rollback: Rollback::Off("the manifest has no version, expiry, board or OS version") }),
        };
    };
    if stamp.board != expected.board {
        return Err(AddonError::MatchBoard { wanted: expected.board.clone(), found: stamp.board.clone() });
    }
    if stamp.os_version != expected.os_version {
        let wanted = expected.os_version.clone();
        return Err(AddonError::MatchOsVersion { wanted, found: stamp.os_version.clone() });
    }
    if stamp.expires <= expected.now {
        return Err(AddonError::UseExpired { expires: stamp.expires });
    }
    match expected.highest_seen {
        Some(seen) if stamp.version < seen => Err(AddonError::RollBack { seen, found: stamp.version }),
        _ => Ok(Judged { rollback: Rollback::Protected(stamp.version) }),
    }
}
