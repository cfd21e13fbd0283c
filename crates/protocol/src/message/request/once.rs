//! A change that is made once, however often it is asked for. A client that lost its session asks again under the same
//! number, and gets the answer of the first time. This file never decides which requests are such changes: each says so
//! itself.

use serde::{Deserialize, Serialize};

use super::{Properties, TypedRequest};
use crate::message::{client_master::ClientRequest, client_reply::ClientReply};

/// The number of a change, drawn at random by the client. A user's two changes never have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u128);

/// A change with its number. The master remembers the answers of the last minutes, also over a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceRequest {
    /// The same number each time that it is asked for.
    pub id: RequestId,
    /// The change; never one of this kind itself.
    pub request: Box<ClientRequest>,
}

impl TypedRequest for OnceRequest {
    type Reply = ClientReply;

    fn reply(answer: ClientReply) -> Option<ClientReply> {
        Some(answer)
    }

    fn properties(&self) -> Properties<'_> {
        self.request.properties().repeatable()
    }

    fn is_answered_by(&self, answer: &ClientReply) -> bool {
        self.request.is_answered_by(answer)
    }
}
