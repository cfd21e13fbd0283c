//! What every conversation of a node has in hand: the store, the buckets, the ticket door, the connections to other
//! nodes, the SPE slots, and the way to the rules. It decides nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use protocol::{NodeId, SliceId, names};
use store::DiskSet;
use tokio::sync::{Semaphore, mpsc};

use crate::{
    NodeError, blocking,
    bucket::BucketStore,
    drive::DriverProgram,
    import::ImportFolders,
    keeping::KeptRows,
    peers::Peers,
    pull::abroad::Borders,
    rules::Completion,
    scrub::ScrubBoard,
    server::Event,
    site_gates::SiteGates,
    spe::{Sandbox, SpeProgram},
    task::shares::Slots,
    tickets::TicketDoor,
    uploads::Uploads,
};

/// Shared by all tasks of a node.
pub(crate) struct Hands {
    pub(crate) node: NodeId,
    /// The slices on all disks of this node.
    pub(crate) store: Arc<DiskSet>,
    /// How far each disk's scrub is.
    pub(crate) scrubs: ScrubBoard,
    pub(crate) buckets: Arc<BucketStore>,
    pub(crate) kept: Arc<KeptRows>,
    pub(crate) import: Arc<ImportFolders>,
    pub(crate) tickets: TicketDoor,
    pub(crate) uploads: Uploads,
    pub(crate) peers: Peers,
    /// What the operator says of copies from other clouds.
    pub(crate) borders: Borders,
    /// What bytes to and from other sites may take.
    pub(crate) site_gates: SiteGates,
    /// Transfers at once (`transfers_max` of the settings).
    pub(crate) transfers: Arc<Semaphore>,
    /// Slices passed on by other nodes at once. Apart from the others, so that of two nodes whose turns are all taken by
    /// uploads neither waits for the other.
    pub(crate) forwards: Arc<Semaphore>,
    /// Copies that clients have ordered here at once. Apart from the others too: each waits for a turn at another node.
    pub(crate) pulls: Arc<Semaphore>,
    pub(crate) transfers_running: Gauge,
    pub(crate) spe: SpeProgram,
    /// How drivers of detached jobs are started.
    pub(crate) drivers: DriverProgram,
    /// How SPEs are confined, and what of that is missing here.
    pub(crate) sandbox: Arc<Sandbox>,
    /// SPEs at work at once (`spe_slots` of the settings).
    pub(crate) spe_slots: Arc<Slots>,
    pub(crate) spes_running: Gauge,
    /// SPE processes, at work or waiting for their driver.
    pub(crate) spe_processes: Arc<Semaphore>,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Hands {
    /// Tells the rules. Waits while they have too much to read; they never wait for us.
    pub(crate) async fn tell(&self, completion: Completion) {
        // The rules are gone only when the node stops.
        let _ = self.events.send(Event::Completion(completion)).await;
    }

    /// A slice's bytes or sidecar are not what was written: it is put aside and reported.
    pub(crate) async fn found_corrupt(&self, slice: SliceId) {
        let store = Arc::clone(&self.store);
        let marked = blocking("putting a corrupt slice aside", move || {
            store.mark_corrupt(slice)?;
            // Another disk may have a spare of it.
            Ok(store.open_slice(slice).ok().map(|reader| reader.metadata().clone()))
        });
        let marked = marked.await;
        tracing::error!(event = names::EVENT_SLICE_CORRUPT, %slice, "a slice is corrupt and no longer served");
        self.tell(Completion::FoundCorrupt(slice)).await;
        match marked {
            Ok(spare) => {
                if let Some(spare) = spare {
                    self.tell(Completion::Stored(spare)).await;
                }
            }
            // Reported all the same: the master must replace it, whatever this disk still does.
            Err(error) => tracing::error!(%slice, %error, "the corrupt slice could not be put aside"),
        }
    }

    /// Looks at an error of a job's files for what it says of their disk.
    pub(crate) fn watch_for_failed_disk(&self, error: &NodeError) {
        if let NodeError::Io { operation, path, source } = error {
            // One file that cannot be read is not yet its disk's end.
            self.store.note_error(path, source, operation.starts_with("read"));
        }
    }

    /// As [`found_corrupt`](Self::found_corrupt) where `error` says so; gives the error back.
    pub(crate) async fn watch_for_corruption(&self, slice: SliceId, error: NodeError) -> NodeError {
        if matches!(&error, NodeError::Store(store::StoreError::Corrupt { .. })) {
            self.found_corrupt(slice).await;
        }
        error
    }
}

/// How many of something are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicU32>);

impl Gauge {
    /// Counts one until the result is dropped.
    pub(crate) fn count(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.0))
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Gauge::count`].
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
