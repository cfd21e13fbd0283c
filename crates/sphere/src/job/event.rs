//! What a job is told. Events may be late or come twice. The job ignores those of an attempt, an SPE or a run that it
//! no longer counts on. An event never says what follows from it: the [job](crate::job) decides that.

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
        /// Which one.
        spe: SpeId,
        /// How it ended.
        refusal: Refusal,
    },
    /// An attempt is making progress.
    Progress {
        /// Which one.
        attempt: AttemptId,
        /// Bytes of input read so far.
        bytes: u64,
    },
    /// An attempt is done; each of its pieces is in its bucket, or kept by its node.
    TaskFinished {
        /// Which one.
        attempt: AttemptId,
        /// What it read and left.
        result: TaskResult,
    },
    /// An attempt failed through no fault of the function. Its SPE is not used again.
    TaskFailed {
        /// Which one.
        attempt: AttemptId,
        /// How.
        refusal: Refusal,
    },
    /// The user's function erred: the job ends, unless its plan allows for errors (paper, 3.5.2).
    FunctionFailed {
        /// Which attempt.
        attempt: AttemptId,
        /// Where, and what it said.
        error: FunctionFailure,
    },
    /// The pieces that were to be delivered are in their buckets.
    Delivered(AttemptId),
    /// Some or all of them are not.
    DeliveryRefused {
        /// Whose pieces.
        attempt: AttemptId,
        /// Why. [`NotFound`](protocol::Status::NotFound): the node has not kept them.
        refusal: Refusal,
    },
    /// A bucket is final.
    Sealed {
        /// Which one.
        bucket: BucketId,
        /// Its length in bytes.
        bytes: u64,
        /// The tasks whose pieces are in it, in the order in which they lie.
        order: Vec<u32>,
    },
    /// A bucket has become a file, in the form in which earlier drivers wrote it down, without the slice. Drivers now
    /// use [`PublishedAs`](Self::PublishedAs).
    Published(BucketId),
    /// The driver has a bucket's bytes.
    Fetched(BucketId),
    /// A bucket could not be sealed, published or fetched.
    BucketRefused {
        /// Which one.
        bucket: BucketId,
        /// Why.
        refusal: Refusal,
    },
    /// A node is gone, with all that it had of the job.
    NodeLost(NodeId),
    /// Something was refused and no retry would change that, such as a function that no SPE can load: the job ends.
    JobRefused(Refusal),
    /// The driver that was given all this is gone, with its connections and all that it had asked for. The last events
    /// it was given may be lost too. Another driver has taken its place.
    DriverReplaced,
    /// Someone asked the job to stop; the message says who or why.
    Cancelled(Refusal),
    /// No copy of an attempt's input can be reached now. The attempt was not begun, and its SPE is ready for another.
    InputUnavailable {
        /// Which.
        attempt: AttemptId,
        /// What is unavailable.
        refusal: Refusal,
    },
    /// A bucket has become a file.
    PublishedAs {
        /// Which one.
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
