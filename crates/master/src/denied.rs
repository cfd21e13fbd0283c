//! Why a request is not done: it may not or cannot be, or the user has his share already. Serves the requests that
//! share something with those of others.

use protocol::{
    Refusal,
    message::client_master::{ClientReply, Throttled},
};

/// See the module.
#[derive(Debug)]
pub(crate) enum Denied {
    /// It may not or cannot be.
    Refused(Refusal),
    /// Not now.
    TooMuch(Throttled),
}

impl Denied {
    /// The outcome of a request: who has too much is answered so.
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
