//! The exit code of a failure (`docs/command-line.md`). One `match` without a wildcard, so that a new reason visits it.
//! It never reads a sentence.

use protocol::Reason;

/// The exit code of a command that failed for `reason`.
pub(crate) fn of(reason: Reason) -> u8 {
    match reason {
        // Others have it now: the same command may do a little later, which a missing right never does.
        Reason::LeaseHeld { .. } | Reason::LeaseEnded | Reason::Busy | Reason::TooManyRequests { .. } => BUSY,
        Reason::Failed
        | Reason::Invalid
        | Reason::NotFound
        | Reason::NoRight
        | Reason::Unavailable
        | Reason::Corrupt
        | Reason::Exists
        | Reason::IsFolder
        | Reason::NotFolder
        | Reason::NotEmpty
        | Reason::VersionChanged { .. }
        | Reason::QuotaExceeded
        | Reason::NoSpace
        | Reason::LimitReached
        | Reason::LockedOut { .. }
        | Reason::NotAuthenticated
        | Reason::NotPermitted
        | Reason::InUse
        | Reason::JobEnded
        | Reason::Rebuilding
        | Reason::NoCopy => reason.status().exit_code(),
    }
}

/// Someone else has it; try again.
const BUSY: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_can_tell_later_from_never() {
        for later in [Reason::LeaseHeld { seconds: 9 }, Reason::Busy, Reason::TooManyRequests { seconds: 1 }] {
            assert_eq!(of(later), 8, "{later:?}");
        }
        for never in [Reason::NoRight, Reason::QuotaExceeded, Reason::VersionChanged { current: None }] {
            assert_eq!(of(never), 4, "{never:?}");
        }
        assert_eq!((of(Reason::Unavailable), of(Reason::Exists)), (5, 7));
    }
}
