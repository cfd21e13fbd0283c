//! Door 5 on one machine, for the paths *download* and *upload*. A client that can reach a node's local socket gets the
//! slice's bytes as an open file (`SCM_RIGHTS`) instead of having them sent. It gives a file to be stored in the same
//! way. Each message is a length of 4 bytes in network byte order, then the encoding. Access is never given without a
//! ticket, as at the transfer port.

use serde::{Deserialize, Serialize};

use crate::{
    Digest, Refusal, SliceId,
    message::client_reply::Source,
    ticket::{HolderKey, SignedTicket},
};

/// What a client asks at a node's local socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalRequest {
    /// Give me the slice's file: [`LocalReply::Opened`], then [`LocalReply::Checksums`] until there is one for each
    /// block.
    Open {
        /// Right: read, and the whole slice, since a file cannot be given in part.
        ticket: SignedTicket,
        /// The slice.
        slice: SliceId,
    },
    /// These bytes do not match their checksums; check them yourself: [`LocalReply::Done`].
    Suspect {
        /// Right: read.
        ticket: SignedTicket,
        /// The slice.
        slice: SliceId,
        /// First byte that looked bad.
        from: u64,
        /// First byte behind them; a node checks no more than [`SUSPECT_BYTES_MAX`].
        until: u64,
    },
    /// Store the file that comes with this message as a new slice: [`LocalReply::Progress`] now and then, at last
    /// [`LocalReply::Stored`]. What an earlier attempt left is used where it is the file's beginning; then
    /// [`LocalReply::Partial`] comes first.
    Store {
        /// Right: write.
        ticket: SignedTicket,
        /// The further nodes that are to have it, as at the transfer port.
        chain: Vec<Source>,
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// A client proves that it holds the key that its tickets name. It is the first message of its conversations. It
    /// has no answer of its own, but where the proof is wrong the conversation is refused and closed.
    ProveKey {
        /// The public half.
        key: HolderKey,
        /// When it was signed, in milliseconds since the Unix epoch; both ends have the same clock.
        unix_millis: u64,
        /// Ed25519 signature over [`local_proof_bytes`](crate::ticket::local_proof_bytes), 64 bytes.
        proof: Vec<u8>,
    },
}

/// What the node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalReply {
    /// The slice's file, open for reading; it comes with this message's first byte.
    Opened {
        /// Length of the slice in bytes.
        bytes: u64,
        /// Its digest.
        digest: Digest,
    },
    /// CRC32C of the next blocks, at most [`CHECKSUMS_PER_MESSAGE_MAX`].
    Checksums(Vec<u32>),
    /// The bytes were checked; if they are bad, the slice is quarantined and reported.
    Done,
    /// No, and why.
    Refused(Refusal),
    /// So many more bytes of the file were taken.
    Progress {
        /// Bytes since the last message.
        bytes: u64,
    },
    /// So much of the file is here and safe from an earlier attempt.
    Partial {
        /// Bytes, from the file's beginning.
        bytes: u64,
    },
    /// The slice is complete and synced.
    Stored {
        /// Its length.
        bytes: u64,
        /// Its digest.
        digest: Digest,
    },
}

/// Most checksums in one message: those of a slice of 1 GiB, 80 KiB at most.
pub const CHECKSUMS_PER_MESSAGE_MAX: usize = 16 * 1024;
/// Most bytes that a node reads again for one suspicion: a suspicion may cost it no more than a frame.
pub const SUSPECT_BYTES_MAX: u64 = 1024 * 1024;
/// Longest message at a local socket, in bytes: a full list of checksums with room for its frame, or a ticket.
pub const LOCAL_MESSAGE_BYTES_MAX: usize = 128 * 1024;
