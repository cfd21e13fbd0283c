//! What drivers tell of their functions' output.

#![allow(clippy::unwrap_used)]

use protocol::{
    JobId, limits,
    message::{
        history::{HistoryRequest, JobLogs, SegmentLog},
        request::{AddLogsRequest, AdmitJobRequest, GetLogsRequest},
        spe::SegmentOutput,
    },
};

use super::*;
use crate::{actions::LOGS_TABLE, jobs::job_logs::LOGS_MAX};

fn admit(bench: &mut Bench, user: &str) -> JobId {
    match bench.ask(user, ClientRequest::AdmitJob(AdmitJobRequest { title: "count words".into(), output: None })) {
        ClientReply::Admitted(admitted) => admitted.job,
        other => panic!("{other:?}"),
    }
}

fn log(segment: u64, attempt: u32, text: &str) -> SegmentLog {
    let output = SegmentOutput { segment: Some(segment), first: text.into(), ..SegmentOutput::default() };
    SegmentLog { stage: 0, epoch: 0, attempt, node: node("n1"), failed: false, output }
}

fn add(job: JobId, segments: Vec<SegmentLog>) -> ClientRequest {
    let logs = JobLogs { segments, left_out: 0 };
    ClientRequest::History(HistoryRequest::AddLogs(AddLogsRequest { job, logs }))
}

fn get(job: JobId) -> ClientRequest {
    ClientRequest::History(HistoryRequest::GetLogs(GetLogsRequest(job)))
}

fn of(bench: &mut Bench, user: &str, job: JobId) -> JobLogs {
    match bench.ask(user, get(job)) {
        ClientReply::Logs(logs) => logs,
        other => panic!("{other:?}"),
    }
}

fn texts(logs: &JobLogs) -> Vec<(u64, u32, String)> {
    let text = |log: &SegmentLog| (log.output.segment.unwrap(), log.attempt, log.output.text());
    logs.segments.iter().map(text).collect()
}

fn rows(bench: &Bench) -> usize {
    bench.rows.keys().filter(|(table, _)| *table == LOGS_TABLE).count()
}

#[test]
fn a_log_grows_while_its_job_runs_and_is_kept_over_a_restart() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann");
    assert_eq!(of(&mut bench, "ann", job), JobLogs::default());
    bench.done("ann", add(job, vec![log(7, 0, "seven"), log(2, 0, "two")]));
    bench.done("ann", add(job, vec![log(7, 1, "again")]));
    // Sent twice, or by an attempt that was overtaken.
    bench.done("ann", add(job, vec![log(7, 1, "again"), log(7, 0, "seven")]));
    assert_eq!(rows(&bench), 2);
    for _ in 0..2 {
        let found = of(&mut bench, "admin", job);
        assert_eq!(texts(&found), [(2, 0, "two".to_owned()), (7, 1, "again".to_owned())]);
        bench.restart_master();
    }
}

#[test]
fn a_log_is_told_and_shown_only_for_a_job_of_ones_own() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann");
    assert_eq!(bench.status_of("bob", add(job, vec![log(1, 0, "x")])), Status::Refused);
    bench.done("ann", add(job, vec![log(1, 0, "secret")]));
    assert_eq!(bench.status_of("bob", get(job)), Status::Refused, "functions print what is in files");
    assert_eq!(bench.status_of("ann", get(JobId(1))), Status::NotFound);
}

#[test]
fn a_driver_that_tells_without_end_fills_a_bounded_part_of_journal_and_memory() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann");
    let long = "x".repeat(limits::SEGMENT_LOG_BYTES_MAX);
    for attempt in 0..100 {
        // The same segment, so that each replaces the one before.
        bench.done("ann", add(job, vec![log(1, attempt, &long)]));
    }
    let bytes = |bench: &Bench| {
        bench.rows.iter().filter(|((table, _), _)| *table == LOGS_TABLE).map(|(_, row)| row.len()).sum::<usize>()
    };
    let of_successes = limits::JOB_LOG_BYTES_MAX - limits::JOB_LOG_BYTES_OF_FAILED;
    assert!(bytes(&bench) <= of_successes, "{}", bytes(&bench));
    let before = of(&mut bench, "ann", job).left_out;
    assert!(before > 60, "{before}");
    // There is room for failures, and none for what is longer than it may be.
    let too_long = SegmentLog { failed: true, ..log(2, 0, &format!("{long}x")) };
    let failure = SegmentLog { failed: true, ..log(3, 0, &long) };
    bench.done("ann", add(job, vec![too_long, failure]));
    bench.restart_master();
    let after = of(&mut bench, "ann", job);
    assert_eq!(after.segments.iter().map(|log| log.output.segment.unwrap()).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(after.left_out, before + 1);
    // Nor does a count that cannot be true do harm.
    let logs = JobLogs { segments: vec![log(4, 0, &format!("{long}x"))], left_out: u64::MAX };
    bench.done("ann", ClientRequest::History(HistoryRequest::AddLogs(AddLogsRequest { job, logs })));
    assert_eq!(of(&mut bench, "ann", job).left_out, u64::MAX);
}

#[test]
fn of_many_logs_the_oldest_of_who_has_most_is_forgotten_with_its_rows() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let bobs = admit(&mut bench, "bob");
    bench.done("bob", add(bobs, vec![log(1, 0, "bob")]));
    let mut jobs = Vec::new();
    for _ in 0..LOGS_MAX {
        bench.advance(seconds(1));
        let job = admit(&mut bench, "ann");
        bench.done("ann", add(job, vec![log(1, 0, "x")]));
        jobs.push(job);
    }
    bench.restart_master();
    assert_eq!(of(&mut bench, "ann", jobs[0]), JobLogs::default());
    assert_eq!(of(&mut bench, "ann", jobs[1]).segments.len(), 1);
    assert_eq!(of(&mut bench, "bob", bobs).segments.len(), 1);
    assert_eq!(rows(&bench), LOGS_MAX);
}
