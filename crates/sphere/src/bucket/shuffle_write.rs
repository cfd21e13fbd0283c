//! The pieces of one attempt on their way from its node to their buckets (Sector/Sphere paper, 3.5.2, and path of a
//! job). The rules here say which piece goes when, what a refusal means for the others and the task, and what is kept.
//! A node drives it with connections, the simulation with calls. It never counts a piece as delivered before its bucket
//! has said so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::{
    NodeId, Reason, Refusal, Status,
    message::spe::{AttemptId, BucketId, BucketTarget, PieceId, PieceResult},
};

/// See the module. `P` stands for the bytes of a piece.
#[derive(Debug)]
pub struct ShuffleWrite<P> {
    attempt: AttemptId,
    local: Vec<ShufflePiece<P>>,
    is_local_under_way: bool,
    /// Those for other nodes, in the order in which they are sent.
    waiting: VecDeque<ShufflePiece<P>>,
    /// Those on their way, with their destinations.
    under_way: BTreeMap<u32, UnderWay>,
    /// Bytes of the pieces that are on their way to each site.
    crossing: BTreeMap<String, u64>,
    /// Nodes that did not take a piece.
    doubtful: BTreeSet<NodeId>,
    undelivered: BTreeMap<u32, Refusal>,
    /// Buckets that need no piece of this task.
    unwanted: BTreeSet<u32>,
    is_all_here: bool,
}

/// A piece and where its bucket is.
#[derive(Clone, Debug)]
pub struct ShufflePiece<P> {
    /// Which one it is.
    pub piece: PieceId,
    /// Where its bucket is.
    pub target: BucketTarget,
    /// Its length.
    pub bytes: u64,
    /// Its content.
    pub part: P,
}

#[derive(Debug)]
struct UnderWay {
    node: NodeId,
    site: String,
    bytes: u64,
}

impl<P> ShuffleWrite<P> {
    /// Delivers to these buckets what an attempt at the node `here` has left; each part is given as its bucket and its
    /// bytes.
    pub fn new(attempt: AttemptId, here: &NodeId, places: &[BucketTarget], parts: Vec<(u32, u64, P)>) -> Self {
        let wanted = (0..).zip(places).filter(|(_, place)| place.is_wanted);
        let places_by_bucket = wanted.map(|(bucket, place)| (bucket, place.clone())).collect();
        let unwanted = (0..).zip(places).filter(|(_, place)| !place.is_wanted).map(|(bucket, _)| bucket).collect();
        Self { unwanted, ..Self::redeliver(attempt, here, places_by_bucket, parts) }
    }

    /// Delivers again to these buckets what was kept of an attempt; other parts are left out.
    pub fn redeliver(
        attempt: AttemptId,
        here: &NodeId,
        places: BTreeMap<u32, BucketTarget>,
        parts: Vec<(u32, u64, P)>,
    ) -> Self {
        let placed = parts.into_iter().filter_map(|(bucket, bytes, part)| {
            let place = places.get(&bucket)?.clone();
            let piece = piece_of(attempt, bucket, place.generation);
            Some(ShufflePiece { piece, target: place, bytes, part })
        });
        let (local, remote): (Vec<_>, Vec<_>) = placed.partition(|spread| spread.target.node == *here);
        let mut waiting = VecDeque::from(remote);
        let is_all_here = waiting.is_empty();
        if !is_all_here {
            // Start at different buckets, so that the tasks of a stage do not all send to the same node at once.
            waiting.rotate_left(attempt.task as usize % waiting.len());
        }
        Self {
            attempt,
            local,
            is_local_under_way: false,
            waiting,
            under_way: BTreeMap::new(),
            crossing: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            undelivered: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            is_all_here,
        }
    }

    /// The attempt.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// The pieces for buckets of this node, given once. Call [`handle_local_taken`](Self::handle_local_taken) when they
    /// are there. If one is refused, the attempt has failed.
    pub fn take_local(&mut self) -> Vec<ShufflePiece<P>> {
        self.is_local_under_way = !self.local.is_empty();
        std::mem::take(&mut self.local)
    }

    /// The buckets of this node have their pieces.
    pub fn handle_local_taken(&mut self) {
        self.is_local_under_way = false;
    }

    /// The next piece to be sent now, if there is one. `limit` gives the bytes that may be sent to a site in a second,
    /// if limited. To such a site no piece is begun while a second's worth is on its way. Further pieces would share
    /// the same rate, each would take longer, and pieces for other sites would wait behind them.
    pub fn next(&mut self, limit: impl Fn(&str) -> Option<u64>) -> Option<ShufflePiece<P>> {
        while self.under_way.len() + usize::from(self.is_local_under_way) < DELIVERIES_MAX {
            let is_open = |site: &str| {
                let bytes = self.crossing.get(site).copied().unwrap_or(0);
                bytes == 0 || limit(site).is_none_or(|rate| bytes < rate)
            };
            let at = self.waiting.iter().position(|spread| is_open(&spread.target.site))?;
            let spread = self.waiting.remove(at)?;
            let (bucket, node, site) = (spread.piece.bucket.bucket, &spread.target.node, &spread.target.site);
            if self.doubtful.contains(node) {
                let message = format!("node {node} did not take another piece of the task");
                self.undelivered.insert(bucket, Refusal::new(Reason::Unavailable, message));
                continue;
            }
            *self.crossing.entry(site.clone()).or_default() += spread.bytes;
            let under_way = UnderWay { node: node.clone(), site: site.clone(), bytes: spread.bytes };
            self.under_way.insert(bucket, under_way);
            return Some(spread);
        }
        None
    }

    /// A bucket of another node has its piece.
    pub fn handle_taken(&mut self, bucket: u32) {
        self.arrived(bucket);
    }

    /// A bucket of another node did not take its piece. If that is because of its node, no other piece is sent there.
    ///
    /// # Errors
    /// If no other place would help, and the pieces are of no use: the attempt has failed.
    pub fn handle_refused(&mut self, bucket: u32, refusal: Refusal) -> Result<(), Refusal> {
        let node = self.arrived(bucket);
        if !matches!(refusal.status(), Status::Unavailable | Status::NotFound) {
            return Err(refusal);
        }
        self.doubtful.extend(node);
        self.undelivered.insert(bucket, refusal);
        Ok(())
    }

    /// Whether nothing is on its way any more and nothing waits.
    pub fn is_over(&self) -> bool {
        self.local.is_empty() && !self.is_local_under_way && self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Whether the results of the attempt should be kept. Results that are only in this node's buckets are lost with
    /// them, and a copy kept beside them would not help.
    pub fn is_worth_keeping(&self) -> bool {
        !(self.is_all_here && self.unwanted.is_empty())
    }

    /// How the attempt ended, with `pieces` as what it left. If it `is_kept`, pieces that could not be delivered are
    /// delivered again later.
    ///
    /// # Errors
    /// If a piece could be neither delivered nor kept.
    pub fn end(self, is_kept: bool, pieces: &mut [PieceResult]) -> Result<(), Refusal> {
        for piece in pieces {
            piece.is_delivered =
                !self.unwanted.contains(&piece.bucket) && !self.undelivered.contains_key(&piece.bucket);
        }
        if is_kept { Ok(()) } else { self.end_redelivery() }
    }

    /// How a delivery of what was kept ended.
    ///
    /// # Errors
    /// If a piece could not be delivered.
    pub fn end_redelivery(self) -> Result<(), Refusal> {
        self.undelivered.into_values().next().map_or(Ok(()), Err)
    }

    fn arrived(&mut self, bucket: u32) -> Option<NodeId> {
        let UnderWay { node, site, bytes } = self.under_way.remove(&bucket)?;
        if let Some(crossing) = self.crossing.get_mut(&site) {
            *crossing -= bytes;
        }
        Some(node)
    }
}

/// The bucket for what an attempt leaves at its node as its own: each attempt has one.
pub fn own_bucket(attempt: AttemptId) -> BucketId {
    let AttemptId { job, stage, epoch: run, task, attempt } = attempt;
    BucketId { job, stage, epoch: run, bucket: task, generation: attempt }
}

/// What an attempt leaves in its own bucket.
pub fn own_piece(attempt: AttemptId) -> PieceId {
    PieceId { bucket: own_bucket(attempt), task: attempt.task, attempt: attempt.attempt }
}

fn piece_of(attempt: AttemptId, bucket: u32, making: u32) -> PieceId {
    let bucket = BucketId { job: attempt.job, stage: attempt.stage, epoch: attempt.epoch, bucket, generation: making };
    PieceId { bucket, task: attempt.task, attempt: attempt.attempt }
}

/// Pieces of one task under way at once. The number is large enough to hide the waits for answers. It is so small
/// that a task's delivery does not take all of a node's transfers.
const DELIVERIES_MAX: usize = 6;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{JobId, ticket::SignedTicket};

    use super::*;

    fn attempt(task: u32) -> AttemptId {
        AttemptId { job: JobId(1), stage: 0, epoch: 0, task, attempt: 0 }
    }

    fn here() -> NodeId {
        NodeId::new("here").unwrap()
    }

    fn place(node: &str, site: &str) -> BucketTarget {
        BucketTarget {
            node: NodeId::new(node).unwrap(),
            address: ([127, 0, 0, 1], 1).into(),
            distance: None,
            ticket: SignedTicket { ticket: vec![], signature: vec![], delegation: None },
            site: site.into(),
            generation: 0,
            is_wanted: true,
        }
    }

    fn to(task: u32, nodes: &[(&str, &str)], bytes: u64) -> ShuffleWrite<()> {
        let places: Vec<_> = nodes.iter().map(|(node, site)| place(node, site)).collect();
        let parts = (0..places.len() as u32).map(|bucket| (bucket, bytes, ())).collect();
        ShuffleWrite::new(attempt(task), &here(), &places, parts)
    }

    /// The nodes to which pieces are sent now.
    fn sent(spreading: &mut ShuffleWrite<()>, limit: impl Fn(&str) -> Option<u64>) -> String {
        std::iter::from_fn(|| spreading.next(&limit)).map(|spread| spread.target.node.to_string()).collect()
    }

    fn pieces(buckets: u32) -> Vec<PieceResult> {
        (0..buckets).map(|bucket| PieceResult { bucket, bytes: 1, checksum: 0, is_delivered: false }).collect()
    }

    #[test]
    fn tasks_begin_with_different_buckets_and_keep_their_own_nodes_apart() {
        let order = |task| {
            let mut spreading = to(task, &[("here", "s"), ("b", "s"), ("c", "s"), ("d", "s")], 1);
            let local = spreading.take_local();
            assert_eq!(local.iter().map(|spread| spread.piece.bucket.bucket).collect::<Vec<_>>(), [0]);
            sent(&mut spreading, |_| None)
        };
        assert_eq!((order(0), order(1), order(5)), ("bcd".into(), "cdb".into(), "dbc".into()));
    }

    #[test]
    fn over_a_thin_link_large_pieces_go_one_by_one_and_hold_up_no_others() {
        let limit = |site: &str| (site == "thin").then_some(1_000);
        let order = |bytes: u64| {
            let mut spreading = to(0, &[("a", "thin"), ("b", "thin"), ("c", "wide"), ("d", "thin")], bytes);
            let order = sent(&mut spreading, limit) + " ";
            spreading.handle_taken(0);
            spreading.handle_taken(1);
            order + &sent(&mut spreading, limit)
        };
        assert_eq!((order(5_000), order(600), order(10)), ("ac b".into(), "abc d".into(), "abcd ".into()));
    }

    #[test]
    fn only_so_many_are_under_way_at_once_and_those_for_this_node_are_one_of_them() {
        let mut nodes = vec![("a", "s"); 2 * DELIVERIES_MAX];
        nodes.push(("here", "s"));
        let mut spreading = to(0, &nodes, 1);
        assert_eq!(spreading.take_local().len(), 1);
        assert_eq!(sent(&mut spreading, |_| None).len(), DELIVERIES_MAX - 1);
        spreading.handle_local_taken();
        assert_eq!(sent(&mut spreading, |_| None).len(), 1);
        spreading.handle_taken(0);
        assert_eq!(sent(&mut spreading, |_| None).len(), 1);
        assert!(!spreading.is_over());
    }

    #[test]
    fn a_node_that_refused_a_piece_gets_no_other_and_kept_pieces_end_the_task_well() {
        let mut nodes = vec![("a", "s"), ("b", "s")];
        nodes.extend([("c", "s"); DELIVERIES_MAX]);
        nodes.push(("a", "s"));
        let away = || Refusal::new(Reason::Unavailable, "it is away");
        let run = || {
            let mut spreading = to(0, &nodes, 1);
            assert!(spreading.take_local().is_empty() && sent(&mut spreading, |_| None) == "abcccc");
            spreading.handle_refused(0, away()).unwrap();
            for bucket in 1..6 {
                spreading.handle_taken(bucket);
            }
            assert_eq!(sent(&mut spreading, |_| None), "cc");
            spreading.handle_taken(6);
            assert!(!spreading.is_over());
            spreading.handle_taken(7);
            assert!(spreading.is_over() && spreading.is_worth_keeping());
            spreading
        };
        let mut left = pieces(9);
        run().end(true, &mut left).unwrap();
        let undelivered: Vec<_> = left.iter().filter(|piece| !piece.is_delivered).map(|piece| piece.bucket).collect();
        assert_eq!(undelivered, [0, 8]);
        assert_eq!(run().end(false, &mut left), Err(away()));
        assert_eq!(run().end_redelivery(), Err(away()));
    }

    #[test]
    fn a_piece_that_nobody_wants_ends_the_attempt() {
        let mut spreading = to(0, &[("a", "s")], 1);
        assert_eq!(sent(&mut spreading, |_| None), "a");
        let sealed = Refusal::new(Reason::NoRight, "it is sealed");
        assert_eq!(spreading.handle_refused(0, sealed.clone()), Err(sealed));
    }

    #[test]
    fn pieces_all_in_local_buckets_are_not_worth_keeping_and_unwanted_ones_are() {
        assert!(!to(0, &[("here", "s")], 1).is_worth_keeping());
        let unwanted = BucketTarget { is_wanted: false, ..place("b", "s") };
        let parts = vec![(0, 1, ()), (1, 1, ())];
        let mut spreading = ShuffleWrite::new(attempt(0), &here(), &[place("here", "s"), unwanted], parts);
        assert!(spreading.is_worth_keeping());
        assert_eq!(spreading.take_local().len(), 1);
        spreading.handle_local_taken();
        assert!(sent(&mut spreading, |_| None).is_empty() && spreading.is_over());
        let mut left = pieces(2);
        spreading.end(true, &mut left).unwrap();
        assert!(left[0].is_delivered && !left[1].is_delivered);
    }

    #[test]
    fn what_was_kept_goes_again_to_those_buckets_alone_that_lack_it() {
        let places = BTreeMap::from([(1, BucketTarget { generation: 3, ..place("b", "s") })]);
        let mut spreading = ShuffleWrite::redeliver(attempt(4), &here(), places, vec![(0, 1, ()), (1, 1, ())]);
        let spread = spreading.next(|_| None).unwrap();
        assert_eq!((spread.piece.bucket.bucket, spread.piece.bucket.generation, spread.piece.task), (1, 3, 4));
        assert!(spreading.next(|_| None).is_none());
        spreading.handle_taken(1);
        assert!(spreading.is_over());
        assert_eq!(spreading.end_redelivery(), Ok(()));
    }
}
