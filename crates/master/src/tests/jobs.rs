//! Jobs: admitted, reported, cancelled, given up.

#![allow(clippy::unwrap_used)]

use protocol::{
    Counters, JobId, Topology,
    message::{
        client_master::{Admitted, JobRecord, JobState, SiteLink, StageRecord},
        request::{AdmitJobRequest, CancelJobRequest, FindJobsRequest, JobRequest, JobsRequest, ReportJobRequest},
    },
    topology::{Link, SitePair},
};

use super::*;

fn admit(bench: &mut Bench, user: &str) -> Admitted {
    match bench.ask(user, ClientRequest::AdmitJob(AdmitJobRequest { title: "count words".into(), output: None })) {
        ClientReply::Admitted(admitted) => admitted,
        other => panic!("{other:?}"),
    }
}

fn counters(stage: u32, names: u32) -> Counters {
    let mut counters = Counters::new();
    (0..names).for_each(|name| counters.add(&format!("{stage}.{name}"), 1).unwrap());
    counters
}

fn record(job: JobId, state: JobState) -> JobRecord {
    JobRecord {
        job,
        user: UserName::new("nobody").unwrap(),
        title: "another title".into(),
        state,
        started_unix_millis: 0,
        stages: vec![StageRecord { segments: 4, done: 2, ..StageRecord::default() }],
        errors: vec!["e".repeat(10_000)],
        error_slice: None,
        counters: (0..9).map(|stage| counters(stage, 63)).collect(),
        driver: None,
    }
}

fn report(bench: &mut Bench, user: &str, job: JobId, state: JobState) -> ClientReply {
    bench.ask(user, ClientRequest::ReportJob(ReportJobRequest(record(job, state))))
}

fn state(bench: &mut Bench, job: JobId) -> JobState {
    match bench.ask("bob", ClientRequest::Job(JobRequest(job))) {
        ClientReply::Jobs(jobs) => jobs[0].state,
        other => panic!("{other:?}"),
    }
}

fn forgotten_by(bench: &Bench, id: &str, job: JobId) -> bool {
    bench.node(id).orders.contains(&Order::ForgetJob(job))
}

#[test]
fn an_admitted_job_is_told_what_links_between_its_sites_carry() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1"]);
    let mut topology = Topology::default();
    let limit = |bytes| Link { distance_millis: None, limit_bytes_per_second: Some(bytes) };
    topology.set_link(SitePair::new("b", "a"), limit(1_000_000)).unwrap();
    topology.set_link(SitePair::new("b", "elsewhere"), limit(2_000_000)).unwrap();
    topology.set_link(SitePair::new("c", "d"), limit(3_000_000)).unwrap();
    bench.master.set_topology(bench.now, None, topology);
    bench.run();
    bench.crash("n4");
    bench.advance(seconds(12));
    let admitted = admit(&mut bench, "ann");
    let link = SiteLink { a: "a".into(), b: "b".into(), bytes_per_second: 1_000_000 };
    assert_eq!(admitted.links, [link]);
    let ClientReply::Admitted(fresh) = report(&mut bench, "ann", admitted.job, JobState::Running) else {
        panic!("refused")
    };
    assert_eq!(fresh.links, [], "it has them");
}

#[test]
fn an_admitted_job_gets_tickets_for_the_nodes_that_are_up() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.crash("n2");
    bench.advance(seconds(12));
    let admitted = admit(&mut bench, "ann");
    let nodes: Vec<_> = admitted.nodes.iter().map(|spe| spe.source.node.to_string()).collect();
    assert_eq!(nodes, ["n1", "n3"]);
    for spe in &admitted.nodes {
        let ticket = read_ticket(&spe.source.ticket);
        assert_eq!((spe.slots, ticket.right), (2, TicketRight::Compute { job: admitted.job }));
        assert_eq!((ticket.node, ticket.user.as_str()), (spe.source.node.clone(), "ann"));
    }
}

#[test]
fn a_report_keeps_what_the_master_knows_and_renews_the_tickets() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let started = bench.now.unix_millis;
    let job = admit(&mut bench, "ann").job;
    bench.advance(seconds(30));
    let ClientReply::Admitted(fresh) = report(&mut bench, "ann", job, JobState::Running) else { panic!("refused") };
    let until = read_ticket(&fresh.nodes[0].source.ticket).until_unix_millis;
    assert_eq!(until, bench.now.unix_millis + 60_000);
    let ClientReply::Jobs(jobs) = bench.ask("ann", ClientRequest::Jobs(JobsRequest)) else { panic!("no jobs") };
    assert_eq!((jobs[0].user.as_str(), jobs[0].title.as_str()), ("ann", "count words"));
    assert_eq!((jobs[0].started_unix_millis, jobs[0].stages[0].done), (started, 2));
    assert_eq!(jobs[0].errors[0].len(), 4_096);
    let names: usize = jobs[0].counters.iter().map(Counters::len).sum();
    assert_eq!((jobs[0].counters.len(), names), (4, 252), "no more counters are kept than a job may have");
}

#[test]
fn a_finished_job_is_forgotten_by_its_nodes_and_reported_no_more() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let job = admit(&mut bench, "ann").job;
    assert!(matches!(report(&mut bench, "ann", job, JobState::Done), ClientReply::Admitted(_)));
    assert_eq!(state(&mut bench, job), JobState::Done);
    assert!(forgotten_by(&bench, "n1", job) && forgotten_by(&bench, "n2", job));
    let again = bench.status_of("ann", ClientRequest::ReportJob(ReportJobRequest(record(job, JobState::Running))));
    assert_eq!(again, Status::Failed);
}

#[test]
fn a_cancelled_job_is_told_so_at_its_next_report() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann").job;
    assert_eq!(bench.status_of("bob", ClientRequest::CancelJob(CancelJobRequest(job))), Status::Refused);
    assert_eq!(
        bench.status_of("bob", ClientRequest::ReportJob(ReportJobRequest(record(job, JobState::Done)))),
        Status::Refused
    );
    assert_eq!(state(&mut bench, job), JobState::Running);
    bench.done("admin", ClientRequest::CancelJob(CancelJobRequest(job)));
    assert!(forgotten_by(&bench, "n1", job));
    let refusal = bench.refused("ann", ClientRequest::ReportJob(ReportJobRequest(record(job, JobState::Running))));
    assert!(refusal.status() == Status::Failed && refusal.message.contains("was cancelled"), "{refusal}");
    assert_eq!(state(&mut bench, job), JobState::Cancelled);
    assert_eq!(bench.status_of("ann", ClientRequest::CancelJob(CancelJobRequest(job))), Status::Refused);
    assert_eq!(bench.status_of("ann", ClientRequest::Job(JobRequest(JobId(1)))), Status::NotFound);
}

// Promise 23.
#[test]
fn a_job_whose_driver_is_silent_is_given_up() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann").job;
    bench.advance(seconds(50));
    report(&mut bench, "ann", job, JobState::Running);
    bench.advance(seconds(50));
    assert_eq!(state(&mut bench, job), JobState::Running);
    bench.advance(seconds(15));
    assert_eq!(state(&mut bench, job), JobState::Lost);
    assert!(forgotten_by(&bench, "n1", job));
}

#[test]
fn jobs_are_listed_newest_first_and_the_oldest_are_forgotten() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let running = admit(&mut bench, "ann").job;
    let mut ended = Vec::new();
    for _ in 0..1_001 {
        bench.now.unix_millis += 1;
        let job = admit(&mut bench, "ann").job;
        report(&mut bench, "ann", job, JobState::Failed);
        ended.push(job);
    }
    assert_eq!(state(&mut bench, running), JobState::Running);
    assert_eq!(bench.status_of("ann", ClientRequest::Job(JobRequest(ended[0]))), Status::NotFound);
    assert_eq!(bench.rows.keys().filter(|(table, _)| *table == "jobs").count(), 1_000);
    let reply = bench.ask("ann", ClientRequest::Jobs(JobsRequest));
    assert!(codec::encode(&reply).len() <= protocol::limits::MESSAGE_BYTES_MAX);
    let ClientReply::Jobs(jobs) = reply else { panic!("no jobs") };
    assert_eq!(jobs[0].job, *ended.last().unwrap());
}

#[test]
fn a_job_goes_on_when_the_master_starts_again() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = admit(&mut bench, "ann").job;
    let ended = admit(&mut bench, "ann").job;
    report(&mut bench, "ann", ended, JobState::Done);
    bench.restart_master();
    bench.join("n1");
    assert!(matches!(report(&mut bench, "ann", job, JobState::Running), ClientReply::Admitted(_)));
    assert_eq!(state(&mut bench, ended), JobState::Done);
    bench.advance(seconds(70));
    assert_eq!(state(&mut bench, job), JobState::Lost);
}

#[test]
fn no_job_is_admitted_where_no_node_is_up() {
    let mut bench = Bench::new(config(), 1);
    assert_eq!(
        bench.status_of("ann", ClientRequest::AdmitJob(AdmitJobRequest { title: String::new(), output: None })),
        Status::Unavailable
    );
}

#[test]
fn jobs_are_found_by_user_and_state_behind_more_than_a_message_holds() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let old = admit(&mut bench, "bob").job;
    report(&mut bench, "bob", old, JobState::Failed);
    for _ in 0..200 {
        bench.now.unix_millis += 1;
        let job = admit(&mut bench, "ann").job;
        report(&mut bench, "ann", job, JobState::Done);
    }
    let mut found = |user: Option<&str>, state| {
        let user = user.map(|name| UserName::new(name).unwrap());
        let ClientReply::Jobs(jobs) = bench.ask("bob", ClientRequest::FindJobs(FindJobsRequest { user, state })) else {
            panic!("no jobs")
        };
        jobs.iter().map(|record| record.job).collect::<Vec<_>>()
    };
    let all = found(None, None);
    assert!(all.len() < 201 && !all.contains(&old), "{} jobs in one message", all.len());
    assert_eq!(found(Some("bob"), None), [old]);
    assert_eq!(found(None, Some(JobState::Failed)), [old]);
    assert!(found(Some("bob"), Some(JobState::Done)).is_empty());
}
