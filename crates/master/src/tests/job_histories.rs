//! What drivers tell of their jobs' attempts.

#![allow(clippy::unwrap_used)]

use protocol::{
    JobId, limits,
    message::{
        history::{AttemptEnd, AttemptRecord, HistoryRequest, JobHistory, NodeMarks},
        request::{AdmitJobRequest, CancelJobRequest, GetHistoryRequest, NodesRequest, SubmitHistoryRequest},
    },
};

use super::*;

fn admit(bench: &mut Bench, user: &str) -> JobId {
    match bench.ask(user, ClientRequest::AdmitJob(AdmitJobRequest { title: "count words".into(), output: None })) {
        ClientReply::Admitted(admitted) => admitted.job,
        other => panic!("{other:?}"),
    }
}

fn attempt(segment: u64, at: &str) -> AttemptRecord {
    AttemptRecord {
        stage: 0,
        epoch: 0,
        attempt: 1,
        segment,
        segments: 1,
        slice: path("/in"),
        bytes: 10,
        node: node(at),
        began_millis: 5,
        took_millis: 7,
        end: AttemptEnd::Overtaken,
    }
}

/// A history of one attempt at `n1`, which was overtaken there.
fn history(segment: u64) -> JobHistory {
    let marks = vec![(node("n1"), NodeMarks { failed: 0, overtaken: 1 })];
    JobHistory { attempts: vec![attempt(segment, "n1")], left_out: 3, marks }
}

fn tell(job: JobId, history: JobHistory) -> ClientRequest {
    ClientRequest::History(HistoryRequest::Submit(SubmitHistoryRequest { job, history }))
}

fn of(bench: &mut Bench, user: &str, job: JobId) -> Option<JobHistory> {
    match bench.ask(user, ClientRequest::History(HistoryRequest::Get(GetHistoryRequest(job)))) {
        ClientReply::History(history) => Some(history),
        ClientReply::Refused(refusal) => {
            assert_eq!(refusal.status(), Status::NotFound, "{refusal:?}");
            None
        }
        other => panic!("{other:?}"),
    }
}

fn marks(bench: &mut Bench, of: &str) -> NodeMarks {
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!("nodes") };
    nodes.iter().find(|status| status.node == node(of)).unwrap().marks
}

// Promise 18.
#[test]
fn a_history_is_kept_over_a_restart_and_its_first_word_stands() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann");
    assert_eq!(of(&mut bench, "ann", job), None, "it has not ended");
    bench.done("ann", tell(job, history(1)));
    bench.done("ann", tell(job, history(2)));
    assert_eq!(marks(&mut bench, "n1"), NodeMarks { failed: 0, overtaken: 1 }, "nor do marks count twice");
    bench.restart_master();
    assert_eq!(of(&mut bench, "ann", job), Some(history(1)));
    assert_eq!(of(&mut bench, "admin", job), Some(history(1)));
}

#[test]
fn a_history_is_told_and_shown_only_for_a_job_of_ones_own_and_within_bounds() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann");
    assert_eq!(bench.status_of("bob", tell(job, history(1))), Status::Refused);
    let long = JobHistory { attempts: vec![attempt(1, "n1"); limits::HISTORY_ATTEMPTS_MAX + 1], ..history(1) };
    assert_eq!(bench.status_of("ann", tell(job, long)), Status::Usage);
    assert_eq!(marks(&mut bench, "n1"), NodeMarks::default());
    bench.done("ann", tell(job, history(1)));
    let asked = ClientRequest::History(HistoryRequest::Get(GetHistoryRequest(job)));
    assert_eq!(bench.status_of("bob", asked), Status::Refused, "it names files");
    assert_eq!(bench.status_of("ann", tell(JobId(1), history(1))), Status::NotFound);
}

#[test]
fn of_many_histories_the_oldest_is_forgotten() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let mut jobs = Vec::new();
    for number in 0..=200 {
        let job = admit(&mut bench, "ann");
        bench.done("ann", tell(job, history(number)));
        bench.advance(seconds(1));
        jobs.push(job);
    }
    bench.restart_master();
    assert_eq!(of(&mut bench, "ann", jobs[0]), None);
    assert_eq!(of(&mut bench, "ann", jobs[1]), Some(history(1)));
    assert_eq!(of(&mut bench, "ann", jobs[200]), Some(history(200)));
}

#[test]
fn why_a_history_is_not_known_follows_from_what_became_of_the_job() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let why = |bench: &mut Bench, job| {
        let asked = ClientRequest::History(HistoryRequest::Get(GetHistoryRequest(job)));
        let ClientReply::Refused(refusal) = bench.ask("ann", asked) else { panic!("it is known") };
        refusal.message
    };
    let job = admit(&mut bench, "ann");
    assert!(why(&mut bench, job).contains("it runs still"));
    bench.done("ann", ClientRequest::CancelJob(CancelJobRequest(job)));
    let cancelled = why(&mut bench, job);
    assert!(cancelled.contains("it was cancelled") && !cancelled.contains("later jobs"), "{cancelled}");
}

// Promise 18.
#[test]
fn a_node_bears_the_marks_of_the_last_hour() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1"]);
    for _ in 0..2 {
        let job = admit(&mut bench, "ann");
        bench.done("ann", tell(job, history(1)));
        bench.advance(seconds(2_000));
    }
    assert_eq!(marks(&mut bench, "n1"), NodeMarks { failed: 0, overtaken: 1 }, "the first was more than an hour ago");
    assert_eq!(marks(&mut bench, "n2"), NodeMarks::default());
}

/// The nodes that a job of `user` is told to avoid.
fn marked(bench: &mut Bench, user: &str) -> Vec<String> {
    let ClientReply::Admitted(admitted) =
        bench.ask(user, ClientRequest::AdmitJob(AdmitJobRequest { title: "count words".into(), output: None }))
    else {
        panic!("not admitted")
    };
    admitted.nodes.iter().filter(|spe| spe.is_marked).map(|spe| spe.source.node.to_string()).collect()
}

/// A job of `user` ends whose attempts failed so often at these nodes.
fn fail(bench: &mut Bench, user: &str, at: &[(&str, u32)]) {
    let job = admit(bench, user);
    let marks = at.iter().map(|(at, failed)| (node(at), NodeMarks { failed: *failed, overtaken: 0 })).collect();
    bench.done(user, tell(job, JobHistory { marks, ..history(1) }));
}

#[test]
fn a_job_hears_of_nodes_where_three_attempts_of_its_user_failed_until_that_fades() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "b/1"]);
    fail(&mut bench, "ann", &[("n1", 2)]);
    assert_eq!(marked(&mut bench, "ann"), [""; 0]);
    fail(&mut bench, "ann", &[("n1", 1)]);
    assert_eq!(marked(&mut bench, "ann"), ["n1"]);
    bench.advance(seconds(16 * 60));
    assert_eq!(marked(&mut bench, "ann"), [""; 0], "three fade within a quarter of an hour");
    fail(&mut bench, "ann", &[("n2", 1_000_000)]);
    bench.advance(seconds(40 * 60));
    assert_eq!(marked(&mut bench, "ann"), ["n2"]);
    bench.advance(seconds(6 * 60));
    assert_eq!(marked(&mut bench, "ann"), [""; 0], "many fade as well");
}

#[test]
fn one_users_word_alone_does_not_count_for_anothers_jobs() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "b/1"]);
    for _ in 0..5 {
        fail(&mut bench, "bob", &[("n1", 100)]);
    }
    assert_eq!((marked(&mut bench, "bob").len(), marked(&mut bench, "ann").len()), (1, 0));
    fail(&mut bench, "ann", &[("n1", 1)]);
    assert_eq!(marked(&mut bench, "ann"), ["n1"]);
}

#[test]
fn what_fails_everywhere_keeps_jobs_from_no_node() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "b/1", "b/1"]);
    fail(&mut bench, "ann", &[("n1", 5), ("n2", 5), ("n3", 5), ("n4", 5)]);
    assert_eq!(marked(&mut bench, "ann"), [""; 0]);
    fail(&mut bench, "ann", &[("n2", 16), ("n4", 16)]);
    assert_eq!(marked(&mut bench, "ann"), ["n2", "n4"]);
    let mut alone = Bench::with_nodes(&["a/1"]);
    fail(&mut alone, "ann", &[("n1", 5)]);
    assert_eq!(marked(&mut alone, "ann"), [""; 0]);
}
