//! Door 5: bytes between client and node, and between nodes. One TLS connection carries requests one after the other.
//! Each begins with a [`TransferRequest`] (length-prefixed, encoded) that holds a ticket. Data travels in
//! [frames](crate::wire::stream_frame). An empty frame ends the data, so a frame with data is never empty.

use serde::{Deserialize, Serialize};

use super::byte_runs::ByteRuns;
use crate::{
    Digest, Refusal, SliceId, TransferQos,
    message::{client_reply::Source, spe::PieceId},
    ticket::{Delegate, HolderKey, SignedTicket},
};

/// A request of a client or node to a node.
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
        /// First byte not wanted.
        until: u64,
    },
    /// Write a new slice: [`TransferReply::Ready`], then frames from the caller, then [`TransferReply::Stored`]. Where
    /// there are bytes of an earlier attempt, [`TransferReply::Partial`] comes first, and the caller answers it with
    /// [`ResumeFrom`].
    Write {
        /// Right: write.
        ticket: SignedTicket,
        /// The nodes that the bytes go on to, one from the other in this order, each with its own write ticket.
        chain: Vec<Source>,
    },
    /// Give a piece to a bucket: [`TransferReply::Ready`], then frames, then [`TransferReply::Taken`]. When the bucket
    /// already has it, [`TransferReply::Taken`] comes at once.
    Piece {
        /// Right: compute.
        ticket: SignedTicket,
        /// Which piece of which bucket.
        piece: PieceId,
        /// Its length in bytes.
        bytes: u64,
    },
    /// Talk to an SPE from now on, in the messages of [`spe`](crate::message::spe): [`TransferReply::Ready`].
    Spe {
        /// Right: compute.
        ticket: SignedTicket,
    },
    /// Read a whole slice from the disk and compare it with its checksums and its digest. [`TransferReply::Verifying`]
    /// comes now and then, so that a long check is no stall. At last comes [`TransferReply::Verified`], or a refusal as
    /// corrupt.
    Verify {
        /// Right: read, the whole slice.
        ticket: SignedTicket,
        /// The slice.
        slice: SliceId,
    },
    /// List the files in and below a folder of this node that may be imported: [`TransferReply::Files`].
    ListFiles {
        /// Right: import.
        ticket: SignedTicket,
        /// The folder on the node's disk.
        folder: String,
        /// Only those after this one (the last of the page before).
        after: Option<String>,
    },
    /// Make a native file a slice: [`TransferReply::Imported`] repeatedly while it is read, then
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
    /// Remove the native name of a file that was imported and published: [`TransferReply::Ready`]. Refused where the
    /// file is no longer that slice.
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
    /// A client proves that it holds the key that its tickets name. It is the first message of its connections. It has
    /// no answer of its own, but where the proof is wrong the connection is refused and closed.
    ProveKey {
        /// The public half.
        key: HolderKey,
        /// Ed25519 signature over the 32 bytes that this connection exports under
        /// [`HOLDER_LABEL`](crate::ticket::HOLDER_LABEL), 64 bytes.
        proof: Vec<u8>,
    },
    /// Rate and priority of the next request on this connection: the sender of its bytes keeps to them. It has no
    /// answer of its own.
    Qos(TransferQos),
    /// Continue without encryption, as `insecure_data` allows within a site. [`TransferReply::Ready`] is still sealed;
    /// after it both ends send plain bytes.
    Plain {
        /// Any right; it says within which site that is allowed.
        ticket: SignedTicket,
    },
    /// Fetch a slice from the nodes that have it and store it as a new one; the requester sees no byte of it. Now and
    /// then comes [`TransferReply::Pulling`], each time answered with a [`PullUpdate`], and at last
    /// [`TransferReply::Stored`].
    Pull(Pull),
    /// Read runs of bytes and nothing between them: [`TransferReply::Reading`] with the bytes of all runs, then frames.
    ReadRuns {
        /// Right: read.
        ticket: SignedTicket,
        /// The slice.
        slice: SliceId,
        /// The runs, all of them within the slice.
        runs: ByteRuns,
    },
}

impl TransferRequest {
    /// The ticket that authorizes the request.
    pub fn ticket(&self) -> Option<&SignedTicket> {
        match self {
            Self::Read { ticket, .. }
            | Self::ReadRuns { ticket, .. }
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
    /// Right: write, for the new slice. With a resume key the received part is kept when the copy breaks off, and the
    /// next copy with the same key continues it. So the key must stand for the bytes of the slice that is copied.
    pub write: SignedTicket,
    /// The nodes that the bytes go on to, as in [`TransferRequest::Write`].
    pub chain: Vec<Source>,
    /// The slice to copy.
    pub slice: SliceId,
    /// Its length in bytes.
    pub bytes: u64,
    /// Who has it, the best first, at most [`PULL_SOURCES_MAX`], with tickets delegated to the fetching node. Where
    /// that node itself has it, the client's own ticket is given. Each source has its distance from that node.
    pub sources: Vec<Source>,
    /// Where the slice lies in another cloud: the certificate of that cloud's authority, PEM, at most
    /// [`AUTHORITY_BYTES_MAX`]. The node is unknown there, so it makes a key for this copy. The tickets are delegated
    /// to that key once the node has reported it, so no sources are given yet.
    pub authority: Option<String>,
}

/// The answer to [`TransferReply::Pulling`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullUpdate {
    /// Rate and priority of the copy from now on.
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
    /// All good so far.
    Verifying {
        /// Bytes that were compared so far.
        bytes: u64,
    },
    /// Every block matched its checksum, and the slice its digest.
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
        /// To whom fresh tickets for the sources are to be delegated, where they are needed.
        wants: Option<Delegate>,
    },
}

/// A file on a node's disk that is not a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeFile {
    /// Its path within the folder that was listed.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The answer to [`TransferReply::Partial`]: the byte from which frames will come. It is either the whole length of the
/// part that is there, or 0 to begin again. [`TransferReply::Ready`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeFrom(pub u64);

/// Length of the certificate of another cloud's authority, in bytes. Ours have less than one kilobyte; those of others
/// with large keys have several.
pub const AUTHORITY_BYTES_MAX: usize = 16 * 1024;
/// Sources given for a copy: a slice seldom has more copies, and a source that is left out can be asked for again.
pub const PULL_SOURCES_MAX: usize = 16;
