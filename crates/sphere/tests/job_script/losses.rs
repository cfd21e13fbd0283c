//! What a job wants done when results are lost, and when an attempt is slow.

use protocol::{
    Now, SliceId,
    message::{client_master::StageRecord, spe::AttemptId},
};
use sphere::{CommitAction, Delivery, FinalOutput, JobAction, OutputCommit, OutputEntry, OutputSnapshot, StageOutput};

use super::{LOCAL, ONE_FILE, script, shown_bucket};

#[test]
fn a_node_with_results_is_lost_and_only_its_results_are_made_again() {
    let files = [("/x", 100, "a b"), ("/y", 100, "b")];
    let mut script = script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > finish 0.0.1.0 1:7
         seal 0.0.1 at b: 1.0:7
         > sealed 0.0.1 7
         fetch 0.0.1 at b
         > gone b
         drop 2
         > fetched 0.0.1
         > finish 0.0.0.0 0:1
         run 0.0.1.1 on 1 at a: /y[0..100] from anyone
         seal 0.0.0 at a: 0.0:1
         > finish 0.0.1.1 1:7
         seal 0.0.1+1 at a: 1.1:7",
    );
    assert_eq!(script.job.progress().epoch, 0);
    let done = StageRecord {
        segments: 2,
        done: 2,
        local: 1,
        retried: 1,
        bytes_in: 20,
        bytes_out: 8,
        ..StageRecord::default()
    };
    assert_eq!(script.records(), [done]);
}

// Promise 18.
#[test]
fn a_bucket_of_a_lost_node_gets_its_pieces_from_those_who_made_them() {
    let files = [("/x", 100, "a"), ("/y", 100, "b"), ("/z", 100, "c")];
    let stages = [StageOutput::Buckets(3), StageOutput::Local];
    script(&[("a", 1), ("b", 1), ("c", 1)], &files, &stages, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         start 3 at c
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b,c
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100] to a,b,c
         > ready 3
         run 0.0.2.0 on 3 at c: /z[0..100] to a,b,c
         > finish 0.0.0.0 0:1 1:2
         > finish 0.0.1.0 0:3 1:4
         > gone b
         drop 2
         run 0.0.1.1 on 1 at a: /y[0..100] from anyone to a,a+1,c for 1
         deliver 0.0.0.0 from a: 1@a+1
         > finish 0.0.2.0 0:5 1:6?
         deliver 0.0.2.0 from c: 1@a+1
         > delivered 0.0.0.0
         > delivered 0.0.2.0
         > delivered 0.0.2.0
         > finish 0.0.1.1 0:3? 1:4
         seal 0.0.0 at a: 0.0:1 1.0:3 2.0:5
         seal 0.0.1+1 at a: 0.0:2 1.1:4 2.0:6",
    );
}

// Promise 18.
#[test]
fn a_bucket_that_was_read_to_its_end_is_not_made_again() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    let stages = [StageOutput::Buckets(4), StageOutput::Buckets(1)];
    let mut script = script(&[("a", 1), ("b", 1)], &files, &stages, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b,a,b
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100] to a,b,a,b
         > finish 0.0.0.0 0:1 1:1 3:1
         > finish 0.0.1.0 1:2 3:2
         seal 0.0.0 at a: 0.0:1
         seal 0.0.1 at b: 0.0:1 1.0:2
         seal 0.0.3 at b: 0.0:1 1.0:2
         > sealed 0.0.0 1 0
         > sealed 0.0.1 3 1 0
         > sealed 0.0.3 3 1 0
         run 1.0.0.0 on 1 at a: [0..1] = 0.0.0 to a
         run 1.0.1.0 on 2 at b: [0..3] = 0.0.1 to a
         > finish 1.0.1.0 0:3
         run 1.0.2.0 on 2 at b: [0..3] = 0.0.3 to a
         > gone b
         drop 2
         deliver 0.0.0.0 from a: 3@a+1
         > finish 1.0.0.0 0:1
         run 0.0.1.1 on 1 at a: /y[0..100] from anyone to a,b,a,a+1 for 3
         > delivered 0.0.0.0
         > finish 0.0.1.1 1:2? 3:2
         seal 0.0.3+1 at a: 1.1:2 0.0:1 in order
         > sealed 0.0.3+1 3 1 0
         run 1.0.2.1 on 1 at a: [0..3] = 0.0.3+1 to a
         > finish 1.0.2.1 0:3
         seal 1.0.0 at a: 1.0:3 0.0:1 2.1:3",
    );
}

// Promise 18.
#[test]
fn a_file_of_lost_news_whose_bucket_is_empty_afterwards_is_not_in_the_output() {
    let stages = [StageOutput::Buckets(3)];
    let mut script = script(&[("a", 1), ("b", 1)], ONE_FILE, &stages, FinalOutput::Publish);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b,a
         > finish 0.0.0.0 1:10
         seal 0.0.1 at b: 0.0:10 to publish
         > sealed 0.0.1 10
         publish 0.0.1 at b lines
         > denied 0.0.1 exists
         deliver 0.0.0.0 from a: 1@b+1
         > undelivered 0.0.0.0 notfound
         run 0.0.0.1 on 1 at a: /x[0..100] to a,b+1,a for 1
         > finish 0.0.0.1 2:10
         seal 0.0.2 at a: 0.1:10 to publish
         > sealed 0.0.2 10
         publish 0.0.2 at a lines
         > published-as 0.0.2 7
         finished of 3: 0.0.2@a:10",
    );
    // `part-00001` has the records too, as they were left first.
    let outcome = script.outcome.clone().unwrap();
    assert_eq!(outcome.outputs[0].slice, Some(SliceId(7)));
    let file = |name: &str, slice| OutputEntry { name: name.into(), bytes: 10, slice: Some(SliceId(slice)) };
    let gathered = Some(vec![file("part-00001", 6), file("part-00002", 7)]);
    let mut reveal = OutputCommit::new(Now::default(), &outcome, None, false);
    assert_eq!(reveal.poll_action(), Some(CommitAction::Gather));
    reveal.done();
    assert_eq!(reveal.poll_action(), Some(CommitAction::Inspect));
    reveal.handle_inspected(&OutputSnapshot { gathered, ..OutputSnapshot::default() });
    assert_eq!(reveal.poll_action(), Some(CommitAction::Remove("part-00001".into())));
    reveal.done();
    assert_eq!(reveal.poll_action(), Some(CommitAction::Rename));
}

#[test]
fn a_task_that_leaves_something_else_when_it_is_done_again_begins_a_new_run() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    let stages = [StageOutput::Buckets(2), StageOutput::Local];
    script(&[("a", 1), ("b", 1)], &files, &stages, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100] to a,b
         > finish 0.0.0.0 0:1
         > finish 0.0.1.0 0:2 1:2
         seal 0.0.0 at a: 0.0:1 1.0:2
         seal 0.0.1 at b: 1.0:2
         > sealed 0.0.0 3
         > gone b
         drop 2
         run 0.0.1.1 on 1 at a: /y[0..100] from anyone to a,a+1 for 1
         > finish 0.0.1.1 0:2? 1:2!
         begin run 1
         run 0.1.0.0 on 1 at a: /x[0..100] to a,a",
    );
}

#[test]
fn a_node_that_kept_nothing_has_the_task_done_again() {
    let stages = [StageOutput::Buckets(2), StageOutput::Local];
    let mut script = script(&[("a", 1), ("b", 1), ("c", 1)], ONE_FILE, &stages, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         start 3 at c
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b
         > finish 0.0.0.0 0:1 1:2?
         deliver 0.0.0.0 from a: 1@b
         seal 0.0.0 at a: 0.0:1
         > undelivered 0.0.0.0 unavailable
         > wait 1000
         deliver 0.0.0.0 from a: 1@b
         > undelivered 0.0.0.0 notfound
         run 0.0.0.1 on 1 at a: /x[0..100] to a,b for 1
         > delivered 0.0.0.0
         > finish 0.0.0.1 0:1? 1:2
         seal 0.0.1 at b: 0.1:2",
    );
    assert_eq!(script.records()[0].retried, 1);
}

// Promise 18.
#[test]
fn a_slow_attempt_gets_a_rival_and_the_first_to_end_wins() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    let mut script = script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > wait 4000
         > finish 0.0.0.0
         > wait 3000
         > progress 0.0.1.0 10
         > wait 1000
         run 0.0.1.1 on 1 at a: /y[0..100] from b
         > wait 1000
         > finish 0.0.1.1 1:7
         drop 2
         start 3 at b
         seal 0.0.1+1 at a: 1.1:7
         > finish 0.0.1.0 1:7
         > ready 3",
    );
    let record = script.records()[0];
    assert_eq!((record.speculative, record.retried, record.done), (1, 0, 2));
}

#[test]
fn an_attempt_that_is_about_to_end_gets_no_rival() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > wait 4000
         > finish 0.0.0.0
         > wait 3000
         > progress 0.0.1.0 90
         > wait 9000
         > finish 0.0.1.0 1:7
         seal 0.0.1 at b: 1.0:7",
    );
}

#[test]
fn of_two_attempts_one_may_fail_and_the_other_goes_on() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > wait 1000
         > finish 0.0.0.0
         > wait 1000
         run 0.0.1.1 on 1 at a: /y[0..100] from b
         > fail 0.0.1.0 unavailable
         drop 2
         > wait 250
         start 4 at b
         > ready 4
         > wait 900
         > finish 0.0.1.1 1:7
         seal 0.0.1+1 at a: 1.1:7",
    );
}

#[test]
fn attempts_of_an_earlier_run_stay_counted_as_retried() {
    let stages = [StageOutput::Buckets(2), StageOutput::Local];
    let mut script = script(&[("a", 1), ("b", 1)], &[("/x", 100, "b")], &stages, FinalOutput::Return);
    let story = "ready 2, fail 0.0.0.0 unavailable, wait 1000, ready 1, finish 0.0.0.1 0:5 1:6, sealed 0.0.0 5, \
                 sealed 0.0.1 6, finish 1.0.0.0, gone b, undelivered 0.0.0.1 notfound, finish 0.0.0.2 0:6? 1:6";
    story.split(", ").for_each(|line| script.tell(line.trim()));
    assert_eq!(script.job.progress().epoch, 1);
    assert_eq!(script.records()[0], StageRecord { segments: 1, retried: 2, ..StageRecord::default() });
}

#[test]
fn a_missing_piece_at_the_seal_has_its_bucket_made_again() {
    script(&[("a", 1)], ONE_FILE, &[StageOutput::Buckets(1)], FinalOutput::Publish).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a
         > finish 0.0.0.0 0:5
         seal 0.0.0 at a: 0.0:5 to publish
         > denied 0.0.0 notfound
         deliver 0.0.0.0 from a: 0@a+1
         > denied 0.0.0 notfound
         > delivered 0.0.0.0
         seal 0.0.0+1 at a: 0.0:5 to publish
         > sealed 0.0.0+1 4
         deliver 0.0.0.0 from a: 0@a+2
         > undelivered 0.0.0.0 notfound
         run 0.0.0.1 on 1 at a: /x[0..100] to a+2 for 0
         > finish 0.0.0.1 0:6
         seal 0.0.0+2 at a: 0.1:6 to publish
         > sealed 0.0.0+2 6
         publish 0.0.0+2 at a lines",
    );
}

#[test]
fn a_node_that_drops_its_buckets_again_and_again_ends_the_job() {
    let mut script = script(&[("a", 1)], ONE_FILE, &[StageOutput::Buckets(1)], FinalOutput::Publish);
    script.tell("ready 1");
    let mut denials = 0;
    loop {
        match script.job.poll_action() {
            Some(JobAction::RunTask(run)) => {
                let AttemptId { epoch: run, task, attempt, .. } = run.attempt;
                script.tell(&format!("finish 0.{run}.{task}.{attempt} 0:5"));
            }
            Some(JobAction::Deliver(Delivery { attempt, .. })) => {
                let AttemptId { epoch: run, task, attempt, .. } = attempt;
                script.tell(&format!("delivered 0.{run}.{task}.{attempt}"));
            }
            Some(JobAction::Seal { order, .. }) => {
                denials += 1;
                script.tell(&format!("denied {} notfound", shown_bucket(&order.bucket)));
            }
            Some(JobAction::StartSpe { spe, .. }) => script.tell(&format!("ready {}", spe.0)),
            Some(JobAction::Finished(result)) => {
                assert_eq!(denials, 27, "nine times in each of three runs");
                let text = result.unwrap_err().to_string();
                return assert_eq!(text, "the job lost results 3 times and was given up, at last: notfound");
            }
            Some(_) => {}
            None => panic!("the job stands still"),
        }
    }
}

#[test]
fn a_bucket_that_its_node_no_longer_has_is_made_again() {
    let stages = [StageOutput::Buckets(1), StageOutput::Local];
    script(&[("a", 1)], ONE_FILE, &stages, FinalOutput::Return).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a
         > finish 0.0.0.0 0:5
         seal 0.0.0 at a: 0.0:5
         > sealed 0.0.0 5 0
         run 1.0.0.0 on 1 at a: [0..5] = 0.0.0
         > fail 1.0.0.0 notfound
         drop 1
         deliver 0.0.0.0 from a: 0@a+1
         > undelivered 0.0.0.0 notfound
         > wait 250
         start 3 at a
         > ready 3
         run 0.0.0.1 on 3 at a: /x[0..100] to a+1 for 0
         > finish 0.0.0.1 0:5
         seal 0.0.0+1 at a: 0.1:5 in order
         > sealed 0.0.0+1 5 0
         > wait 750
         run 1.0.0.1 on 3 at a: [0..5] = 0.0.0+1",
    );
}

#[test]
fn a_node_at_which_no_spe_starts_is_lost_with_what_it_had() {
    let stages = [StageOutput::Buckets(2), StageOutput::Local];
    script(&[("a", 1), ("b", 1)], ONE_FILE, &stages, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b
         > lost 2
         drop 2
         > wait 250
         start 4 at b
         > lost 4
         drop 4
         > wait 500
         start 6 at b
         > lost 6
         drop 6
         > wait 1000
         start 8 at b
         > lost 8
         drop 8
         > finish 0.0.0.0 0:1 1:2
         deliver 0.0.0.0 from a: 1@a+1
         seal 0.0.0 at a: 0.0:1
         > gone a
         ended: no node can run an SPE for the job; see `sector nodes`",
    );
}
