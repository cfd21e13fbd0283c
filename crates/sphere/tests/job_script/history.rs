//! What is told of a job's attempts when it has ended.

use protocol::{Reason, limits, message::history::AttemptEnd};
use sphere::{AssignedPart, AssignedSegment, Assignment};

use super::*;

const LOCAL: &[StageOutput] = &[StageOutput::Local];

/// A line for each attempt: which, where, of which segment, from when, how long, and how it ended; then the nodes'
/// marks.
fn told(mut script: Script) -> String {
    let history = script.history.finish();
    let mut text = String::new();
    for a in &history.attempts {
        writeln!(
            text,
            "{}.{} {} of {} at {}: {} ms, then {} ms, {:?}",
            a.stage, a.epoch, a.attempt, a.slice, a.node, a.began_millis, a.took_millis, a.end
        )
        .unwrap();
    }
    for (node, marks) in &history.marks {
        writeln!(text, "{node}: failed {}, overtaken {}", marks.failed, marks.overtaken).unwrap();
    }
    text
}

// Promise 18.
#[test]
fn a_history_tells_who_was_overtaken_who_failed_and_what_they_took() {
    let files = [("/x", 100, "a"), ("/y", 100, "b"), ("/z", 100, "c")];
    let mut script = script(&[("a", 1), ("b", 1), ("c", 1)], &files, LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         start 3 at c
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > wait 500
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > ready 3
         run 0.0.2.0 on 3 at c: /z[0..100]
         > wait 3500
         > finish 0.0.0.0
         > lost 3
         drop 3
         > wait 250
         start 5 at c
         > wait 750
         run 0.0.2.1 on 1 at a: /z[0..100] from c
         > wait 1000
         > finish 0.0.2.1
         run 0.0.1.1 on 1 at a: /y[0..100] from b
         > wait 1000
         > finish 0.0.1.1 1:7
         drop 2
         start 6 at b
         seal 0.0.1+1 at a: 1.1:7
         > cancel
         ended: the job was cancelled by alice",
    );
    let lines = [
        "0.0 0 of /x at a: 0 ms, then 4000 ms, Done",
        "0.0 0 of /y at b: 500 ms, then 6500 ms, Overtaken",
        "0.0 1 of /y at a: 6000 ms, then 1000 ms, Done",
        "0.0 0 of /z at c: 500 ms, then 3500 ms, Failed",
        "0.0 1 of /z at a: 5000 ms, then 1000 ms, Done",
        "b: failed 0, overtaken 1",
        "c: failed 1, overtaken 0",
    ];
    assert_eq!(told(script).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn of_more_attempts_than_it_keeps_a_history_tells_the_bad_ones_and_the_longest() {
    let mut history = History::new(Now::default());
    let most = limits::HISTORY_ATTEMPTS_MAX as u32;
    let mut now = Now::default();
    for task in 0..most + 10 {
        let attempt = begin(&mut history, now, task);
        // The first fails at once; all others take longer, each than the one before.
        now = now.after(Duration::from_millis(u64::from(task)));
        let event = if task == 0 {
            Event::TaskFailed { attempt, refusal: Refusal::new(Reason::Unavailable, "broken") }
        } else {
            Event::TaskFinished {
                attempt,
                result: TaskResult {
                    records_in: 1,
                    bytes_in: 1,
                    records_out: 1,
                    pieces: vec![],
                    counters: Default::default(),
                },
            }
        };
        history.handle_event(now, &event);
    }
    let told = history.finish();
    assert_eq!((told.attempts.len(), told.left_out), (most as usize, 10));
    assert_eq!((told.attempts[0].segment, told.attempts[0].end), (0, AttemptEnd::Failed));
    assert_eq!(told.attempts[1].segment, 11, "the ten shortest are left out");
}

#[test]
fn a_failure_marks_its_node_when_another_node_has_done_the_task_and_no_sooner() {
    let files = [("/x", 100, "a"), ("/y", 100, "a"), ("/z", 100, "b")];
    let marks = |steps: &str| {
        let mut script = script(&[("a", 2), ("b", 1)], &files, LOCAL, FinalOutput::Return);
        script.play(
            "start 1 at a
             start 2 at a
             start 3 at b
             > ready 1
             run 0.0.0.0 on 1 at a: /x[0..100]
             > fail 0.0.0.0 unavailable
             drop 1
             > wait 250
             start 5 at a",
        );
        for step in steps.split(',').map(str::trim) {
            script.tell(step);
            script.write_actions(&mut String::new());
        }
        told(script).lines().filter(|line| line.contains("failed ")).collect::<String>()
    };
    assert_eq!(marks("cancel"), "", "nobody has done it");
    assert_eq!(marks("ready 3, finish 0.0.2.0, wait 750, finish 0.0.0.1"), "a: failed 1, overtaken 0");
    assert_eq!(marks("gone b, wait 750, ready 5, finish 0.0.0.1"), "", "the same node has done it");
    assert_eq!(marks("ready 3, finish 0.0.2.0, wait 750, erred 0.0.0.1"), "", "it was the function");
}

#[test]
fn what_was_at_work_when_the_driver_was_replaced_is_held_against_no_node() {
    let mut history = History::new(Now::default());
    let attempt = begin(&mut history, Now::default(), 0);
    history.handle_event(Now::default(), &Event::DriverReplaced);
    history.handle_event(
        Now::default(),
        &Event::TaskFailed { attempt, refusal: Refusal::new(Reason::Unavailable, "late") },
    );
    history.handle_event(
        Now::default(),
        &Event::SpeLost { spe: SpeId(1), refusal: Refusal::new(Reason::Unavailable, "late") },
    );
    let told = history.finish();
    let ends: Vec<_> = told.attempts.iter().map(|attempt| attempt.end).collect();
    assert_eq!((ends, told.marks), (vec![AttemptEnd::Stopped], vec![]));
}

/// An SPE of node `a` begins the first attempt at a task.
fn begin(history: &mut History, now: Now, task: u32) -> AttemptId {
    let attempt = AttemptId { job: JOB, stage: 0, epoch: 0, task, attempt: 0 };
    let part = AssignedPart {
        location: SegmentLocation::Local(SliceId(1)),
        path: "/x".parse().unwrap(),
        from: 0,
        until: 10,
        records: RecordFraming::Lines,
        locator: None,
    };
    let segments = vec![AssignedSegment { segment: u64::from(task), first: part, zipped: vec![] }];
    let (node, output) = (NodeId::new("a").unwrap(), Placement::Local);
    let assignment = Assignment { spe: SpeId(1), node, attempt, segments, output, wanted: None };
    history.handle_action(now, &JobAction::RunTask(assignment));
    attempt
}
