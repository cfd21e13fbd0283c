//! Queries on threads of their own: planning and rows may take a processor for long, and nobody else shall wait for that. An
//! answer goes through a short channel, so that rows wait for who reads. It never holds a turn longer than a query may
//! run, whether its answer is read or not.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use client::Client;
use futures_util::stream;
use tokio::{
    runtime::{Handle, Runtime},
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::{Instant, timeout_at},
};
use vo::Fault;

use super::{
    limits::SYNC_LIMIT,
    query::TapQuery,
    running::{Queries, Uploads},
};
use crate::engine::STACK_BYTES;

/// A query at once.
pub(super) struct Question {
    pub(super) client: Client,
    pub(super) user: Option<String>,
    pub(super) query: TapQuery,
    pub(super) uploads: Uploads,
    /// When it must have ended.
    pub(super) ends: Instant,
    pub(super) turn: OwnedSemaphorePermit,
}

/// Bytes of an answer, its end, or why it breaks off.
type Piece = Result<Option<Vec<u8>>, Fault>;

/// Starts a query, and gives its answer as it comes once it has begun.
///
/// # Errors
/// What is wrong with it, and a query that has not begun in time.
pub(super) async fn answer(queries: Arc<Queries>, question: Question) -> Result<Body, Fault> {
    let ends = question.ends;
    let (begun, begins) = oneshot::channel();
    let (to, pieces) = mpsc::channel(PIECES_WAITING);
    threads()?.spawn(async move {
        // What is over time is dropped here, with its turn: the channel closes without an end.
        let _ = timeout_at(ends + GRACE, run(queries, question, begun, to)).await;
    });
    match timeout_at(ends, begins).await {
        Ok(Ok(started)) => started?,
        Ok(Err(_)) => return Err(Fault::Failed("the query broke off".into())),
        Err(_) => return Err(too_long()),
    }
    Ok(Body::from_stream(stream::try_unfold(pieces, |mut pieces| async move {
        match pieces.recv().await {
            Some(Ok(Some(bytes))) => Ok(Some((bytes, pieces))),
            Some(Ok(None)) => Ok(None),
            Some(Err(fault)) => Err(fault),
            // No client must take a part for the whole.
            None => Err(too_long()),
        }
    })))
}

async fn run(
    queries: Arc<Queries>,
    Question { client, user, query, uploads, ends, turn }: Question,
    begun: oneshot::Sender<Result<(), Fault>>,
    to: mpsc::Sender<Piece>,
) {
    let _turn = turn;
    let mut running = match queries.start((&client, user.as_deref()), &query, &uploads).await {
        Ok(running) => running,
        Err(fault) => {
            let _ = begun.send(Err(fault));
            return;
        }
    };
    let _ = begun.send(Ok(()));
    loop {
        let next = timeout_at(ends, running.next()).await.unwrap_or_else(|_| Err(too_long()));
        let pieces: [Option<Piece>; 2] = match next {
            Ok(Some(bytes)) => [Some(Ok(Some(bytes))), None],
            Ok(None) => [Some(Ok(None)), None],
            // A VOTable can say at its end what went wrong.
            Err(fault) if query.format.tells_its_end() => [Some(running.fail(&fault).map(Some)), Some(Ok(None))],
            Err(fault) => [Some(Err(fault)), None],
        };
        for piece in pieces.into_iter().flatten() {
            let is_last = !matches!(piece, Ok(Some(_)));
            if to.send(piece).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// The threads of all queries.
///
/// # Errors
/// A machine that gives no threads.
pub(super) fn threads() -> Result<&'static Handle, Fault> {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let built = THREADS.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.thread_name("query").thread_stack_size(STACK_BYTES).enable_all().build().ok()
    });
    let built = built.as_ref().ok_or_else(|| Fault::Failed("there are no threads for queries".into()))?;
    Ok(built.handle())
}

/// That a query at once has had its time.
pub(super) fn too_long() -> Fault {
    Fault::Unavailable(format!("a query at once runs for {} s at most: send it to /async", SYNC_LIMIT.as_secs()))
}

/// Pieces of an answer that wait for who reads.
const PIECES_WAITING: usize = 4;
/// How long an answer that is over time has to say so.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);
