//! The node's transfer port (door 5, and door 6 behind it): takes connections, and on each one request after the other.
//! It serves the paths upload, download, replication and job.
//!
//! It never gives or takes a byte without a ticket that allows just that, and never lets one peer hold up another: each
//! connection has its own task, and all are counted.

mod import;
mod local;
mod local_write;
mod piece;
mod pull;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod tests;
mod verify;
pub(crate) mod write;

use std::{pin::pin, sync::Arc, time::Duration};

use daemon::stop::Stopping;
use net::{
    identity::Bearer,
    local::LocalListener,
    transfer::{Incoming, Listener, TransferStream},
};
use protocol::{
    Pace, Status,
    message::transfer::{Pull, TransferReply, TransferRequest},
    ticket::SignedTicket,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    NodeError,
    hands::{Counted, Hands},
    task::{self, Asker},
};
use read::{OPEN_IDLE_MAX, OpenSlices};

/// Serves the port, and the local socket where there is one, until the node stops; then lets what is under way end for a
/// moment.
pub(crate) async fn serve(
    hands: Arc<Hands>,
    listener: Listener,
    local: Option<LocalListener>,
    connections_max: usize,
    stopping: Stopping,
) {
    let at_local = async {
        if let Some(local) = local {
            local::serve(Arc::clone(&hands), local, connections_max, stopping.clone()).await;
        }
    };
    tokio::join!(serve_port(Arc::clone(&hands), listener, connections_max, stopping.clone()), at_local);
}

async fn serve_port(hands: Arc<Hands>, listener: Listener, connections_max: usize, stopping: Stopping) {
    let room = Arc::new(Semaphore::new(connections_max));
    let mut conversations = JoinSet::new();
    loop {
        let accepted = stopping.unless(async {
            // Room first: who comes when there is none waits in the system's queue.
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        });
        let Some((Ok(permit), accepted)) = accepted.await else { break };
        while conversations.try_join_next().is_some() {}
        match accepted {
            Ok(incoming) => {
                let (hands, stopping) = (Arc::clone(&hands), stopping.clone());
                conversations.spawn(async move {
                    converse(hands, incoming, stopping).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Most likely no descriptor is left: one comes free when a conversation ends.
                tracing::warn!(%error, "a connection could not be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while conversations.join_next().await.is_some() {} };
    // Whoever is cut off after this tries another node, and nothing half done remains.
    let _ = timeout(STOP_PATIENCE, ended).await;
}

async fn converse(hands: Arc<Hands>, incoming: Incoming, stopping: Stopping) {
    let peer = incoming.peer();
    let outcome = match incoming.handshake().await {
        Ok(stream) => answer_requests(&hands, stream, &stopping).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "a conversation broke off");
    }
}

/// Answers one request after the other, until the peer closes.
pub(crate) async fn answer_requests(
    hands: &Arc<Hands>,
    mut stream: TransferStream,
    stopping: &Stopping,
) -> Result<(), NodeError> {
    let mut open = OpenSlices::default();
    let mut bearer = Bearer::of(&stream)?;
    let mut pace = Pace::default();
    loop {
        let next = stopping.unless(timeout(REQUEST_IDLE_MAX, next_request(&mut stream, &mut open)));
        let Some(Ok(received)) = next.await else { break };
        let Some(request) = received? else { break };
        // Nothing of these can be cut off in the middle.
        let request = match request {
            TransferRequest::Hold { key, proof } => {
                if !bearer.take_proof(key, &proof) {
                    // It is the answer to what comes behind the proof; and there is no second try.
                    refuse(&mut stream, &hands.tickets.refuse_proof(&bearer)).await?;
                    break;
                }
                continue;
            }
            TransferRequest::Pace(wanted) => {
                pace = wanted;
                continue;
            }
            TransferRequest::Plain { ticket } => {
                go_plain(hands, &mut stream, &mut bearer, &mut open, &ticket).await?;
                continue;
            }
            request => request,
        };
        let Some(ticket) = ticket_of(&request).cloned() else { continue };
        let revoked = hands.tickets.revoked().wait(&ticket);
        if matches!(request, TransferRequest::Spe { .. }) {
            match hands.tickets.compute(&bearer, &ticket) {
                Ok((job, user)) => {
                    stream.send(&TransferReply::Ready).await?;
                    let conversation =
                        Box::pin(task::converse(Arc::clone(hands), stream, Asker { bearer, user, job }, stopping));
                    return tokio::select! {
                        ended = conversation => ended,
                        () = revoked => Ok(()),
                    };
                }
                Err(error) => {
                    refuse(&mut stream, &error).await?;
                    continue;
                }
            }
        }
        let asked = Asked { request, pace: std::mem::take(&mut pace) };
        let after = tokio::select! {
            after = answer(hands, &mut stream, &bearer, &mut open, asked, stopping) => after?,
            // Cut off in the middle, without a word: whoever has a good session asks for a new ticket.
            () = revoked => return Ok(()),
        };
        if after == After::Close {
            break;
        }
    }
    stream.close().await;
    Ok(())
}

/// A request, and how it is to go.
struct Asked {
    request: TransferRequest,
    pace: Pace,
}

/// Answers one request that leaves the connection here.
async fn answer(
    hands: &Arc<Hands>,
    stream: &mut TransferStream,
    bearer: &Bearer,
    open: &mut OpenSlices,
    Asked { request, pace }: Asked,
    stopping: &Stopping,
) -> Result<After, NodeError> {
    match request {
        TransferRequest::Read { ticket, slice, from, until } => {
            let Some(_turn) = turn(hands, stream).await? else { return Ok(After::Next) };
            // Boxed, as below: the largest of the conversations decides the size of all.
            Box::pin(read::read(hands, stream, bearer, open, read::Wanted { ticket, slice, range: from..until, pace }))
                .await
        }
        TransferRequest::Write { ticket, chain } => {
            let Some(_turn) = turn_to_write(hands, stream).await? else { return Ok(After::Next) };
            Box::pin(write::write(hands, stream, bearer, write::Wanted { ticket, chain, pace }, stopping)).await
        }
        TransferRequest::Piece { ticket, piece, bytes } => {
            let Some(_turn) = turn(hands, stream).await? else { return Ok(After::Next) };
            Box::pin(piece::piece(hands, stream, bearer, &ticket, piece, bytes)).await
        }
        TransferRequest::Verify { ticket, slice } => {
            let Some(_turn) = turn(hands, stream).await? else { return Ok(After::Next) };
            Box::pin(verify::verify(hands, stream, bearer, &ticket, slice)).await
        }
        TransferRequest::ListFiles { ticket, folder, after } => {
            Box::pin(import::list(hands, stream, bearer, &ticket, folder, after)).await
        }
        TransferRequest::ImportFile { ticket, write, folder, file, keep } => {
            let Some(_turn) = turn(hands, stream).await? else { return Ok(After::Next) };
            let wanted = import::Wanted { folder, file, keep };
            Box::pin(import::import(hands, stream, bearer, &ticket, &write, wanted)).await
        }
        TransferRequest::LeaveFile { ticket, folder, file, slice } => {
            let wanted = import::Wanted { folder, file, keep: false };
            Box::pin(import::leave(hands, stream, bearer, &ticket, wanted, slice)).await
        }
        TransferRequest::Pull(wanted) => {
            let Some(_turn) = turn_of(hands, &hands.pulls, stream).await? else { return Ok(After::Next) };
            Box::pin(pull::pull(hands, stream, bearer, pull::Wanted { pull: wanted, pace }, stopping)).await
        }
        // Taken out before: these change what the connection is.
        TransferRequest::Spe { .. }
        | TransferRequest::Hold { .. }
        | TransferRequest::Pace(_)
        | TransferRequest::Plain { .. } => Ok(After::Close),
    }
}

/// Lets the connection go on without encryption, where the ticket allows that.
async fn go_plain(
    hands: &Hands,
    stream: &mut TransferStream,
    bearer: &mut Bearer,
    open: &mut OpenSlices,
    ticket: &SignedTicket,
) -> Result<(), NodeError> {
    if let Err(error) = hands.tickets.plain(bearer, ticket) {
        refuse(stream, &error).await?;
        return Ok(());
    }
    // What was opened with an encrypted connection's ticket must be asked for anew.
    open.close_all();
    stream.send(&TransferReply::Ready).await?;
    stream.go_plain().await?;
    bearer.goes_plain();
    Ok(())
}

/// The ticket with which a request comes; a proof comes without.
fn ticket_of(request: &TransferRequest) -> Option<&SignedTicket> {
    match request {
        TransferRequest::Read { ticket, .. }
        | TransferRequest::Write { ticket, .. }
        | TransferRequest::Piece { ticket, .. }
        | TransferRequest::Verify { ticket, .. }
        | TransferRequest::ListFiles { ticket, .. }
        | TransferRequest::ImportFile { ticket, .. }
        | TransferRequest::LeaveFile { ticket, .. }
        | TransferRequest::Plain { ticket }
        | TransferRequest::Spe { ticket }
        | TransferRequest::Pull(Pull { write: ticket, .. }) => Some(ticket),
        TransferRequest::Hold { .. } | TransferRequest::Pace(_) => None,
    }
}

/// The next request, or the end. When none comes for a while, nothing is kept open for it any more.
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

/// What becomes of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The next request may come.
    Next,
    /// It stands in the middle of something.
    Close,
}

/// One transfer's turn.
struct Turn {
    _permit: OwnedSemaphorePermit,
    _counted: Counted,
}

/// Waits for a turn; when none comes, the peer is told to come back.
async fn turn(hands: &Hands, stream: &mut TransferStream) -> Result<Option<Turn>, NodeError> {
    turn_of(hands, &hands.transfers, stream).await
}

/// The same for one who writes; another node passes a slice on, and has turns of its own.
async fn turn_to_write(hands: &Hands, stream: &mut TransferStream) -> Result<Option<Turn>, NodeError> {
    let turns = if stream.peer_fingerprint().is_some() { &hands.forwards } else { &hands.transfers };
    turn_of(hands, turns, stream).await
}

async fn turn_of(
    hands: &Hands,
    turns: &Arc<Semaphore>,
    stream: &mut TransferStream,
) -> Result<Option<Turn>, NodeError> {
    let turn = wait_for_turn(hands, turns).await;
    if turn.is_none() {
        stream.send(&TransferReply::Refused(too_busy(hands).refusal())).await?;
    }
    Ok(turn)
}

/// Waits for a turn, but not for ever.
async fn take_turn(hands: &Hands) -> Option<Turn> {
    wait_for_turn(hands, &hands.transfers).await
}

async fn wait_for_turn(hands: &Hands, turns: &Arc<Semaphore>) -> Option<Turn> {
    match timeout(TURN_WAIT_MAX, Arc::clone(turns).acquire_owned()).await {
        Ok(Ok(permit)) => Some(Turn { _permit: permit, _counted: hands.transfers_running.count() }),
        _ => None,
    }
}

fn too_busy(hands: &Hands) -> NodeError {
    let sentence = format!("node {} serves as many transfers as it may; try again a little later", hands.node);
    NodeError::refused(Status::Unavailable, sentence)
}

/// Says no. The connection stays good for another request.
async fn refuse(stream: &mut TransferStream, error: &NodeError) -> Result<After, NodeError> {
    stream.send(&TransferReply::Refused(error.refusal())).await?;
    Ok(After::Next)
}

/// How long a connection may wait for its next request.
pub(crate) const REQUEST_IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a request may wait for its turn before it is sent elsewhere.
const TURN_WAIT_MAX: Duration = Duration::from_secs(15);
/// Pause after a connection could not be taken, instead of trying in a loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long conversations may go on once the node stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
