//! What a job does when no copy of an input can be reached.

use protocol::Status;
use sphere::{FinalOutput, JobAction};

use super::{LOCAL, ONE_FILE, Script, script};

#[test]
fn a_task_whose_input_is_away_waits_for_it_and_its_spe_does_other_work_meanwhile() {
    let mut script = script(&[("a", 1)], &[("/x", 100, "b"), ("/y", 100, "a")], LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.1.0 on 1 at a: /y[0..100]
         > finish 0.0.1.0 1:5
         run 0.0.0.0 on 1 at a: /x[0..100] from anyone
         seal 0.0.1 at a: 1.0:5
         > away 0.0.0.0 unavailable
         > away 0.0.0.0 unavailable
         > wait 999
         > wait 1
         run 0.0.0.1 on 1 at a: /x[0..100] from anyone",
    );
    assert_eq!(script.job.awaited_input().map(|refusal| &refusal.message[..]), Some("unavailable"));
    script.play(
        "> finish 0.0.0.1 0:5
         seal 0.0.0+1 at a: 0.1:5",
    );
    assert_eq!(script.job.awaited_input(), None);
    assert_eq!(script.records()[0].retried, 0, "nobody has failed");
    let history = script.history.finish();
    assert_eq!((history.attempts.len(), history.marks.len()), (2, 0), "what was not begun is no attempt: {history:?}");
}

#[test]
fn an_input_that_is_away_for_ten_minutes_ends_the_job() {
    let mut script = script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]",
    );
    let error = wait_for_end(&mut script, 0);
    assert_eq!(error, "the task that begins with `/x` has waited for its input for 10 minutes: unavailable");
    assert_eq!((script.now.monotonic.as_secs() / 60, script.records()[0].failed), (10, 1));
}

#[test]
fn an_input_that_was_back_meanwhile_may_be_away_for_ten_minutes_again() {
    let mut script = script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > away 0.0.0.0 unavailable
         > wait 590000
         run 0.0.0.1 on 1 at a: /x[0..100]
         > fail 0.0.0.1 unavailable
         drop 1
         > wait 10000
         start 3 at a
         > ready 3
         run 0.0.0.2 on 3 at a: /x[0..100]",
    );
    assert!(wait_for_end(&mut script, 2).starts_with("the task that begins with `/x` has waited"));
    assert_eq!(script.now.monotonic.as_secs() / 60, 20);
}

#[test]
fn a_speculative_attempt_without_input_is_retried_and_the_first_waits_for_nothing() {
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
         > away 0.0.1.1 unavailable
         > wait 9999
         > wait 1
         run 0.0.1.2 on 1 at a: /y[0..100] from b",
    );
    assert_eq!(script.job.awaited_input(), None);
}

#[test]
fn a_task_that_has_its_input_is_waited_for_no_more_and_a_later_outage_is_new() {
    let mut script = script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > away 0.0.0.0 unavailable
         > wait 1000
         run 0.0.0.1 on 1 at a: /x[0..100]",
    );
    assert!(script.job.awaited_input().is_some());
    script.tell("progress 0.0.0.1 10");
    assert_eq!(script.job.awaited_input(), None);
    script.play(
        "> wait 29000
         > fail 0.0.0.1 unavailable
         drop 1
         > wait 300000
         start 3 at a
         > ready 3
         run 0.0.0.2 on 3 at a: /x[0..100]
         > away 0.0.0.2 unavailable
         > wait 900000
         run 0.0.0.3 on 3 at a: /x[0..100]
         > away 0.0.0.3 unavailable",
    );
    assert_eq!(script.records()[0].failed, 0, "nobody has looked in between");
}

/// Tells the job that the input of task 0 is away, from this attempt on, until it gives up; gives the sentence.
fn wait_for_end(script: &mut Script, from: u32) -> String {
    for attempt in from..1_000 {
        script.tell(&format!("away 0.0.0.{attempt} unavailable"));
        match script.job.poll_action() {
            None => script.tell("wait 10000"),
            Some(JobAction::Finished(result)) => {
                let error = result.unwrap_err();
                assert_eq!(error.refusal().status(), Status::Unavailable);
                return error.to_string();
            }
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(script.job.poll_action(), Some(JobAction::RunTask(_))),
            "it is tried again within ten seconds"
        );
    }
    panic!("the job did not end");
}
