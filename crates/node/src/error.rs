//! What can go wrong in a node, in sentences that name the operation and the thing.
//!
//! It never decides what to do about an error; it says by [`NodeError::class`] what a caller may do.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use protocol::{NodeId, Reason, Refusal, Status, message::spe::BucketId, status::ErrorClass};
use thiserror::Error;

/// A failed operation of a node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The settings or the credentials do not fit.
    #[error(transparent)]
    Daemon(#[from] daemon::DaemonError),
    /// The store could not.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The network could not.
    #[error(transparent)]
    Net(#[from] net::NetError),
    /// The operating system would not do something to a file of a job.
    #[error("cannot {operation} `{}`: {source}; see to the node's disk, or try another node", path.display())]
    Io {
        /// What was being done, as a verb: `write`.
        operation: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// We refuse, or another role refused us.
    #[error("{0}")]
    Refused(Refusal),
    /// Another node answered with something that is no answer to what it was asked.
    #[error("node {node} answered {answer} when asked to {operation}; both nodes must run the same version of sector")]
    UnexpectedReply {
        /// Who answered.
        node: NodeId,
        /// What it had been asked.
        operation: &'static str,
        /// What it said, in a word.
        answer: &'static str,
    },
    /// A transfer brought another number of bytes than was announced.
    #[error("{what} should have {expected} bytes and {found} came: send it again")]
    LengthMismatch {
        /// What was transferred.
        what: String,
        /// Bytes announced.
        expected: u64,
        /// Bytes that came.
        found: u64,
    },
    /// A peer neither sent nor took anything for too long.
    #[error("nothing moved for {} s while {operation}; the connection was given up", .after.as_secs())]
    Stalled {
        /// What was being done.
        operation: &'static str,
        /// How long.
        after: Duration,
    },
    /// A bucket was asked for in a state in which it is not.
    #[error("bucket {} of stage {} of job {} {why}", .bucket.bucket, .bucket.stage, .bucket.job)]
    Bucket {
        /// Which bucket.
        bucket: BucketId,
        /// What a caller may conclude.
        reason: Reason,
        /// What is wrong.
        why: String,
    },
    /// An SPE could not be started or died.
    #[error("the SPE {0}; the task may be tried again")]
    Spe(String),
    /// A task of ours ended by a panic.
    #[error("the node failed while {operation}: a bug; please report it with the log")]
    Panicked {
        /// What was being done.
        operation: &'static str,
    },
}

impl NodeError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Daemon(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Net(error) => error.class(),
            Self::Refused(Refusal { reason, .. }) | Self::Bucket { reason, .. } => match reason.status() {
                Status::Unavailable | Status::NotFound => ErrorClass::RetryElsewhere,
                Status::Corrupt => ErrorClass::Corrupt,
                _ => ErrorClass::Refuse,
            },
            Self::Io { .. } | Self::Stalled { .. } => ErrorClass::RetryElsewhere,
            Self::LengthMismatch { .. } | Self::Spe(_) => ErrorClass::RetryHere,
            Self::UnexpectedReply { .. } => ErrorClass::Refuse,
            Self::Panicked { .. } => ErrorClass::Bug,
        }
    }

    /// The error as an answer to whoever asked for the operation.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Daemon(error) => return error.refusal(),
            Self::Store(error) => return error.refusal(),
            Self::Net(error) => return error.refusal(),
            Self::Refused(refusal) => return refusal.clone(),
            Self::Bucket { reason, .. } => *reason,
            Self::Io { source, .. } if is_full(source) => Reason::NoSpace,
            Self::LengthMismatch { .. } | Self::Stalled { .. } | Self::Spe(_) => Reason::Unavailable,
            Self::Io { .. } | Self::UnexpectedReply { .. } | Self::Panicked { .. } => Reason::Failed,
        };
        Refusal::new(reason, self.to_string())
    }

    /// Whether the disk has no room, which another node may have.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_full(source),
            Self::Store(error) => error.is_full(),
            _ => false,
        }
    }

    /// A refusal of our own.
    pub(crate) fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(reason, message))
    }

    /// A failure to do `operation` to the file or folder `path`; to be used with `map_err`.
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }
}

/// Runs `work`, which may wait for a disk or compute for long, away from the tasks that serve the network.
pub(crate) async fn blocking<T, F>(operation: &'static str, work: F) -> Result<T, NodeError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, NodeError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // A blocking task is never cancelled once it runs; what remains is its panic, or the end of the runtime.
        Err(_) => Err(NodeError::Panicked { operation }),
    }
}

fn is_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use protocol::JobId;

    use super::*;

    #[test]
    fn a_full_disk_is_unavailable_so_that_another_node_is_tried() {
        let error = NodeError::io("write", Path::new("bucket"))(io::ErrorKind::StorageFull.into());
        assert_eq!((error.class(), error.refusal().reason), (ErrorClass::RetryElsewhere, Reason::NoSpace));
        assert!(error.is_full());
        assert!(error.to_string().starts_with("cannot write `bucket`"), "{error}");
    }

    #[test]
    fn what_another_role_refused_is_passed_on_as_it_was_said() {
        let refusal = Refusal::new(Reason::NoRight, "no ticket");
        assert_eq!(NodeError::Refused(refusal.clone()).refusal(), refusal);
    }

    #[test]
    fn a_bucket_is_named_in_full() {
        let bucket = BucketId { job: JobId(1), stage: 2, epoch: 0, bucket: 3, generation: 0 };
        let error = NodeError::Bucket { bucket, reason: Reason::NotFound, why: "is not here".into() };
        assert_eq!(error.to_string(), "bucket 3 of stage 2 of job 0000000000000001 is not here");
        assert_eq!(error.class(), ErrorClass::RetryElsewhere);
    }
}
