//! What the two halves of a third-party copy tell each other: the one that fetches the bytes, and the one that speaks
//! with the client who ordered the copy. Serves the path `docs/paths/third-party-copy.md`.
//!
//! The node always speaks first and the client answers, so that the connection never stands in the middle of a word
//! when the copy ends. A client that answers no more is gone, and the copy with it. It never holds up the bytes: they
//! go on while a word is on its way, but where they wait for what the client is to answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use net::transfer::TransferStream;
use protocol::{
    TransferQos,
    message::{
        client_master::Source,
        transfer::{PULL_SOURCES_MAX, PullUpdate, TransferReply},
    },
    ticket::Delegate,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use crate::{NodeError, frame_pipe::STALL_MAX};

/// See the module.
#[derive(Debug)]
pub(crate) struct PullControl {
    /// To whom tickets are to be handed.
    puller: Delegate,
    bytes: AtomicU64,
    /// Fresh sources are waited for.
    is_wanting: AtomicBool,
    is_over: AtomicBool,
    /// Wakes whoever speaks.
    call: Notify,
    /// The client is gone.
    gone: Notify,
    instructions: watch::Sender<PullInstructions>,
}

/// What the client said last.
#[derive(Clone, Debug)]
pub(crate) struct PullInstructions {
    /// How the copy is to go.
    pub(crate) pace: TransferQos,
    /// Who has the slice, the best first.
    pub(crate) sources: Arc<[Source]>,
    /// When the sources were named.
    pub(crate) named: Instant,
}

impl PullControl {
    /// A conversation that the client has just begun with these words.
    pub(crate) fn new(puller: Delegate, pace: TransferQos, sources: Vec<Source>) -> Self {
        let said = PullInstructions { pace, sources: at_most(sources), named: Instant::now() };
        Self {
            puller,
            bytes: AtomicU64::new(0),
            is_wanting: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            call: Notify::new(),
            gone: Notify::new(),
            instructions: watch::Sender::new(said),
        }
    }

    /// What the client said last.
    pub(crate) fn instructions(&self) -> PullInstructions {
        self.instructions.borrow().clone()
    }

    /// So many bytes of the slice are here.
    pub(crate) fn set_progress(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Has the client name the sources anew, and waits until it has.
    pub(crate) async fn request_sources(&self) {
        let mut said = self.instructions.subscribe();
        self.is_wanting.store(true, Ordering::Relaxed);
        self.call.notify_one();
        while self.is_wanting.load(Ordering::Relaxed) {
            // The answer to a word that was on its way before is not the one that is waited for.
            if said.changed().await.is_err() {
                return;
            }
        }
    }

    /// The copy is made, or will not be: nothing more is said.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.call.notify_one();
    }

    /// Ends when the client is gone.
    pub(crate) async fn client_gone(&self) {
        self.gone.notified().await;
    }

    /// Speaks with the client until the [end](Self::end); the connection then stands between two words.
    pub(crate) async fn serve_client(&self, stream: &mut TransferStream) -> Result<(), NodeError> {
        let spoken = self.speak_to_the_end(stream).await;
        if spoken.is_err() {
            self.gone.notify_one();
        }
        spoken
    }

    async fn speak_to_the_end(&self, stream: &mut TransferStream) -> Result<(), NodeError> {
        loop {
            // Whichever comes first.
            let _ = timeout(UPDATE_PERIOD, self.call.notified()).await;
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let is_wanting = self.is_wanting.load(Ordering::Relaxed);
            let wants = is_wanting.then(|| self.puller.clone());
            let reply = TransferReply::Pulling { bytes: self.bytes.load(Ordering::Relaxed), wants };
            let exchange = async {
                stream.send(&reply).await?;
                stream.receive::<PullUpdate>().await
            };
            let word = match timeout(STALL_MAX, exchange).await {
                Ok(word) => word?,
                Err(_) => return Err(NodeError::Stalled { operation: "waiting for a word", after: STALL_MAX }),
            };
            self.hear(word, is_wanting);
        }
    }

    fn hear(&self, PullUpdate { qos: pace, sources }: PullUpdate, names_sources: bool) {
        if names_sources {
            self.is_wanting.store(false, Ordering::Relaxed);
        }
        self.instructions.send_modify(|said| {
            said.pace = pace;
            if names_sources {
                (said.sources, said.named) = (at_most(sources), Instant::now());
            }
        });
    }
}

fn at_most(mut sources: Vec<Source>) -> Arc<[Source]> {
    sources.truncate(PULL_SOURCES_MAX);
    sources.into()
}

/// How often the client hears how far the copy is, and the node whether the client is there: as often as a person wants
/// to see something move.
const UPDATE_PERIOD: Duration = Duration::from_millis(250);
