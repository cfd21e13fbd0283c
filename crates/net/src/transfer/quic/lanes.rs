//! Which lane of which conversation a stream is. A conversation's bytes are striped over several QUIC streams, its
//! **lanes**. Lane 0 is the bidirectional stream that began it. The others are one-way streams, opened when first
//! needed; their first bytes name their conversation. The library closes a connection when one stream's unread bytes
//! have over 1,024 gaps. A long fat pipe makes that many when its queue overflows. A lane's small window never does,
//! whatever is lost and however slow the reader, and many lanes still fill the pipe.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use noq::{Connection, RecvStream, StreamId, VarInt};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

/// The lanes that have arrived on one connection, by conversation.
pub(super) struct Lanes {
    table: Mutex<LaneTable>,
    arrived: Notify,
    taking: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct LaneTable {
    open: HashMap<u64, BTreeMap<u8, RecvStream>>,
    /// Conversations up to here have begun: a lane of one that is not open comes too late.
    begun: Option<u64>,
    /// Whether the connection will give no further lane.
    has_ended: bool,
}

impl Lanes {
    /// Takes the lanes of `connection` until it has no conversation.
    pub(super) fn of(connection: &Connection) -> Arc<Self> {
        let this = Arc::new(Self { table: Mutex::default(), arrived: Notify::new(), taking: Mutex::default() });
        let lanes = Arc::downgrade(&this);
        let connection = connection.clone();
        let taking = tokio::spawn(async move {
            let mut introductions = JoinSet::new();
            while let Ok(stream) = connection.accept_uni().await {
                while introductions.try_join_next().is_some() {}
                let lanes = lanes.clone();
                introductions.spawn(async move {
                    let introduced = timeout(LANE_HEADER_DEADLINE, read_lane_header(stream)).await;
                    if let (Ok(Some((conversation, lane, stream))), Some(lanes)) = (introduced, lanes.upgrade()) {
                        lanes.insert(conversation, lane, stream);
                    }
                });
            }
            if let Some(lanes) = lanes.upgrade() {
                lanes.lock().has_ended = true;
                lanes.arrived.notify_waiters();
            }
        });
        *this.taking.lock().unwrap_or_else(PoisonError::into_inner) = Some(taking.abort_handle());
        this
    }

    /// A conversation begins.
    pub(super) fn open(&self, conversation: StreamId) {
        let (mut desks, id) = (self.lock(), number(conversation));
        desks.begun = desks.begun.max(Some(conversation.index()));
        desks.open.entry(id).or_default();
    }

    /// A conversation has ended.
    pub(super) fn close(&self, conversation: StreamId) {
        self.lock().open.remove(&number(conversation));
    }

    /// How many conversations are open.
    #[cfg(test)]
    pub(super) fn conversations(&self) -> usize {
        self.lock().open.len()
    }

    /// A lane of an open conversation, once it has arrived; `None` when none will.
    pub(super) async fn take(&self, conversation: StreamId, lane: u8) -> Option<RecvStream> {
        let id = number(conversation);
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // From here on no arrival is missed.
            arrived.as_mut().enable();
            {
                let mut desks = self.lock();
                if let Some(stream) = desks.open.get_mut(&id).and_then(|desk| desk.remove(&lane)) {
                    return Some(stream);
                }
                if desks.has_ended {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Takes a stream that has said which lane it is. A lane of a finished conversation is dropped, which tells its
    /// sender.
    fn insert(&self, conversation: StreamId, lane: u8, stream: RecvStream) {
        let mut desks = self.lock();
        let id = number(conversation);
        // It may overtake the stream that begins its conversation.
        let is_early = desks.begun.is_none_or(|begun| conversation.index() > begun);
        if is_early && !desks.open.contains_key(&id) {
            let begun = desks.begun.map_or(0, |begun| begun + 1);
            if conversation.index() - begun >= EARLY_CONVERSATIONS_MAX {
                return;
            }
            desks.open.insert(id, BTreeMap::new());
        }
        if let Some(desk) = desks.open.get_mut(&id) {
            desk.insert(lane, stream);
            drop(desks);
            self.arrived.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, LaneTable> {
        // Each change under this lock is complete in itself.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // The task holds the connection open.
        if let Some(taking) = self.taking.get_mut().unwrap_or_else(PoisonError::into_inner) {
            taking.abort();
        }
    }
}

/// The first bytes of a lane.
pub(super) fn lane_header(conversation: StreamId, lane: u8) -> [u8; LANE_HEADER_BYTES] {
    let mut bytes = [lane; LANE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&number(conversation).to_be_bytes());
    bytes
}

/// Which lane a stream is; `None` when it does not begin like [`lane_header`].
async fn read_lane_header(mut stream: RecvStream) -> Option<(StreamId, u8, RecvStream)> {
    let mut bytes = [0; LANE_HEADER_BYTES];
    stream.read_exact(&mut bytes).await.ok()?;
    let [id @ .., lane] = bytes;
    let conversation = StreamId::from(VarInt::from_u64(u64::from_be_bytes(id)).ok()?);
    (1..LANES).contains(&lane).then_some((conversation, lane, stream))
}

fn number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// Lanes of a conversation in each direction: with [`LANE_WINDOW_BYTES`] each, 2.6 Gbit/s over 100 ms. A transfer that
/// needs more has several conversations.
pub(super) const LANES: u8 = 16;
/// Bytes dealt to a lane before the next one's turn: some two hundred packets.
pub(super) const STRIPE_BYTES: u64 = 256 * 1024;
/// Bytes of a lane that may be under way or unread. In packets of the smallest size of 1,200 bytes that is 1,748, with
/// at most 874 gaps between them.
pub(super) const LANE_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// Length of a lane's header: the conversation's stream and the lane's number.
const LANE_HEADER_BYTES: usize = 9;
/// How long a lane's header may take to arrive, lost packets included.
const LANE_HEADER_DEADLINE: Duration = Duration::from_secs(60);
/// How far a lane may be ahead of the conversations that have begun.
const EARLY_CONVERSATIONS_MAX: u64 = 64;
