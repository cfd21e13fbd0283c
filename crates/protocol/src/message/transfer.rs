//! Door 5: bytes between client and node, and node and node. One TLS connection carries requests one after the other;
//! each begins with a [`TransferRequest`] (length-prefixed, encoded) that holds a ticket. Data travels in
//! [frames](crate::wire::stream_frame), ended by an empty one.

use serde::{Deserialize, Serialize};

use crate::{
    Digest, Refusal, SliceId, TransferQos,
    message::{client_master::Source, spe::PieceId},
    ticket::{Delegate, HolderKey, SignedTicket},
};

/// What one who connects to a node wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferRequest {
    /// Read bytes: [`TransferReply::Reading`], then frames.
    Read {
        /// Right: read.
        ticket: SignedTicket,
        /// The slice.
        slice: SliceId,
        /// First byte.
        from: u64,
        /// First byte no longer wanted.
        until: u64,
    },
    /// Write a new slice: [`TransferReply::Ready`], then frames from the caller, then [`TransferReply::Stored`]. Where
    /// bytes of an earlier attempt are there, [`TransferReply::Partial`] comes first, and the caller answers it with
    /// [`ResumeFrom`].
    Write {
        /// Right: write.
        ticket: SignedTicket,
        /// The nodes that the bytes go on to, one from the other in this order, each with its own write ticket.
        chain: Vec<Source>,
    },
    /// Give a piece to a bucket: [`TransferReply::Ready`] or [`TransferReply::Taken`] at once when the bucket has it
    /// already, then frames, then [`TransferReply::Taken`].
    Piece {
        /// Right: compute.
        ticket: SignedTicket,
        /// Which piece of which bucket.
        piece: PieceId,
        /// Its length in bytes.
        bytes: u64,
    },
    /// Talk to an SPE from now on, in the words of [`spe`](crate::message::spe): [`TransferReply::Ready`].
    Spe {
        /// Right: compute.
        ticket: SignedTicket,
    },
    /// Read a whole slice from the disk and compare it with its checksums and its digest: [`TransferReply::Verifying`]
    /// now and then, so that a long check is no stall, and at last [`TransferReply::Verified`], or refused as corrupt.
    Verify {
        /// Right: read, the whole slice.
        ticket: SignedTicket,
        /// The slice.
        slice: SliceId,
    },
    /// What files lie in and below a folder of this node that may be imported: [`TransferReply::Files`].
    ListFiles {
        /// Right: import.
        ticket: SignedTicket,
        /// The folder on the node's disk.
        folder: String,
        /// Only those after this one (the last of the page before).
        after: Option<String>,
    },
    /// Make a native file a slice: [`TransferReply::Imported`] again and again while it is read, then
    /// [`TransferReply::Stored`]. The file keeps its name until [`UnlinkFile`](Self::UnlinkFile), so that nothing is
    /// lost where the write is never published.
    ImportFile {
        /// Right: import.
        ticket: SignedTicket,
        /// Right: write, for the new slice.
        write: SignedTicket,
        /// The folder, as it was listed.
        folder: String,
        /// The file's path within it.
        file: String,
        /// Copy the bytes, and leave the file to its owner.
        keep: bool,
    },
    /// Take the native name from a file that was imported and published: [`TransferReply::Ready`]. Refused where the
    /// file is not that slice's any more.
    UnlinkFile {
        /// Right: import.
        ticket: SignedTicket,
        /// The folder, as it was listed.
        folder: String,
        /// The file's path within it.
        file: String,
        /// The slice that it became.
        slice: SliceId,
    },
    /// A client shows that it holds the key that its tickets name. The first word of its connections; it has no answer
    /// of its own, but a connection on which it is not true is refused and closed.
    ProveKey {
        /// The public half.
        key: HolderKey,
        /// Ed25519 signature over the 32 bytes that this connection exports under
        /// [`HOLDER_LABEL`](crate::ticket::HOLDER_LABEL), 64 bytes.
        proof: Vec<u8>,
    },
    /// How the next request on this connection is to go: whoever sends its bytes keeps to it. It has no answer of its
    /// own.
    Qos(TransferQos),
    /// Go on without encryption, as `insecure_data` allows within a site: [`TransferReply::Ready`], still sealed, and
    /// from then on plain bytes both ways.
    Plain {
        /// Any right; it says within which site that is allowed.
        ticket: SignedTicket,
    },
    /// Fetch a slice from the nodes that have it and store it as a new one, while whoever asks sees no byte of it:
    /// [`TransferReply::Pulling`] now and then, each answered with a [`PullUpdate`], and at last
    /// [`TransferReply::Stored`].
    Pull(Pull),
}

impl TransferRequest {
    /// The ticket that says whether it may be.
    pub fn ticket(&self) -> Option<&SignedTicket> {
        match self {
            Self::Read { ticket, .. }
            | Self::Write { ticket, .. }
            | Self::Piece { ticket, .. }
            | Self::Verify { ticket, .. }
            | Self::ListFiles { ticket, .. }
            | Self::ImportFile { ticket, .. }
            | Self::UnlinkFile { ticket, .. }
            | Self::Plain { ticket }
            | Self::Spe { ticket }
            | Self::Pull(Pull { write: ticket, .. }) => Some(ticket),
            Self::ProveKey { .. } | Self::Qos(_) => None,
        }
    }
}

/// See [`TransferRequest::Pull`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// Right: write, for the new slice. Where it has a resume key, what comes is kept when the copy breaks off, and the
    /// next one with the same key goes on behind it: so the key must stand for the bytes of the slice that is copied.
    pub write: SignedTicket,
    /// The nodes that the bytes go on to, as in [`TransferRequest::Write`].
    pub chain: Vec<Source>,
    /// The slice to copy.
    pub slice: SliceId,
    /// Its length in bytes.
    pub bytes: u64,
    /// Who has it, the best first, at most [`PULL_SOURCES_MAX`], with tickets handed to the node that is to fetch it;
    /// but where that node itself has it, the client's own ticket for it. Each with its distance from that node.
    pub sources: Vec<Source>,
    /// Where the slice lies in another cloud: the certificate of that cloud's authority, PEM, at most
    /// [`AUTHORITY_BYTES_MAX`]. The node is nobody there: it makes a key for this copy, and the tickets are to be
    /// handed to that, once it has told it; so it is told of no sources yet.
    pub authority: Option<String>,
}

/// The answer to [`TransferReply::Pulling`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullUpdate {
    /// How the copy is to go from now on.
    pub qos: TransferQos,
    /// Who has the slice now, as in [`Pull::sources`], with fresh tickets; empty where none were asked for.
    pub sources: Vec<Source>,
}

/// What the node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferReply {
    /// Frames with this many bytes follow. When they break off before, the connection is closed.
    Reading {
        /// Bytes that follow.
        bytes: u64,
    },
    /// Go on.
    Ready,
    /// The slice is complete and synced.
    Stored {
        /// Its length.
        bytes: u64,
        /// Its digest.
        digest: Digest,
    },
    /// The bucket has the piece, whole.
    Taken,
    /// No, and why.
    Refused(Refusal),
    /// So far all is good.
    Verifying {
        /// Bytes that were compared so far.
        bytes: u64,
    },
    /// Every block matched its checksum, and the whole its digest.
    Verified {
        /// The digest, computed from what the disk gave.
        digest: Digest,
    },
    /// So much of this upload is here and safe from an earlier attempt; answer with [`ResumeFrom`].
    Partial {
        /// Bytes, from the file's beginning.
        bytes: u64,
        /// BLAKE3 of these bytes.
        digest: Digest,
    },
    /// A page of native files.
    Files {
        /// The files, by path.
        files: Vec<NativeFile>,
        /// Whether more follow.
        more: bool,
    },
    /// So many bytes of a native file have been read.
    Imported {
        /// Bytes so far.
        bytes: u64,
    },
    /// So much of a copy is here; answer with [`PullUpdate`].
    Pulling {
        /// Bytes, from the slice's beginning.
        bytes: u64,
        /// To whom fresh tickets for the sources are to be handed, where they are needed.
        wants: Option<Delegate>,
    },
}

/// A file on a node's disk that is no slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeFile {
    /// Its path within the folder that was listed.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The answer to [`TransferReply::Partial`]: from which byte on frames will come. Either as many as are there, or 0 to
/// begin anew. [`TransferReply::Ready`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeFrom(pub u64);

/// Length of the certificate of another cloud's authority, in bytes: ours have less than one kilobyte, those of others
/// with large keys some.
pub const AUTHORITY_BYTES_MAX: usize = 16 * 1024;
/// Sources that a copy is told of: a slice seldom has more copies, and one that is left out is asked for again.
pub const PULL_SOURCES_MAX: usize = 16;
