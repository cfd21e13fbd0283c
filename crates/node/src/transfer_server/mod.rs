//! The node's transfer port (door 5, and door 6 behind it): accepts connections, and answers the requests on each in
//! turn. It serves the paths upload, download, replication and job. Each connection has its own task, and all are
//! counted, so one peer never delays another. It never gives or takes a byte without a ticket that allows exactly that.

mod connection_limits;
mod import_request;
mod local_socket;
mod local_write;
mod piece;
mod pull_request;
pub(crate) mod read;
mod replies;
mod run_source;
mod slots;
#[cfg(test)]
pub(crate) mod tests;
mod verify;
pub(crate) mod write;

use std::{pin::pin, sync::Arc, time::Duration};

use daemon::shutdown::ShutdownToken;
use net::{
    identity::Bearer,
    local::LocalListener,
    transfer::{Incoming, Listener, TransferStream},
    unauthenticated::UNAUTHENTICATED_TIME_MAX,
};
use protocol::{
    TransferQos,
    message::transfer::{TransferReply, TransferRequest},
    ticket::SignedTicket,
    ticket_verifier::ProvedBearer,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::Instrument;

use crate::{
    NodeError,
    node_context::NodeContext,
    task::{self, DriverIdentity},
};
use connection_limits::{ACCEPT_PAUSE, REQUEST_IDLE_MAX, STOP_PATIENCE};
use read::{OPEN_IDLE_MAX, OpenSlices, ReadRequest, SlicePart};
use replies::{AfterRequest, refuse};
use slots::{acquire_slot, acquire_slot_of, acquire_write_slot, too_busy};

/// Serves the port, and the local socket if there is one, until the node stops. Work under way then has a moment to
/// end.
pub(crate) async fn serve(
    context: Arc<NodeContext>,
    listener: Listener,
    local: Option<LocalListener>,
    connections_max: usize,
    stopping: ShutdownToken,
) {
    let at_local = async {
        if let Some(local) = local {
            local_socket::serve(Arc::clone(&context), local, connections_max, stopping.clone()).await;
        }
    };
    tokio::join!(serve_port(Arc::clone(&context), listener, connections_max, stopping.clone()), at_local);
}

async fn serve_port(context: Arc<NodeContext>, listener: Listener, connections_max: usize, stopping: ShutdownToken) {
    let room = Arc::new(Semaphore::new(connections_max));
    let conversations_max = 2 * connections_max + listener.unauthenticated().limits().total;
    let mut conversations = JoinSet::new();
    // Every connection is accepted at once: a peer that waited for room would queue behind unauthenticated ones in the
    // system.
    while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
        while conversations.try_join_next().is_some() {}
        match accepted {
            // Unauthenticated peers are counted where they are admitted. Of the authenticated ones, as many may wait
            // for room as may have it.
            Ok(incoming) if !incoming.is_unauthenticated() && conversations.len() >= conversations_max => {
                drop(incoming)
            }
            Ok(incoming) => {
                let (context, room, stopping) = (Arc::clone(&context), Arc::clone(&room), stopping.clone());
                conversations.spawn(converse(context, incoming, room, stopping));
            }
            Err(error) => {
                // Most likely no descriptor is left; one is freed when a conversation ends.
                tracing::warn!(%error, "a connection could not be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while conversations.join_next().await.is_some() {} };
    // A client that is cut off after this tries another node, and nothing half done remains.
    let _ = timeout(STOP_PATIENCE, ended).await;
}

async fn converse(context: Arc<NodeContext>, incoming: Incoming, room: Arc<Semaphore>, stopping: ShutdownToken) {
    let peer = incoming.peer();
    let outcome = match incoming.handshake().await {
        Ok(mut stream) => {
            stream.count_with(Arc::clone(&context.peers.connections.carried));
            answer_requests(&context, stream, &room, &stopping).await
        }
        Err(error) => Err(error.into()),
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "a conversation broke off");
    }
}

/// Answers one request after the other, until the peer closes. A peer that has proved nothing has its [place among
/// unauthenticated peers](net::unauthenticated); one that has takes one of the `room`.
pub(crate) async fn answer_requests(
    context: &Arc<NodeContext>,
    mut stream: TransferStream,
    room: &Arc<Semaphore>,
    stopping: &ShutdownToken,
) -> Result<(), NodeError> {
    let mut open = OpenSlices::default();
    let mut bearer = Bearer::of(&stream)?;
    let mut pace = TransferQos::default();
    let mut admission = Admission { room, permit: None };
    // A certificate of the cloud is a proof.
    if bearer.is_role() && !admission.admit(&mut stream).await? {
        return Ok(());
    }
    loop {
        let next = async {
            tokio::select! {
                biased;
                () = context.tickets.revocations().wait_node_revoked(&bearer) => Ok(None),
                received = next_request(&mut stream, &mut open) => received,
            }
        };
        let next = stopping.run_until_cancelled(timeout(admission.patience(), next));
        let Some(Ok(received)) = next.await else { break };
        let Some(request) = received? else { break };
        // Neither of these can be cut off in the middle.
        let request = match request {
            TransferRequest::ProveKey { key, proof } => {
                if !bearer.take_proof(key, &proof) {
                    // This answers the request that follows the proof; there is no second try.
                    refuse(&mut stream, &context.tickets.refuse_proof(&bearer)).await?;
                    break;
                }
                continue;
            }
            TransferRequest::Qos(wanted) => {
                pace = wanted;
                continue;
            }
            request => request,
        };
        let Some(ticket) = request.ticket().cloned() else { continue };
        if !admission.show(context, &mut stream, &bearer, &ticket).await? {
            continue;
        }
        if let TransferRequest::Plain { ticket } = &request {
            go_plain(context, &mut stream, &mut bearer, &mut open, ticket).await?;
            continue;
        }
        let revoked = context.tickets.revocations().wait_revoked(&ticket, &bearer);
        if matches!(request, TransferRequest::Spe { .. }) {
            match context.tickets.compute(&bearer, &ticket) {
                Ok((job, user)) => {
                    stream.send(&TransferReply::Ready).await?;
                    let span = tracing::info_span!("job", %job);
                    let asker = DriverIdentity { bearer: bearer.clone(), user, job };
                    let conversation =
                        Box::pin(task::serve_driver(Arc::clone(context), stream, asker, stopping).instrument(span));
                    return tokio::select! {
                        biased;
                        () = revoked => Ok(()),
                        ended = conversation => ended,
                    };
                }
                Err(error) => {
                    refuse(&mut stream, &error).await?;
                    continue;
                }
            }
        }
        let asked = PacedRequest { request, pace: std::mem::take(&mut pace) };
        let after = tokio::select! {
            // Checked first: if both are ready, the request came after the revocation.
            biased;
            // Cut off in the middle, without a message: a client with a good session asks for a new ticket.
            () = revoked => return Ok(()),
            after = answer(context, &mut stream, &bearer, &mut open, asked, stopping) => after?,
        };
        if after == AfterRequest::Close {
            break;
        }
    }
    stream.close().await;
    Ok(())
}

/// Whether a peer has proved anything, and its permit if so. Authenticated peers have permits of their own, so
/// unauthenticated ones take nobody's.
struct Admission<'a> {
    room: &'a Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Admission<'_> {
    /// How long to wait for the peer's next request.
    fn patience(&self) -> Duration {
        if self.permit.is_some() { REQUEST_IDLE_MAX } else { UNAUTHENTICATED_TIME_MAX }
    }

    /// Takes the first good ticket as proof; false if it was refused, which the peer was told.
    async fn show(
        &mut self,
        context: &NodeContext,
        stream: &mut TransferStream,
        bearer: &Bearer,
        ticket: &SignedTicket,
    ) -> Result<bool, NodeError> {
        if self.permit.is_some() {
            return Ok(true);
        }
        if let Err(error) = context.tickets.admits(bearer, ticket) {
            refuse(stream, &error).await?;
            return Ok(false);
        }
        let is_admitted = self.admit(stream).await?;
        if !is_admitted {
            refuse(stream, &too_busy(context)).await?;
        }
        Ok(is_admitted)
    }

    /// Waits for room, but not for ever.
    async fn admit(&mut self, stream: &mut TransferStream) -> Result<bool, NodeError> {
        let waiting = timeout(ROOM_WAIT_MAX, Arc::clone(self.room).acquire_owned());
        let waited = match stream.slot() {
            Some(place) => {
                let peer = stream.peer();
                place.run_bounded(waiting).await.map_err(|over| net::NetError::Unauthenticated { peer, over })?
            }
            None => waiting.await,
        };
        self.permit = waited.ok().and_then(Result::ok);
        if self.permit.is_some() {
            stream.admit();
        }
        Ok(self.permit.is_some())
    }
}

/// A request with its rate and priority.
struct PacedRequest {
    request: TransferRequest,
    pace: TransferQos,
}

/// Answers a request that does not take the connection over.
async fn answer(
    context: &Arc<NodeContext>,
    stream: &mut TransferStream,
    bearer: &Bearer,
    open: &mut OpenSlices,
    PacedRequest { request, pace }: PacedRequest,
    stopping: &ShutdownToken,
) -> Result<AfterRequest, NodeError> {
    match request {
        TransferRequest::Read { ticket, slice, from, until } => {
            let asked = ReadRequest { ticket, slice, part: SlicePart::Range(from..until), pace };
            read_part(context, stream, bearer, open, asked).await
        }
        TransferRequest::ReadRuns { ticket, slice, runs } => {
            let asked = ReadRequest { ticket, slice, part: SlicePart::Runs(runs), pace };
            read_part(context, stream, bearer, open, asked).await
        }
        TransferRequest::Write { ticket, chain } => {
            let Some(_turn) = acquire_write_slot(context, stream).await? else { return Ok(AfterRequest::Next) };
            let asked = write::WriteRequest { ticket, chain, pace };
            // Which slice it is, the ticket says once it is checked.
            let span = tracing::info_span!("write", slice = tracing::field::Empty);
            Box::pin(write::write(context, stream, bearer, asked, stopping)).instrument(span).await
        }
        TransferRequest::Piece { ticket, piece, bytes } => {
            let Some(_turn) = acquire_slot(context, stream).await? else { return Ok(AfterRequest::Next) };
            let span = tracing::info_span!("piece", job = %piece.bucket.job);
            Box::pin(piece::piece(context, stream, bearer, &ticket, piece, bytes)).instrument(span).await
        }
        TransferRequest::Verify { ticket, slice } => {
            let Some(_turn) = acquire_slot(context, stream).await? else { return Ok(AfterRequest::Next) };
            let span = tracing::info_span!("verify", %slice);
            Box::pin(verify::verify(context, stream, bearer, &ticket, slice)).instrument(span).await
        }
        TransferRequest::ListFiles { ticket, folder, after } => {
            Box::pin(import_request::list(context, stream, bearer, &ticket, folder, after)).await
        }
        TransferRequest::ImportFile { ticket, write, folder, file, keep } => {
            let Some(_turn) = acquire_slot(context, stream).await? else { return Ok(AfterRequest::Next) };
            let wanted = import_request::ImportRequest { folder, file, keep };
            Box::pin(import_request::import(context, stream, bearer, &ticket, &write, wanted)).await
        }
        TransferRequest::UnlinkFile { ticket, folder, file, slice } => {
            let wanted = import_request::ImportRequest { folder, file, keep: false };
            Box::pin(import_request::unlink_original(context, stream, bearer, &ticket, wanted, slice)).await
        }
        TransferRequest::Pull(wanted) => {
            let Some(_turn) = acquire_slot_of(context, &context.limits.pull_slots, stream).await? else {
                return Ok(AfterRequest::Next);
            };
            Box::pin(pull_request::pull(
                context,
                stream,
                bearer,
                pull_request::PullRequest { pull: wanted, pace },
                stopping,
            ))
            .await
        }
        // Handled earlier, since these change the state of the connection.
        TransferRequest::Spe { .. }
        | TransferRequest::ProveKey { .. }
        | TransferRequest::Qos(_)
        | TransferRequest::Plain { .. } => Ok(AfterRequest::Close),
    }
}

async fn read_part(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    open: &mut OpenSlices,
    asked: ReadRequest,
) -> Result<AfterRequest, NodeError> {
    let Some(_turn) = acquire_slot(context, stream).await? else { return Ok(AfterRequest::Next) };
    let span = tracing::info_span!("read", slice = %asked.slice);
    // Boxed, as the others: the largest of the conversations determines the size of all.
    Box::pin(read::read(context, stream, bearer, open, asked)).instrument(span).await
}

/// Lets the connection continue unencrypted, if the ticket allows that.
async fn go_plain(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &mut Bearer,
    open: &mut OpenSlices,
    ticket: &SignedTicket,
) -> Result<(), NodeError> {
    if let Err(error) = context.tickets.plain(bearer, ticket) {
        refuse(stream, &error).await?;
        return Ok(());
    }
    // What was opened with an encrypted connection's ticket must be requested anew.
    open.close_all();
    stream.send(&TransferReply::Ready).await?;
    stream.go_plain().await?;
    bearer.goes_plain();
    Ok(())
}

/// The next request, or the end. If none arrives for a while, everything kept open for it is closed.
async fn next_request(
    stream: &mut TransferStream,
    open: &mut OpenSlices,
) -> Result<Option<TransferRequest>, net::NetError> {
    let mut next = pin!(stream.receive_or_end::<TransferRequest>());
    tokio::select! {
        received = &mut next => received,
        () = sleep(OPEN_IDLE_MAX) => {
            open.close_all();
            next.await
        }
    }
}

/// How long an authenticated peer may wait for room, within the time that it had for its proof.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(5);
