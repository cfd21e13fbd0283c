//! Errors of a driver's work, in the form for the rules and the master. It never decides what follows from one.

use protocol::{Reason, Refusal};

use crate::ClientError;

/// An error in the form for the rules and the master.
pub(super) fn refusal(error: ClientError) -> Refusal {
    match error {
        ClientError::Refused(refusal) => refusal,
        error => Refusal::new(error.reason(), error.to_string()),
    }
}

/// A node that did not answer, or not correctly.
pub(super) fn unavailable(node: &protocol::NodeId, why: impl std::fmt::Display) -> Refusal {
    Refusal::new(Reason::Unavailable, format!("node `{node}` cannot be worked with: {why}"))
}
