//! Changes that are made once, however often they are asked for.

// Promise 24.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason,
    message::request::{MakeFolderRequest, OnceRequest, RemoveRequest, RenameRequest, RequestId},
};

use super::*;
use crate::actions::ANSWERS_TABLE;

fn once(id: u128, request: impl Into<ClientRequest>) -> ClientRequest {
    ClientRequest::Once(OnceRequest { id: RequestId(id), request: Box::new(request.into()) })
}

fn make(at: &str) -> MakeFolderRequest {
    MakeFolderRequest { path: path(at), parents: false }
}

fn rename(from: &str, to: &str) -> RenameRequest {
    RenameRequest { from: path(from), to: path(to) }
}

fn answers(bench: &Bench) -> usize {
    bench.rows.keys().filter(|(table, _)| *table == ANSWERS_TABLE).count()
}

#[test]
fn a_change_that_is_asked_for_again_is_answered_as_the_first_time_and_not_made_again() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", once(1, make("/a")));
    bench.done("ann", once(2, rename("/a", "/b")));
    // Meanwhile somebody else makes it: a second rename would replace nothing, but would succeed.
    bench.done("ann", make("/a").into());
    bench.login("ann", [192, 0, 2, 7].into());
    bench.done("ann", once(2, rename("/a", "/b")));
    assert!(bench.exists("/a") && bench.exists("/b"));
    // Under another number it is another change.
    assert_eq!(bench.status_of("ann", once(3, make("/a"))), Status::Exists);
    // Numbers of two users have nothing to do with each other.
    assert_eq!(bench.status_of("bob", once(1, make("/a"))), Status::Exists);
}

#[test]
fn an_answer_outlives_the_master_with_its_change_or_not_at_all() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", once(1, make("/a")));
    bench.saves = false;
    let unsaved = bench.ask_later("ann", once(2, make("/b")));
    bench.restart_master();
    bench.saves = true;
    assert_eq!(bench.answer(unsaved), None);
    bench.done("ann", once(1, make("/a")));
    // It was lost with its answer, so it is made now.
    bench.done("ann", once(2, make("/b")));
    bench.restart_master();
    bench.done("ann", once(2, make("/b")));
    assert!(bench.exists("/b"));
}

// Promise 37.
#[test]
fn while_the_journals_disk_is_full_changes_are_refused_and_reads_answered() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", once(1, make("/a")));
    bench.saves = false;
    let (first, read) = (
        bench.ask_later("ann", once(2, make("/b"))),
        bench.ask_later("ann", ClientRequest::Stat(StatRequest(path("/a")))),
    );
    bench.master.note_journal_full();
    bench.run();
    for number in [first, read] {
        let answer = bench.answer(number);
        let Some(ClientReply::Refused(refusal)) = answer else { panic!("{answer:?}") };
        assert!(refusal.reason == Reason::NoSpace && refusal.message.contains("make room"), "{refusal}");
    }
    let refusal = bench.refused("ann", once(3, make("/c")));
    assert!(refusal.reason == Reason::NoSpace && refusal.message.contains("disk of the master is full"), "{refusal}");
    assert!(bench.exists("/a") && !bench.exists("/c"));
    assert!(bench.health().reasons.iter().any(|reason| reason.contains("disk of the master is full")));
    // There is room: what waited is saved, and nobody need do anything.
    bench.saves = true;
    bench.save_all();
    bench.run();
    assert!(bench.health().reasons.iter().all(|reason| !reason.contains("is full")));
    bench.done("ann", once(3, make("/c")));
    bench.restart_master();
    assert!(bench.exists("/b") && bench.exists("/c"));
}

#[test]
fn who_asks_last_is_answered_while_the_change_is_still_being_saved() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.saves = false;
    let first = bench.ask_later("ann", once(1, make("/a")));
    let again = bench.ask_later("ann", once(1, make("/a")));
    assert_eq!((bench.answer(first), bench.answer(again)), (None, None), "nothing is told before it is saved");
    bench.save_all();
    bench.run();
    assert_eq!(bench.answer(again), Some(ClientReply::Done));
}

#[test]
fn a_publication_that_is_asked_for_again_comes_once_for_both() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    let commit = || once(1, CommitRequest { lease: created.lease, bytes: 5, digest: digest(5) });
    let first = bench.ask_later("ann", commit());
    bench.login("ann", [192, 0, 2, 7].into());
    let again = bench.ask_later("ann", commit());
    bench.write(&created, 5);
    bench.run();
    assert_eq!(bench.answer(first), None, "the session of the first is gone");
    assert!(matches!(bench.answer(again), Some(ClientReply::Entry(_))));
    bench.restart_master();
    assert!(matches!(bench.ask("ann", commit()), ClientReply::Entry(entry) if entry.path == path("/f")));
}

#[test]
fn a_refusal_changed_nothing_and_is_not_remembered() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let remove = || RemoveRequest { path: path("/a"), recursive: false, now: true };
    assert_eq!(bench.status_of("ann", once(1, remove())), Status::NotFound);
    bench.done("ann", make("/a").into());
    bench.done("ann", once(1, remove()));
    assert_eq!(bench.status_of("ann", once(4, once(5, remove()))), Status::Usage);
}

#[test]
fn an_answer_is_forgotten_with_its_row_after_some_minutes() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", once(1, make("/a")));
    bench.done("ann", once(2, make("/b")));
    assert_eq!(answers(&bench), 2);
    bench.advance(seconds(301));
    bench.done("ann", once(3, make("/c")));
    assert_eq!(answers(&bench), 1);
    assert_eq!(bench.status_of("ann", once(1, make("/a"))), Status::Exists);
}
