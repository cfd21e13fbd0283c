//! A driver over a job of one task, with a journal that is written when the test says so.
#![allow(clippy::unwrap_used)]

use protocol::{Counters, JobId, Reason, RecordFraming, SliceId, message::spe::TaskResult};

use super::*;
use crate::{FileLayout, FinalOutput, StageOutput, StagePlan};

fn second(second: u64) -> Now {
    Now { monotonic: Duration::from_secs(second), ..Now::default() }
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn world() -> (JobPlan, Vec<InputFile>, Vec<SpeNodePlan>) {
    let stage = StagePlan { output: StageOutput::Local, records: RecordFraming::Lines };
    let plan = JobPlan::new(JobId(1), vec![stage], FinalOutput::Publish);
    let file = InputFile {
        path: "/a".parse().unwrap(),
        slice: SliceId(1),
        bytes: 10,
        records: RecordFraming::Lines,
        nodes: vec![node("a")],
        layout: FileLayout::default(),
    };
    let place = protocol::Place::new("s", "r");
    let at = |name| SpeNodePlan { node: node(name), place: place.clone(), slots: 1, is_marked: false };
    (plan, vec![file], vec![at("a"), at("b")])
}

fn new(now: Now) -> DriverCore {
    let (plan, inputs, nodes) = world();
    DriverCore::new(now, plan, inputs, &nodes).unwrap()
}

fn taken_over(pages: &[JournalPage], now: Now) -> DriverCore {
    let (plan, inputs, nodes) = world();
    let mut replay = Replay::new(plan, inputs, &nodes).unwrap();
    pages.iter().flat_map(|page| page.entries.clone()).for_each(|told| replay.apply(told));
    replay.take_over(now, pages.len() as u32)
}

fn actions(driving: &mut DriverCore, now: Now) -> Vec<JobAction> {
    std::iter::from_fn(|| driving.poll_action(now)).collect()
}

/// Lets the job have its SPEs and do its task.
fn work(driving: &mut DriverCore, now: Now) -> Vec<JobAction> {
    let mut seen = Vec::new();
    loop {
        let next = actions(driving, now);
        if next.is_empty() {
            return seen;
        }
        for action in next {
            match &action {
                JobAction::StartSpe { spe, .. } => driving.handle_event(now, Event::SpeReady(*spe)),
                JobAction::RunTask(task) => {
                    let (pieces, counters) = (vec![], Counters::new());
                    let result = TaskResult { records_in: 1, bytes_in: 10, records_out: 0, pieces, counters };
                    driving.handle_event(now, Event::TaskFinished { attempt: task.attempt, result });
                }
                _ => {}
            }
            seen.push(action);
        }
    }
}

#[test]
fn nobody_is_asked_for_anything_before_the_journal_knows_who_drives() {
    let mut driving = taken_over(&[], second(5));
    assert!(actions(&mut driving, second(5)).is_empty());
    let page = driving.next_page().unwrap();
    assert_eq!((page.number, page.entries.len()), (0, 1));
    assert_eq!(page.entries[0].event, Some(Event::DriverReplaced));
    assert_eq!(driving.next_timeout(), None, "its time stands still");
    assert!(driving.next_page().is_none(), "one at a time");
    driving.page_written(second(300));
    assert!(actions(&mut driving, second(300)).iter().any(|action| matches!(action, JobAction::StartSpe { .. })));
}

#[test]
fn the_end_is_told_when_it_is_written_and_whoever_takes_over_then_hears_it_at_once() {
    let mut driving = taken_over(&[], second(0));
    let mut pages = vec![driving.next_page().unwrap()];
    driving.page_written(second(1));
    work(&mut driving, second(1));
    // The task has left nothing: one empty part is made.
    let bucket = protocol::message::spe::BucketId { job: JobId(1), stage: 0, epoch: 0, bucket: 0, generation: 0 };
    driving.handle_event(second(1), Event::Sealed { bucket, bytes: 0, order: vec![] });
    work(&mut driving, second(1));
    driving.handle_event(second(1), Event::PublishedAs { bucket, slice: SliceId(9) });
    assert!(actions(&mut driving, second(1)).is_empty(), "not before it is written");
    pages.push(driving.next_page().unwrap());
    driving.page_written(second(2));
    let end = actions(&mut driving, second(2));
    assert!(matches!(&end[..], [JobAction::Finished(Ok(outcome))] if outcome.outputs.len() == 1), "{end:?}");
    let mut next = taken_over(&pages, second(90));
    assert_eq!(actions(&mut next, second(90)), end);
    assert!(next.next_page().is_none(), "there is nothing to write");
}

#[test]
fn what_must_be_written_waits_for_the_page_under_way_and_then_for_its_own() {
    let mut driving = taken_over(&[], second(0));
    driving.next_page().unwrap();
    driving.page_written(second(0));
    actions(&mut driving, second(0));
    driving.handle_timeout(second(2));
    driving.note_report(second(2));
    assert_eq!(driving.next_page().unwrap().number, 1, "a page with the report");
    driving.handle_event(second(2), Event::Cancelled(Refusal::new(Reason::Failed, "enough")));
    assert!(actions(&mut driving, second(2)).is_empty());
    driving.note_report(second(3));
    assert!(driving.next_page().is_none(), "the one before is not written");
    driving.page_written(second(3));
    assert_eq!(driving.next_page().unwrap().number, 2);
    assert!(actions(&mut driving, second(3)).is_empty());
    driving.page_written(second(4));
    assert!(matches!(&actions(&mut driving, second(4))[..], [JobAction::Finished(Err(_))]));
}

#[test]
fn a_job_without_a_journal_waits_for_none() {
    let mut driving = new(second(7));
    assert!(!actions(&mut driving, second(7)).is_empty());
    driving.handle_event(second(8), Event::Cancelled(Refusal::new(Reason::Failed, "enough")));
    driving.note_report(second(9));
    assert!(matches!(&actions(&mut driving, second(9))[..], [.., JobAction::Finished(Err(_))]));
    assert!(driving.next_page().is_none());
}

#[test]
fn a_node_is_lost_that_three_reports_in_a_row_do_not_name() {
    let mut driving = new(second(0));
    let (both, one) = ([node("a"), node("b")], [node("a")]);
    for present in [&both[..], &one, &one, &both, &one, &one] {
        driving.handle_report_reply(second(1), Ok(present));
    }
    work(&mut driving, second(1));
    let is_lost = |driving: &mut DriverCore| {
        let mut done = actions(driving, second(1));
        done.retain(|action| matches!(action, JobAction::DropSpe(_)));
        !done.is_empty()
    };
    assert!(!is_lost(&mut driving));
    driving.handle_report_reply(second(1), Ok(&one));
    assert!(is_lost(&mut driving));
}

#[test]
fn a_master_that_knows_the_job_no_more_ends_it_and_one_that_is_away_does_not() {
    let ends = |reason| {
        let mut driving = new(second(0));
        driving.handle_report_reply(second(1), Err(Refusal::new(reason, "no")));
        actions(&mut driving, second(1)).iter().any(|action| matches!(action, JobAction::Finished(Err(_))))
    };
    assert!(ends(Reason::Failed) && ends(Reason::NoRight) && ends(Reason::NotFound));
    assert!(!ends(Reason::Unavailable));
}
