//! What every conversation of a node shares: the store, buckets, ticket checks, connections to other nodes, SPE slots,
//! and the channel to the rules. It never decides anything.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use protocol::{NodeId, SliceId, names};
use spe::{Sandbox, SpeProgram};
use store::DiskSet;
use tokio::sync::{Semaphore, mpsc};

use crate::{
    NodeError, blocking,
    bucket::BucketStore,
    disks::{import::ImportFolders, scrub::ScrubStatuses},
    metadata_mirror::MetadataMirror,
    rules::NodeCompletion,
    server::Event,
    task::{driver_process::DriverProgram, fair_scheduler::FairScheduler},
    tickets::TicketAuthorizer,
    transfer::{
        connection_pool::ConnectionPool, pull::foreign_cloud::ForeignCloudPolicy, site_limiters::SiteLimiters,
        upload_locks::UploadLocks,
    },
};

/// Shared by all tasks of a node.
pub(crate) struct NodeContext {
    pub(crate) node: NodeId,
    /// The slices on all disks of this node.
    pub(crate) store: Arc<DiskSet>,
    /// The progress of each disk's scrub.
    pub(crate) scrub_statuses: ScrubStatuses,
    pub(crate) buckets: Arc<BucketStore>,
    pub(crate) mirror: Arc<MetadataMirror>,
    pub(crate) import: Arc<ImportFolders>,
    pub(crate) tickets: TicketAuthorizer,
    pub(crate) upload_locks: UploadLocks,
    pub(crate) connections: ConnectionPool,
    /// The operator's rules on copies from other clouds.
    pub(crate) foreign_clouds: ForeignCloudPolicy,
    /// The rate limits of bytes to and from other sites.
    pub(crate) site_limiters: SiteLimiters,
    /// Transfers at once (`transfers_max` of the settings).
    pub(crate) transfer_slots: Arc<Semaphore>,
    /// Slices that other nodes forward here at once. They have slots of their own: otherwise two nodes whose slots are
    /// all taken by uploads would wait for each other.
    pub(crate) forward_slots: Arc<Semaphore>,
    /// Copies that clients have ordered here at once, also apart from the others: each waits for a slot at another
    /// node.
    pub(crate) pull_slots: Arc<Semaphore>,
    pub(crate) transfers_running: Gauge,
    pub(crate) spe: SpeProgram,
    /// How drivers of detached jobs are started.
    pub(crate) drivers: DriverProgram,
    /// How SPEs are confined, and which layers are missing here.
    pub(crate) sandbox: Arc<Sandbox>,
    /// SPEs at work at once (`spe_slots` of the settings).
    pub(crate) spe_slots: Arc<FairScheduler>,
    pub(crate) spes_running: Gauge,
    /// SPE processes, at work or waiting for their driver.
    pub(crate) spe_processes: Arc<Semaphore>,
    pub(crate) events: mpsc::Sender<Event>,
}

impl NodeContext {
    /// Tells the rules. Waits while their queue is full; they never wait for the caller.
    pub(crate) async fn send_completion(&self, completion: NodeCompletion) {
        // The rules are gone only when the node stops.
        let _ = self.events.send(Event::Completion(completion)).await;
    }

    /// Handles a slice whose bytes or sidecar are not what was written: it is quarantined and reported.
    pub(crate) async fn quarantine_slice(&self, slice: SliceId) {
        let store = Arc::clone(&self.store);
        let marked = blocking("putting a corrupt slice aside", move || {
            store.mark_corrupt(slice)?;
            // Another disk may have a spare of it.
            Ok(store.open_slice(slice).ok().map(|reader| reader.metadata().clone()))
        });
        let marked = marked.await;
        tracing::error!(event = names::EVENT_SLICE_CORRUPT, %slice, "a slice is corrupt and no longer served");
        self.send_completion(NodeCompletion::FoundCorrupt(slice)).await;
        match marked {
            Ok(spare) => {
                if let Some(spare) = spare {
                    self.send_completion(NodeCompletion::Stored(spare)).await;
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
            self.store.note_error(path, source, operation.starts_with("read"));
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

/// How many of something are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicU32>);

impl Gauge {
    /// Counts one until the result is dropped.
    pub(crate) fn count(&self) -> GaugeGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(Arc::clone(&self.0))
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Gauge::count`].
#[derive(Debug)]
pub(crate) struct GaugeGuard(Arc<AtomicU32>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
