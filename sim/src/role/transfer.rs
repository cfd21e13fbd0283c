//! Transfers of a node: slices read and written, pieces taken, and the copies that it fetches itself. It mirrors
//! `node::transfer_server` and `node::fetch`. The bytes go through the real store, a part at a time, and never bypass
//! it.

use std::{collections::BTreeSet, rc::Rc};

use ::node::rules::{CopyOrder, NodeCompletion};
use protocol::{
    NodeId, Reason, Refusal, SectorPath, SliceId, SliceMetadata,
    message::{
        client_master::Source,
        spe::{BucketId, SpeRequest},
        transfer::TransferRequest,
    },
    ticket::{SignedTicket, Ticket, TicketRight},
    ticket_verifier::{RefusedTicket, WriteGrant},
    wire::codec,
};
use store::{PartialKey, SliceReader, SliceWriter, StoreError};

use super::{
    bucket::PieceWriter,
    node::{Process, refusal_of},
    node_names::node_number,
    tickets::Bearer,
};
use crate::{
    environment::{
        Environment,
        calls::{CallId, CallReply, CallRequest},
        queue::Participant,
    },
    model::digest_of,
};

/// An open transfer at the node that received the request.
// A few at a time: a box would be an allocation for nothing.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Transfer {
    Read { reader: SliceReader, until: u64, bytes: Vec<u8>, from: u64 },
    Write(Writing),
    Piece(PieceWriter),
}

/// An incoming slice.
pub(crate) struct Writing {
    writer: Box<SliceWriter>,
    /// The slice's bytes before the first byte that is sent (an append).
    base_bytes: u64,
    ticket_until_unix_millis: u64,
    /// The call that passes the same bytes to the next node of the chain.
    forward: Option<CallId>,
}

/// A node's request to another.
pub(crate) enum Outgoing {
    Copy {
        slice: SliceId,
        bytes: u64,
        writer: Box<SliceWriter>,
    },
    /// A slice for these nodes; the first of them passes it on.
    Forward {
        slice: SliceId,
        nodes: Vec<NodeId>,
    },
    /// A segment of a task's input.
    Segment {
        task: CallId,
        number: usize,
    },
    /// A piece of a task's output.
    Piece {
        task: CallId,
        bucket: u32,
    },
}

impl Process {
    /// A call arrives at this node.
    pub(crate) fn call_arrives(&mut self, env: &mut Environment, id: CallId) {
        let Some(call) = env.calls.get_mut(id) else { return };
        call.node_life = Some(self.link.life);
        let (wish, by) = (call.request.clone(), Bearer(call.from));
        let begun = match wish {
            CallRequest::Transfer(request, _) => self.begin(env, id, &by, request),
            CallRequest::Message { life: Some(life), .. } if life != self.link.life => Ok(Some(CallReply::Broken)),
            // The conversation was cut off.
            CallRequest::Message { life: Some(_), ticket, .. } if self.verifier.is_shown_revoked(&ticket) => {
                Ok(Some(CallReply::Broken))
            }
            CallRequest::Message { ticket, life, conversation, request } => {
                let begun = if life.is_none() {
                    self.verifier.authorize_compute(env.now, &by, &ticket).map(drop)
                } else {
                    Ok(())
                };
                begun.map_err(refusal).and_then(|()| self.handle_spe_message(env, id, &by, conversation, *request))
            }
        };
        match begun {
            Ok(None) => {}
            Ok(Some(reply)) => env.answer(id, reply),
            Err(refusal) => {
                env.note(format_args!("n{} refuses call {}: {refusal}", self.number, id.0));
                env.answer(id, CallReply::Refused(refusal));
            }
        }
    }

    /// More bytes have come, or can be sent.
    pub(crate) fn call_goes_on(&mut self, env: &mut Environment, id: CallId) {
        let Some(transfer) = self.transfers.remove(&id) else { return };
        let payload = self.payload_of(env, id);
        if env.calls.get(id).is_none() || (!env.is_healing && env.rng.u32(..lives_of(&payload)) == 0) {
            // The caller is gone, or the connection broke by itself.
            self.give_up(env, transfer);
            return env.answer(id, CallReply::Broken);
        }
        match transfer {
            Transfer::Read { reader, until, bytes, from } => self.read_on(env, id, (reader, until), bytes, from),
            Transfer::Write(writing) => self.write_on(env, id, writing, &payload),
            Transfer::Piece(mut writer) => {
                let rest = &payload[writer.written()..];
                writer.write(&rest[..part(env, rest.len())]);
                if writer.written() < payload.len() {
                    self.transfers.insert(id, Transfer::Piece(writer));
                    return env.go_on(id);
                }
                let reply = self.buckets.commit(&writer).map_or_else(CallReply::Refused, |()| CallReply::Taken);
                env.answer(id, reply);
            }
        }
    }

    /// The caller hung up.
    pub(crate) fn call_dropped(&mut self, env: &mut Environment, id: CallId) {
        if let Some(transfer) = self.transfers.remove(&id) {
            self.give_up(env, transfer);
        }
        self.drop_task(env, id);
    }

    /// Transfers on revoked tickets end; as `node::revocation_watch`.
    pub(super) fn cut_off_revoked(&mut self, env: &mut Environment) {
        let delivering = self.shuffle_writes.keys().chain(self.tasks.keys());
        let running: BTreeSet<CallId> = self.transfers.keys().chain(delivering).copied().collect();
        for id in running {
            let Some(call) = env.calls.get(id) else { continue };
            let shown = match &call.request {
                CallRequest::Message { ticket, .. } => Some(ticket),
                CallRequest::Transfer(request, _) => request.ticket(),
            };
            if shown.is_some_and(|ticket| self.verifier.is_shown_revoked(ticket)) {
                self.call_dropped(env, id);
                env.answer(id, CallReply::Broken);
            }
        }
    }

    /// Another node answered.
    pub(crate) fn call_answered(&mut self, env: &mut Environment, id: CallId, reply: CallReply) {
        match self.outgoing.remove(&id) {
            Some(Outgoing::Copy { slice, bytes, writer }) => {
                let result = match reply {
                    CallReply::Bytes(read) if read.len() as u64 == bytes => store_copy(*writer, &read),
                    other => Err(refusal_of(other)),
                };
                env.note(format_args!("n{} copied {slice}: {:?}", self.number, result.as_ref().err()));
                self.rules.handle_completion(env.now, NodeCompletion::Copied { slice, result, kept_bytes: 0 });
            }
            Some(Outgoing::Forward { .. }) if matches!(reply, CallReply::Stored { .. }) => {}
            Some(Outgoing::Forward { slice, nodes }) => {
                env.note(format_args!("n{} could not pass {slice} on: {reply:?}", self.number));
                for node in nodes {
                    self.rules.handle_completion(env.now, NodeCompletion::ForwardFailed { slice, node });
                }
            }
            Some(Outgoing::Segment { task, number }) => self.segment_came(env, task, number, reply),
            Some(Outgoing::Piece { task, bucket }) => self.piece_delivered(env, task, bucket, reply),
            None => {}
        }
    }

    /// Asks the source of a copy for its bytes.
    pub(super) fn fetch_copy(&mut self, env: &mut Environment, order: &CopyOrder, writer: SliceWriter) {
        let (slice, bytes) = (order.header.slice, order.bytes);
        let call = self.read_from(env, &order.from.node, &order.from.ticket, slice, 0..bytes);
        self.outgoing.insert(call, Outgoing::Copy { slice, bytes, writer: Box::new(writer) });
    }

    /// Asks another node for a range of a slice.
    pub(super) fn read_from(
        &self,
        env: &mut Environment,
        node: &NodeId,
        ticket: &SignedTicket,
        slice: SliceId,
        range: std::ops::Range<u64>,
    ) -> CallId {
        let request = TransferRequest::Read { ticket: ticket.clone(), slice, from: range.start, until: range.end };
        env.transfer((Participant::Node(self.number), self.link.life), node_number(node), request, Rc::default())
    }

    /// The same for errors that mean a bad slice: it is quarantined and reported.
    pub(super) fn watched<T>(
        &mut self,
        env: &mut Environment,
        slice: SliceId,
        result: Result<T, StoreError>,
    ) -> Result<T, Refusal> {
        result.map_err(|error| {
            if matches!(error, StoreError::Corrupt { .. }) {
                self.found_corrupt(env, slice);
            }
            error.refusal()
        })
    }

    /// Admits a transfer; `None` if it continues.
    fn begin(
        &mut self,
        env: &mut Environment,
        id: CallId,
        by: &Bearer,
        request: TransferRequest,
    ) -> Result<Option<CallReply>, Refusal> {
        let transfer = match request {
            TransferRequest::Read { ticket, slice, from, until } => {
                let allowed = self.verifier.authorize_read(env.now, by, &ticket, slice).map_err(refusal)?;
                let opened = self.store.open_slice(slice);
                let reader = self.watched(env, slice, opened)?;
                let until = until.min(reader.metadata().bytes);
                if from < allowed.start || until > allowed.end {
                    return Err(Refusal::new(Reason::NoRight, "the ticket allows another range"));
                }
                Transfer::Read { reader, until, bytes: Vec::new(), from }
            }
            TransferRequest::Write { ticket, chain } => Transfer::Write(self.begin_write(env, id, by, &ticket, chain)?),
            TransferRequest::Piece { ticket, piece, bytes } => {
                if self.verifier.authorize_piece(env.now, by, &ticket).map_err(refusal)? != piece.bucket.job {
                    return Err(Refusal::new(Reason::NoRight, "the ticket is for another job"));
                }
                match self.buckets.begin(piece, bytes)? {
                    Some(writer) => Transfer::Piece(writer),
                    None => return Ok(Some(CallReply::Taken)),
                }
            }
            TransferRequest::Spe { ticket } => {
                self.verifier.authorize_compute(env.now, by, &ticket).map_err(refusal)?;
                return Ok(Some(CallReply::Ready(self.link.life)));
            }
            // No person of the simulation checks copies, since the audit reads every disk itself, or reads images.
            TransferRequest::Verify { .. } | TransferRequest::ReadRuns { .. } => {
                return Err(Refusal::new(
                    Reason::Invalid,
                    "copies are not checked, and rows not read, in the simulation",
                ));
            }
            TransferRequest::ProveKey { .. } | TransferRequest::Qos(_) | TransferRequest::Plain { .. } => {
                return Err(Refusal::new(Reason::Invalid, "nobody proves anything in the simulation"));
            }
            // Its clients write content that they have made up.
            TransferRequest::Pull(_) => {
                return Err(Refusal::new(Reason::Invalid, "nobody orders copies in the simulation"));
            }
            TransferRequest::ListFiles { .. }
            | TransferRequest::ImportFile { .. }
            | TransferRequest::UnlinkFile { .. } => {
                return Err(Refusal::new(Reason::NoRight, "nobody imports files here"));
            }
        };
        self.transfers.insert(id, transfer);
        env.go_on(id);
        Ok(None)
    }

    /// As `node::transfer_server::write`: from the start, after an append's base, or after the part of an earlier
    /// attempt.
    fn begin_write(
        &mut self,
        env: &mut Environment,
        id: CallId,
        by: &Bearer,
        ticket: &SignedTicket,
        chain: Vec<Source>,
    ) -> Result<Writing, Refusal> {
        let granted = self.may_write(env, by, ticket).map_err(refusal)?;
        let WriteGrant { header, user, until_unix_millis, resume, base } = granted;
        let resume = resume.map(|key| PartialKey { user, key });
        let slice = header.slice;
        let failed = |error: StoreError| error.refusal();
        let writer = match (resume, base) {
            (_, Some(base)) => {
                let opened = self.store.open_slice(base);
                let reader = self.watched(env, base, opened)?;
                let mut writer = self.store.begin(header).map_err(failed)?;
                let copied = writer.write_slice(&reader);
                self.watched(env, base, copied)?;
                writer
            }
            (Some(key), None) => {
                let writer = self.store.begin_resumable(header, key).map_err(failed)?;
                let there = writer.bytes() as usize;
                let payload = self.payload_of(env, id);
                // The sender compares the existing part with its own bytes, and starts again if they differ.
                let is_same = payload.get(..there).is_some_and(|begin| digest_of(begin) == writer.digest_so_far());
                if is_same { writer } else { writer.restart().map_err(failed)? }
            }
            (None, None) => self.store.begin(header).map_err(failed)?,
        };
        let base_bytes = if base.is_some() { writer.bytes() } else { 0 };
        let forward = if writer.bytes() > base_bytes {
            env.model.resumed += 1;
            // Existing bytes are not passed on.
            for source in chain {
                self.rules.handle_completion(env.now, NodeCompletion::ForwardFailed { slice, node: source.node });
            }
            None
        } else {
            self.forward(env, id, slice, chain)
        };
        Ok(Writing { writer: Box::new(writer), base_bytes, ticket_until_unix_millis: until_unix_millis, forward })
    }

    fn payload_of(&self, env: &Environment, id: CallId) -> Rc<Vec<u8>> {
        match env.calls.get(id).map(|call| &call.request) {
            Some(CallRequest::Transfer(_, payload)) => Rc::clone(payload),
            _ => Rc::default(),
        }
    }

    /// Passes a call's bytes to the next node of its chain; as `node::forward`.
    fn forward(&mut self, env: &mut Environment, id: CallId, slice: SliceId, mut chain: Vec<Source>) -> Option<CallId> {
        let nodes: Vec<_> = chain.iter().map(|source| source.node.clone()).collect();
        if chain.is_empty() {
            return None;
        }
        let next = chain.remove(0);
        let payload = self.payload_of(env, id);
        let request = TransferRequest::Write { ticket: next.ticket, chain };
        let call =
            env.transfer((Participant::Node(self.number), self.link.life), node_number(&next.node), request, payload);
        self.outgoing.insert(call, Outgoing::Forward { slice, nodes });
        Some(call)
    }

    /// A message of a job's driver.
    fn handle_spe_message(
        &mut self,
        env: &mut Environment,
        id: CallId,
        by: &Bearer,
        conversation: u64,
        request: SpeRequest,
    ) -> Result<Option<CallReply>, Refusal> {
        use protocol::message::spe::SpeReply;
        let word = |reply| Ok(Some(CallReply::Message(Box::new(reply))));
        match request {
            SpeRequest::Load(order) => {
                let job = Self::job_of(env, id)?;
                self.functions.insert((job, conversation), order.function);
                word(SpeReply::Loaded)
            }
            SpeRequest::Run(order) => self.run_task(env, id, conversation, order).map(|()| None),
            SpeRequest::Deliver(order) => self.deliver_again(env, id, order).map(|()| None),
            SpeRequest::Seal(order) => {
                let (bytes, order) = self.buckets.seal(&order)?;
                word(SpeReply::Sealed { bytes, order })
            }
            SpeRequest::Fetch(bucket) => word(SpeReply::Bytes(self.buckets.read(bucket)?)),
            SpeRequest::Publish { bucket, ticket } => {
                let metadata = match self.may_write(env, by, &ticket) {
                    Ok(grant) => {
                        // Before its bytes are synced: a slice that a power cut leaves in staging counts as well.
                        self.note_part(env, bucket, &grant.header.path);
                        let metadata = self.buckets.publish(bucket, grant.header, &self.store, &self.disks)?;
                        self.used.add(env.now, metadata.header.slice, grant.until_unix_millis);
                        self.rules.handle_completion(env.now, NodeCompletion::Stored(metadata.clone()));
                        metadata
                    }
                    // The ticket may have been used for just this, and the answer lost.
                    Err(refused) => self.buckets.published(bucket).ok_or(refused.refusal)?,
                };
                word(SpeReply::Published { bytes: metadata.bytes, digest: metadata.digest })
            }
        }
    }

    fn may_write(&self, env: &Environment, by: &Bearer, ticket: &SignedTicket) -> Result<WriteGrant, RefusedTicket> {
        let grant = self.verifier.authorize_write(env.now, by, ticket)?;
        self.used.check(env.now, &grant).map(|()| grant)
    }

    /// The content of a bucket that becomes a file, and its possible paths.
    fn note_part(&mut self, env: &mut Environment, bucket: BucketId, path: &SectorPath) {
        let Some(places) = env.model.publishing.get(path).cloned() else { return };
        let content = env.model.contents.add(self.buckets.bytes(bucket));
        env.model.attempted.extend(places.into_iter().map(|place| (place, content)));
    }

    fn job_of(env: &Environment, id: CallId) -> Result<protocol::JobId, Refusal> {
        // It was checked when the conversation began, and may have ended since: its bearer does not change.
        match env.calls.get(id).map(|call| &call.request) {
            Some(CallRequest::Message { ticket, .. }) => {
                match codec::decode::<Ticket>(&ticket.ticket).map(|ticket| ticket.right) {
                    Ok(TicketRight::Compute { job }) => Ok(job),
                    _ => Err(Refusal::new(Reason::NoRight, "the ticket does not allow to run a job")),
                }
            }
            _ => Err(Refusal::new(Reason::Invalid, "this is no word of a conversation")),
        }
    }

    fn read_on(
        &mut self,
        env: &mut Environment,
        id: CallId,
        (reader, until): (SliceReader, u64),
        mut bytes: Vec<u8>,
        from: u64,
    ) {
        let rest = until.saturating_sub(from);
        let count = part(env, rest as usize);
        let mut buffer = Vec::new();
        let slice = reader.metadata().header.slice;
        let read = reader.read_at(&mut buffer, from, count);
        if self.watched(env, slice, read).is_err() {
            // Fewer bytes than announced count as no answer.
            return env.answer(id, CallReply::Broken);
        }
        bytes.extend_from_slice(&buffer);
        if count as u64 == rest {
            return env.answer(id, CallReply::Bytes(bytes));
        }
        self.transfers.insert(id, Transfer::Read { reader, until, bytes, from: from + count as u64 });
        env.go_on(id);
    }

    fn write_on(&mut self, env: &mut Environment, id: CallId, mut writing: Writing, payload: &[u8]) {
        let sent = writing.writer.bytes() - writing.base_bytes;
        let rest = &payload[sent as usize..];
        let count = part(env, rest.len());
        if let Err(error) = writing.writer.write(&rest[..count]) {
            self.break_off(env, writing.forward);
            return env.answer(id, CallReply::Refused(error.refusal()));
        }
        if count < rest.len() {
            self.transfers.insert(id, Transfer::Write(writing));
            return env.go_on(id);
        }
        match writing.writer.finish(None) {
            Ok(metadata) => {
                self.used.add(env.now, metadata.header.slice, writing.ticket_until_unix_millis);
                let reply = CallReply::Stored { bytes: metadata.bytes, digest: metadata.digest };
                self.rules.handle_completion(env.now, NodeCompletion::Stored(metadata));
                env.answer(id, reply);
            }
            Err(error) => env.answer(id, CallReply::Refused(error.refusal())),
        }
    }

    fn give_up(&mut self, env: &mut Environment, transfer: Transfer) {
        match transfer {
            Transfer::Piece(writer) => self.buckets.abandon(&writer),
            Transfer::Write(writing) => {
                self.break_off(env, writing.forward);
                // Only another attempt under the same key finds it.
                let kept = writing.writer.split().0.save_partial();
                env.note(format_args!("n{} keeps {kept:?} bytes of a broken upload", self.number));
            }
            Transfer::Read { .. } => {}
        }
    }

    /// A transfer that breaks here breaks in the rest of the chain too.
    fn break_off(&mut self, env: &mut Environment, forward: Option<CallId>) {
        if let Some(call) = forward {
            self.outgoing.remove(&call);
            env.hang_up(call);
        }
    }
}

fn refusal(refused: RefusedTicket) -> Refusal {
    refused.refusal
}

fn store_copy(mut writer: SliceWriter, bytes: &[u8]) -> Result<SliceMetadata, Refusal> {
    let written = writer.write(bytes).and_then(|()| writer.finish(None));
    written.map_err(|error| error.refusal())
}

/// In one of this many steps a connection breaks by itself: more often if an upload can be resumed.
fn lives_of(payload: &[u8]) -> u32 {
    if payload.len() >= 1 << 20 { 6 } else { 300 }
}

/// How many of the remaining bytes move now.
fn part(env: &mut Environment, rest: usize) -> usize {
    if rest < 2 || env.rng.bool() { rest } else { env.rng.usize(1..=rest) }
}
