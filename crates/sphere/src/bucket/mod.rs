//! The buckets of a stage (Sector/Sphere paper, 3.2, 3.5.2): where they are, which pieces belong in them, and how near
//! they are to being final. It never says where the pieces of a lost bucket come from: the stage finds that out.

pub(crate) mod bucket_placement;
pub(crate) mod bucket_shares;
pub(crate) mod delivery;
pub mod job_buckets;
mod lost_buckets;
pub(crate) mod node_queues;
pub mod retained_outputs;
pub mod shuffle_write;
pub(crate) mod vec_map;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use protocol::{
    NodeId, Now, RecordFraming, Refusal, SliceId, Status,
    message::spe::{AttemptId, BucketId, PieceResult, SealOrder, Winner},
};

use crate::{
    bucket::{node_queues::NodeQueues, vec_map::VecMap},
    job::{
        action::{BucketLocation, Placement},
        plan::StageOutput,
    },
    outcome::OutputBucket,
    stream::SealedBucket,
};

/// The output of one stage in one run. "Exactly once" is ensured here.
///
/// A piece counts only if its attempt finished first for its task. A bucket is sealed with the list of these winners,
/// and its node cuts out what any other attempt left in it. A bucket that is [lost](Buckets::regenerate) starts anew at
/// another place under another [generation](BucketId::generation), so that nothing old is taken for new. Its pieces
/// come again from where they were made, or their tasks are done again.
///
/// A repeated task must leave the same bytes as before wherever some of those are in use ([`WinOutcome::Differs`]).
/// Otherwise a record might be in two buckets, or in none.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// The id of bucket 0; the others differ in number and generation.
    first: BucketId,
    placement: Placement,
    finish: Finish,
    /// Buckets that hold something, by number.
    filled: VecMap<Bucket>,
    /// Buckets whose next step can be ordered, and steps under way, by node.
    queues: NodeQueues,
    /// Steps to be tried again, and when.
    pauses: BTreeSet<(Duration, u32)>,
    /// Buckets that are being sealed, with the number of pieces of each, and the sum of these numbers.
    sealing: BTreeMap<u32, usize>,
    sealing_pieces: usize,
    sealing_pieces_max: usize,
    unfinished: usize,
    /// Bytes of the buckets that are sealed.
    sealed_bytes: u64,
    /// Which slices buckets became, by number.
    slices: BTreeMap<u32, SliceId>,
    /// Whether every task has a winner: a shuffle is sealed only then.
    closed: bool,
    /// Whether the next stage has begun: the results of that stage contain whatever it read.
    read: bool,
}

/// What becomes of a bucket once it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The next stage reads it.
    Keep,
    /// It becomes a file.
    Publish,
    /// Its bytes go to the driver.
    Return,
}

/// The next step of a bucket, to be done by its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BucketStep {
    Seal(NodeId, SealOrder),
    Publish(NodeId, BucketId),
    Fetch(NodeId, BucketId),
}

/// What a refused step means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepRefusal {
    /// Nobody is waiting for it.
    Ignored,
    /// It is tried again after a pause.
    Paused,
    /// The bucket or a piece of it is gone.
    Lost,
    /// Trying again does not help.
    Final,
}

/// Where a piece's entry is. It stays there as long as the run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceSlot {
    /// The bucket's number.
    pub(crate) bucket: u32,
    at: usize,
}

impl PieceSlot {
    #[cfg(test)]
    pub(crate) fn of(bucket: u32, at: usize) -> Self {
        Self { bucket, at }
    }
}

/// A piece that an earlier attempt of a task left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreviousPiece {
    slot: PieceSlot,
    bytes: u64,
    checksum: u32,
}

/// What became of an attempt's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WinOutcome {
    /// They count; these pieces are not in their buckets yet.
    Taken(Vec<PieceSlot>),
    /// They differ from those of the attempt before, and some of those are in use.
    Differs,
}

impl Buckets {
    /// The buckets of a stage whose number, run and job are those of `first`, over nodes with these numbers of SPEs.
    pub(crate) fn new(first: BucketId, output: StageOutput, finish: Finish, weights: &BTreeMap<NodeId, u32>) -> Self {
        let placement = match output {
            StageOutput::Local => Placement::Local,
            StageOutput::Buckets(count) => Placement::Buckets(Arc::new(bucket_placement::spread(count, weights))),
        };
        Self {
            first,
            placement,
            finish,
            filled: VecMap::default(),
            queues: NodeQueues::new(STEPS_PER_NODE_MAX),
            pauses: BTreeSet::new(),
            sealing: BTreeMap::new(),
            sealing_pieces: 0,
            sealing_pieces_max: SEALING_PIECES_MAX,
            unfinished: 0,
            sealed_bytes: 0,
            slices: BTreeMap::new(),
            closed: false,
            read: false,
        }
    }

    /// Where tasks send their results.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Whether a task can have left these pieces.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn check(&self, task: u32, pieces: &[PieceResult]) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for PieceResult { bucket, .. } in pieces {
            let exists = match &self.placement {
                Placement::Local => *bucket == task,
                Placement::Buckets(homes) => (*bucket as usize) < homes.len(),
            };
            if !exists {
                return Err(format!("the node reported a piece for bucket {bucket}, which the stage does not have"));
            }
            if !seen.insert(*bucket) {
                return Err(format!("the node reported two pieces for bucket {bucket}"));
            }
        }
        Ok(())
    }

    /// An attempt at `node` won its task: its pieces, [checked](Self::check), belong in the buckets. `given` is where
    /// it was told to send them. `former` is what an earlier attempt left, if the task was done before.
    pub(crate) fn record_win(
        &mut self,
        attempt: AttemptId,
        node: &NodeId,
        given: &Placement,
        pieces: &[PieceResult],
        former: Option<&[PreviousPiece]>,
    ) -> WinOutcome {
        let pieces: Vec<_> = pieces.iter().filter(|piece| piece.bytes > 0).collect();
        let was_done = former.is_some();
        let former = former.unwrap_or_default();
        let same = |piece: &PieceResult, former: &PreviousPiece| {
            (piece.bucket, piece.bytes, piece.checksum) == (former.slot.bucket, former.bytes, former.checksum)
        };
        let is_same =
            pieces.len() == former.len() && pieces.iter().all(|piece| former.iter().any(|former| same(piece, former)));
        if !is_same {
            let mut numbers = pieces.iter().map(|piece| piece.bucket).chain(former.iter().map(|f| f.slot.bucket));
            let is_open = |number| self.filled.get(number).is_none_or(|bucket| bucket.state == BucketState::Filling);
            if was_done && (self.read || !numbers.all(is_open)) {
                return WinOutcome::Differs;
            }
            former.iter().for_each(|piece| self.void(piece.slot));
        }
        let mut lacking = Vec::new();
        for piece in pieces {
            let home = self.location(piece.bucket).cloned();
            let home = home.unwrap_or_else(|| BucketLocation { node: node.clone(), generation: attempt.attempt });
            let is_there = piece.is_delivered && given.location(piece.bucket).is_none_or(|given| *given == home);
            let entry = Piece {
                task: attempt.task,
                attempt: attempt.attempt,
                bytes: piece.bytes,
                checksum: piece.checksum,
                is_there,
            };
            let spot = match former.iter().find(|former| is_same && former.slot.bucket == piece.bucket) {
                Some(former) if self.is_there(former.slot) => continue,
                Some(former) => self.replace(former.slot, home, entry),
                None => self.add(piece.bucket, home, entry),
            };
            if !is_there {
                lacking.push(spot);
            }
            self.make_ready(spot.bucket);
        }
        WinOutcome::Taken(lacking)
    }

    /// Every task has a winner: nothing new comes. If output is to be published and there is none, bucket 0 is made at
    /// `node`. A job that found nothing then leaves an empty file instead of no trace.
    pub(crate) fn close(&mut self, node: Option<&NodeId>) {
        self.closed = true;
        let of_local = node.map(|node| BucketLocation { node: node.clone(), generation: 0 });
        if let Some(home) = self.location(0).cloned().or(of_local)
            && self.filled.len() == 0
            && self.finish == Finish::Publish
        {
            self.unfinished += 1;
            self.filled.get_or_insert_with(0, || Bucket::new(home));
        }
        for number in self.filled.numbers() {
            self.make_ready(number);
        }
    }

    /// Tasks are done again: what they leave may be in any bucket that is not sealed.
    pub(crate) fn reopen(&mut self) {
        self.closed = false;
    }

    /// The next stage begins to read.
    pub(crate) fn begin_reading(&mut self) {
        self.read = true;
    }

    /// Steps that can be ordered now.
    pub(crate) fn next_steps(&mut self) -> Vec<BucketStep> {
        let mut steps = Vec::new();
        while self.sealing_pieces < self.sealing_pieces_max
            && let Some((node, number)) = self.queues.next()
        {
            let Some(bucket) = self.filled.get_mut(number).filter(|bucket| bucket.location.node == node) else {
                continue;
            };
            let id = BucketId { bucket: number, generation: bucket.location.generation, ..self.first };
            let step = match (bucket.state, self.finish) {
                (BucketState::Filling, finish) => {
                    bucket.state = BucketState::Sealing;
                    self.sealing.insert(number, bucket.pieces.len());
                    self.sealing_pieces += bucket.pieces.len();
                    BucketStep::Seal(node.clone(), bucket.seal_order(id, finish == Finish::Publish))
                }
                (BucketState::Sealed(bytes), Finish::Publish) => {
                    bucket.state = BucketState::Finishing(bytes);
                    BucketStep::Publish(node.clone(), id)
                }
                (BucketState::Sealed(bytes), Finish::Return) => {
                    bucket.state = BucketState::Finishing(bytes);
                    BucketStep::Fetch(node.clone(), id)
                }
                _ => continue,
            };
            self.queues.begin(&node);
            steps.push(step);
        }
        steps
    }

    /// A bucket was sealed with `bytes` bytes, with its tasks' pieces in this order. Gives `Ok(true)` if that was
    /// awaited.
    ///
    /// # Errors
    /// What is wrong, if the length is not the sum of the winners' pieces: then the content cannot be theirs.
    pub(crate) fn sealed(&mut self, id: BucketId, bytes: u64, order: Vec<u32>) -> Result<bool, String> {
        let keeps_order = self.finish == Finish::Keep;
        let Some(bucket) = self.find(id).filter(|bucket| bucket.state == BucketState::Sealing) else {
            return Ok(false);
        };
        let wanted_bytes: u64 = bucket.pieces.iter().map(|piece| piece.bytes).sum();
        if bytes != wanted_bytes {
            return Err(format!("bucket {} was sealed with {bytes} bytes instead of {wanted_bytes}", id.bucket));
        }
        bucket.state = BucketState::Sealed(bytes);
        bucket.tries = 0;
        // Only the next stage cares in which order it reads, and a single piece has only one order.
        bucket.order = keeps_order.then(|| if bucket.pieces.len() > 1 { order.into() } else { Box::default() });
        let node = bucket.location.node.clone();
        self.sealed_bytes += bytes;
        self.queues.end(&node);
        self.end_sealing(id.bucket);
        match self.finish {
            Finish::Keep => self.finished(id.bucket),
            Finish::Publish | Finish::Return => {
                self.queues.add(&node, id.bucket);
            }
        }
        Ok(true)
    }

    /// A bucket was published (as this slice, where known) or returned. Gives true if that was awaited.
    pub(crate) fn delivered(&mut self, id: BucketId, slice: Option<SliceId>) -> bool {
        let Some(bucket) = self.find(id).filter(|bucket| matches!(bucket.state, BucketState::Finishing(_))) else {
            return false;
        };
        let node = bucket.location.node.clone();
        self.slices.extend(slice.map(|slice| (id.bucket, slice)));
        self.queues.end(&node);
        self.finished(id.bucket);
        true
    }

    /// A step was refused.
    pub(crate) fn refused(&mut self, now: Now, id: BucketId, refusal: &Refusal) -> StepRefusal {
        let Some(bucket) =
            self.find(id).filter(|bucket| matches!(bucket.state, BucketState::Sealing | BucketState::Finishing(_)))
        else {
            return StepRefusal::Ignored;
        };
        match refusal.status() {
            Status::Unavailable if bucket.tries + 1 < STEP_TRIES_MAX => {
                // Either the connection broke and the bucket is still there, or the node is down and will soon be
                // counted as lost.
                bucket.tries += 1;
                bucket.state = match bucket.state {
                    BucketState::Finishing(bytes) => BucketState::Sealed(bytes),
                    _ => BucketState::Filling,
                };
                let node = bucket.location.node.clone();
                self.queues.end(&node);
                self.end_sealing(id.bucket);
                self.pauses.insert((now.monotonic + STEP_PAUSE, id.bucket));
                StepRefusal::Paused
            }
            // `Exists`: it became a file, and the report of that was lost. It is made anew and replaces that file. If
            // nothing comes into it any more, the file is removed before the output is moved to its place
            // (`crate::outcome::output_commit`).
            Status::NotFound | Status::Unavailable | Status::Failed | Status::Corrupt | Status::Exists => {
                StepRefusal::Lost
            }
            Status::Usage | Status::Refused => StepRefusal::Final,
        }
    }

    /// Steps whose pause is over are ready again.
    pub(crate) fn resume_due(&mut self, now: Now) {
        while self.pauses.first().is_some_and(|(when, _)| *when <= now.monotonic) {
            if let Some((_, number)) = self.pauses.pop_first() {
                self.make_ready(number);
            }
        }
    }

    /// When the next pause ends.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.pauses.first().map(|(when, _)| *when)
    }

    /// The buckets at `node` that hold something, by number, except those of the job's output that have reached their
    /// end.
    pub(crate) fn at(&self, node: &NodeId) -> Vec<u32> {
        let is_wanted =
            |bucket: &Bucket| self.finish == Finish::Keep || !matches!(bucket.state, BucketState::Finished(_));
        let here = self.filled.iter().filter(|(_, bucket)| bucket.location.node == *node && is_wanted(bucket));
        here.map(|(number, _)| number).collect()
    }

    /// Where a bucket that holds something is.
    pub(crate) fn node_of(&self, number: u32) -> Option<&NodeId> {
        self.filled.get(number).map(|bucket| &bucket.location.node)
    }

    /// A bucket that the next stage was reading, if it is sealed now; `None` while it is not.
    pub(crate) fn sealed_at(&self, number: u32) -> Option<(BucketId, NodeId)> {
        let bucket = self.filled.get(number).filter(|bucket| matches!(bucket.state, BucketState::Finished(_)))?;
        Some((
            BucketId { bucket: number, generation: bucket.location.generation, ..self.first },
            bucket.location.node.clone(),
        ))
    }

    /// Whether the bucket has a piece.
    pub(crate) fn is_there(&self, spot: PieceSlot) -> bool {
        self.filled.get(spot.bucket).and_then(|bucket| bucket.pieces.get(spot.at)).is_none_or(|piece| piece.is_there)
    }

    /// Where a piece is to be sent.
    pub(crate) fn location_of(&self, spot: PieceSlot) -> Option<BucketLocation> {
        self.filled.get(spot.bucket).map(|bucket| bucket.location.clone())
    }

    /// Bytes of all sealed buckets.
    pub(crate) fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes
    }

    /// Whether every filled bucket has reached its end.
    pub(crate) fn are_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// How many buckets have reached their end, of how many that are filled.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.filled.len() - self.unfinished, self.filled.len())
    }

    /// The filled buckets as the next stage's stream.
    pub(crate) fn as_stream(&self, records: RecordFraming) -> Vec<SealedBucket> {
        let sealed = self.sealed_buckets();
        sealed.map(|OutputBucket { bucket, node, bytes, .. }| SealedBucket { bucket, node, bytes, records }).collect()
    }

    /// The filled buckets that are sealed, by number.
    pub(crate) fn outputs(&self) -> Vec<OutputBucket> {
        self.sealed_buckets().collect()
    }

    fn sealed_buckets(&self) -> impl Iterator<Item = OutputBucket> {
        self.filled.iter().filter_map(|(number, bucket)| match bucket.state {
            BucketState::Sealed(bytes) | BucketState::Finishing(bytes) | BucketState::Finished(bytes) => {
                Some(OutputBucket {
                    bucket: BucketId { bucket: number, generation: bucket.location.generation, ..self.first },
                    node: bucket.location.node.clone(),
                    bytes,
                    slice: self.slices.get(&number).copied(),
                })
            }
            BucketState::Filling | BucketState::Sealing => None,
        })
    }

    /// A bucket is no longer being sealed, if it was.
    fn end_sealing(&mut self, number: u32) {
        self.sealing_pieces -= self.sealing.remove(&number).unwrap_or(0);
    }

    fn find(&mut self, id: BucketId) -> Option<&mut Bucket> {
        let first = self.first;
        let bucket = self.filled.get_mut(id.bucket)?;
        // A report about another stage, run or generation is late.
        (id == BucketId { bucket: id.bucket, generation: bucket.location.generation, ..first }).then_some(bucket)
    }

    fn location(&self, number: u32) -> Option<&BucketLocation> {
        self.placement.location(number)
    }

    /// A piece's first entry.
    fn add(&mut self, number: u32, home: BucketLocation, piece: Piece) -> PieceSlot {
        let bucket = self.filled.get_or_insert_with(number, || {
            self.unfinished += 1;
            Bucket::new(home)
        });
        bucket.lacking += u32::from(!piece.is_there);
        if self.placement == Placement::Local {
            // A million tasks may have a million buckets, each with one piece.
            bucket.pieces.reserve_exact(1);
        }
        bucket.pieces.push(piece);
        PieceSlot { bucket: number, at: bucket.pieces.len() - 1 }
    }

    /// A piece that was lacking comes, or will come, from another attempt.
    fn replace(&mut self, spot: PieceSlot, home: BucketLocation, piece: Piece) -> PieceSlot {
        if let Some(bucket) = self.filled.get_mut(spot.bucket) {
            bucket.location = home;
            bucket.lacking -= u32::from(piece.is_there);
            bucket.pieces[spot.at] = piece;
        }
        spot
    }

    /// A piece no longer counts. Its entry stays, so that others keep their places.
    fn void(&mut self, spot: PieceSlot) {
        let Some(bucket) = self.filled.get_mut(spot.bucket) else { return };
        let piece = &mut bucket.pieces[spot.at];
        bucket.lacking -= u32::from(!piece.is_there);
        (piece.bytes, piece.is_there) = (0, true);
        if bucket.pieces.iter().all(|piece| piece.bytes == 0) {
            self.filled.remove(spot.bucket);
            self.unfinished -= 1;
        }
    }

    /// Notes that the bucket's next step may be ordered, if it may.
    fn make_ready(&mut self, number: u32) {
        let Some(bucket) = self.filled.get(number) else { return };
        let may_go_on = match bucket.state {
            // A local bucket has only one piece: it proceeds while other tasks still run.
            BucketState::Filling => bucket.lacking == 0 && (self.closed || self.placement == Placement::Local),
            BucketState::Sealed(_) => true,
            BucketState::Sealing | BucketState::Finishing(_) | BucketState::Finished(_) => false,
        };
        if may_go_on && !self.pauses.iter().any(|(_, paused)| *paused == number) {
            self.queues.add(&bucket.location.node, number);
        }
    }

    fn finished(&mut self, number: u32) {
        if let Some(bucket) = self.filled.get_mut(number)
            && let BucketState::Sealed(bytes) | BucketState::Finishing(bytes) = bucket.state
        {
            bucket.state = BucketState::Finished(bytes);
            self.unfinished -= 1;
        }
    }
}

#[derive(Debug)]
struct Bucket {
    location: BucketLocation,
    /// One for each winner; voided ones have no bytes.
    pieces: Vec<Piece>,
    /// Pieces that are not there yet.
    lacking: u32,
    /// The tasks in the order of their pieces, once it was sealed for the next stage; empty if there is only one.
    order: Option<Box<[u32]>>,
    state: BucketState,
    /// Times the current step was refused.
    tries: u32,
    /// Times it was lost while its node lived.
    losses: u32,
}

impl Bucket {
    fn new(home: BucketLocation) -> Self {
        Self {
            location: home,
            pieces: vec![],
            lacking: 0,
            order: None,
            state: BucketState::Filling,
            tries: 0,
            losses: 0,
        }
    }

    fn seal_order(&self, bucket: BucketId, publish: bool) -> SealOrder {
        let winner = |piece: &Piece| Winner { task: piece.task, attempt: piece.attempt, bytes: piece.bytes };
        let pieces = self.pieces.iter().filter(|piece| piece.bytes > 0);
        let winners = match &self.order {
            None => pieces.map(winner).collect(),
            Some(order) if order.is_empty() => pieces.map(winner).collect(),
            Some(order) => {
                let by_task: HashMap<u32, &Piece> = pieces.map(|piece| (piece.task, piece)).collect();
                order.iter().filter_map(|task| by_task.get(task)).map(|piece| winner(piece)).collect()
            }
        };
        SealOrder { bucket, winners, publish, in_order: self.order.is_some() }
    }
}

/// A winner's piece.
#[derive(Debug)]
struct Piece {
    task: u32,
    attempt: u32,
    bytes: u64,
    checksum: u32,
    is_there: bool,
}

/// How far a bucket is; lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketState {
    Filling,
    Sealing,
    Sealed(u64),
    Finishing(u64),
    Finished(u64),
}

/// No further bucket is sealed once those being sealed have this many pieces. Each piece takes 16 bytes in its bucket's
/// order, which stays in memory until it is answered. Only a bucket of millions of pieces waits for this.
const SEALING_PIECES_MAX: usize = 8 << 20;
/// Steps under way at one node. The number is large enough to overlap its disk's syncs with the messages to the master,
/// and small enough that its SPEs keep the disk.
const STEPS_PER_NODE_MAX: usize = 4;
/// Times a step is ordered before its bucket counts as lost.
const STEP_TRIES_MAX: u32 = 8;
/// Pause before a step is tried again. All tries together last longer than it takes to notice a dead node.
const STEP_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
