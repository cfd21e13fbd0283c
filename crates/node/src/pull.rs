//! The bytes of a third-party copy on their way in: read from one node that has them, and where that one fails from the
//! next, at the byte after. Serves the path `docs/paths/third-party-copy.md`.
//!
//! It never gives out a byte of another slice than the one that was asked for, and never goes on without a client:
//! tickets live for a minute, and only the client gets new ones.

pub(crate) mod address_policy;
pub(crate) mod foreign_cloud;
pub(crate) mod pull_control;

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};

use net::{
    identity::Bearer,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    NodeId, SliceId, Status, TransferQos, limits, limits::FRAME_BYTES_MAX, message::client_master::Source,
    wire::stream_frame::checksums,
};
use tokio::time::timeout;

use crate::{
    NodeError, blocking, connection_pool::Peer, fetch::begin_reading, frame_pipe::FrameSource,
    node_context::NodeContext, receive_pipeline::AsyncFrameSource, site_limiters::TransferLimiter,
    transfer_server::read::SliceSource,
};
use foreign_cloud::ForeignCloudClient;
use pull_control::PullControl;

/// See the module.
pub(crate) struct PullSource<'a> {
    context: &'a NodeContext,
    /// The client that ordered the copy.
    bearer: &'a Bearer,
    control: &'a PullControl,
    /// The way to the sources, where these are in another cloud.
    foreign_cloud: Option<ForeignCloudClient>,
    slice: SliceId,
    /// The next byte.
    at: u64,
    until: u64,
    part: Option<PullRange>,
    /// Sources that have failed since they were last named.
    failed: BTreeSet<NodeId>,
    /// Where the copy stood when the sources were last named: they are named again only where that has helped.
    named_at: Option<u64>,
    /// Why the last source that was tried did not do.
    last: String,
}

/// A range that is being read.
struct PullRange {
    source: Source,
    until: u64,
    pace: TransferQos,
    from: RangeOrigin,
}

/// Where its bytes come from.
enum RangeOrigin {
    /// Another node.
    Peer { peer: Peer, stream: Box<TransferStream>, crossing: TransferLimiter },
    /// A node of another cloud.
    ForeignCloud(Box<TransferStream>),
    /// The disk of this one. `None` while it is read.
    LocalDisk(Option<SliceSource>),
}

impl<'a> PullSource<'a> {
    /// Bytes `range` of a slice.
    pub(crate) fn new(
        hands: &'a NodeContext,
        (bearer, talk): (&'a Bearer, &'a PullControl),
        abroad: Option<ForeignCloudClient>,
        slice: SliceId,
        Range { start, end }: Range<u64>,
    ) -> Self {
        let named_at = (!talk.instructions().sources.is_empty()).then_some(start);
        let last = String::from("no node that holds it is up");
        talk.set_progress(start);
        Self {
            context: hands,
            bearer,
            control: talk,
            foreign_cloud: abroad,
            slice,
            at: start,
            until: end,
            part: None,
            failed: BTreeSet::new(),
            named_at,
            last,
        }
    }

    /// The copy is made, or will not be: whoever was spoken to in another cloud is told.
    pub(crate) fn end(self) {
        if let Some(abroad) = self.foreign_cloud {
            tokio::spawn(abroad.close());
        }
    }

    /// Begins to read what is still missing, or as much of it as is asked for at once, from the first source that gives
    /// it.
    async fn begin(&mut self) -> Result<PullRange, NodeError> {
        loop {
            let said = self.control.instructions();
            let is_stale = said.named.elapsed() > RENEW_AFTER;
            let next = said.sources.iter().find(|source| !self.failed.contains(&source.node));
            match next {
                Some(source) if !is_stale => match self.begin_at(source, said.pace).await {
                    Ok(part) => return Ok(part),
                    Err(error) => self.give_up(&source.node, &error),
                },
                Some(_) => self.control.request_sources().await,
                None if self.named_at != Some(self.at) => {
                    self.control.request_sources().await;
                    self.failed.clear();
                    self.named_at = Some(self.at);
                }
                None => {
                    let (slice, node) = (self.slice, &self.context.node);
                    let message = format!("node {node} cannot copy slice {slice} from any node now: {}", self.last);
                    return Err(NodeError::refused(Status::Unavailable, message));
                }
            }
        }
    }

    async fn begin_at(&mut self, source: &Source, pace: TransferQos) -> Result<PullRange, NodeError> {
        let until = match pace.rate_bytes_per_second {
            None => self.until,
            Some(rate) => self.until.min(self.at.saturating_add(bytes_at_once(rate))),
        };
        let from = if let Some(abroad) = &mut self.foreign_cloud {
            let range = self.at..until;
            RangeOrigin::ForeignCloud(Box::new(abroad.begin_reading(source, self.slice, range, pace).await?))
        } else if source.node == self.context.node {
            RangeOrigin::LocalDisk(Some(self.open_here(source, self.at..until).await?))
        } else {
            let (peer, stream) = begin_reading(self.context, source, self.slice, self.at..until, pace).await?;
            // Who reads with a client's ticket pays for the way (`site_limiters.rs`).
            let own = TransferQos { rate_bytes_per_second: None, priority: pace.priority };
            let crossing = self.context.site_limiters.for_transfer(Some(&source.place.site), own);
            RangeOrigin::Peer { peer, stream: Box::new(stream), crossing }
        };
        Ok(PullRange { source: source.clone(), until, pace, from })
    }

    /// The slice lies here: the client itself shows the ticket for it.
    async fn open_here(&mut self, source: &Source, range: Range<u64>) -> Result<SliceSource, NodeError> {
        let allowed = self.context.tickets.read(self.bearer, &source.ticket, self.slice)?;
        let (store, slice) = (Arc::clone(&self.context.store), self.slice);
        blocking("reading a slice", move || {
            SliceSource::begin(Arc::new(store.open_slice(slice)?), slice, &range, &allowed)
        })
        .await
    }

    fn give_up(&mut self, node: &NodeId, error: &NodeError) {
        tracing::info!(slice = %self.slice, %node, %error, at = self.at, "a copy goes on from another node");
        // What a connection met is for the operator: a client named the address, and is not to learn what is there.
        self.last = match error {
            NodeError::Net(_) => format!("node {node} could not be reached, did not prove itself, or broke off"),
            error => error.to_string(),
        };
        self.failed.insert(node.clone());
    }

    /// The next frame of a part; how long it is, and `None` at the part's end.
    async fn next_of(&mut self, part: &mut PullRange, frame: &mut StreamFrame) -> Result<Option<u64>, NodeError> {
        let left = part.until - self.at;
        let more = match &mut part.from {
            RangeOrigin::Peer { stream, .. } | RangeOrigin::ForeignCloud(stream) => {
                match timeout(SOURCE_STALL_MAX, stream.receive_frame(frame)).await {
                    Ok(received) => received?,
                    Err(_) => {
                        return Err(NodeError::Stalled { operation: "waiting for bytes", after: SOURCE_STALL_MAX });
                    }
                }
            }
            RangeOrigin::LocalDisk(source) => self.read_here(source, frame).await?,
        };
        let bytes = frame.payload.len() as u64;
        if (more && bytes > left) || (!more && left > 0) {
            let what = format!("what was asked for of slice {}", self.slice);
            return Err(NodeError::LengthMismatch { what, expected: left, found: bytes });
        }
        Ok(more.then_some(bytes))
    }

    async fn read_here(
        &mut self,
        source: &mut Option<SliceSource>,
        frame: &mut StreamFrame,
    ) -> Result<bool, NodeError> {
        let Some(mut reading) = source.take() else { return Err(NodeError::Panicked { operation: "reading a slice" }) };
        let mut taken = std::mem::take(frame);
        taken.checksums.clear();
        let read = blocking("reading a slice", move || {
            reading.fill(&mut taken)?;
            if taken.checksums.is_empty() {
                taken.checksums.extend(checksums(&taken.payload));
            }
            Ok((reading, taken))
        });
        match read.await {
            Ok((reading, taken)) => {
                (*source, *frame) = (Some(reading), taken);
                Ok(!frame.payload.is_empty())
            }
            Err(error) => Err(self.context.quarantine_if_corrupt(self.slice, error).await),
        }
    }

    /// What remains of a part behind a frame: a limit that was set meanwhile is kept to at once, since what is under
    /// way without one would bring all the rest.
    fn put_back(&mut self, part: PullRange) {
        let pace = self.control.instructions().pace;
        if part.pace.rate_bytes_per_second.is_some() || pace.rate_bytes_per_second.is_none() {
            self.part = Some(part);
        }
    }
}

impl AsyncFrameSource for PullSource<'_> {
    async fn next(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        loop {
            let mut part = match self.part.take() {
                Some(part) => part,
                None if self.at == self.until => return Ok(false),
                None => self.begin().await?,
            };
            match self.next_of(&mut part, frame).await {
                // The sender waits for a limit.
                Ok(Some(0)) => self.put_back(part),
                Ok(Some(bytes)) => {
                    self.at += bytes;
                    self.control.set_progress(self.at);
                    if let RangeOrigin::Peer { crossing, .. } = &part.from {
                        crossing.limiter().acquire(bytes).await;
                    }
                    self.put_back(part);
                    return Ok(true);
                }
                Ok(None) => {
                    let PullRange { source, from, .. } = part;
                    match (from, &mut self.foreign_cloud) {
                        (RangeOrigin::Peer { peer, stream, .. }, _) => self.context.connections.release(peer, *stream),
                        (RangeOrigin::ForeignCloud(stream), Some(abroad)) => abroad.release(source, *stream),
                        (RangeOrigin::ForeignCloud(_) | RangeOrigin::LocalDisk(_), _) => {}
                    }
                }
                Err(error) => self.give_up(&part.source.node, &error),
            }
        }
    }
}

/// What is asked for at once where a limit holds, so that another one is kept to soon: whole frames.
fn bytes_at_once(rate_bytes_per_second: u64) -> u64 {
    let frame = FRAME_BYTES_MAX as u64;
    rate_bytes_per_second.saturating_mul(RANGE_SECONDS).div_ceil(frame).saturating_mul(frame)
}

/// How long a node sends at a rate before it is asked again.
const RANGE_SECONDS: u64 = 4;
/// How long a source may bring nothing before another takes its place: far above any hiccup, far below a person's
/// patience.
const SOURCE_STALL_MAX: Duration = Duration::from_secs(10);
/// Tickets are renewed at two thirds of their life: the rest is for clocks that disagree and for the way.
const RENEW_AFTER: Duration = Duration::from_secs(limits::TICKET_LIFE.as_secs() * 2 / 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_a_rate_some_seconds_worth_is_asked_for_at_once_in_whole_frames() {
        let frame = FRAME_BYTES_MAX as u64;
        for (rate_bytes_per_second, frames) in [(1, 1), (frame / 4, 1), (frame / 4 + 1, 2), (10 * frame, 40)] {
            assert_eq!(bytes_at_once(rate_bytes_per_second), frames * frame, "{rate_bytes_per_second}");
        }
        assert!(bytes_at_once(u64::MAX) > 1 << 60, "and no rate is too much");
    }
}
