//! Why a request is not done: it is not allowed or not possible, or the user has used up their share. Serves the
//! requests that compete for shared limits. It never decides which of these holds.

use protocol::{
    Refusal,
    message::client_master::{ClientReply, Throttled},
};

/// See the module.
#[derive(Debug)]
pub(crate) enum Denied {
    /// Not allowed or not possible.
    Refused(Refusal),
    /// Not now.
    TooMuch(Throttled),
}

impl Denied {
    /// The outcome of a request. A user who has too much gets [`Throttled`] as the answer.
    pub(crate) fn outcome(denied: Result<Option<ClientReply>, Self>) -> Result<Option<ClientReply>, Refusal> {
        match denied {
            Ok(reply) => Ok(reply),
            Err(Self::Refused(refusal)) => Err(refusal),
            Err(Self::TooMuch(too_much)) => Ok(Some(ClientReply::Throttled(too_much))),
        }
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Throttled> for Denied {
    fn from(too_much: Throttled) -> Self {
        Self::TooMuch(too_much)
    }
}
