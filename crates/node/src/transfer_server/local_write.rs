//! Takes a new slice from a client of this machine. The client passes its file and the node reads it, so no byte is
//! copied between processes. Serves the path *upload*; everything else is as for bytes that arrive over a connection.
//! It never writes to the file that it was given, and believes nothing about it but the bytes that it reads.

use std::{fs::File, future::pending, io, mem, os::fd::OwnedFd, os::unix::fs::FileExt, sync::Arc};

use daemon::shutdown::ShutdownToken;
use net::{identity::Bearer, local::LocalStream, transfer::StreamFrame};
use protocol::{
    Digest, Priority, Reason,
    message::{client_master::Source, local::LocalReply},
    ticket::SignedTicket,
    ticket_verifier::WriteGrant,
    wire::stream_frame::checksums,
};
use store::{PartialKey, SliceHasher, SliceWriter};

use super::{
    slots::{too_busy, wait_for_slot},
    write::{begin_resumable, evict_partials_if_full, finish, receive_upload},
};
use crate::{
    NodeError, blocking,
    node_context::NodeContext,
    transfer::{
        forward::{Forward, READY_TIME_MAX, report_forward_failed},
        frame_pipe::FRAME_BYTES,
        receive_pipeline::AsyncFrameSource,
    },
};

/// A file that a client wants to have stored.
pub(super) struct LocalUpload {
    pub(super) ticket: SignedTicket,
    pub(super) chain: Vec<Source>,
    /// The descriptor that came with the request.
    pub(super) file: Option<OwnedFd>,
    /// The length that the client claims.
    pub(super) bytes: u64,
}

/// Stores a file; returns its length and digest.
pub(super) async fn store(
    context: &Arc<NodeContext>,
    stream: &mut LocalStream,
    bearer: &Bearer,
    upload: LocalUpload,
    stopping: &ShutdownToken,
) -> Result<(u64, Digest), NodeError> {
    let LocalUpload { ticket, chain, file, bytes } = upload;
    let Some(_turn) = wait_for_slot(context, &context.limits.transfer_slots).await else {
        return Err(too_busy(context));
    };
    let (WriteGrant { header, user, resume, base, .. }, claim) = context.tickets.write(bearer, &ticket)?;
    let file = file.map(File::from).ok_or_else(|| wrong("no file came with the word"))?;
    let file = Arc::new(blocking("looking at a passed file", move || only_a_file(file)).await?);
    if base.is_some() {
        return Err(wrong("what is to be appended is sent over the network"));
    }
    let slice = header.slice;
    tracing::Span::current().record("slice", tracing::field::display(slice));
    tracing::debug!("a slice begins to arrive from a file of this machine");
    let (turn, writer) = match resume {
        Some(key) => {
            let (turn, writer) = begin_resumable(context, header, PartialKey { user, key }).await?;
            (Some(turn), go_on(writer, &file).await?)
        }
        None => {
            let store = Arc::clone(&context.storage.slices);
            (None, blocking("beginning a slice", move || Ok(store.begin(header)?)).await?)
        }
    };
    let from = writer.bytes();
    let mut forward = if from == 0 {
        Forward::begin(context, slice, chain, Priority::default(), READY_TIME_MAX)
    } else {
        // Bytes that are already here cannot be forwarded in frames.
        report_forward_failed(context, slice, chain.into_iter().map(|source| source.node)).await;
        stream.send(&LocalReply::Partial { bytes: from }).await?;
        None
    };
    let mut passed = PassedFileSource { stream, file, next: from, until: bytes, untold: 0 };
    let writer =
        receive_upload(context, &mut passed, &claim, (writer, turn), &mut forward, stopping, pending()).await?;
    if let Some(forward) = forward {
        forward.finish();
    }
    let finished = finish(context, writer, claim).await;
    if let Err(error) = &finished {
        evict_partials_if_full(context, error).await;
    }
    finished
}

/// Continues after what an earlier attempt left, if the file begins with exactly that.
async fn go_on(writer: SliceWriter, file: &Arc<File>) -> Result<SliceWriter, NodeError> {
    let (bytes, file) = (writer.bytes(), Arc::clone(file));
    if bytes == 0 {
        return Ok(writer);
    }
    blocking("comparing a file with what is there of it", move || {
        let mut hasher = SliceHasher::new();
        let mut buffer = vec![0; FRAME_BYTES];
        let mut at = 0;
        while at < bytes {
            let count = file.read_at(&mut buffer[..FRAME_BYTES.min((bytes - at) as usize)], at).map_err(unread)?;
            if count == 0 {
                return Ok(writer.restart()?);
            }
            hasher.update(&buffer[..count]);
            at += count as u64;
        }
        let is_same = hasher.finish().digest == writer.digest_so_far();
        if is_same { Ok(writer) } else { Ok(writer.restart()?) }
    })
    .await
}

/// The bytes of the passed file. The client gets a progress report now and then, so that it sees progress. If the
/// client is gone, that is noticed here.
struct PassedFileSource<'a> {
    stream: &'a mut LocalStream,
    file: Arc<File>,
    next: u64,
    until: u64,
    /// Bytes taken that the client does not know of yet.
    untold: u64,
}

impl AsyncFrameSource for PassedFileSource<'_> {
    async fn next(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        if self.untold >= TOLD_BYTES || (self.next == self.until && self.untold > 0) {
            self.stream.send(&LocalReply::Progress { bytes: mem::take(&mut self.untold) }).await?;
        }
        if self.next == self.until {
            return Ok(false);
        }
        let (file, at) = (Arc::clone(&self.file), self.next);
        let count = (self.until - at).min(FRAME_BYTES as u64);
        let mut taken = mem::take(frame);
        *frame = blocking("reading a passed file", move || {
            taken.payload.resize(count as usize, 0);
            file.read_exact_at(&mut taken.payload, at).map_err(unread)?;
            taken.checksums.clear();
            taken.checksums.extend(checksums(&taken.payload));
            Ok(taken)
        })
        .await?;
        self.next += count;
        self.untold += count;
        Ok(true)
    }
}

/// Refuses anything but an ordinary file: reading a pipe or a device might never end.
fn only_a_file(file: File) -> Result<File, NodeError> {
    let metadata = file.metadata().map_err(unread)?;
    if metadata.is_file() { Ok(file) } else { Err(wrong("what came is no ordinary file")) }
}

fn unread(error: io::Error) -> NodeError {
    NodeError::refused(
        Reason::Failed,
        match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file became shorter while it was read; write it again".to_owned(),
            _ => format!("the file cannot be read: {error}"),
        },
    )
}

fn wrong(why: &str) -> NodeError {
    NodeError::refused(Reason::Invalid, format!("{why}; the file is to be sent over the network"))
}

/// Bytes between two progress reports: some twenty reports a second.
const TOLD_BYTES: u64 = 32 << 20;
