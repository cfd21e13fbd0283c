//! The incoming bytes of a third-party copy, read from one node that has them. If that node fails, the next one
//! continues at the following byte. Serves the path `docs/paths/third-party-copy.md`. Tickets live for a minute, and
//! only the client gets new ones. So it never goes on without a client, and never delivers a byte of another slice.

pub(crate) mod address_policy;
pub(crate) mod foreign_cloud;
pub(crate) mod foreign_cloud_policy;
pub(crate) mod pull_control;

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};

use net::{
    identity::Bearer,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    NodeId, Reason, SliceId, TransferQos, limits, limits::FRAME_BYTES_MAX, message::client_master::Source,
    wire::stream_frame::checksums,
};
use tokio::time::timeout;

use crate::{
    NodeError, blocking,
    node_context::NodeContext,
    transfer::{
        connection_pool::Peer, fetch::begin_reading, frame_pipe::FrameSource, receive_pipeline::AsyncFrameSource,
        site_limiters::TransferLimiter, site_links::LinkDirection,
    },
    transfer_server::read::SliceSource,
};
use foreign_cloud::ForeignCloudClient;
use pull_control::PullControl;

/// The bytes of a range of one slice, from whichever sources have them.
pub(crate) struct PullSource<'a> {
    context: &'a NodeContext,
    /// The client that ordered the copy.
    bearer: &'a Bearer,
    control: &'a PullControl,
    /// The client to the sources, if these are in another cloud.
    foreign_cloud: Option<ForeignCloudClient>,
    slice: SliceId,
    /// The next byte.
    at: u64,
    until: u64,
    part: Option<PullRange>,
    /// Sources that have failed since they were last named.
    failed: BTreeSet<NodeId>,
    /// The copy's position when the sources were last named. They are asked for again only if naming them made
    /// progress.
    named_at: Option<u64>,
    /// Why the last source that was tried failed.
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
    /// The disk of this node. `None` while it is read.
    LocalDisk(Option<SliceSource>),
}

impl<'a> PullSource<'a> {
    /// Bytes `range` of a slice.
    pub(crate) fn new(
        context: &'a NodeContext,
        (bearer, talk): (&'a Bearer, &'a PullControl),
        abroad: Option<ForeignCloudClient>,
        slice: SliceId,
        Range { start, end }: Range<u64>,
    ) -> Self {
        let named_at = (!talk.instructions().sources.is_empty()).then_some(start);
        let last = String::from("no node that holds it is up");
        talk.set_progress(start);
        Self {
            context,
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

    /// The copy is made, or will not be: nodes contacted in another cloud are told.
    pub(crate) fn end(self) {
        if let Some(abroad) = self.foreign_cloud {
            tokio::spawn(abroad.close());
        }
    }

    /// Begins to read what is still missing, or as much of it as is requested at once, from the first source that
    /// delivers.
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
                    return Err(NodeError::refused(Reason::Unavailable, message));
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
            let (peer, mut stream) =
                begin_reading(&self.context.peers, source, self.slice, self.at..until, pace).await?;
            // A node that reads with a client's ticket pays for the link (`site_limiters.rs`).
            let own = TransferQos { rate_bytes_per_second: None, priority: pace.priority };
            let limiters = &self.context.peers.site_limiters;
            let crossing = limiters.for_transfer(Some(&source.place.site), LinkDirection::Received, own);
            crossing.meter(&mut stream);
            RangeOrigin::Peer { peer, stream: Box::new(stream), crossing }
        };
        Ok(PullRange { source: source.clone(), until, pace, from })
    }

    /// The slice lies on this node: the client itself presents the ticket for it.
    async fn open_here(&mut self, source: &Source, range: Range<u64>) -> Result<SliceSource, NodeError> {
        let allowed = self.context.tickets.read(self.bearer, &source.ticket, self.slice)?;
        let (store, slice) = (Arc::clone(&self.context.storage.slices), self.slice);
        blocking("reading a slice", move || {
            SliceSource::begin(Arc::new(store.open_slice(slice)?), slice, &range, &allowed)
        })
        .await
    }

    fn give_up(&mut self, node: &NodeId, error: &NodeError) {
        tracing::info!(slice = %self.slice, %node, %error, at = self.at, "a copy goes on from another node");
        // The details of a connection error are for the operator: a client named the address, and must not learn what
        // is there.
        self.last = match error {
            NodeError::Net(_) => format!("node {node} could not be reached, did not prove itself, or broke off"),
            error => error.to_string(),
        };
        self.failed.insert(node.clone());
    }

    /// Reads the next frame of a range and returns its length; `None` at the range's end.
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
            Err(error) => Err(self.context.storage.quarantine_if_corrupt(self.slice, error).await),
        }
    }

    /// Keeps the rest of a range after a frame. A limit that was set meanwhile takes effect at once: a range requested
    /// without one would bring all the rest.
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
                // The sender waits for a rate limit.
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
                        (RangeOrigin::Peer { peer, stream, .. }, _) => {
                            self.context.peers.connections.release(peer, *stream)
                        }
                        (RangeOrigin::ForeignCloud(stream), Some(abroad)) => abroad.release(source, *stream),
                        (RangeOrigin::ForeignCloud(_) | RangeOrigin::LocalDisk(_), _) => {}
                    }
                }
                Err(error) => self.give_up(&part.source.node, &error),
            }
        }
    }
}

/// What is requested at once under a limit, in whole frames, so that a changed limit soon takes effect.
fn bytes_at_once(rate_bytes_per_second: u64) -> u64 {
    let frame = FRAME_BYTES_MAX as u64;
    rate_bytes_per_second.saturating_mul(RANGE_SECONDS).div_ceil(frame).saturating_mul(frame)
}

/// How long a node sends at a rate before the next request.
const RANGE_SECONDS: u64 = 4;
/// How long a source may be silent before another takes its place: far above any hiccup, far below a person's patience.
const SOURCE_STALL_MAX: Duration = Duration::from_secs(10);
/// Tickets are renewed at two thirds of their life: the rest allows for clock skew and transit.
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
