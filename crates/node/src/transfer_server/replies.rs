//! What a request ends with: a refusal, and what becomes of its connection. It serves every path through the transfer
//! port. It never closes a connection itself.

use net::transfer::TransferStream;
use protocol::message::transfer::TransferReply;

use crate::NodeError;

/// The state of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRequest {
    /// The next request may come.
    Next,
    /// It stopped in the middle of something.
    Close,
}

/// Refuses a request. The connection stays usable for another one.
pub(super) async fn refuse(stream: &mut TransferStream, error: &NodeError) -> Result<AfterRequest, NodeError> {
    stream.send(&TransferReply::Refused(error.refusal())).await?;
    Ok(AfterRequest::Next)
}
