//! Detached jobs: driven by one node after the other.

#![allow(clippy::unwrap_used)]

use protocol::{
    JobId,
    message::{
        client_master::{Admitted, DriverKey, JobRecord, JobState},
        node_master::DriveOrder,
        request::{
            AdmitJobRequest, CancelJobRequest, DetachJobRequest, JobRequest, MakeFolderRequest, ReportJobRequest,
        },
    },
};

use super::*;

const KEYS: [DriverKey; 3] = [DriverKey([1; 32]), DriverKey([2; 32]), DriverKey([3; 32])];

/// A job of ann's that is driven by a node.
fn detached(bench: &mut Bench) -> JobId {
    let admitted = bench.ask("ann", ClientRequest::AdmitJob(AdmitJobRequest { title: "sort".into(), output: None }));
    let ClientReply::Admitted(Admitted { job, .. }) = admitted else { panic!("{admitted:?}") };
    bench.done("ann", detach(job, &KEYS));
    job
}

fn detach(job: JobId, keys: &[DriverKey]) -> ClientRequest {
    ClientRequest::DetachJob(DetachJobRequest {
        job,
        journal: "/.sphere-journal".parse().unwrap(),
        keys: keys.to_vec(),
    })
}

fn job(bench: &mut Bench, job: JobId) -> JobRecord {
    match bench.ask("ann", ClientRequest::Job(JobRequest(job))) {
        ClientReply::Jobs(jobs) => jobs[0].clone(),
        other => panic!("{other:?}"),
    }
}

fn report(bench: &mut Bench, job: JobId, state: JobState) {
    let record = JobRecord { state, ..self::job(bench, job) };
    assert!(matches!(bench.ask("ann", ClientRequest::ReportJob(ReportJobRequest(record))), ClientReply::Admitted(_)));
}

/// The nodes that were told to drive, with their keys, in the order of the nodes.
fn told(bench: &Bench, ids: &[&str]) -> Vec<(String, DriverKey)> {
    let of = |id: &&str| {
        let drives = bench.node(id).orders.iter().filter_map(|order| match order {
            Order::Drive(DriveOrder { key, .. }) => Some(((*id).to_owned(), *key)),
            _ => None,
        });
        drives.collect::<Vec<_>>()
    };
    ids.iter().flat_map(of).collect()
}

/// Opens a session for the driver that has this key.
fn come_in_to_drive(bench: &mut Bench, session: SessionId, id: JobId, key: DriverKey) {
    let known = bench.master.driver_session(id, key).unwrap();
    let known = KnownUser { rights: rights_of("ann"), credential: known.credential, until_unix_millis: None };
    let address = [192, 0, 2, 7].into();
    let join = ClientJoin { user: known, address, holder: HolderKey([7; 32]), proved_from: address, drives: Some(id) };
    bench.master.open_client_session(bench.now, session, join);
    bench.clients.insert("driver".into(), session);
}

#[test]
fn a_detached_job_is_driven_by_a_node_in_the_name_of_its_user() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let id = detached(&mut bench);
    let driver = job(&mut bench, id).driver.unwrap();
    assert_eq!(told(&bench, &["n1", "n2"]), [(driver.to_string(), KEYS[0])]);
    let held = bench.master.driver_session(id, KEYS[0]).unwrap();
    assert_eq!(held.user.as_str(), "ann");
    for wrong in [KEYS[1], DriverKey([9; 32])] {
        assert_eq!(bench.master.driver_session(id, wrong).unwrap_err().status(), Status::Refused);
    }
    assert_eq!(bench.master.driver_session(JobId(7), KEYS[0]).unwrap_err().status(), Status::Refused);
}

#[test]
fn who_cancels_a_job_that_nobody_drives_leaves_no_journal_and_loses_nothing_else() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for (journal, stays) in [(None, false), (Some("/mine"), true)] {
        let admitted =
            bench.ask("ann", ClientRequest::AdmitJob(AdmitJobRequest { title: "sort".into(), output: None }));
        let ClientReply::Admitted(Admitted { job: id, .. }) = admitted else { panic!("{admitted:?}") };
        let at = journal.map_or_else(|| format!("/.sphere-{id}-journal"), str::to_owned);
        bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path(&at), parents: false }));
        let page = bench.put("ann", create(&format!("{at}/head")), 10);
        let keys = KEYS.to_vec();
        bench.done("ann", ClientRequest::DetachJob(DetachJobRequest { job: id, journal: path(&at), keys }));
        bench.restart_master();
        bench.join("n1");
        bench.done("ann", ClientRequest::CancelJob(CancelJobRequest(id)));
        assert_eq!((bench.exists(&at), job(&mut bench, id).state), (stays, JobState::Cancelled));
        bench.advance(seconds(5));
        assert_eq!(bench.holders(content(&page).slice).is_empty(), !stays);
    }
}

#[test]
fn a_driver_that_reports_stays_and_a_silent_one_is_replaced_and_put_out() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let id = detached(&mut bench);
    let first = job(&mut bench, id).driver.unwrap();
    for _ in 0..5 {
        bench.advance(seconds(9));
        report(&mut bench, id, JobState::Running);
    }
    assert_eq!(job(&mut bench, id).driver.as_ref(), Some(&first));
    let session = SessionId(4_711);
    come_in_to_drive(&mut bench, session, id, KEYS[0]);
    assert!(bench.master.peer(session).is_some());
    bench.advance(seconds(12));
    let second = job(&mut bench, id).driver.unwrap();
    assert_ne!(first, second, "another node takes over");
    assert_eq!(
        told(&bench, &[first.as_str(), second.as_str()]),
        [(first.to_string(), KEYS[0]), (second.to_string(), KEYS[1])]
    );
    assert!(bench.master.peer(session).is_none(), "the old driver can say nothing any more");
    assert!(bench.master.driver_session(id, KEYS[0]).is_err() && bench.master.driver_session(id, KEYS[1]).is_ok());
    assert_eq!(job(&mut bench, id).state, JobState::Running);
}

#[test]
fn what_an_old_driver_was_writing_keeps_no_new_one_from_the_same_path() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let id = detached(&mut bench);
    come_in_to_drive(&mut bench, SessionId(4_711), id, KEYS[0]);
    bench.created("driver", create("/part"));
    bench.created("ann", create("/other"));
    bench.advance(seconds(12));
    come_in_to_drive(&mut bench, SessionId(4_712), id, KEYS[1]);
    bench.created("driver", create("/part"));
    // What the same user writes otherwise goes on.
    assert_eq!(bench.status_of("ann", ClientRequest::Create(create("/other"))), Status::Refused);
}

// Promise 23.
#[test]
fn a_job_without_keys_left_is_given_up_and_one_that_ended_lets_nobody_in() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let id = detached(&mut bench);
    // Three drivers that never come: the second has twice as long as the first, the third twice as long as that.
    bench.advance(seconds(60));
    assert_eq!(job(&mut bench, id).state, JobState::Running);
    assert!(bench.master.driver_session(id, KEYS[2]).is_ok());
    bench.advance(seconds(15));
    let lost = job(&mut bench, id);
    assert_eq!((lost.state, lost.driver), (JobState::Lost, None));
    let done = detached(&mut bench);
    report(&mut bench, done, JobState::Done);
    for (id, key) in [(id, KEYS[2]), (done, KEYS[0])] {
        assert_eq!(bench.master.driver_session(id, key).unwrap_err().status(), Status::Refused);
    }
}

// Promise 23.
#[test]
fn a_master_that_starts_again_knows_its_drivers_and_uses_no_key_twice() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let id = detached(&mut bench);
    bench.restart_master();
    bench.join("n1");
    bench.join("n2");
    assert!(bench.master.driver_session(id, KEYS[0]).is_ok(), "it may come in again");
    report(&mut bench, id, JobState::Running);
    bench.advance(seconds(12));
    assert!(bench.master.driver_session(id, KEYS[0]).is_err() && bench.master.driver_session(id, KEYS[1]).is_ok());
}

#[test]
fn what_cannot_be_detached_is_refused() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let id = detached(&mut bench);
    assert_eq!(bench.status_of("ann", detach(id, &KEYS)), Status::Refused);
    assert_eq!(bench.status_of("bob", detach(id, &KEYS)), Status::Refused);
    assert_eq!(bench.status_of("ann", detach(JobId(3), &KEYS)), Status::NotFound);
    let admitted = bench.ask("ann", ClientRequest::AdmitJob(AdmitJobRequest { title: "t".into(), output: None }));
    let ClientReply::Admitted(Admitted { job, .. }) = admitted else { panic!("{admitted:?}") };
    assert_eq!(bench.status_of("ann", detach(job, &[])), Status::Usage);
    assert_eq!(bench.status_of("ann", detach(job, &[KEYS[0]; 17])), Status::Usage);
    bench.crash("n1");
    bench.advance(seconds(15));
    assert_eq!(bench.status_of("ann", detach(job, &KEYS)), Status::Unavailable);
}
