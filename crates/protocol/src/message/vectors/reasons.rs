//! The reasons of a refusal as bytes. The first seven have the bytes of the former kinds of failure, so older job
//! journals and messages are still read. It never decides what a reason means.

use super::Vectors;
use crate::{Reason, Version};

#[test]
fn the_reasons_of_a_refusal_have_their_bytes() {
    let mut vectors = Vectors::of("reason", include_str!("../../../tests/vectors/reason.txt"));
    compare!(vectors, Reason {
        "failed": Reason::Failed => Reason::Failed,
        "invalid": Reason::Invalid => Reason::Invalid,
        "not-found": Reason::NotFound => Reason::NotFound,
        "no-right": Reason::NoRight => Reason::NoRight,
        "unavailable": Reason::Unavailable => Reason::Unavailable,
        "corrupt": Reason::Corrupt => Reason::Corrupt,
        "exists": Reason::Exists => Reason::Exists,
        "is-folder": Reason::IsFolder => Reason::IsFolder,
        "not-folder": Reason::NotFolder => Reason::NotFolder,
        "not-empty": Reason::NotEmpty => Reason::NotEmpty,
        "lease-held": Reason::LeaseHeld { .. } => Reason::LeaseHeld { seconds: 60 },
        "lease-ended": Reason::LeaseEnded => Reason::LeaseEnded,
        "version-changed": Reason::VersionChanged { .. } => Reason::VersionChanged { current: Some(Version(17)) },
        "quota-exceeded": Reason::QuotaExceeded => Reason::QuotaExceeded,
        "no-space": Reason::NoSpace => Reason::NoSpace,
        "limit-reached": Reason::LimitReached => Reason::LimitReached,
        "busy": Reason::Busy => Reason::Busy,
        "too-many-requests": Reason::TooManyRequests { .. } => Reason::TooManyRequests { seconds: 10 },
        "locked-out": Reason::LockedOut { .. } => Reason::LockedOut { seconds: 300 },
        "not-authenticated": Reason::NotAuthenticated => Reason::NotAuthenticated,
        "not-permitted": Reason::NotPermitted => Reason::NotPermitted,
        "in-use": Reason::InUse => Reason::InUse,
        "job-ended": Reason::JobEnded => Reason::JobEnded,
        "rebuilding": Reason::Rebuilding => Reason::Rebuilding,
        "no-copy": Reason::NoCopy => Reason::NoCopy,
    });
    vectors.finish();
}
