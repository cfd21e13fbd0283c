//! Links the two halves of a third-party copy: the one that fetches the bytes, and the one that talks to the client
//! that ordered it. Serves the path `docs/paths/third-party-copy.md`. The node always speaks first and the client
//! answers, so no message is ever half sent when the copy ends. A client that no longer answers is gone, and the copy
//! ends with it. It never delays the bytes, except where they need the client's answer.

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

use crate::{NodeError, transfer::frame_pipe::STALL_MAX};

/// The state that both halves share.
#[derive(Debug)]
pub(crate) struct PullControl {
    /// The key to which tickets are to be assigned.
    puller: Delegate,
    bytes: AtomicU64,
    /// Whether fresh sources are awaited.
    is_wanting: AtomicBool,
    is_over: AtomicBool,
    /// Wakes the half that talks to the client.
    call: Notify,
    /// The client is gone.
    gone: Notify,
    instructions: watch::Sender<PullInstructions>,
}

/// What the client said last.
#[derive(Clone, Debug)]
pub(crate) struct PullInstructions {
    /// The rate and priority of the copy.
    pub(crate) pace: TransferQos,
    /// The nodes that have the slice, the best first.
    pub(crate) sources: Arc<[Source]>,
    /// When the sources were named.
    pub(crate) named: Instant,
}

impl PullControl {
    /// A conversation that the client has just begun with these instructions.
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

    /// Sets how many bytes of the slice are here.
    pub(crate) fn set_progress(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Asks the client to name the sources anew, and waits for its answer.
    pub(crate) async fn request_sources(&self) {
        let mut said = self.instructions.subscribe();
        self.is_wanting.store(true, Ordering::Relaxed);
        self.call.notify_one();
        while self.is_wanting.load(Ordering::Relaxed) {
            // The answer to an earlier message may arrive first; it is not the one awaited.
            if said.changed().await.is_err() {
                return;
            }
        }
    }

    /// The copy is made, or will not be: nothing more is sent.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.call.notify_one();
    }

    /// Ends when the client is gone.
    pub(crate) async fn client_gone(&self) {
        self.gone.notified().await;
    }

    /// Talks to the client until the [end](Self::end); the connection is then between two messages.
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

/// How often the client hears of the progress, and the node checks that the client is there. A person wants to see
/// something move this often.
const UPDATE_PERIOD: Duration = Duration::from_millis(250);
