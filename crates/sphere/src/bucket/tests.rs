//! What becomes of buckets, step by step.
#![allow(clippy::unwrap_used)]
use protocol::{JobId, Reason};

use super::*;

const FIRST: BucketId = BucketId { job: JobId(7), stage: 1, epoch: 2, bucket: 0, generation: 0 };

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
    AttemptId { job: FIRST.job, stage: FIRST.stage, epoch: FIRST.epoch, task, attempt }
}

fn pieces(pieces: &[(u32, u64)]) -> Vec<PieceResult> {
    let piece = |(bucket, bytes): &(u32, u64)| PieceResult {
        bucket: *bucket,
        bytes: *bytes,
        checksum: *bytes as u32,
        is_delivered: true,
    };
    pieces.iter().map(piece).collect()
}

fn win(buckets: &mut Buckets, attempt: AttemptId, name: &str, left: &[(u32, u64)]) {
    let given = buckets.placement().clone();
    assert_eq!(buckets.record_win(attempt, &node(name), &given, &pieces(left), None), WinOutcome::Taken(vec![]));
}

fn id(bucket: u32) -> BucketId {
    BucketId { bucket, ..FIRST }
}

fn seal(name: &str, bucket: u32, winners: &[(u32, u32, u64)], publish: bool) -> BucketStep {
    let winner = |(task, attempt, bytes): &(u32, u32, u64)| Winner { task: *task, attempt: *attempt, bytes: *bytes };
    let winners = winners.iter().map(winner).collect();
    BucketStep::Seal(node(name), SealOrder { bucket: id(bucket), winners, publish, in_order: false })
}

#[test]
fn a_shuffle_is_sealed_with_its_winners_when_all_tasks_are_done() {
    let mut buckets = buckets(StageOutput::Buckets(3), Finish::Keep);
    win(&mut buckets, attempt(0, 1), "b", &[(0, 5), (2, 6), (1, 0)]);
    win(&mut buckets, attempt(1, 0), "a", &[(0, 7)]);
    assert_eq!(buckets.next_steps(), []);
    buckets.close(Some(&node("a")));
    let wanted = [seal("a", 0, &[(0, 1, 5), (1, 0, 7)], false), seal("a", 2, &[(0, 1, 6)], false)];
    assert_eq!(buckets.next_steps(), wanted);
    assert_eq!(buckets.next_steps(), [], "ordered once");
    assert_eq!(buckets.sealed(id(0), 12, vec![]), Ok(true));
    assert_eq!(buckets.sealed(id(0), 12, vec![]), Ok(false), "told twice");
    assert!(!buckets.are_complete());
    assert_eq!(buckets.sealed(id(2), 6, vec![]), Ok(true));
    assert!(buckets.are_complete());
    let stream = buckets.as_stream(RecordFraming::Lines);
    assert_eq!(stream.iter().map(|b| (b.bucket.bucket, b.bytes)).collect::<Vec<_>>(), [(0, 12), (2, 6)]);
}

#[test]
fn buckets_of_many_pieces_are_sealed_one_after_the_other() {
    let mut buckets = buckets(StageOutput::Buckets(5), Finish::Keep);
    buckets.sealing_pieces_max = 3;
    for task in 0..2 {
        win(&mut buckets, attempt(task, 0), "a", &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    }
    buckets.close(Some(&node("a")));
    let ordered = |buckets: &mut Buckets| {
        let step = |step| if let BucketStep::Seal(_, order) = step { order.bucket.bucket } else { panic!("{step:?}") };
        buckets.next_steps().into_iter().map(step).collect::<Vec<_>>()
    };
    assert_eq!(ordered(&mut buckets), [0, 2], "four pieces");
    buckets.sealed(id(0), 2, vec![0, 1]).unwrap();
    assert_eq!(ordered(&mut buckets), [4]);
    let away = Refusal::new(Reason::Unavailable, "away");
    assert_eq!(buckets.refused(Now::default(), id(2), &away), StepRefusal::Paused);
    assert_eq!(ordered(&mut buckets), [1]);
    buckets.regenerate(&[4], &weights(&[("b", 1)]));
    assert_eq!(ordered(&mut buckets), [3]);
    buckets.reissue();
    assert_eq!(ordered(&mut buckets), [1, 3]);
}

#[test]
fn a_local_bucket_is_sealed_and_published_while_other_tasks_run() {
    let mut buckets = buckets(StageOutput::Local, Finish::Publish);
    win(&mut buckets, attempt(4, 0), "b", &[(4, 9)]);
    assert_eq!(buckets.next_steps(), [seal("b", 4, &[(4, 0, 9)], true)]);
    buckets.sealed(id(4), 9, vec![]).unwrap();
    assert_eq!(buckets.next_steps(), [BucketStep::Publish(node("b"), id(4))]);
    assert!(buckets.delivered(id(4), None) && !buckets.delivered(id(4), None) && buckets.are_complete());
    assert_eq!(buckets.at(&node("b")), [], "what is published needs its node no more");
}

#[test]
fn a_job_that_found_nothing_publishes_one_empty_file_and_returns_nothing() {
    let mut published = buckets(StageOutput::Local, Finish::Publish);
    published.close(Some(&node("b")));
    assert_eq!(published.next_steps(), [seal("b", 0, &[], true)]);
    assert_eq!(published.sealed(id(0), 0, vec![]), Ok(true));
    for finish in [Finish::Keep, Finish::Return] {
        let mut others = buckets(StageOutput::Buckets(2), finish);
        others.close(Some(&node("b")));
        assert!(others.are_complete());
    }
}

#[test]
fn a_bucket_sealed_with_another_length_is_not_believed() {
    let mut buckets = buckets(StageOutput::Local, Finish::Return);
    win(&mut buckets, attempt(0, 0), "a", &[(0, 9)]);
    buckets.next_steps();
    assert!(buckets.sealed(id(0), 10, vec![]).unwrap_err().contains("10 bytes instead of 9"));
}

#[test]
fn news_of_another_run_or_stage_is_late() {
    let mut buckets = buckets(StageOutput::Local, Finish::Return);
    win(&mut buckets, attempt(0, 0), "a", &[(0, 9)]);
    buckets.next_steps();
    assert_eq!(buckets.sealed(BucketId { epoch: 1, ..id(0) }, 9, vec![]), Ok(false));
    assert_eq!(buckets.sealed(BucketId { stage: 0, ..id(0) }, 9, vec![]), Ok(false));
    let gone = Refusal::new(Reason::NotFound, "gone");
    assert_eq!(buckets.refused(Now::default(), BucketId { epoch: 1, ..id(0) }, &gone), StepRefusal::Ignored);
    assert_eq!(buckets.refused(Now::default(), id(0), &gone), StepRefusal::Lost);
}

#[test]
fn a_node_that_cannot_be_reached_is_asked_again_but_not_for_ever() {
    let mut buckets = buckets(StageOutput::Local, Finish::Return);
    win(&mut buckets, attempt(0, 0), "a", &[(0, 9)]);
    let away = Refusal::new(Reason::Unavailable, "away");
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
    let no = Refusal::new(Reason::NoRight, "no");
    assert_eq!(buckets.refused(now, id(0), &no), StepRefusal::Final);
}

#[test]
fn each_step_has_its_own_tries() {
    let mut buckets = buckets(StageOutput::Local, Finish::Return);
    win(&mut buckets, attempt(0, 0), "a", &[(0, 9)]);
    let away = Refusal::new(Reason::Unavailable, "away");
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
    assert_eq!(buckets.sealed(id(0), 9, vec![]), Ok(true));
    refuse(&mut buckets, STEP_TRIES_MAX - 1);
}

#[test]
fn a_node_is_asked_for_a_few_steps_at_a_time() {
    let mut buckets = buckets(StageOutput::Buckets(20), Finish::Keep);
    win(&mut buckets, attempt(0, 0), "a", &(0..20).map(|bucket| (bucket, 1)).collect::<Vec<_>>());
    buckets.close(None);
    assert_eq!(buckets.next_steps().len(), 2 * STEPS_PER_NODE_MAX);
    buckets.sealed(id(0), 1, vec![]).unwrap();
    assert_eq!(buckets.next_steps(), [seal("a", 8, &[(0, 0, 1)], false)]);
}

#[test]
fn pieces_that_cannot_be_are_named() {
    let shuffle = buckets(StageOutput::Buckets(2), Finish::Keep);
    assert_eq!(shuffle.check(0, &pieces(&[(0, 1), (1, 1)])), Ok(()));
    assert!(shuffle.check(0, &pieces(&[(2, 1)])).unwrap_err().contains("bucket 2"));
    assert!(shuffle.check(0, &pieces(&[(1, 1), (1, 2)])).unwrap_err().contains("two pieces"));
    let local = buckets(StageOutput::Local, Finish::Keep);
    assert_eq!(local.check(3, &pieces(&[(3, 1)])), Ok(()));
    assert!(local.check(3, &pieces(&[(2, 1)])).is_err());
}

fn only(names: &[(&str, u32)], buckets: &mut Buckets, lost: &[u32]) -> Vec<(u32, u32)> {
    buckets.regenerate(lost, &weights(names)).into_iter().map(|(task, spot)| (task, spot.bucket)).collect()
}

#[test]
fn a_lost_bucket_begins_anew_elsewhere_and_lacks_the_pieces_of_all_its_winners() {
    let mut buckets = buckets(StageOutput::Buckets(2), Finish::Keep);
    win(&mut buckets, attempt(0, 0), "a", &[(0, 5), (1, 6)]);
    win(&mut buckets, attempt(1, 0), "b", &[(1, 7)]);
    buckets.close(None);
    assert_eq!(buckets.next_steps().len(), 2);
    assert_eq!(buckets.sealed(id(1), 13, vec![1, 0]), Ok(true));
    let lacking = buckets.regenerate(&[1], &weights(&[("a", 1)]));
    assert_eq!(lacking.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(buckets.location_of(lacking[0].1), Some(BucketLocation { node: node("a"), generation: 1 }));
    assert_eq!(buckets.next_steps(), [], "it lacks everything");
    buckets.note_arrived(lacking[0].1, 0, 0);
    assert!(!buckets.is_there(lacking[0].1), "what came to the old making did not come");
    buckets.note_arrived(lacking[0].1, 0, 1);
    buckets.note_arrived(lacking[0].1, 0, 1);
    assert_eq!(buckets.next_steps(), []);
    buckets.note_arrived(lacking[1].1, 3, 1);
    // In the order in which whoever read it before found them.
    let winners = [(1, 3, 7), (0, 0, 6)].map(|(task, attempt, bytes)| Winner { task, attempt, bytes }).to_vec();
    let order = SealOrder { bucket: BucketId { generation: 1, ..id(1) }, winners, publish: false, in_order: true };
    assert_eq!(buckets.next_steps(), [BucketStep::Seal(node("a"), order)]);
    assert_eq!(buckets.sealed(id(1), 13, vec![]), Ok(false), "news of the old making is late");
    assert_eq!(buckets.sealed(BucketId { generation: 1, ..id(1) }, 13, vec![]), Ok(true));
}

#[test]
fn a_piece_sent_to_where_its_bucket_no_longer_is_has_not_come() {
    let mut buckets = buckets(StageOutput::Buckets(2), Finish::Keep);
    let given = buckets.placement().clone();
    buckets.relocate_empty(&node("b"), &weights(&[("a", 1)]));
    let won = buckets.record_win(attempt(0, 0), &node("a"), &given, &pieces(&[(0, 5), (1, 6)]), None);
    let WinOutcome::Taken(lacking) = won else { panic!("{won:?}") };
    assert_eq!(lacking.iter().map(|spot| spot.bucket).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_task_done_again_serves_only_what_is_lacking_and_must_leave_the_same() {
    let mut buckets = buckets(StageOutput::Buckets(2), Finish::Keep);
    win(&mut buckets, attempt(0, 0), "b", &[(0, 5), (1, 6)]);
    buckets.close(None);
    buckets.next_steps();
    buckets.sealed(id(0), 5, vec![0]).unwrap();
    assert_eq!(only(&[("a", 1)], &mut buckets, &[1]), [(0, 1)]);
    let former = buckets.pieces_by_task(&BTreeSet::from([0])).remove(&0).unwrap();
    assert_eq!(buckets.wanted(&former), BTreeSet::from([1]));
    buckets.reopen();
    let given = buckets.placement().clone();
    let other = buckets.record_win(attempt(0, 1), &node("a"), &given, &pieces(&[(0, 4), (1, 7)]), Some(&former));
    assert_eq!(other, WinOutcome::Differs);
    let same = buckets.record_win(attempt(0, 1), &node("a"), &given, &pieces(&[(0, 5), (1, 6)]), Some(&former));
    assert_eq!(same, WinOutcome::Taken(vec![]));
    buckets.close(None);
    let winners = vec![Winner { task: 0, attempt: 1, bytes: 6 }];
    let order = SealOrder { bucket: BucketId { generation: 1, ..id(1) }, winners, publish: false, in_order: false };
    assert_eq!(buckets.next_steps(), [BucketStep::Seal(node("a"), order)]);
}

#[test]
fn a_task_done_again_may_leave_something_else_while_nothing_is_sealed() {
    let mut buckets = buckets(StageOutput::Buckets(3), Finish::Keep);
    win(&mut buckets, attempt(0, 0), "b", &[(0, 5), (1, 6)]);
    only(&[("a", 1)], &mut buckets, &[1]);
    let former = buckets.pieces_by_task(&BTreeSet::from([0])).remove(&0).unwrap();
    let given = buckets.placement().clone();
    let won = buckets.record_win(attempt(0, 1), &node("a"), &given, &pieces(&[(1, 7), (2, 1)]), Some(&former));
    assert_eq!(won, WinOutcome::Taken(vec![]));
    buckets.close(None);
    let sealed: Vec<_> = buckets.next_steps().into_iter().map(|step| format!("{step:?}")).collect();
    assert_eq!((buckets.progress(), sealed.len()), ((0, 2), 2), "bucket 0 holds nothing any more: {sealed:?}");
}

#[test]
fn a_tasks_own_bucket_that_was_lost_is_where_the_task_was_done_again() {
    let mut buckets = buckets(StageOutput::Local, Finish::Keep);
    win(&mut buckets, attempt(4, 0), "b", &[(4, 9)]);
    buckets.next_steps();
    buckets.sealed(id(4), 9, vec![4]).unwrap();
    assert_eq!(only(&[("a", 1)], &mut buckets, &[4]), [(4, 4)]);
    assert!(!buckets.are_complete());
    let former = buckets.pieces_by_task(&BTreeSet::from([4])).remove(&4).unwrap();
    let won = buckets.record_win(attempt(4, 1), &node("a"), &Placement::Local, &pieces(&[(4, 9)]), Some(&former));
    assert_eq!(won, WinOutcome::Taken(vec![]));
    let Some(BucketStep::Seal(at, order)) = buckets.next_steps().pop() else { panic!("nothing to seal") };
    assert_eq!((at, order.bucket.generation, order.winners[0].attempt), (node("a"), 1, 1));
}
