//! Serves bytes of a slice. A connection keeps a slice it has read open for a while, with the ticket that opened it. A
//! small read then costs no signature, no sidecar and one thread's work. A reader that returns for more gets the same
//! slice, even if the path has another content meanwhile. Every block is verified before it leaves; a bad one is
//! reported and never served.

use std::{ops::Range, sync::Arc, time::Duration};

use net::{
    identity::Bearer,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    Reason, SliceId, TransferQos, limits,
    message::{byte_runs::ByteRuns, transfer::TransferReply},
    ticket::SignedTicket,
};
use store::SliceReader;
use tokio::time::{Instant, timeout};

use super::{
    replies::{AfterRequest, refuse},
    run_source::RunSource,
};
use crate::{
    NodeError, blocking,
    node_context::NodeContext,
    tickets::revocation_watch::RevocationWatch,
    transfer::{
        frame_pipe::{FRAME_BYTES, FrameSource, FrameWriter, STALL_MAX},
        site_limiters::remote_site,
        site_links::LinkDirection,
    },
};

/// What a reader asks for.
pub(super) struct ReadRequest {
    pub(super) ticket: SignedTicket,
    pub(super) slice: SliceId,
    pub(super) part: SlicePart,
    /// The rate and priority of the bytes.
    pub(super) pace: TransferQos,
}

/// Bytes of a slice.
#[derive(Clone)]
pub(super) enum SlicePart {
    /// All of a range, or what there is of it.
    Range(Range<u64>),
    /// Runs, all of which are there.
    Runs(ByteRuns),
}

impl SlicePart {
    /// The range that it lies in.
    fn range(&self) -> Result<Range<u64>, NodeError> {
        match self {
            Self::Range(range) => Ok(range.clone()),
            Self::Runs(runs) => runs.range().map_err(|why| NodeError::refused(Reason::Invalid, why)),
        }
    }
}

pub(super) async fn read(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    open: &mut OpenSlices,
    ReadRequest { ticket, slice, part, pace }: ReadRequest,
) -> Result<AfterRequest, NodeError> {
    let range = match part.range() {
        Ok(range) => range,
        Err(error) => return refuse(stream, &error).await,
    };
    let shown = ticket.clone();
    let mut begun = begin(context, bearer, open, ticket.clone(), slice, &part).await;
    if matches!(&begun, Err(error) if open.forget_if_corrupt(slice, error)) {
        // The open file was bad; a good copy may have been made since.
        begun = begin(context, bearer, open, ticket, slice, &part).await;
    }
    let (first, source) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let error = recheck_if_corrupt(context, slice, range, error).await;
            return refuse(stream, &error).await;
        }
    };
    let far = remote_site(bearer, &shown);
    let crossing = context.peers.site_limiters.for_transfer(far.as_deref(), LinkDirection::Sent, pace);
    crossing.meter(stream);
    let limiter = crossing.limiter();
    let reading = TransferReply::Reading { bytes: first.payload.len() as u64 + source.left_bytes() };
    let sent = async {
        stream.queue(&reading).await?;
        if source.left_bytes() > 0 {
            return FrameWriter::resume(first, source).send(stream, limiter, STALL_MAX).await;
        }
        // The whole answer at once: a message, a frame, the end.
        limiter.send(stream, &first, STALL_MAX).await?;
        match timeout(STALL_MAX, stream.end_frames()).await {
            Ok(sent) => sent?,
            Err(_) => return Err(NodeError::Stalled { operation: "sending bytes", after: STALL_MAX }),
        }
        open.spare = first;
        Ok(())
    };
    match sent.await {
        Ok(()) => Ok(AfterRequest::Next),
        // The connection is dropped: an answer with fewer bytes than announced is invalid, and the reader turns to
        // another copy.
        Err(error) => Err(recheck_if_corrupt(context, slice, range, error).await),
    }
}

/// If `error` says that bytes are bad, checks them once more before the copy is quarantined. They may belong to an
/// earlier copy that was open here while a good one took its place. Returns the error.
async fn recheck_if_corrupt(context: &NodeContext, slice: SliceId, range: Range<u64>, error: NodeError) -> NodeError {
    if !is_corrupt(&error) {
        return error;
    }
    let store = Arc::clone(&context.storage.slices);
    let looked =
        blocking("looking at bad bytes again", move || Ok(store.open_slice(slice)?.verify(range.start, range.end)?));
    if let Err(found) = looked.await {
        context.storage.quarantine_if_corrupt(slice, found).await;
    }
    error
}

fn out_of_range(slice: SliceId, allowed: &Range<u64>) -> String {
    format!("the ticket allows bytes {} to {} of slice {slice}", allowed.start, allowed.end)
}

fn is_corrupt(error: &NodeError) -> bool {
    matches!(error, NodeError::Store(store::StoreError::Corrupt { .. }))
}

/// Checks the ticket, opens the slice and reads the first frame. The first two are skipped if the connection has done
/// them before. If the bytes are in memory, no other thread is woken.
async fn begin(
    context: &NodeContext,
    bearer: &Bearer,
    open: &mut OpenSlices,
    ticket: SignedTicket,
    slice: SliceId,
    part: &SlicePart,
) -> Result<(StreamFrame, PartSource), NodeError> {
    let range = part.range()?;
    let known = open.find(context.tickets.revocations(), &ticket, slice);
    let allowed = match &known {
        Some(known) => known.clone(),
        None => context.tickets.read(bearer, &ticket, slice)?,
    };
    let until = context.storage.slices.bytes_of(slice).map_or(range.end, |bytes| range.end.min(bytes));
    if range.start < allowed.start || until > allowed.end {
        return Err(context.tickets.refuse_range(bearer, out_of_range(slice, &allowed)));
    }
    let mut frame = std::mem::take(&mut open.spare);
    frame.checksums.clear();
    let mut opened = match open.reader(slice) {
        Some(reader) => Some(PartSource::begin(reader, slice, part, &allowed)?),
        None => None,
    };
    let is_filled = match &mut opened {
        Some(source) => source.try_fill(&mut frame)?,
        None => false,
    };
    let (source, frame) = match opened {
        Some(source) if is_filled => (source, frame),
        opened => {
            let (store, may_read, part) = (Arc::clone(&context.storage.slices), allowed.clone(), part.clone());
            blocking("reading a slice", move || {
                let mut source = match opened {
                    Some(source) => source,
                    None => PartSource::begin(Arc::new(store.open_slice(slice)?), slice, &part, &may_read)?,
                };
                source.fill(&mut frame)?;
                Ok((source, frame))
            })
            .await?
        }
    };
    if known.is_none() {
        open.keep(ticket, slice, allowed, Arc::clone(source.reader()));
    }
    Ok((frame, source))
}

/// The slices that one connection has open.
#[derive(Default)]
pub(super) struct OpenSlices {
    /// In order of use, the most recent last.
    kept: Vec<OpenSlice>,
    /// A frame whose memory is reused.
    spare: StreamFrame,
}

struct OpenSlice {
    slice: SliceId,
    /// The ticket that was checked, recognised by its bytes, and what it allows.
    ticket: SignedTicket,
    allowed: Range<u64>,
    since: Instant,
    reader: Arc<SliceReader>,
}

impl OpenSlices {
    /// Closes everything after a long time without a request.
    pub(super) fn close_all(&mut self) {
        *self = Self::default();
    }

    /// What a ticket allows that was checked on this connection before. A ticket is needed to begin reading, so here it
    /// stays good beyond its lifetime, as it would for one long read. It ends when its user loses the right.
    fn find(&mut self, revoked: &RevocationWatch, ticket: &SignedTicket, slice: SliceId) -> Option<Range<u64>> {
        let is_good =
            |kept: &OpenSlice| kept.since.elapsed() < limits::READING_TIME_MAX && !revoked.covers_signed(&kept.ticket);
        self.kept.retain(is_good);
        let at = self.kept.iter().position(|kept| kept.slice == slice && kept.ticket == *ticket)?;
        let kept = self.kept.remove(at);
        let allowed = kept.allowed.clone();
        self.kept.push(kept);
        Some(allowed)
    }

    fn reader(&self, slice: SliceId) -> Option<Arc<SliceReader>> {
        self.kept.iter().find(|kept| kept.slice == slice).map(|kept| Arc::clone(&kept.reader))
    }

    fn keep(&mut self, ticket: SignedTicket, slice: SliceId, allowed: Range<u64>, reader: Arc<SliceReader>) {
        self.kept.retain(|kept| kept.slice != slice);
        if self.kept.len() >= OPEN_SLICES_MAX {
            self.kept.remove(0);
        }
        self.kept.push(OpenSlice { slice, ticket, allowed, since: Instant::now(), reader });
    }

    /// Closes a slice if `error` says that its bytes are bad; returns whether it was open.
    fn forget_if_corrupt(&mut self, slice: SliceId, error: &NodeError) -> bool {
        let before = self.kept.len();
        self.kept.retain(|kept| kept.slice != slice || !is_corrupt(error));
        self.kept.len() < before
    }
}

/// Verified bytes of a slice.
pub(crate) struct SliceSource {
    reader: Arc<SliceReader>,
    next: u64,
    until: u64,
}

impl SliceSource {
    /// The bytes of a range, if a ticket for `allowed` covers it.
    pub(crate) fn begin(
        reader: Arc<SliceReader>,
        slice: SliceId,
        range: &Range<u64>,
        allowed: &Range<u64>,
    ) -> Result<Self, NodeError> {
        // Any number behind the end means "to the end".
        let until = range.end.min(reader.metadata().bytes);
        if range.start < allowed.start || until > allowed.end {
            return Err(NodeError::refused(Reason::NoRight, out_of_range(slice, allowed)));
        }
        Ok(Self { reader, next: range.start, until: until.max(range.start) })
    }

    /// Length of the next frame. Frames end where blocks end, so that no block is read and verified twice.
    fn frame_bytes(&self) -> u64 {
        let frame_end = (self.next / FRAME_BYTES as u64 + 1) * FRAME_BYTES as u64;
        frame_end.min(self.until).saturating_sub(self.next)
    }

    /// Adds the sidecar's checksums to a frame that was read, if it consists of whole blocks. It was just verified
    /// against them.
    fn pass(&mut self, frame: &mut StreamFrame, bytes: u64) {
        frame.checksums.extend(self.reader.checksums(self.next, bytes));
        self.next += bytes;
    }
}

impl FrameSource for SliceSource {
    fn fill(&mut self, frame: &mut StreamFrame) -> Result<(), NodeError> {
        let bytes = self.frame_bytes();
        self.reader.read_at(&mut frame.payload, self.next, bytes as usize)?;
        self.pass(frame, bytes);
        Ok(())
    }

    fn try_fill(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        let bytes = self.frame_bytes();
        if !self.reader.read_cached_at(&mut frame.payload, self.next, bytes as usize)? {
            return Ok(false);
        }
        self.pass(frame, bytes);
        Ok(true)
    }
}

/// What a reader asked for.
enum PartSource {
    Range(SliceSource),
    Runs(RunSource),
}

impl PartSource {
    /// A part, if a ticket for `allowed` covers it.
    fn begin(
        reader: Arc<SliceReader>,
        slice: SliceId,
        part: &SlicePart,
        allowed: &Range<u64>,
    ) -> Result<Self, NodeError> {
        match part {
            SlicePart::Range(range) => Ok(Self::Range(SliceSource::begin(reader, slice, range, allowed)?)),
            SlicePart::Runs(runs) => {
                let range = part.range()?;
                if range.end > reader.metadata().bytes {
                    let message = format!("slice {slice} has {} bytes", reader.metadata().bytes);
                    return Err(NodeError::refused(Reason::Invalid, message));
                }
                if range.start < allowed.start || range.end > allowed.end {
                    return Err(NodeError::refused(Reason::NoRight, out_of_range(slice, allowed)));
                }
                Ok(Self::Runs(RunSource::new(reader, *runs)))
            }
        }
    }

    fn left_bytes(&self) -> u64 {
        match self {
            Self::Range(source) => source.until - source.next,
            Self::Runs(source) => source.left_bytes(),
        }
    }

    fn reader(&self) -> &Arc<SliceReader> {
        match self {
            Self::Range(source) => &source.reader,
            Self::Runs(source) => source.reader(),
        }
    }
}

impl FrameSource for PartSource {
    fn fill(&mut self, frame: &mut StreamFrame) -> Result<(), NodeError> {
        match self {
            Self::Range(source) => source.fill(frame),
            Self::Runs(source) => source.fill(frame),
        }
    }

    fn try_fill(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        match self {
            Self::Range(source) => source.try_fill(frame),
            Self::Runs(source) => source.try_fill(frame),
        }
    }
}

/// Slices that one connection keeps open: a reader of several files at random uses several connections.
const OPEN_SLICES_MAX: usize = 2;
/// How long an idle connection keeps its slices open: only then does the disk regain the space of a removed one.
pub(super) const OPEN_IDLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        Now, UserName,
        message::node_master::Revocation,
        ticket::{Holder, Ticket, TicketRight},
        wire::codec,
    };

    use super::*;
    use crate::transfer_server::tests::fixture;

    // Promise 27.
    #[tokio::test]
    async fn what_is_kept_open_is_given_no_longer_by_a_ticket_that_was_revoked() {
        let mut made = fixture();
        made.store(1, 100_000).await;
        let ticket = |user: &str| SignedTicket {
            ticket: codec::encode(&Ticket {
                number: 1,
                user: UserName::new(user).unwrap(),
                holder: Holder::Node(made.context.node.clone()),
                node: made.context.node.clone(),
                right: TicketRight::Import,
                file: None,
                plain_within: None,
                holder_site: None,
                until_unix_millis: 60_000,
            }),
            signature: vec![],
            delegation: None,
        };
        let (revoked, mut open) = (RevocationWatch::default(), OpenSlices::default());
        let reader = || Arc::new(made.context.storage.slices.open_slice(SliceId(1)).unwrap());
        open.keep(ticket("ann"), SliceId(1), 0..9, reader());
        open.keep(ticket("bob"), SliceId(2), 0..9, reader());
        assert_eq!(open.find(&revoked, &ticket("ann"), SliceId(1)), Some(0..9));
        revoked.revoke(Now::default(), Revocation { user: UserName::new("ann").unwrap(), last_ticket: 5 });
        assert_eq!(open.find(&revoked, &ticket("ann"), SliceId(1)), None);
        assert_eq!(open.find(&revoked, &ticket("bob"), SliceId(2)), Some(0..9));
        assert!(open.reader(SliceId(1)).is_none(), "nor does it stay open");
    }
}
