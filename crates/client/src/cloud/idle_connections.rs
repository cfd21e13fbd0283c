//! Connections that no session uses now, kept for the next transfer: a new one costs a TCP and a TLS handshake. Each
//! belongs to the key that was proved on it, and is never given to the holder of another.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use net::transfer::TransferStream;
use protocol::{NodeId, ticket::HolderKey};

/// What an idle connection is good for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdleKey {
    /// Whose key was proved on it. First, so that those of one holder lie together.
    pub(crate) holder: HolderKey,
    /// The node at its other end.
    pub(crate) node: NodeId,
    /// Whether it is unencrypted.
    pub(crate) is_plain: bool,
}

/// The idle connections of all sessions.
#[derive(Default)]
pub(crate) struct IdleConnections {
    pool: Mutex<IdlePool<TransferStream>>,
    /// Nodes that refuse to go without encryption.
    encrypted_only: Mutex<BTreeSet<NodeId>>,
}

impl IdleConnections {
    /// A connection that is good for this, the one that was used last. Those that seem dead are dropped.
    pub(crate) fn take(&self, key: &IdleKey) -> Option<TransferStream> {
        self.pool().take(key, |stream| !stream.is_suspect())
    }

    /// Keeps a connection on which everything was read.
    pub(crate) fn put(&self, key: IdleKey, stream: TransferStream) {
        self.pool().put(key, stream);
    }

    /// The session of this holder has ended.
    pub(crate) fn forget(&self, holder: HolderKey) {
        self.pool().forget(holder);
    }

    /// Whether a node has refused to go without encryption.
    pub(crate) fn is_encrypted_only(&self, node: &NodeId) -> bool {
        self.encrypted_only().contains(node)
    }

    /// A node refuses to go without encryption.
    pub(crate) fn note_encrypted_only(&self, node: &NodeId) {
        self.encrypted_only().insert(node.clone());
    }

    fn pool(&self) -> MutexGuard<'_, IdlePool<TransferStream>> {
        // Each change under this lock is complete in itself.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encrypted_only(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.encrypted_only.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections by what they are good for, each with the number of its return.
struct IdlePool<T> {
    streams: BTreeMap<IdleKey, VecDeque<(u64, T)>>,
    count: usize,
    next: u64,
}

impl<T> IdlePool<T> {
    fn take(&mut self, key: &IdleKey, is_usable: impl Fn(&T) -> bool) -> Option<T> {
        let streams = self.streams.get_mut(key)?;
        let before = streams.len();
        // If many died together, a wait for each of them would be in vain.
        streams.retain(|(_, stream)| is_usable(stream));
        let taken = streams.pop_back();
        self.count -= before - streams.len();
        if streams.is_empty() {
            self.streams.remove(key);
        }
        Some(taken?.1)
    }

    fn put(&mut self, key: IdleKey, stream: T) {
        let streams = self.streams.entry(key).or_default();
        if streams.len() >= IDLE_PER_NODE_MAX {
            return;
        }
        streams.push_back((self.next, stream));
        self.next += 1;
        self.count += 1;
        if self.count > IDLE_MAX {
            self.drop_oldest();
        }
    }

    fn forget(&mut self, holder: HolderKey) {
        let count = &mut self.count;
        self.streams.retain(|key, streams| {
            let stays = key.holder != holder;
            *count -= if stays { 0 } else { streams.len() };
            stays
        });
    }

    /// Drops the one that has been idle longest.
    fn drop_oldest(&mut self) {
        let since = |streams: &VecDeque<(u64, T)>| streams.front().map_or(u64::MAX, |(since, _)| *since);
        let Some(key) = self.streams.iter().min_by_key(|(_, streams)| since(streams)).map(|(key, _)| key.clone())
        else {
            return;
        };
        if let Some(streams) = self.streams.get_mut(&key) {
            self.count -= usize::from(streams.pop_front().is_some());
            if streams.is_empty() {
                self.streams.remove(&key);
            }
        }
    }
}

impl<T> Default for IdlePool<T> {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), count: 0, next: 0 }
    }
}

/// Most idle connections of one session with one node: as many as there are usually files under way to it.
const IDLE_PER_NODE_MAX: usize = 16;
/// Most idle connections of all sessions: half of the descriptors that a process usually may have open.
const IDLE_MAX: usize = 512;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key(holder: u8, node: &str) -> IdleKey {
        IdleKey { holder: HolderKey([holder; 32]), node: NodeId::new(node).unwrap(), is_plain: false }
    }

    fn any(_: &usize) -> bool {
        true
    }

    #[test]
    fn a_connection_goes_only_to_the_holder_of_its_key_and_to_its_node() {
        let mut pool = IdlePool::default();
        pool.put(key(1, "a"), 10_usize);
        assert_eq!(pool.take(&key(2, "a"), any), None, "of another user");
        assert_eq!(pool.take(&key(1, "b"), any), None, "to another node");
        assert_eq!(pool.take(&IdleKey { is_plain: true, ..key(1, "a") }, any), None);
        assert_eq!((pool.take(&key(1, "a"), any), pool.take(&key(1, "a"), any), pool.count), (Some(10), None, 0));
    }

    #[test]
    fn the_one_used_last_is_taken_first_and_dead_ones_never() {
        let mut pool = IdlePool::default();
        (0..4_usize).for_each(|stream| pool.put(key(1, "a"), stream));
        assert_eq!(pool.take(&key(1, "a"), |stream| *stream != 3), Some(2));
        assert_eq!((pool.take(&key(1, "a"), any), pool.count), (Some(1), 1));
    }

    #[test]
    fn the_end_of_a_session_drops_its_connections_and_no_others() {
        let mut pool = IdlePool::default();
        for holder in 1..=3 {
            ["a", "b"].iter().for_each(|node| pool.put(key(holder, node), usize::from(holder)));
        }
        pool.forget(HolderKey([2; 32]));
        assert_eq!((pool.take(&key(2, "a"), any), pool.count), (None, 4));
        assert_eq!((pool.take(&key(1, "b"), any), pool.take(&key(3, "a"), any)), (Some(1), Some(3)));
    }

    #[test]
    fn the_pool_is_bounded_for_one_session_and_for_all_and_the_oldest_goes_first() {
        let mut pool = IdlePool::default();
        (0..100_usize).for_each(|stream| pool.put(key(0, "a"), stream));
        assert_eq!(pool.count, IDLE_PER_NODE_MAX);
        for stream in 100..100 + IDLE_MAX {
            pool.put(key(1 + (stream % 200) as u8, "a"), stream);
        }
        assert_eq!(pool.count, IDLE_MAX);
        assert_eq!(pool.take(&key(0, "a"), any), None, "these had been idle longest");
        assert_eq!(pool.streams.values().map(VecDeque::len).sum::<usize>(), pool.count);
    }
}
