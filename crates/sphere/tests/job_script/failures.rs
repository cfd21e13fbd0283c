//! What a job wants done when an SPE, a task, a function, a node or a step fails, and nothing is lost with it.

use protocol::message::client_master::JobState;
use sphere::{FinalOutput, JobAction, SpeId};

use super::{LOCAL, ONE_FILE, script};

#[test]
fn a_dead_spe_is_replaced_and_its_task_goes_elsewhere_after_a_pause() {
    let mut script = script(&[("a", 1), ("b", 1)], ONE_FILE, LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 2
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > lost 1
         drop 1
         > lost 1
         > wait 250
         start 4 at a
         > ready 4
         > wait 749
         > wait 1
         run 0.0.0.1 on 2 at b: /x[0..100] from a
         > finish 0.0.0.0 0:9
         > finish 0.0.0.1 0:5
         seal 0.0.0+1 at b: 0.1:5
         > sealed 0.0.0+1 5
         fetch 0.0.0+1 at b
         > fetched 0.0.0+1
         finished of 1: 0.0.0+1@b:5",
    );
    assert_eq!((script.records()[0].retried, script.records()[0].local), (1, 0));
}

#[test]
fn a_node_that_has_lost_its_copy_fetches_the_bytes_at_the_next_attempt() {
    script(&[("a", 1)], &[("/x", 100, "a b")], LOCAL, FinalOutput::Return).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > fail 0.0.0.0 notfound
         drop 1
         > wait 250
         start 3 at a
         > ready 3
         > wait 750
         run 0.0.0.1 on 3 at a: /x[0..100] from anyone",
    );
}

#[test]
fn a_silent_spe_is_given_up_and_its_late_news_ignored() {
    script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Return).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > wait 29000
         > progress 0.0.0.0 50
         > wait 29000
         > wait 1000
         drop 1
         > finish 0.0.0.0 0:9
         > progress 0.0.0.0 60
         > wait 1000
         start 3 at a
         > ready 1
         drop 1
         > ready 3
         run 0.0.0.1 on 3 at a: /x[0..100]",
    );
}

#[test]
fn a_task_that_fails_four_times_ends_the_job_with_the_last_reason() {
    let mut script = script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Return);
    script.play("start 1 at a");
    let mut spe = 1;
    for round in 0..4 {
        script.tell(&format!("ready {spe}"));
        script.tell(&format!("fail 0.0.0.{round} unavailable"));
        while let Some(action) = script.job.poll_action() {
            if let JobAction::Finished(result) = action {
                let error = result.unwrap_err();
                assert_eq!(round, 3);
                assert_eq!(error.to_string(), "the task that begins with `/x` failed 4 times, at last: unavailable");
                assert_eq!((script.records()[0].failed, script.records()[0].retried), (1, 3));
                return;
            }
        }
        script.tell("wait 8000");
        while let Some(JobAction::StartSpe { spe: SpeId(next), .. }) = script.job.poll_action() {
            spe = next;
        }
    }
    panic!("the job did not end");
}

#[test]
fn a_function_error_ends_the_job_at_once_and_is_reported_once() {
    let mut script = script(&[("a", 2)], &[("/x", 200, "a")], LOCAL, FinalOutput::Publish);
    script.play(
        "start 1 at a
         start 2 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at a: /x[100..200]
         > erred 0.0.0.7
         > erred 0.0.1.0
         ended: the function `f` failed on `/x`, segment 0: boom
         > erred 0.0.0.0
         > finish 0.0.0.0 0:1
         > lost 1
         > wait 99999",
    );
    assert_eq!((script.job.state(), script.records()[0].failed), (JobState::Failed, 1));
}

#[test]
fn a_function_that_cannot_be_loaded_ends_the_job() {
    script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish).play(
        "start 1 at a
         > unloadable
         ended: no such symbol",
    );
}

#[test]
fn a_node_without_results_is_lost_and_nothing_begins_anew() {
    let files = [("/x", 100, "a"), ("/y", 100, "b"), ("/z", 100, "b")];
    script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > gone b
         drop 2
         > gone b
         > finish 0.0.0.0 0:7
         run 0.0.1.1 on 1 at a: /y[0..100] from anyone
         seal 0.0.0 at a: 0.0:7",
    );
}

/// Two stages: what is read is done with, and what is yet to be read is made again.
#[test]
fn what_was_delivered_needs_its_node_no_more() {
    let files = [("/x", 100, "a"), ("/y", 100, "b")];
    script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Publish).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100]
         > finish 0.0.1.0 1:7
         seal 0.0.1 at b: 1.0:7 to publish
         > sealed 0.0.1 7
         publish 0.0.1 at b lines
         > published 0.0.1
         > gone b
         drop 2
         > finish 0.0.0.0
         finished of 2: 0.0.1@b:7",
    );
}

#[test]
fn a_step_that_could_not_reach_its_node_is_tried_again_after_a_pause() {
    script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > finish 0.0.0.0 0:5
         seal 0.0.0 at a: 0.0:5 to publish
         > denied 0.0.0 unavailable
         > wait 999
         > wait 1
         seal 0.0.0 at a: 0.0:5 to publish
         > sealed 0.0.0 5
         publish 0.0.0 at a lines
         > denied 0.0.0 refused
         ended: refused",
    );
}
