//! A stream: what a stage reads (Sector/Sphere paper, 3.2). It is a list of Sector files, or the sealed buckets of the
//! stage before, which need no further segmentation (3.5.1). It never asks where a file is: the driver says so when the
//! job is made.

pub mod segment_cuts;
pub mod split_point_chooser;

use std::sync::Arc;

use protocol::{NodeId, RecordFraming, SectorPath, SliceId, message::spe::BucketId};
use serde::{Deserialize, Serialize};

/// The input of one stage, in order.
///
/// Of buckets, the paper says (3.5.1): "then this information is already within the Sector stream structure and no
/// further segmentation is needed".
#[derive(Clone, Debug)]
pub enum Stream {
    /// Files of the name space. Shared, because a new run of the job reads them again.
    Files(Arc<Vec<InputFile>>),
    /// The non-empty buckets of the stage before, by number.
    Buckets(Vec<SealedBucket>),
}

/// A file of the input, as the master described it when the job began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path, which the function sees.
    pub path: SectorPath,
    /// The version that is read, whatever happens to the path meanwhile.
    pub slice: SliceId,
    /// Its length in bytes.
    pub bytes: u64,
    /// How it is divided into records.
    pub records: RecordFraming,
    /// Nodes with a good copy.
    pub nodes: Vec<NodeId>,
    /// What the driver learned of its records before the job began.
    pub layout: FileLayout,
}

/// Where the records of a file are, if its length and format do not tell. It also has the files of a job's further
/// streams that are read with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayout {
    /// Where it may be cut, in order. The first is where the job's part of it begins, the last is where that ends. If
    /// there are none, it may be cut wherever its format allows. A file that is one record, and a Parquet file, is cut
    /// at each of them.
    pub split_points: Vec<SplitPoint>,
    /// What tells an SPE where the records are.
    pub locator: Option<FileLocator>,
    /// The files of the further streams that are read together with this one (paper, 3.2: `A[] + B[]`). Their marks are
    /// at the same records as this file's.
    pub zipped: Vec<InputFile>,
}

/// A place where a record begins, or the last one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPoint {
    /// The record's number in its file, from 0.
    pub record: u64,
    /// Its first byte.
    pub at: u64,
}

/// What locates the records of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileLocator {
    /// Its index, another file.
    Index {
        /// The index's path.
        path: SectorPath,
        /// The version that is read.
        slice: SliceId,
        /// Nodes with a good copy.
        nodes: Vec<NodeId>,
    },
    /// Its own end: the Parquet file's description of itself, whose row groups are the marks.
    Footer {
        /// The first byte of the description.
        from: u64,
    },
}

impl InputFile {
    /// This file and the files that are read together with it, in the order of their streams.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.layout.zipped)
    }

    /// Bytes from its first mark to mark `mark`, in all streams.
    pub(crate) fn bytes_to_split_point(&self, mark: usize) -> u64 {
        let to = |file: &Self| file.layout.split_points[mark].at - file.layout.split_points[0].at;
        self.parts().map(to).fold(0, u64::saturating_add)
    }

    /// Bytes that the job reads of it, in all streams.
    fn bytes_read(&self) -> u64 {
        match self.layout.split_points.len() {
            0 => self.bytes,
            marks => self.bytes_to_split_point(marks - 1),
        }
    }
}

/// A bucket whose content is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBucket {
    /// Which one.
    pub bucket: BucketId,
    /// The only node that has it.
    pub node: NodeId,
    /// Its length in bytes.
    pub bytes: u64,
    /// How it is divided into records.
    pub records: RecordFraming,
}

impl Stream {
    /// How many files or buckets it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Files(files) => files.len(),
            Self::Buckets(buckets) => buckets.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of member `at`, including what is read beside it.
    pub fn bytes(&self, at: usize) -> u64 {
        match self {
            Self::Files(files) => files[at].bytes_read(),
            Self::Buckets(buckets) => buckets[at].bytes,
        }
    }

    /// The path that a function sees for member `at`. A bucket has none in the name space, so its name tells where it
    /// comes from. It cannot be confused with a file, since the folder carries the job's id.
    pub fn path(&self, at: usize) -> SectorPath {
        match self {
            Self::Files(files) => files[at].path.clone(),
            Self::Buckets(buckets) => {
                let BucketId { job, stage, bucket, .. } = buckets[at].bucket;
                // Three short components of letters, digits and `-` are always a path.
                SectorPath::parse(&format!("/sphere/{job}/stage-{stage}/bucket-{bucket:05}"))
                    .unwrap_or_else(|_| SectorPath::root())
            }
        }
    }

    /// The file that is member `at`; `None` for a bucket.
    pub(crate) fn file(&self, at: usize) -> Option<&InputFile> {
        match self {
            Self::Files(files) => files.get(at),
            Self::Buckets(_) => None,
        }
    }

    /// How member `at` is divided into records.
    pub fn records(&self, at: usize) -> RecordFraming {
        match self {
            Self::Files(files) => files[at].records,
            Self::Buckets(buckets) => buckets[at].records,
        }
    }

    /// The nodes that have member `at`. If several streams are read together, these are the nodes that have the largest
    /// part, the first of equals. The bytes of the other parts travel.
    pub fn nodes(&self, at: usize) -> &[NodeId] {
        match self {
            Self::Files(files) => {
                let file = &files[at];
                let largest = file.layout.zipped.iter().fold(
                    file,
                    |most, part| {
                        if part.bytes > most.bytes { part } else { most }
                    },
                );
                &largest.nodes
            }
            Self::Buckets(buckets) => std::slice::from_ref(&buckets[at].node),
        }
    }

    /// Whether its members can only be read where they lie.
    pub fn is_pinned(&self) -> bool {
        matches!(self, Self::Buckets(_))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::JobId;

    use super::*;

    #[test]
    fn what_is_read_together_counts_together_and_lies_where_its_largest_part_does() {
        let file = |name: &str, bytes: u64, beside: Vec<InputFile>| InputFile {
            path: format!("/{name}").parse().unwrap(),
            slice: SliceId(1),
            bytes,
            records: RecordFraming::File,
            nodes: vec![NodeId::new(name).unwrap()],
            layout: FileLayout {
                split_points: vec![SplitPoint { record: 0, at: 0 }, SplitPoint { record: 1, at: bytes }],
                locator: None,
                zipped: beside,
            },
        };
        let of = |beside: u64| {
            let stream = Stream::Files(Arc::new(vec![file("a", 10, vec![file("b", beside, vec![])])]));
            (stream.bytes(0), stream.nodes(0)[0].to_string())
        };
        assert_eq!((of(5), of(10), of(11)), ((15, "a".into()), (20, "a".into()), (21, "b".into())));
    }

    #[test]
    fn a_bucket_has_a_path_that_says_where_it_comes_from() {
        let bucket = SealedBucket {
            bucket: BucketId { job: JobId(0xab), stage: 1, epoch: 2, bucket: 17, generation: 0 },
            node: NodeId::new("a").unwrap(),
            bytes: 5,
            records: RecordFraming::Lines,
        };
        let stream = Stream::Buckets(vec![bucket]);
        assert_eq!(stream.path(0).as_str(), "/sphere/00000000000000ab/stage-1/bucket-00017");
        assert_eq!((stream.len(), stream.bytes(0), stream.records(0)), (1, 5, RecordFraming::Lines));
        assert_eq!(stream.nodes(0), [NodeId::new("a").unwrap()]);
        assert!(stream.is_pinned() && !stream.is_empty());
    }
}
