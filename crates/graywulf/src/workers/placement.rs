//! Which worker reads which file of a query: the one whose machine has a copy, else one at the same site. Among equals it is
//! the one with the least to read. It never decides from which copy a worker reads then.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use client::{Client, Distance, NodeId, NodeStatus, SectorPath};
use futures_util::{StreamExt, stream};
use protocol::{Place, topology};

use super::WorkerAddress;

/// A worker and the nodes on its machine.
#[derive(Clone, Debug)]
pub(super) struct ReadyWorker {
    pub(super) address: WorkerAddress,
    pub(super) nodes: Vec<NodeStatus>,
}

/// Where the files of a query lie, as seen by workers.
#[derive(Debug)]
pub(crate) struct Placement {
    cloud: CloudOf,
    workers: Vec<ReadyWorker>,
    files: Mutex<HashMap<SectorPath, FileDistances>>,
}

/// How near the nearest copy of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileDistances {
    /// To each worker.
    pub(super) workers: Vec<Distance>,
    /// To where the query is asked.
    pub(super) here: Distance,
}

/// A client, which says nothing of itself.
struct CloudOf(Client);

impl std::fmt::Debug for CloudOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CloudOf")
    }
}

impl Placement {
    pub(super) fn new(cloud: Client, workers: Vec<ReadyWorker>) -> Self {
        Self { cloud: CloudOf(cloud), workers, files: Mutex::default() }
    }

    /// The workers, in the order of their addresses.
    pub(super) fn workers(&self) -> &[ReadyWorker] {
        &self.workers
    }

    /// Asks where files lie that were not asked for yet. One that cannot be found is far from everyone: who reads it says
    /// why.
    pub(super) async fn learn(&self, paths: &[SectorPath]) {
        let unknown: Vec<_> = {
            let known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            paths.iter().filter(|path| !known.contains_key(*path)).cloned().collect()
        };
        let asked = unknown.into_iter().map(|path| async move {
            let found = self.cloud.0.locate(&path).await;
            let (mut copies, mut here) = (Vec::new(), Distance::OtherSite);
            if let Ok((_, located)) = found {
                here = located.sources.iter().filter_map(|source| source.distance).min().unwrap_or(here);
                copies = located.sources.into_iter().map(|source| (source.node, source.place)).collect();
            }
            let workers = self.workers.iter().map(|worker| distance(worker, &copies)).collect();
            (path, FileDistances { workers, here })
        });
        let mut found = stream::iter(asked).buffer_unordered(FILES_AT_ONCE);
        while let Some((path, distances)) = found.next().await {
            self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(path, distances);
        }
    }

    /// How near a file is; `None` if it was not asked for.
    pub(super) fn of(&self, path: &SectorPath) -> Option<FileDistances> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }
}

fn distance(worker: &ReadyWorker, copies: &[(NodeId, Place)]) -> Distance {
    let pairs = worker.nodes.iter().flat_map(|at| copies.iter().map(move |copy| (at, copy)));
    let near = pairs.map(|(at, (node, place))| topology::distance((&at.node, &at.place), (node, place)));
    near.min().unwrap_or(Distance::OtherSite)
}

/// What is read together: its bytes, and how near it is to each worker.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) bytes: u64,
    pub(super) workers: Vec<Distance>,
}

/// For each load the worker that reads it.
pub(super) fn assign(loads: &[Load], workers: usize) -> Vec<usize> {
    let mut busy = vec![0_u64; workers];
    let mut order: Vec<usize> = (0..loads.len()).collect();
    // The largest first: what comes last evens out.
    order.sort_by_key(|at| (std::cmp::Reverse(loads[*at].bytes), *at));
    let mut chosen = vec![0; loads.len()];
    for at in order {
        let load = &loads[at];
        let far = |worker: usize| load.workers.get(worker).copied().unwrap_or(Distance::OtherSite);
        let best = (0..workers).min_by_key(|worker| (far(*worker), busy[*worker])).unwrap_or_default();
        if let Some(busy) = busy.get_mut(best) {
            *busy += load.bytes.max(1);
        }
        chosen[at] = best;
    }
    chosen
}

/// Files whose places are asked for at once.
const FILES_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn load(bytes: u64, workers: &[Distance]) -> Load {
        Load { bytes, workers: workers.to_vec() }
    }

    #[test]
    fn a_file_is_read_where_it_lies_and_equals_share_the_work() {
        use Distance::{OtherSite, SameNode, SameSite};
        let only_second = [OtherSite, SameNode];
        let both = [SameNode, SameNode];
        let loads =
            [load(100, &only_second), load(10, &both), load(10, &both), load(1, &[SameSite, OtherSite]), load(5, &[])];
        assert_eq!(assign(&loads, 2), [1, 0, 0, 0, 0]);
        let even: Vec<_> = (0..6).map(|_| load(7, &both)).collect();
        assert_eq!(assign(&even, 2).iter().filter(|worker| **worker == 0).count(), 3);
        assert!(assign(&[], 2).is_empty());
    }
}
