//! What this node keeps on its disks: slices, buckets, the mirror of the master's rows, and what belongs to them. It
//! handles a slice or a disk that turns out to be bad. It never decides what is kept.

use std::sync::Arc;

use protocol::{SliceId, names};
use store::DiskSet;

use super::{import::ImportFolders, scrub_statuses::ScrubStatuses, upload_locks::UploadLocks};
use crate::{
    NodeError, blocking, bucket::BucketStore, metadata_mirror::MetadataMirror, node_context::event::EventSender,
    rules::NodeCompletion,
};

/// Everything on the disks of this node.
pub(crate) struct Storage {
    /// The slices on all disks.
    pub(crate) slices: Arc<DiskSet>,
    /// The progress of each disk's scrub.
    pub(crate) scrub_statuses: ScrubStatuses,
    pub(crate) buckets: Arc<BucketStore>,
    pub(crate) mirror: Arc<MetadataMirror>,
    pub(crate) import: Arc<ImportFolders>,
    pub(crate) upload_locks: UploadLocks,
    pub(crate) events: EventSender,
}

impl Storage {
    /// Handles a slice whose bytes or sidecar are not what was written: it is quarantined and reported.
    pub(crate) async fn quarantine_slice(&self, slice: SliceId) {
        let store = Arc::clone(&self.slices);
        let marked = blocking("putting a corrupt slice aside", move || {
            store.mark_corrupt(slice)?;
            // Another disk may have a spare of it.
            Ok(store.open_slice(slice).ok().map(|reader| reader.metadata().clone()))
        });
        let marked = marked.await;
        tracing::error!(event = names::EVENT_SLICE_CORRUPT, %slice, "a slice is corrupt and no longer served");
        self.events.send_completion(NodeCompletion::FoundCorrupt(slice)).await;
        match marked {
            Ok(spare) => {
                if let Some(spare) = spare {
                    self.events.send_completion(NodeCompletion::Stored(spare)).await;
                }
            }
            // Reported all the same: the master must replace it, whatever this disk still manages.
            Err(error) => tracing::error!(%slice, %error, "the corrupt slice could not be put aside"),
        }
    }

    /// Checks an error about a job's files for signs of a failing disk.
    pub(crate) fn note_disk_error(&self, error: &NodeError) {
        if let NodeError::Io { operation, path, source } = error {
            // One file that cannot be read does not mean that its disk has failed.
            self.slices.note_error(path, source, operation.starts_with("read"));
        }
    }

    /// As [`quarantine_slice`](Self::quarantine_slice) if `error` says so; returns the error.
    pub(crate) async fn quarantine_if_corrupt(&self, slice: SliceId, error: NodeError) -> NodeError {
        if matches!(&error, NodeError::Store(store::StoreError::Corrupt { .. })) {
            self.quarantine_slice(slice).await;
        }
        error
    }
}
