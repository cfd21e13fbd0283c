//! What a job is told. News may be late or come twice: what belongs to an attempt, an SPE or a run that the job no
//! longer counts on is ignored.

use protocol::{
    NodeId, Refusal, SliceId,
    message::spe::{AttemptId, BucketId, FunctionFailure, TaskResult},
};

use serde::{Deserialize, Serialize};

use crate::SpeId;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An SPE can be given a task.
    SpeReady(SpeId),
    /// An SPE could not be started, or ended, idle or not.
    SpeLost {
        /// Which.
        spe: SpeId,
        /// How it ended.
        refusal: Refusal,
    },
    /// An attempt goes on.
    Progress {
        /// Which.
        attempt: AttemptId,
        /// Bytes of input read so far.
        bytes: u64,
    },
    /// An attempt is done; each of its pieces is with its bucket, or kept by its node.
    TaskFinished {
        /// Which.
        attempt: AttemptId,
        /// What it read and left.
        result: TaskResult,
    },
    /// An attempt failed through no fault of the function. Its SPE is not used again.
    TaskFailed {
        /// Which.
        attempt: AttemptId,
        /// How.
        refusal: Refusal,
    },
    /// The user's function erred: the job ends (paper, 3.5.2).
    FunctionFailed {
        /// Which attempt.
        attempt: AttemptId,
        /// Where, and what it said.
        error: FunctionFailure,
    },
    /// The pieces that were to be delivered are with their buckets.
    Delivered(AttemptId),
    /// They are not, or not all.
    DeliveryRefused {
        /// Whose pieces.
        attempt: AttemptId,
        /// Why. [`NotFound`](protocol::Status::NotFound): the node has not kept them.
        refusal: Refusal,
    },
    /// A bucket is final.
    Sealed {
        /// Which.
        bucket: BucketId,
        /// Its length in bytes.
        bytes: u64,
        /// The tasks whose pieces are in it, in the order in which they lie.
        order: Vec<u32>,
    },
    /// A bucket has become a file, as a driver wrote it down that did not say of which slice. Drivers say
    /// [`PublishedAs`](Self::PublishedAs).
    Published(BucketId),
    /// The driver has a bucket's bytes.
    Fetched(BucketId),
    /// A bucket could not be sealed, published or fetched.
    BucketRefused {
        /// Which.
        bucket: BucketId,
        /// Why.
        refusal: Refusal,
    },
    /// A node is gone, with all that it had of the job.
    NodeLost(NodeId),
    /// Something was refused that no retry changes, such as a function that no SPE can load: the job ends.
    JobRefused(Refusal),
    /// The driver that was told all this is gone, and with it its conversations, all that it had asked for, and perhaps
    /// the last of what it was told; another has taken its place.
    DriverReplaced,
    /// Someone asked the job to stop; the sentence says who or why.
    Cancelled(Refusal),
    /// No copy of what an attempt was to read can be reached now. It was not begun, and its SPE is ready for another.
    InputUnavailable {
        /// Which.
        attempt: AttemptId,
        /// What is away.
        refusal: Refusal,
    },
    /// A bucket has become a file.
    PublishedAs {
        /// Which.
        bucket: BucketId,
        /// The file's content.
        slice: SliceId,
    },
    /// An attempt ended while its node's machine had no more memory: probably by the user's function. Its SPE is not
    /// used again.
    OutOfMemory {
        /// Which.
        attempt: AttemptId,
        /// Where, and how it ended.
        error: FunctionFailure,
    },
}
