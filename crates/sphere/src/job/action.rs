//! What a job wants done. The driver carries the actions out in any order, as many at once as it likes. It reports the
//! result of each to the job as an [`Event`](crate::Event). This file never carries anything out.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use protocol::{
    NodeId, RecordFraming, SectorPath, SliceId,
    message::spe::{AttemptId, BucketId, SealOrder},
};

use crate::{Outcome, SpeId, SphereError};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// Get an SPE at a node. Answered by [`SpeReady`](crate::Event::SpeReady) or [`SpeLost`](crate::Event::SpeLost).
    StartSpe {
        /// The number by which it is known from now on.
        spe: SpeId,
        /// The node where it is to run.
        node: NodeId,
    },
    /// The job no longer counts on this SPE: end it, whatever it is doing. Needs no answer.
    DropSpe(SpeId),
    /// Give a task to an SPE that is ready.
    RunTask(Assignment),
    /// Make a bucket final. Answered by [`Sealed`](crate::Event::Sealed) or
    /// [`BucketRefused`](crate::Event::BucketRefused).
    Seal {
        /// The bucket's node.
        node: NodeId,
        /// The bucket and the pieces that belong in it.
        order: SealOrder,
    },
    /// Make a sealed bucket the job's output file of the bucket's number. Answered by
    /// [`Published`](crate::Event::Published) or [`BucketRefused`](crate::Event::BucketRefused).
    Publish {
        /// The bucket's node.
        node: NodeId,
        /// The bucket; its number gives the file's place in the output.
        bucket: BucketId,
        /// How the file falls into records.
        records: RecordFraming,
    },
    /// Bring a sealed bucket's bytes to the driver. Answered by [`Fetched`](crate::Event::Fetched) or
    /// [`BucketRefused`](crate::Event::BucketRefused).
    Fetch {
        /// The bucket's node.
        node: NodeId,
        /// The bucket.
        bucket: BucketId,
    },
    /// Have a node send pieces that an attempt there made, and that the node kept, to buckets that lack them. Answered
    /// by [`Delivered`](crate::Event::Delivered) or [`DeliveryRefused`](crate::Event::DeliveryRefused).
    Deliver(Delivery),
    /// Everything is done again. What older runs published or returned is void, and their actions need not be carried
    /// out.
    BeginEpoch {
        /// The run that begins.
        epoch: u32,
    },
    /// The job has ended; nothing comes after this.
    Finished(Result<Outcome, SphereError>),
}

/// A task for an SPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The SPE that does it.
    pub spe: SpeId,
    /// The SPE's node.
    pub node: NodeId,
    /// The task, and which attempt at it this is.
    pub attempt: AttemptId,
    /// Its segments, in the order of the stream.
    pub segments: Vec<AssignedSegment>,
    /// Where results go.
    pub output: Placement,
    /// The buckets that still need this task's piece, where an earlier attempt has served the others. `None` means all
    /// of them.
    pub wanted: Option<BTreeSet<u32>>,
}

/// Pieces that a node kept and is to send. A delivery is identified by its attempt: there is never more than one of
/// each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The node that kept them.
    pub node: NodeId,
    /// The attempt whose results they are.
    pub attempt: AttemptId,
    /// The buckets that lack them, by number, and where they are now.
    pub locations: Vec<(u32, BucketLocation)>,
}

/// A segment as it is given to one SPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedSegment {
    /// Its number in the stage's stream, from 0.
    pub segment: u64,
    /// Its part of the first input stream.
    pub first: AssignedPart,
    /// Its parts of further streams.
    pub zipped: Vec<AssignedPart>,
}

/// A segment's part of one input stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedPart {
    /// Where that SPE finds its bytes.
    pub location: SegmentLocation,
    /// The path the function sees.
    pub path: SectorPath,
    /// First byte.
    pub from: u64,
    /// First byte that is no longer part of it; of lines, those that start before it belong to the part.
    pub until: u64,
    /// How its bytes fall into records.
    pub records: RecordFraming,
    /// Where its records are found, if its bytes alone do not tell.
    pub locator: Option<AssignedLocator>,
}

/// What locates the records of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignedLocator {
    /// The index of its file, and which records of the file the part has.
    Index {
        /// Where the SPE finds the index.
        location: SegmentLocation,
        /// The index's path.
        path: SectorPath,
        /// The part's records.
        records: Range<u64>,
    },
    /// The end of the file, from this byte on.
    Footer {
        /// First byte.
        from: u64,
        /// The file's end.
        until: u64,
        /// Which row group it is, from 0.
        row_group: u32,
        /// Its rows.
        rows: u64,
    },
}

/// Where a segment's bytes are, as seen from the SPE that gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentLocation {
    /// In a slice that the SPE's node holds.
    Local(SliceId),
    /// In a slice of another node.
    Remote {
        /// The slice.
        slice: SliceId,
        /// The nearest holder among the job's nodes, if one is left; otherwise any holder.
        nearest: Option<NodeId>,
    },
    /// In a sealed bucket of the SPE's node.
    Bucket(BucketId),
}

/// Where a task's results go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into one bucket of the SPE's node, whose number is the task's.
    Local,
    /// Into buckets, bucket `i` at the `i`th home.
    Buckets(Arc<Vec<BucketLocation>>),
}

impl Placement {
    /// Where bucket `number` is; `None` for a task's own.
    pub(crate) fn location(&self, number: u32) -> Option<&BucketLocation> {
        if let Self::Buckets(homes) = self { homes.get(number as usize) } else { None }
    }
}

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketLocation {
    /// Its node.
    pub node: NodeId,
    /// How often it was started anew; see [`BucketId::generation`].
    pub generation: u32,
}
