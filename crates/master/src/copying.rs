//! Copies: how many a file has, where the next comes from and goes to, and which is one too many. Serves replication
//! and the synced copies of an upload. Never moves bytes: nodes fetch from each other on order.

use std::time::Duration;

use protocol::{Now, SliceId, limits};

use crate::{
    Master,
    nodes::NodeKey,
    orders::Work,
    placement::{Choice, Wanted, choose, choose_source, choose_superfluous},
    replicas::{Replica, ReplicaState},
    replication::Copying,
};

/// How a copy was begun, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Yes,
    /// Those who could do it are busy.
    Busy,
    /// No node to copy to, or none to copy from.
    Nowhere,
}

impl Master {
    /// Looks at a slice of which something changed: counts its copies, and queues it for a further one or has one too
    /// many removed.
    pub(crate) fn assess(&mut self, now: Now, slice: SliceId) {
        if self.leases.of_slice(slice).is_some() {
            return;
        }
        let Some((file, content)) =
            self.names.file_of_slice(slice).and_then(|file| Some((file, self.names.content(file)?)))
        else {
            self.drop_replaced(slice);
            return self.replication.forget(slice);
        };
        let is_old = content.version <= self.version_at_start;
        let wanted = usize::from(self.wish(file).copies);
        let good = self.count_copies(slice, |master, replica| master.nodes.get(replica.node).is_reachable());
        let kept = self.count_copies(slice, |master, replica| !master.nodes.get(replica.node).gone);
        self.replication.note_health(slice, good, wanted);
        if self.saves.is_unsettled(slice) {
            return;
        }
        // A master that has just started does not know yet what the nodes hold.
        let too_early = is_old && now.monotonic < self.replication_begins;
        let planned = kept + self.replication.targets(slice).len();
        if good > 0 && planned < wanted && !too_early {
            self.replication.queue(slice, good);
        } else {
            self.replication.take_out(slice);
        }
        if good >= wanted {
            self.replication.clear_failure(slice);
            self.drop_replaced(slice);
        }
        self.trim(slice, wanted);
    }

    /// Begins the copies that are needed most, as far as nodes have hands free.
    pub(crate) fn begin_copies(&mut self, now: Now) {
        for slice in self.replication.candidates() {
            let Some(bytes) = self.names.content_of_slice(slice).map(|content| content.bytes) else {
                self.replication.forget(slice);
                continue;
            };
            match self.begin_copy(now, slice, bytes, false) {
                Begun::Yes => {
                    // It may need a further one; if so, it is queued again, behind those that have fewer.
                    self.replication.take_out(slice);
                    self.assess(now, slice);
                }
                Begun::Busy => {}
                Begun::Nowhere => self.replication.park(slice),
            }
        }
    }

    /// Begins one copy of a slice: from the nearest good replica to the best place. `urgent` copies, for which a
    /// client waits, are begun however busy the nodes are.
    pub(crate) fn begin_copy(&mut self, now: Now, slice: SliceId, bytes: u64, urgent: bool) -> Begun {
        let mut spread_from: Vec<_> = self
            .replicas
            .of(slice)
            .iter()
            .filter(|replica| is_in_the_way(replica))
            .map(|replica| replica.node)
            .collect();
        spread_from.extend(self.replication.targets(slice));
        let mut shunned = self.replication.shunned(slice);
        if let Some(lease) = self.leases.of_slice(slice).and_then(|id| self.leases.get(id)) {
            spread_from.extend(&lease.awaited);
            shunned.extend(&lease.failed);
        }
        let wanted = Wanted {
            bytes,
            reserve_bytes: self.config.reserve_bytes,
            spread_from: &spread_from,
            shunned: &shunned,
            incoming_max: if urgent { u32::MAX } else { NODE_COPIES_MAX },
        };
        let target = match choose(&self.nodes, &wanted, &mut self.rng) {
            Choice::Node(target) => target,
            Choice::Busy => return Begun::Busy,
            Choice::Nowhere => return Begun::Nowhere,
        };
        let replicas = self.replicas.of(slice);
        let Some(source) = choose_source(&self.nodes, replicas, target, &shunned, &mut self.rng) else {
            return Begun::Nowhere;
        };
        if !urgent && self.nodes.get(source).outgoing >= NODE_COPIES_MAX {
            return Begun::Busy;
        }
        self.nodes.get_mut(target).begin_incoming(bytes);
        self.nodes.get_mut(source).outgoing += 1;
        let until = now.monotonic + COPY_PATIENCE + Duration::from_secs(bytes / COPY_BYTES_PER_SECOND_MIN);
        self.replication.begin_copy(slice, target, Copying { source, bytes, until });
        self.orders.push(target, Work::Copy(slice));
        Begun::Yes
    }

    /// Notes that a copy is not under way any more, whatever came of it.
    pub(crate) fn end_copy(&mut self, slice: SliceId, target: NodeKey) -> Option<Copying> {
        let copying = self.replication.end_copy(slice, target)?;
        self.nodes.get_mut(target).end_incoming(copying.bytes);
        let source = self.nodes.get_mut(copying.source);
        source.outgoing = source.outgoing.saturating_sub(1);
        Some(copying)
    }

    /// Notes that a copy could not be made; it is tried again a little later, elsewhere if that is possible.
    pub(crate) fn fail_copy(&mut self, now: Now, slice: SliceId, target: NodeKey) {
        let Some(copying) = self.end_copy(slice, target) else { return };
        self.replication.fail(now.monotonic, slice, vec![copying.source, target]);
    }

    /// Takes up again what was put off after a failure, and gives up copies of which nothing was heard.
    pub(crate) fn revive_copies(&mut self, now: Now) {
        for (slice, target) in self.replication.copies_where(|_, copying| copying.until <= now.monotonic) {
            self.fail_copy(now, slice, target);
        }
        while let Some(slice) = self.replication.wake(now.monotonic) {
            match self.leases.of_slice(slice) {
                Some(lease) => self.advance_lease(now, lease),
                None => self.assess(now, slice),
            }
        }
    }

    /// Looks again at the slices for which there was no node.
    pub(crate) fn unpark_copies(&mut self, now: Now) {
        for slice in self.replication.unpark() {
            self.assess(now, slice);
        }
        self.replication.stir();
    }

    /// Good copies at nodes that `counts`.
    fn count_copies(&self, slice: SliceId, counts: impl Fn(&Self, &Replica) -> bool) -> usize {
        self.replicas.of(slice).iter().filter(|replica| replica.is_good() && counts(self, replica)).count()
    }

    /// The nodes of which it is certain that they have a good copy now: they are up, and named it in their newest
    /// inventory or since. Only these count where a copy is to be removed.
    pub(crate) fn certain_holders(&self, slice: SliceId) -> Vec<NodeKey> {
        let is_certain = |replica: &&Replica| {
            let node = self.nodes.get(replica.node);
            replica.is_good() && node.is_up() && node.epoch == replica.epoch
        };
        self.replicas.of(slice).iter().filter(is_certain).map(|replica| replica.node).collect()
    }

    /// Has copies beyond `wanted` removed: a lost node came back after its copies had been made anew.
    fn trim(&mut self, slice: SliceId, wanted: usize) {
        let mut holders = self.certain_holders(slice);
        while holders.len() > wanted {
            let Some(superfluous) = choose_superfluous(&self.nodes, &holders, slice) else { return };
            holders.retain(|holder| *holder != superfluous);
            if let Some(replica) = self.replicas.at(slice, superfluous) {
                self.replicas.set(slice, Replica { state: ReplicaState::Leaving, ..replica });
                self.orders.push(superfluous, Work::Settle(slice));
            }
        }
    }

    /// Forgets bad replicas that their nodes have put aside: the file has all its copies again, or is gone.
    fn drop_replaced(&mut self, slice: SliceId) {
        let is_replaced = |replica: &Replica| replica.state == ReplicaState::Corrupt { put_aside: true };
        let replaced: Vec<_> =
            self.replicas.of(slice).iter().filter(|replica| is_replaced(replica)).map(|replica| replica.node).collect();
        for node in replaced {
            self.forget_replica(slice, node);
        }
    }
}

/// Whether a replica keeps a further copy from being made at its node.
fn is_in_the_way(replica: &Replica) -> bool {
    replica.state != ReplicaState::Corrupt { put_aside: true }
}

/// Most background copies that one node fetches, or serves, at once: one fills a disk or a link, the others hide its
/// pauses.
const NODE_COPIES_MAX: u32 = 4;
/// How long a copy may take before it is given up: for the queue at the node and the connection ...
const COPY_PATIENCE: Duration = limits::LEASE_LIFE;
/// ... and for the bytes, at the rate below which a link counts as broken, in bytes per second.
const COPY_BYTES_PER_SECOND_MIN: u64 = 1 << 20;
