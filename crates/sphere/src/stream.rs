//! A stream: what a stage reads (Sector/Sphere paper, 3.2). It is either a list of Sector files, or the sealed buckets of
//! the stage before; "then this information is already within the Sector stream structure and no further segmentation
//! is needed" (3.5.1).
//!
//! It never asks anyone where a file is: the driver says so when the job is made.

use std::sync::Arc;

use protocol::{NodeId, RecordFormat, SectorPath, SliceId, message::spe::BucketId};

/// The input of one stage, in order.
#[derive(Clone, Debug)]
pub enum Stream {
    /// Files of the name space. Shared, because a new run of the job reads them again.
    Files(Arc<Vec<InputFile>>),
    /// The non-empty buckets of the stage before, by number.
    Buckets(Vec<SealedBucket>),
}

/// A file of the input, as the master described it when the job began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its path, which the function sees.
    pub path: SectorPath,
    /// The version that is read, whatever happens to the path meanwhile.
    pub slice: SliceId,
    /// Its length in bytes.
    pub bytes: u64,
    /// How it falls into records.
    pub records: RecordFormat,
    /// Nodes with a good copy.
    pub nodes: Vec<NodeId>,
}

/// A bucket whose content is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBucket {
    /// Which.
    pub bucket: BucketId,
    /// The only node that has it.
    pub node: NodeId,
    /// Its length in bytes.
    pub bytes: u64,
    /// How it falls into records.
    pub records: RecordFormat,
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

    /// Length of member `at` in bytes.
    pub fn bytes(&self, at: usize) -> u64 {
        match self {
            Self::Files(files) => files[at].bytes,
            Self::Buckets(buckets) => buckets[at].bytes,
        }
    }

    /// The path that a function sees for member `at`. A bucket has none in the name space; its name tells where it
    /// comes from, and no file can be confused with it since the folder carries the job's id.
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

    /// How member `at` falls into records.
    pub fn records(&self, at: usize) -> RecordFormat {
        match self {
            Self::Files(files) => files[at].records,
            Self::Buckets(buckets) => buckets[at].records,
        }
    }

    /// The nodes that have member `at`.
    pub fn nodes(&self, at: usize) -> &[NodeId] {
        match self {
            Self::Files(files) => &files[at].nodes,
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
    fn a_bucket_has_a_path_that_says_where_it_comes_from() {
        let bucket = SealedBucket {
            bucket: BucketId { job: JobId(0xab), stage: 1, run: 2, bucket: 17, making: 0 },
            node: NodeId::new("a").unwrap(),
            bytes: 5,
            records: RecordFormat::Lines,
        };
        let stream = Stream::Buckets(vec![bucket]);
        assert_eq!(stream.path(0).as_str(), "/sphere/00000000000000ab/stage-1/bucket-00017");
        assert_eq!((stream.len(), stream.bytes(0), stream.records(0)), (1, 5, RecordFormat::Lines));
        assert_eq!(stream.nodes(0), [NodeId::new("a").unwrap()]);
        assert!(stream.is_pinned() && !stream.is_empty());
    }
}
