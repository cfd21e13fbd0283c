//! Which node holds which slice, and the state of each replica. It comes only from the nodes' inventories and reports
//! and is in no journal: only a disk knows what it holds. Serves reading, commits, orders, replication. Never knows
//! which slices are wanted.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use protocol::{SectorPath, SliceHeader, SliceId};

use crate::{
    catalog::{
        compact_storage::{Index, Slab, Slot, SlotValue},
        namespace::hash_of_slice,
    },
    fleet::nodes::{EPOCHS, NODES_MAX, NodeKey},
};

/// The replicas of all slices, some 45 bytes for a slice with up to three. An entry has the slice, four bytes for each
/// replica, and one mark for the path at which placed ones normally all stand. If that is not enough (more than three,
/// or placed at different paths during a rename), the replicas are in a separate table.
#[derive(Debug)]
pub(crate) struct ReplicaTable {
    sets: Slab<Set>,
    by_slice: Index,
    /// The replicas of sets that are [`Set::LARGE`].
    large: BTreeMap<Slot, Vec<Replica>>,
    corrupt: u64,
}

/// One slice at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) node: NodeKey,
    pub(crate) state: ReplicaState,
    /// The number of the node's inventory that last named it, below [`EPOCHS`].
    pub(crate) epoch: u32,
}

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaState {
    /// Complete and synced, not yet at its path.
    Staged,
    /// At its path, with a sidecar that has this fingerprint.
    Placed(HeaderFingerprint),
    /// Set aside by another slice at its path.
    Retired,
    /// Superfluous, being removed.
    Excess,
    /// Found bad; remembered until a good copy has replaced it.
    Corrupt {
        /// Whether its node has quarantined it.
        is_quarantined: bool,
    },
}

impl Replica {
    /// Whether it may be read and counts as a copy.
    pub(crate) fn is_good(&self) -> bool {
        matches!(self.state, ReplicaState::Staged | ReplicaState::Placed(_) | ReplicaState::Retired)
    }
}

/// Stands for the whole sidecar of a slice in 8 bytes: a replica only needs to know whether it is still the same. The
/// journal id is left out, since a rebuild rewrites no sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HeaderFingerprint(u64);

impl HeaderFingerprint {
    pub(crate) fn of(header: &SliceHeader) -> Self {
        let SliceHeader { slice, path, version, owner, modified_unix_millis, copies, records, user, journal: _, acl } =
            header;
        Self(mark(&(slice, path, version, owner, modified_unix_millis, copies, records, user, acl)))
    }
}

/// Stands for a path in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathFingerprint(u64);

impl PathFingerprint {
    pub(crate) fn of(path: &SectorPath) -> Self {
        Self(mark(path))
    }
}

fn mark(of: &impl Hash) -> u64 {
    // `DefaultHasher::new` has fixed keys: fingerprints are the same in every run, as the simulation needs.
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl ReplicaTable {
    /// The replicas of a slice, by node.
    pub(crate) fn of(&self, slice: SliceId) -> ReplicaSet {
        self.find(slice).map_or_else(ReplicaSet::default, |slot| self.read(slot))
    }

    /// A slice's replica at a node.
    pub(crate) fn at(&self, slice: SliceId, node: NodeKey) -> Option<Replica> {
        self.of(slice).iter().find(|replica| replica.node == node).copied()
    }

    /// Notes the state of a slice at a node, as of the node's inventory `epoch`; returns whether it was new there.
    pub(crate) fn set(&mut self, slice: SliceId, replica: Replica) -> bool {
        let slot = self.find(slice).unwrap_or_else(|| self.begin(slice));
        let mut replicas = self.read(slot).to_vec();
        let place = replicas.binary_search_by_key(&replica.node, |known| known.node);
        match place {
            Ok(at) => {
                self.corrupt -= is_corrupt(&replicas[at]);
                replicas[at] = replica;
            }
            Err(at) => replicas.insert(at, replica),
        }
        self.corrupt += is_corrupt(&replica);
        self.write(slot, replicas);
        place.is_err()
    }

    /// Forgets a slice at a node; returns whether it was known.
    pub(crate) fn remove(&mut self, slice: SliceId, node: NodeKey) -> bool {
        let Some(slot) = self.find(slice) else { return false };
        let mut replicas = self.read(slot).to_vec();
        let Some(at) = replicas.iter().position(|replica| replica.node == node) else { return false };
        self.corrupt -= is_corrupt(&replicas.remove(at));
        if replicas.is_empty() {
            self.by_slice.remove(hash_of_slice(slice), slot);
            self.large.remove(&slot);
            self.sets.remove(slot);
        } else {
            self.write(slot, replicas);
        }
        true
    }

    /// At most `count` slices of which `node` has a replica, and where the next call continues; for walks in steps,
    /// from 0. A step may give none and the next more. A replica that exists all the time is met once.
    pub(crate) fn held_by(&self, node: NodeKey, from: Slot, count: usize) -> (Vec<SliceId>, Option<Slot>) {
        let mut held = Vec::new();
        let until = self.sets.end().min(from.saturating_add((count * SETS_PER_FOUND) as Slot));
        for slot in from..until {
            if held.len() == count {
                return (held, Some(slot));
            }
            if self.read(slot).iter().any(|replica| replica.node == node) {
                held.extend(self.sets.get(slot).map(Set::slice));
            }
        }
        (held, (until < self.sets.end()).then_some(until))
    }

    /// All slices of which `node` has a replica, in one walk: for rare questions of an operator.
    pub(crate) fn all_held_by(&self, node: NodeKey) -> impl Iterator<Item = SliceId> + '_ {
        let slots =
            (0..self.sets.end()).filter(move |slot| self.read(*slot).iter().any(|replica| replica.node == node));
        slots.filter_map(|slot| self.sets.get(slot).map(Set::slice))
    }

    /// ReplicaTable found corrupt and not yet replaced.
    pub(crate) fn corrupt_count(&self) -> u64 {
        self.corrupt
    }

    /// Memory taken, in bytes, except for the few large sets.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sets.bytes() + self.by_slice.bytes()
    }

    fn find(&self, slice: SliceId) -> Option<Slot> {
        let is_it = |slot| self.sets.get(slot).is_some_and(|set| set.slice() == slice);
        self.by_slice.find(hash_of_slice(slice), is_it)
    }

    fn begin(&mut self, slice: SliceId) -> Slot {
        let slot = self.sets.insert(Set::new(slice));
        let sets = &self.sets;
        let hash_of = |slot| sets.get(slot).map_or(0, |set| hash_of_slice(set.slice()));
        self.by_slice.insert(hash_of_slice(slice), slot, |_| false, hash_of);
        slot
    }

    fn read(&self, slot: Slot) -> ReplicaSet {
        match self.sets.get(slot) {
            Some(set) if set.replicas[0] == Set::LARGE => {
                ReplicaSet::Large(self.large.get(&slot).cloned().unwrap_or_default())
            }
            Some(set) => set.read(),
            None => ReplicaSet::default(),
        }
    }

    fn write(&mut self, slot: Slot, replicas: Vec<Replica>) {
        let Some(set) = self.sets.get_mut(slot) else { return };
        if set.write(&replicas) {
            self.large.remove(&slot);
        } else {
            set.replicas[0] = Set::LARGE;
            self.large.insert(slot, replicas);
        }
    }
}

impl Default for ReplicaTable {
    fn default() -> Self {
        Self { sets: Slab::new(), by_slice: Index::new(), large: BTreeMap::new(), corrupt: 0 }
    }
}

/// The replicas of one slice; reads like a slice of them.
#[derive(Clone, Debug)]
pub(crate) enum ReplicaSet {
    /// This many of the first ones.
    Small([Replica; SMALL_MAX], usize),
    /// More, or replicas that do not fit together.
    Large(Vec<Replica>),
}

impl Default for ReplicaSet {
    fn default() -> Self {
        Self::Small([Replica { node: NodeKey::FIRST, state: ReplicaState::Staged, epoch: 0 }; SMALL_MAX], 0)
    }
}

impl std::ops::Deref for ReplicaSet {
    type Target = [Replica];

    fn deref(&self) -> &[Replica] {
        match self {
            Self::Small(replicas, count) => &replicas[..*count],
            Self::Large(replicas) => replicas,
        }
    }
}

/// The stored form of a slice's replicas. The slice's id and the mark are cut into parts, so that there is no padding.
#[derive(Clone, Copy, Debug)]
struct Set {
    slice: [u32; 4],
    mark: [u32; 2],
    /// By node: [`pack`]ed, then [`NO_REPLICA`]s.
    replicas: [u32; SMALL_MAX],
}

impl Set {
    /// In the first place: the replicas are in the separate table.
    const LARGE: u32 = NO_REPLICA - 1;
    /// In the first place: the slot is free, and the mark names the next one.
    const VACANT: u32 = NO_REPLICA - 2;

    fn new(slice: SliceId) -> Self {
        let quarter = |at: u32| (slice.0 >> (96 - 32 * at)) as u32;
        let slice = [quarter(0), quarter(1), quarter(2), quarter(3)];
        Self { slice, mark: [0; 2], replicas: [NO_REPLICA; SMALL_MAX] }
    }

    fn slice(&self) -> SliceId {
        SliceId(self.slice.iter().fold(0, |value, quarter| value << 32 | u128::from(*quarter)))
    }

    fn mark(&self) -> HeaderFingerprint {
        HeaderFingerprint(u64::from(self.mark[0]) << 32 | u64::from(self.mark[1]))
    }

    fn read(&self) -> ReplicaSet {
        let mut set = ReplicaSet::default();
        if let ReplicaSet::Small(replicas, count) = &mut set {
            for packed in self.replicas.iter().take_while(|packed| **packed != NO_REPLICA) {
                replicas[*count] = unpack(*packed, self.mark());
                *count += 1;
            }
        }
        set
    }

    /// Takes these replicas; `false` if they do not fit.
    fn write(&mut self, replicas: &[Replica]) -> bool {
        let mut marks = replicas.iter().filter_map(|replica| match replica.state {
            ReplicaState::Placed(mark) => Some(mark),
            _ => None,
        });
        let mark = marks.next().unwrap_or(HeaderFingerprint(0));
        if replicas.len() > SMALL_MAX || marks.any(|other| other != mark) {
            return false;
        }
        self.mark = [(mark.0 >> 32) as u32, mark.0 as u32];
        self.replicas = [NO_REPLICA; SMALL_MAX];
        self.replicas.iter_mut().zip(replicas).for_each(|(place, replica)| *place = pack(replica));
        true
    }
}

impl SlotValue for Set {
    fn vacant(next: Slot) -> Self {
        Self { slice: [0; 4], mark: [0, next], replicas: [Self::VACANT; SMALL_MAX] }
    }

    fn next_vacant(&self) -> Option<Slot> {
        (self.replicas[0] == Self::VACANT).then_some(self.mark[1])
    }
}

/// A replica in four bytes: 12 bits of the node's number, 3 of the state, 17 of the epoch. A placed one has its set's
/// mark.
fn pack(replica: &Replica) -> u32 {
    let state = match replica.state {
        ReplicaState::Staged => 0,
        ReplicaState::Placed(_) => 1,
        ReplicaState::Retired => 2,
        ReplicaState::Excess => 3,
        ReplicaState::Corrupt { is_quarantined: false } => 4,
        ReplicaState::Corrupt { is_quarantined: true } => 5,
    };
    replica.node.number() << 20 | state << 17 | (replica.epoch % EPOCHS)
}

fn unpack(packed: u32, mark: HeaderFingerprint) -> Replica {
    let state = match packed >> 17 & 7 {
        0 => ReplicaState::Staged,
        1 => ReplicaState::Placed(mark),
        2 => ReplicaState::Retired,
        3 => ReplicaState::Excess,
        4 => ReplicaState::Corrupt { is_quarantined: false },
        _ => ReplicaState::Corrupt { is_quarantined: true },
    };
    Replica { node: NodeKey::numbered(packed >> 20), state, epoch: packed % EPOCHS }
}

fn is_corrupt(replica: &Replica) -> u64 {
    u64::from(matches!(replica.state, ReplicaState::Corrupt { .. }))
}

/// Replicas that stand in the set itself: the cloud's default number of copies.
const SMALL_MAX: usize = 3;
/// Sets examined in a walk for each one wanted: examining one costs a fiftieth of the work on a set that is found.
const SETS_PER_FOUND: usize = 16;
/// No node has this number: see [`NODES_MAX`].
const NO_REPLICA: u32 = u32::MAX;
const _: () = assert!(NODES_MAX < 1 << 12, "a node's number has 12 bits, and the last is none's");
const _: () = assert!(size_of::<Set>() == 36, "millions of them are kept");

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(number: u64) -> SliceId {
        SliceId(u128::from(number) << 70 | u128::from(number))
    }

    fn a_replica(rng: &mut fastrand::Rng) -> Replica {
        let marks = [HeaderFingerprint(1), HeaderFingerprint(u64::MAX)];
        let state = match rng.u32(..7) {
            0 => ReplicaState::Staged,
            1 | 2 => ReplicaState::Placed(marks[usize::from(rng.u8(..) < 20)]),
            3 => ReplicaState::Retired,
            4 => ReplicaState::Excess,
            5 => ReplicaState::Corrupt { is_quarantined: false },
            _ => ReplicaState::Corrupt { is_quarantined: true },
        };
        // Few nodes, so that sets reach their limits, and the last possible node is among them.
        let node = if rng.u8(..) < 10 { NODES_MAX - 1 } else { rng.u32(..6) };
        Replica { node: NodeKey::numbered(node), state, epoch: rng.u32(EPOCHS - 5..EPOCHS) }
    }

    #[test]
    fn replicas_agree_with_an_obvious_map() {
        let mut rng = fastrand::Rng::with_seed(4);
        let (mut replicas, mut map) = (ReplicaTable::default(), BTreeMap::<(SliceId, NodeKey), Replica>::new());
        for round in 0..40_000 {
            let (slice, replica) = (slice(rng.u64(..300)), a_replica(&mut rng));
            let removes = if round < 20_000 { 90 } else { 150 };
            if rng.u8(..) < removes {
                assert_eq!(replicas.remove(slice, replica.node), map.remove(&(slice, replica.node)).is_some());
            } else {
                replicas.set(slice, replica);
                map.insert((slice, replica.node), replica);
            }
            let of_slice = map.range((slice, NodeKey::FIRST)..).take_while(|((of, _), _)| *of == slice);
            assert_eq!(replicas.of(slice).to_vec(), of_slice.map(|(_, replica)| *replica).collect::<Vec<_>>());
        }
        assert_eq!(replicas.corrupt_count(), map.values().map(is_corrupt).sum::<u64>());
        for node in [0, 3, NODES_MAX - 1].map(NodeKey::numbered) {
            let (mut held, mut from) = (Vec::new(), Some(0));
            while let Some(at) = from {
                let (some, next) = replicas.held_by(node, at, 7);
                held.extend(some);
                from = next;
            }
            held.sort_unstable();
            let expected: Vec<_> = map.keys().filter(|(_, of)| *of == node).map(|(slice, _)| *slice).collect();
            assert_eq!(held, expected);
        }
        for (slice, node) in map.keys() {
            assert!(replicas.remove(*slice, *node));
        }
        assert_eq!((replicas.sets.len(), replicas.large.len(), replicas.corrupt_count()), (0, 0, 0));
    }
}
