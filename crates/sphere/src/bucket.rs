//! The buckets of one stage: where they are, which attempts' pieces belong in them, and how far they are on their way to
//! being final (Sector/Sphere paper, 3.2 and 3.5.2).
//!
//! This is where "exactly once" is kept: a piece counts only if its attempt finished first for its task, and a bucket is
//! sealed with the list of these winners. What any other attempt left in it is cut out by its node; a winner that is
//! missing there means that the node lost it, and the job begins a new run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use protocol::{
    NodeId, Now, RecordFormat, Refusal, Status,
    message::spe::{AttemptId, BucketId, SealOrder, Winner},
};

use crate::{action::Placement, outcome::OutputBucket, plan::StageOutput, stream::SealedBucket};

/// The output of one stage in one run.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// The id of bucket 0; the others differ in their number.
    first: BucketId,
    placement: Placement,
    finish: Finish,
    /// Buckets that hold something, by number.
    filled: BTreeMap<u32, Bucket>,
    /// Buckets whose next step waits for its node to be free for it.
    ready: BTreeMap<NodeId, BTreeSet<u32>>,
    /// Steps under way at each node.
    in_progress: BTreeMap<NodeId, usize>,
    /// Steps to be tried again at a time.
    pauses: BTreeSet<(Duration, u32)>,
    unfinished: usize,
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
pub(crate) enum Step {
    Seal(NodeId, SealOrder),
    Publish(NodeId, BucketId),
    Fetch(NodeId, BucketId),
}

/// What a refused step means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepRefusal {
    /// Nobody waits for it.
    Ignored,
    /// It is tried again after a pause.
    Paused,
    /// The bucket or a piece of it is gone.
    Lost,
    /// Trying again does not help.
    Final,
}

impl Buckets {
    /// The buckets of a stage whose number, run and job are those of `first`, over nodes with these numbers of SPEs.
    pub(crate) fn new(first: BucketId, output: StageOutput, finish: Finish, weights: &BTreeMap<NodeId, u32>) -> Self {
        let placement = match output {
            StageOutput::Local => Placement::Local,
            StageOutput::Buckets(count) => Placement::Buckets(Arc::new(spread(count, weights))),
        };
        Self {
            first,
            placement,
            finish,
            filled: BTreeMap::new(),
            ready: BTreeMap::new(),
            in_progress: BTreeMap::new(),
            pauses: BTreeSet::new(),
            unfinished: 0,
        }
    }

    /// Where tasks send their results.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Whether a task can have left these pieces; if not, what is wrong with them.
    pub(crate) fn check(&self, task: u32, pieces: &[(u32, u64)]) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (bucket, _) in pieces {
            let exists = match &self.placement {
                Placement::Local => *bucket == task,
                Placement::Buckets(places) => (*bucket as usize) < places.len(),
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

    /// An attempt at `node` won its task: its pieces, [checked](Self::check), belong in the buckets.
    pub(crate) fn win(&mut self, attempt: AttemptId, node: &NodeId, pieces: &[(u32, u64)]) {
        for (number, bytes) in pieces.iter().filter(|(_, bytes)| *bytes > 0) {
            let home = self.home(*number).unwrap_or(node).clone();
            let bucket = self.filled.entry(*number).or_insert_with(|| {
                self.unfinished += 1;
                Bucket { node: home, winners: vec![], state: State::Filling, tries: 0 }
            });
            bucket.winners.push(Winner { task: attempt.task, attempt: attempt.attempt, bytes: *bytes });
            // A local bucket has but one piece: its way goes on while other tasks still run.
            if self.placement == Placement::Local {
                self.ready.entry(bucket.node.clone()).or_default().insert(*number);
            }
        }
    }

    /// Every task has a winner: nothing more comes. Where output is published and there is none, bucket 0 is made at
    /// `node`, so that a job that found nothing leaves an empty file instead of no trace.
    pub(crate) fn close(&mut self, node: Option<&NodeId>) {
        if let Some(node) = self.home(0).or(node).cloned()
            && self.filled.is_empty()
            && self.finish == Finish::Publish
        {
            self.unfinished += 1;
            self.filled.insert(0, Bucket { node, winners: vec![], state: State::Filling, tries: 0 });
        }
        for (number, bucket) in &self.filled {
            if bucket.state == State::Filling {
                self.ready.entry(bucket.node.clone()).or_default().insert(*number);
            }
        }
    }

    /// Steps that can be ordered now.
    pub(crate) fn next_steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (node, ready) in &mut self.ready {
            let in_progress = self.in_progress.entry(node.clone()).or_default();
            while *in_progress < STEPS_PER_NODE_MAX
                && let Some(number) = ready.pop_first()
            {
                let Some(bucket) = self.filled.get_mut(&number) else { continue };
                let id = BucketId { bucket: number, ..self.first };
                let step = match (bucket.state, self.finish) {
                    (State::Filling, finish) => {
                        bucket.state = State::Sealing;
                        let publish = finish == Finish::Publish;
                        Step::Seal(node.clone(), SealOrder { bucket: id, winners: bucket.winners.clone(), publish })
                    }
                    (State::Sealed(bytes), Finish::Publish) => {
                        bucket.state = State::Finishing(bytes);
                        Step::Publish(node.clone(), id)
                    }
                    (State::Sealed(bytes), Finish::Return) => {
                        bucket.state = State::Finishing(bytes);
                        Step::Fetch(node.clone(), id)
                    }
                    _ => continue,
                };
                *in_progress += 1;
                steps.push(step);
            }
        }
        steps
    }

    /// A bucket was sealed with `bytes` bytes. `Ok(true)` if that was waited for.
    ///
    /// # Errors
    /// What is wrong, when the length is not that of the winners: then the content cannot be theirs.
    pub(crate) fn sealed(&mut self, id: BucketId, bytes: u64) -> Result<bool, String> {
        let Some(bucket) = self.find(id).filter(|bucket| bucket.state == State::Sealing) else { return Ok(false) };
        let wanted_bytes: u64 = bucket.winners.iter().map(|winner| winner.bytes).sum();
        if bytes != wanted_bytes {
            return Err(format!("bucket {} was sealed with {bytes} bytes instead of {wanted_bytes}", id.bucket));
        }
        bucket.state = State::Sealed(bytes);
        bucket.tries = 0;
        let node = bucket.node.clone();
        self.step_ended(&node);
        match self.finish {
            Finish::Keep => self.finished(id.bucket),
            Finish::Publish | Finish::Return => {
                self.ready.entry(node).or_default().insert(id.bucket);
            }
        }
        Ok(true)
    }

    /// A bucket was published or returned; true if that was waited for.
    pub(crate) fn delivered(&mut self, id: BucketId) -> bool {
        let Some(bucket) = self.find(id).filter(|bucket| matches!(bucket.state, State::Finishing(_))) else {
            return false;
        };
        let node = bucket.node.clone();
        self.step_ended(&node);
        self.finished(id.bucket);
        true
    }

    /// A step was refused.
    pub(crate) fn refused(&mut self, now: Now, id: BucketId, refusal: &Refusal) -> StepRefusal {
        let Some(bucket) = self.find(id).filter(|bucket| matches!(bucket.state, State::Sealing | State::Finishing(_)))
        else {
            return StepRefusal::Ignored;
        };
        match refusal.status {
            Status::Unavailable if bucket.tries + 1 < STEP_TRIES_MAX => {
                // Either the connection broke and the bucket is still there, or the node is down and will soon be
                // counted as lost: one new run instead of two.
                bucket.tries += 1;
                bucket.state = match bucket.state {
                    State::Finishing(bytes) => State::Sealed(bytes),
                    _ => State::Filling,
                };
                let node = bucket.node.clone();
                self.step_ended(&node);
                self.pauses.insert((now.monotonic + STEP_PAUSE, id.bucket));
                StepRefusal::Paused
            }
            // `Exists`: it became a file, and the news of that was lost; only a new run makes it anew.
            Status::NotFound | Status::Unavailable | Status::Failed | Status::Corrupt | Status::Exists => {
                StepRefusal::Lost
            }
            Status::Usage | Status::Refused => StepRefusal::Final,
        }
    }

    /// Steps whose pause is over are ready again.
    pub(crate) fn resume_due(&mut self, now: Now) {
        while self.pauses.first().is_some_and(|(when, _)| *when <= now.monotonic) {
            if let Some((_, number)) = self.pauses.pop_first()
                && let Some(bucket) = self.filled.get(&number)
            {
                self.ready.entry(bucket.node.clone()).or_default().insert(number);
            }
        }
    }

    /// When a pause ends.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.pauses.first().map(|(when, _)| *when)
    }

    /// Whether the loss of `node` loses results: a bucket that is placed there while tasks still send, or a filled one
    /// that has not reached its end. A bucket that only the next stage reads is needed until that stage says otherwise.
    pub(crate) fn depend_on(&self, node: &NodeId, tasks_unfinished: bool) -> bool {
        let placed = tasks_unfinished && matches!(&self.placement, Placement::Buckets(places) if places.contains(node));
        let filled = self.filled.values().any(|bucket| {
            bucket.node == *node && (self.finish == Finish::Keep || !matches!(bucket.state, State::Finished(_)))
        });
        placed || filled
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
    pub(crate) fn as_stream(&self, records: RecordFormat) -> Vec<SealedBucket> {
        self.outputs()
            .into_iter()
            .map(|OutputBucket { bucket, node, bytes }| SealedBucket { bucket, node, bytes, records })
            .collect()
    }

    /// The filled buckets that are sealed, by number.
    pub(crate) fn outputs(&self) -> Vec<OutputBucket> {
        let output = |(number, bucket): (&u32, &Bucket)| match bucket.state {
            State::Sealed(bytes) | State::Finishing(bytes) | State::Finished(bytes) => Some(OutputBucket {
                bucket: BucketId { bucket: *number, ..self.first },
                node: bucket.node.clone(),
                bytes,
            }),
            State::Filling | State::Sealing => None,
        };
        self.filled.iter().filter_map(output).collect()
    }

    fn find(&mut self, id: BucketId) -> Option<&mut Bucket> {
        // News of another stage or run is late.
        (id == BucketId { bucket: id.bucket, ..self.first }).then(|| self.filled.get_mut(&id.bucket))?
    }

    fn home(&self, number: u32) -> Option<&NodeId> {
        if let Placement::Buckets(places) = &self.placement { places.get(number as usize) } else { None }
    }

    fn step_ended(&mut self, node: &NodeId) {
        if let Some(in_progress) = self.in_progress.get_mut(node) {
            *in_progress = in_progress.saturating_sub(1);
        }
    }

    fn finished(&mut self, number: u32) {
        if let Some(bucket) = self.filled.get_mut(&number)
            && let State::Sealed(bytes) | State::Finishing(bytes) = bucket.state
        {
            bucket.state = State::Finished(bytes);
            self.unfinished -= 1;
        }
    }
}

/// Spreads `count` buckets over nodes in proportion to their SPEs, neighbouring numbers on different nodes.
fn spread(count: u32, weights: &BTreeMap<NodeId, u32>) -> Vec<NodeId> {
    let mut given: BTreeMap<&NodeId, u64> = BTreeMap::new();
    let mut places = Vec::new();
    for _ in 0..count {
        // The node that would be least full with one more: compares (given + 1) / weight, as whole numbers.
        let fullness = |node: &NodeId, weight: u32| {
            (given.get(node).map_or(1, |given| given + 1) << 24) / u64::from(weight.max(1))
        };
        let Some((node, _)) = weights.iter().min_by_key(|(node, weight)| (fullness(node, **weight), *node)) else {
            break;
        };
        *given.entry(node).or_default() += 1;
        places.push(node.clone());
    }
    places
}

#[derive(Debug)]
struct Bucket {
    node: NodeId,
    winners: Vec<Winner>,
    state: State,
    /// Times the present step was refused.
    tries: u32,
}

/// How far a bucket is; lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Filling,
    Sealing,
    Sealed(u64),
    Finishing(u64),
    Finished(u64),
}

/// Steps under way at one node: enough to overlap its disk's syncs with the words to the master, few enough that its
/// SPEs keep the disk.
const STEPS_PER_NODE_MAX: usize = 4;
/// Times a step is ordered before its bucket is believed lost.
const STEP_TRIES_MAX: u32 = 8;
/// Pause before a step is tried again. All tries together outlast the time in which a dead node is noticed.
const STEP_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::JobId;

    use super::*;

    const FIRST: BucketId = BucketId { job: JobId(7), stage: 1, run: 2, bucket: 0 };

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn weights(list: &[(&str, u32)]) -> BTreeMap<NodeId, u32> {
        list.iter().map(|(name, weight)| (node(name), *weight)).collect()
    }

    fn buckets(output: StageOutput, finish: Finish) -> Buckets {
        Buckets::new(FIRST, output, finish, &weights(&[("a", 1), ("b", 1)]))
    }

    fn attempt(task: u32, attempt: u32) -> AttemptId {
        AttemptId { job: FIRST.job, stage: FIRST.stage, run: FIRST.run, task, attempt }
    }

    fn id(bucket: u32) -> BucketId {
        BucketId { bucket, ..FIRST }
    }

    fn seal(name: &str, bucket: u32, winners: &[(u32, u32, u64)], publish: bool) -> Step {
        let winner =
            |(task, attempt, bytes): &(u32, u32, u64)| Winner { task: *task, attempt: *attempt, bytes: *bytes };
        let winners = winners.iter().map(winner).collect();
        Step::Seal(node(name), SealOrder { bucket: id(bucket), winners, publish })
    }

    #[test]
    fn buckets_are_spread_by_the_number_of_spes_and_neighbours_apart() {
        let places = |count, list: &[(&str, u32)]| {
            spread(count, &weights(list)).iter().map(ToString::to_string).collect::<Vec<_>>().concat()
        };
        assert_eq!(places(5, &[("a", 1), ("b", 1)]), "ababa");
        assert_eq!(places(6, &[("a", 1), ("b", 2)]), "babbab");
        assert_eq!(places(2, &[]), "");
    }

    #[test]
    fn a_shuffle_is_sealed_with_its_winners_when_all_tasks_are_done() {
        let mut buckets = buckets(StageOutput::Buckets(3), Finish::Keep);
        buckets.win(attempt(0, 1), &node("b"), &[(0, 5), (2, 6), (1, 0)]);
        buckets.win(attempt(1, 0), &node("a"), &[(0, 7)]);
        assert_eq!(buckets.next_steps(), []);
        buckets.close(Some(&node("a")));
        let wanted = [seal("a", 0, &[(0, 1, 5), (1, 0, 7)], false), seal("a", 2, &[(0, 1, 6)], false)];
        assert_eq!(buckets.next_steps(), wanted);
        assert_eq!(buckets.next_steps(), [], "ordered once");
        assert_eq!(buckets.sealed(id(0), 12), Ok(true));
        assert_eq!(buckets.sealed(id(0), 12), Ok(false), "told twice");
        assert!(!buckets.are_complete());
        assert_eq!(buckets.sealed(id(2), 6), Ok(true));
        assert!(buckets.are_complete());
        let stream = buckets.as_stream(RecordFormat::Lines);
        assert_eq!(stream.iter().map(|b| (b.bucket.bucket, b.bytes)).collect::<Vec<_>>(), [(0, 12), (2, 6)]);
    }

    #[test]
    fn a_local_bucket_is_sealed_and_published_while_other_tasks_run() {
        let mut buckets = buckets(StageOutput::Local, Finish::Publish);
        buckets.win(attempt(4, 0), &node("b"), &[(4, 9)]);
        assert_eq!(buckets.next_steps(), [seal("b", 4, &[(4, 0, 9)], true)]);
        buckets.sealed(id(4), 9).unwrap();
        assert_eq!(buckets.next_steps(), [Step::Publish(node("b"), id(4))]);
        assert!(buckets.delivered(id(4)) && !buckets.delivered(id(4)) && buckets.are_complete());
        assert!(!buckets.depend_on(&node("b"), true), "what is published needs its node no more");
    }

    #[test]
    fn a_job_that_found_nothing_publishes_one_empty_file_and_returns_nothing() {
        let mut published = buckets(StageOutput::Local, Finish::Publish);
        published.close(Some(&node("b")));
        assert_eq!(published.next_steps(), [seal("b", 0, &[], true)]);
        assert_eq!(published.sealed(id(0), 0), Ok(true));
        for finish in [Finish::Keep, Finish::Return] {
            let mut others = buckets(StageOutput::Buckets(2), finish);
            others.close(Some(&node("b")));
            assert!(others.are_complete());
        }
    }

    #[test]
    fn a_bucket_sealed_with_another_length_is_not_believed() {
        let mut buckets = buckets(StageOutput::Local, Finish::Return);
        buckets.win(attempt(0, 0), &node("a"), &[(0, 9)]);
        buckets.next_steps();
        assert!(buckets.sealed(id(0), 10).unwrap_err().contains("10 bytes instead of 9"));
    }

    #[test]
    fn news_of_another_run_or_stage_is_late() {
        let mut buckets = buckets(StageOutput::Local, Finish::Return);
        buckets.win(attempt(0, 0), &node("a"), &[(0, 9)]);
        buckets.next_steps();
        assert_eq!(buckets.sealed(BucketId { run: 1, ..id(0) }, 9), Ok(false));
        assert_eq!(buckets.sealed(BucketId { stage: 0, ..id(0) }, 9), Ok(false));
        let gone = Refusal::new(Status::NotFound, "gone");
        assert_eq!(buckets.refused(Now::default(), BucketId { run: 1, ..id(0) }, &gone), StepRefusal::Ignored);
        assert_eq!(buckets.refused(Now::default(), id(0), &gone), StepRefusal::Lost);
    }

    #[test]
    fn a_node_that_cannot_be_reached_is_asked_again_but_not_for_ever() {
        let mut buckets = buckets(StageOutput::Local, Finish::Return);
        buckets.win(attempt(0, 0), &node("a"), &[(0, 9)]);
        let away = Refusal::new(Status::Unavailable, "away");
        let mut now = Now::default();
        for _ in 1..STEP_TRIES_MAX {
            assert_eq!(buckets.next_steps().len(), 1);
            assert_eq!(buckets.refused(now, id(0), &away), StepRefusal::Paused);
            assert_eq!(buckets.refused(now, id(0), &away), StepRefusal::Ignored, "it is not under way now");
            assert_eq!(buckets.next_steps(), []);
            assert_eq!(buckets.next_timeout(), Some(now.monotonic + STEP_PAUSE));
            now = now.after(STEP_PAUSE);
            buckets.resume_due(now);
        }
        assert_eq!(buckets.next_steps().len(), 1);
        assert_eq!(buckets.refused(now, id(0), &away), StepRefusal::Lost);
        let no = Refusal::new(Status::Refused, "no");
        assert_eq!(buckets.refused(now, id(0), &no), StepRefusal::Final);
    }

    #[test]
    fn each_step_has_its_own_tries() {
        let mut buckets = buckets(StageOutput::Local, Finish::Return);
        buckets.win(attempt(0, 0), &node("a"), &[(0, 9)]);
        let away = Refusal::new(Status::Unavailable, "away");
        let mut now = Now::default();
        let mut refuse = |buckets: &mut Buckets, times: u32| {
            for _ in 0..times {
                assert_eq!(buckets.next_steps().len(), 1);
                assert_eq!(buckets.refused(now, id(0), &away), StepRefusal::Paused);
                now = now.after(STEP_PAUSE);
                buckets.resume_due(now);
            }
        };
        refuse(&mut buckets, STEP_TRIES_MAX - 1);
        buckets.next_steps();
        assert_eq!(buckets.sealed(id(0), 9), Ok(true));
        refuse(&mut buckets, STEP_TRIES_MAX - 1);
    }

    #[test]
    fn a_node_is_asked_for_a_few_steps_at_a_time() {
        let mut buckets = buckets(StageOutput::Buckets(20), Finish::Keep);
        buckets.win(attempt(0, 0), &node("a"), &(0..20).map(|bucket| (bucket, 1)).collect::<Vec<_>>());
        buckets.close(None);
        assert_eq!(buckets.next_steps().len(), 2 * STEPS_PER_NODE_MAX);
        buckets.sealed(id(0), 1).unwrap();
        assert_eq!(buckets.next_steps(), [seal("a", 8, &[(0, 0, 1)], false)]);
    }

    #[test]
    fn pieces_that_cannot_be_are_named() {
        let shuffle = buckets(StageOutput::Buckets(2), Finish::Keep);
        assert_eq!(shuffle.check(0, &[(0, 1), (1, 1)]), Ok(()));
        assert!(shuffle.check(0, &[(2, 1)]).unwrap_err().contains("bucket 2"));
        assert!(shuffle.check(0, &[(1, 1), (1, 2)]).unwrap_err().contains("two pieces"));
        let local = buckets(StageOutput::Local, Finish::Keep);
        assert_eq!(local.check(3, &[(3, 1)]), Ok(()));
        assert!(local.check(3, &[(2, 1)]).is_err());
    }
}
