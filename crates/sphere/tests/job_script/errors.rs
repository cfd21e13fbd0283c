//! Errors of functions that a job goes on with: what is left out, what is done again, and what still ends the job.

use super::*;

/// Two small files that travel together, and a large one.
const FILES: &[(&str, u64, &str)] = &[("/x", 40, "a"), ("/y", 50, "a"), ("/z", 100, "a")];

fn tolerant(errors_max: u32) -> Script {
    script_with_errors(&[("a", 1)], FILES, LOCAL, FinalOutput::Return, errors_max)
}

#[test]
fn a_segment_on_which_the_function_errs_is_skipped_and_the_rest_done_again() {
    let mut script = tolerant(1);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..40] /y[0..50]
         > erred 0.0.0.0 1
         drop 1
         start 2 at a
         > ready 2
         run 0.0.0.1 on 2 at a: /x[0..40]
         > finish 0.0.0.1 0:4
         run 0.0.1.0 on 2 at a: /z[0..100]
         seal 0.0.0+1 at a: 0.1:4
         > sealed 0.0.0+1 4
         fetch 0.0.0+1 at a
         > finish 0.0.1.0
         > fetched 0.0.0+1
         finished of 2: 0.0.0+1@a:4 without 1",
    );
    let left_out = &script.job.skipped_segments()[0];
    assert_eq!((left_out.stage, left_out.from, left_out.until, left_out.first_record), (0, 0, 50, Some(0)));
    assert_eq!((left_out.error.segment, left_out.error.message.as_str()), (1, "boom"));
    let counts = script.records()[0];
    assert_eq!((counts.segments, counts.done, counts.failed, counts.retried), (3, 2, 1, 0));
}

// Promise 21.
#[test]
fn one_error_more_than_the_job_bears_ends_it_with_that_error() {
    let mut script = tolerant(1);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..40] /y[0..50]
         > erred 0.0.0.0 0
         drop 1
         start 2 at a
         > ready 2
         run 0.0.0.1 on 2 at a: /y[0..50]
         > erred 0.0.0.1 1
         ended: the function `f` failed on `/x`, segment 1: boom",
    );
    assert_eq!((script.job.state(), script.records()[0].failed), (JobState::Failed, 2));
}

#[test]
fn a_task_without_a_segment_left_is_done_and_leaves_nothing() {
    let mut script = script_with_errors(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish, 5);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > erred 0.0.0.0
         drop 1
         start 2 at a
         seal 0.0.0 at a: to publish
         > sealed 0.0.0 0
         publish 0.0.0 at a lines
         > published 0.0.0
         finished of 1: 0.0.0@a:0 without 1",
    );
}

#[test]
fn an_error_that_names_a_segment_of_another_task_ends_the_job() {
    tolerant(5).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..40] /y[0..50]
         > erred 0.0.0.0 2
         ended: the function `f` failed on `/x`, segment 2: boom",
    );
}

#[test]
fn late_news_of_an_error_changes_nothing() {
    let mut script = tolerant(5);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..40] /y[0..50]
         > erred 0.0.0.0 1
         drop 1
         start 2 at a
         > erred 0.0.0.0 1
         > erred 0.0.0.0 0",
    );
    assert_eq!((script.job.skipped_segments().len(), script.records()[0].failed), (1, 1));
}

#[test]
fn an_attempt_beside_the_one_that_erred_is_ended() {
    let files = [("/x", 100, "a"), ("/y", 100, "b"), ("/z", 100, "b")];
    let mut script = script_with_errors(&[("a", 1), ("b", 2)], &files, LOCAL, FinalOutput::Return, 1);
    script.play(
        "start 1 at a
         start 2 at b
         start 3 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > ready 3
         run 0.0.2.0 on 3 at b: /z[0..100]
         > finish 0.0.1.0
         > wait 3000
         run 0.0.0.1 on 2 at b: /x[0..100] from a
         > erred 0.0.0.1
         drop 2
         start 4 at b
         drop 1
         start 5 at a
         > finish 0.0.2.0
         finished of 3: without 1",
    );
}

#[test]
fn a_function_that_went_well_and_errs_when_it_is_done_again_costs_a_new_run() {
    let files = [("/x", 100, "a b"), ("/y", 100, "b")];
    let stages = [StageOutput::Buckets(2), StageOutput::Local];
    let mut script = script_with_errors(&[("a", 1), ("b", 1)], &files, &stages, FinalOutput::Return, 9);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100] to a,b
         > finish 0.0.0.0 0:30 1:40
         > gone a
         drop 1
         > finish 0.0.1.0 0:50?
         run 0.0.0.1 on 2 at b: /x[0..100] to b+1,b for 0
         deliver 0.0.1.0 from b: 0@b+1
         > erred 0.0.0.1
         begin run 1
         drop 2
         start 3 at b
         > ready 3
         run 0.1.0.0 on 3 at b: /x[0..100] to b,b",
    );
}

// Promise 22.
#[test]
fn a_task_that_a_machine_without_memory_ended_is_tried_once_more_and_no_oftener() {
    let mut script = script_with_errors(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Return, 0);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > starved 0.0.0.0
         drop 1
         > wait 250
         start 3 at a
         > ready 3
         > wait 750
         run 0.0.0.1 on 3 at a: /x[0..100]
         > starved 0.0.0.1
         ended: the function `f` failed on `/x`, segment 0: no more memory",
    );
    assert_eq!(script.job.state(), JobState::Failed);
}
