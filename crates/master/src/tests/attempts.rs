//! Uploads that go on where an earlier attempt broke off, and those that go on behind what a file has.

#![allow(clippy::unwrap_used)]

use protocol::{
    RecordFraming, ResumeKey, limits,
    message::{
        node_master::HeldPartial,
        request::{AbandonRequest, RenameRequest, RenewRequest},
    },
};

use super::*;

fn with_key(at: &str, key: u128) -> CreateRequest {
    CreateRequest { resume: Some(ResumeKey(key)), ..create(at) }
}

fn append(at: &str) -> CreateRequest {
    CreateRequest { append: true, ..create(at) }
}

/// What a write ticket says may be there already.
fn write_from(source: &Source) -> (Option<ResumeKey>, Option<SliceId>) {
    match read_ticket(&source.ticket).right {
        TicketRight::Write { resume, base, .. } => (resume, base),
        other => panic!("{other:?}"),
    }
}

// Promise 3.
#[test]
fn the_next_attempt_of_a_killed_client_takes_its_lease_and_goes_to_the_same_node() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1"]);
    let first = bench.created("ann", with_key("/f", 1));
    assert_eq!(write_from(&first.target), (Some(ResumeKey(1)), None));
    assert_eq!(write_from(&first.chain[0]), (None, None), "only the first node keeps what breaks off");
    // Others, and other uploads of the same user, wait as ever.
    assert_eq!(bench.status_of("bob", ClientRequest::Create(with_key("/f", 1))), Status::Refused);
    assert_eq!(bench.status_of("ann", ClientRequest::Create(with_key("/f", 2))), Status::Refused);
    assert_eq!(bench.status_of("ann", ClientRequest::Create(create("/f"))), Status::Refused);
    for _ in 0..5 {
        let again = bench.created("ann", with_key("/f", 1));
        assert!(again.lease != first.lease && again.slice != first.slice);
        assert_eq!((&again.target.node, again.chain.len()), (&first.target.node, 0));
    }
    assert_eq!(
        bench.status_of("ann", ClientRequest::Renew(RenewRequest(first.lease))),
        Status::NotFound,
        "the first has lost"
    );

    let last = bench.created("ann", with_key("/f", 1));
    bench.write(&last, 10);
    let number = bench.commit_later("ann", last.lease, 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.holders(last.slice).len(), 2, "the second copy was fetched");
    assert_eq!(bench.created("ann", with_key("/f", 1)).chain.len(), 1, "and then all begins anew");
}

#[test]
fn a_commit_that_waits_is_told_that_another_attempt_took_its_place() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let first = bench.created("ann", with_key("/f", 1));
    bench.write_to_target(&first, 10);
    let number = bench.commit_later("ann", first.lease, 10);
    bench.created("ann", with_key("/f", 1));
    let Some(ClientReply::Refused(refusal)) = bench.answer(number) else { panic!("not refused") };
    assert!(refusal.status() == Status::Refused && refusal.message.contains("again"), "{refusal}");
    assert!(bench.holders(first.slice).is_empty());
}

#[test]
fn an_upload_that_was_given_up_is_remembered_for_as_long_as_nodes_keep_its_bytes() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1"]);
    let attempt = |bench: &mut Bench| {
        let created = bench.created("ann", with_key("/f", 1));
        bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
        (created.target.node.clone(), created.chain.is_empty())
    };
    let (there, _) = attempt(&mut bench);
    bench.advance(limits::PARTIAL_LIFE - seconds(60));
    assert_eq!(attempt(&mut bench), (there, true));
    bench.advance(limits::PARTIAL_LIFE + seconds(60));
    assert!(!attempt(&mut bench).1, "a fresh start has a chain");
}

#[test]
fn an_attempt_waits_a_moment_for_the_node_with_its_bytes_and_then_begins_elsewhere() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let first = bench.created("ann", with_key("/f", 1));
    let there = first.target.node.to_string();
    bench.crash(&there);
    bench.advance(seconds(12));
    let refusal = bench.refused("ann", ClientRequest::Create(with_key("/f", 1)));
    assert!(refusal.status() == Status::Unavailable && refusal.message.contains(&there), "{refusal}");
    bench.join(&there);
    assert_eq!(bench.created("ann", with_key("/f", 1)).target.node, first.target.node);
    bench.crash(&there);
    bench.advance(seconds(12));
    bench.refused("ann", ClientRequest::Create(with_key("/f", 1)));
    bench.advance(seconds(6));
    assert_ne!(bench.created("ann", with_key("/f", 1)).target.node, first.target.node);
}

#[test]
fn a_new_master_learns_from_the_nodes_where_broken_uploads_lie() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1"]);
    let user = UserName::new("ann").unwrap();
    let partial = |key| HeldPartial { user: user.clone(), key: ResumeKey(key), bytes: 1 << 20 };
    bench.report("n3", Report::Partials(vec![partial(1), partial(2)]));
    bench.report("n4", Report::Partials(vec![partial(2)]));
    assert_eq!(bench.created("ann", with_key("/f", 1)).target.node, node("n3"));
    assert_eq!(bench.created("ann", with_key("/g", 2)).target.node, node("n3"));
    assert_eq!(bench.created("bob", with_key("/h", 1)).chain.len(), 1, "they are ann's");
}

#[test]
fn an_append_goes_to_the_nodes_that_have_the_file_and_keeps_what_it_was() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1"]);
    let request = CreateRequest {
        records: RecordFraming::Lines,
        user: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        copies: Some(2),
        ..create("/f")
    };
    let old = content(&bench.put("ann", request, 300)).clone();
    let holders = bench.holders(old.slice);
    let created = bench.created("ann", append("/f"));
    assert_eq!(created.base_bytes, 300);
    for source in std::iter::once(&created.target).chain(&created.chain) {
        assert_eq!(write_from(source), (None, Some(old.slice)));
        assert!(holders.contains(&source.node.to_string()), "{} of {holders:?}", source.node);
    }
    assert_eq!(created.chain.len(), 1);
    assert_eq!(bench.status_of("bob", ClientRequest::Create(append("/f"))), Status::Refused, "one at a time");
    bench.write(&created, 310);
    let number = bench.commit_later("ann", created.lease, 310);
    let Some(ClientReply::Entry(entry)) = bench.answer(number) else { panic!("not committed") };
    let new = content(&entry);
    assert_eq!((new.bytes, new.records, &new.user, new.copies), (310, old.records, &old.user, 2));
    assert!(new.version > old.version);
    assert!(bench.holders(old.slice).is_empty(), "the old content is gone");
}

// Promise 7.
#[test]
fn an_append_to_a_file_that_changed_meanwhile_is_refused() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/f"), 10);
    bench.put("ann", create("/g"), 20);
    let created = bench.created("ann", append("/f"));
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/g"), to: path("/f") }));
    bench.write(&created, 15);
    let number = bench.commit_later("ann", created.lease, 15);
    assert!(matches!(bench.answer(number), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Refused));
    assert_eq!(content(&bench.stat("/f").entry).bytes, 20);
    assert!(bench.holders(created.slice).is_empty());
}

// Promise 7.
#[test]
fn an_append_creates_a_missing_file_and_never_replaces_one_that_came_meanwhile() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/g"), 20);
    let created = bench.created("ann", append("/f"));
    assert_eq!((created.base_bytes, write_from(&created.target)), (0, (None, None)));
    bench.write(&created, 5);
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/g"), to: path("/f") }));
    let number = bench.commit_later("ann", created.lease, 5);
    assert!(matches!(bench.answer(number), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Exists));
    assert_eq!(content(&bench.put("ann", append("/new"), 7)).bytes, 7);
}

#[test]
fn an_append_needs_a_good_copy_at_a_node_with_room_for_the_whole() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { copies: Some(1), at: Some(node("n1")), ..create("/f") }, 300);
    bench.node_mut("n1").free_bytes = 1_350;
    bench.advance(seconds(1));
    let refusal = bench.refused("ann", ClientRequest::Create(append("/f")));
    assert!(refusal.status() == Status::Unavailable && refusal.message.contains("/f"), "{refusal}");
    bench.node_mut("n1").free_bytes = 1_400;
    bench.advance(seconds(1));
    let created = bench.created("ann", append("/f"));
    assert_eq!(created.target.node, node("n1"));
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
    bench.crash("n1");
    bench.advance(seconds(12));
    assert_eq!(bench.status_of("ann", ClientRequest::Create(append("/f"))), Status::Unavailable);
}
