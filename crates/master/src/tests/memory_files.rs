//! Files in the memory of nodes: one copy, a day, no trash, and no alarm when they are gone.

#![allow(clippy::unwrap_used)]

use protocol::{
    Policy,
    message::request::{RemoveRequest, TrashRequest},
};

use super::{
    policies::{copies, folder, rename},
    *,
};

fn rm(at: &str) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false })
}

/// A file in memory, with the folders above it.
fn put(bench: &mut Bench, at: &str) -> Entry {
    bench.put("ann", CreateRequest { parents: true, ..create(at) }, 10)
}

// Promise 23.
#[test]
fn a_file_in_memory_has_one_copy_unless_someone_says_otherwise() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let copies_at = |bench: &mut Bench, at: &str| {
        bench.advance(seconds(5));
        let status = bench.stat(at);
        (content(&status.entry).copies, status.copies.len())
    };
    // The first of all, whose folder is made with it, and one that finds it there.
    for at in ["/memory/a", "/memory/b"] {
        put(&mut bench, at);
        assert_eq!(copies_at(&mut bench, at), (1, 1));
    }
    put(&mut bench, "/disk");
    assert_eq!(copies_at(&mut bench, "/disk"), (2, 2));
    bench.done("ann", folder("/memory/safe"));
    bench.set_policy("ann", "/memory/safe", copies(3));
    put(&mut bench, "/memory/safe/a");
    assert_eq!(copies_at(&mut bench, "/memory/safe/a"), (3, 3));
}

// Promise 23.
#[test]
fn files_in_memory_go_after_a_day_or_as_their_policy_says_and_never_to_the_trash() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for at in ["/memory/a", "/memory/long/b", "/memory/c", "/d"] {
        put(&mut bench, at);
    }
    bench.set_policy("ann", "/memory/long", Policy { lifetime_seconds: Some(10 * 86_400), ..Policy::default() });
    bench.done("ann", rm("/memory/c"));
    bench.advance(seconds(1));
    let trash = |bench: &mut Bench| match bench
        .ask("ann", ClientRequest::Trash(TrashRequest { all_users: false, after: None }))
    {
        ClientReply::Trash(page) => page.items.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((trash(&mut bench), bench.node("n1").paths().len()), (0, 3), "its memory is free at once");
    bench.sleep(Duration::from_millis(86_300_000));
    bench.advance(seconds(1));
    assert!(bench.exists("/memory/a"));
    bench.sleep(Duration::from_millis(200_000));
    bench.advance(seconds(2));
    assert!(!bench.exists("/memory/a") && bench.exists("/memory/long/b") && bench.exists("/d"));
    assert_eq!(trash(&mut bench), 0);
}

/// Neither the journal nor what is published of an output that is not complete: a job may take longer than they live.
#[test]
fn what_a_job_has_in_memory_lives_until_its_output_has_its_place() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let (part, page) = ("/memory/.sphere-7-0/part-00000", "/memory/.sphere-7-journal/00000000");
    for at in [part, page, "/memory/out/other"] {
        put(&mut bench, at);
    }
    bench.advance(seconds(1));
    bench.sleep(Duration::from_millis(86_500_000));
    bench.advance(seconds(2));
    assert!(bench.exists(part) && bench.exists(page) && !bench.exists("/memory/out/other"));
    bench.done("ann", rename("/memory/.sphere-7-0", "/memory/results"));
    bench.advance(seconds(2));
    bench.sleep(Duration::from_millis(86_500_000));
    bench.advance(seconds(2));
    assert!(!bench.exists("/memory/results/part-00000") && bench.exists(page));
}

#[test]
fn no_file_takes_the_place_of_the_folder_of_memory() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for parents in [true, false] {
        let refusal = bench.refused("ann", ClientRequest::Create(CreateRequest { parents, ..create("/memory") }));
        assert!(refusal.status() == Status::Usage && refusal.message.contains("a name below it"), "{refusal:?}");
    }
    put(&mut bench, "/memory/a");
}

#[test]
fn a_rename_does_not_cross_the_border_of_memory() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    put(&mut bench, "/memory/a");
    put(&mut bench, "/b");
    for (from, to) in [("/memory/a", "/a"), ("/b", "/memory/b"), ("/memory", "/m"), ("/b", "/memory")] {
        let refusal = bench.refused("ann", rename(from, to));
        assert_eq!(refusal.status(), Status::Usage, "{from} to {to}");
        assert!(refusal.message.contains("sector cp"), "{}", refusal.message);
    }
    bench.done("ann", rename("/memory/a", "/memory/c"));
    bench.done("ann", rename("/b", "/memories"));
}

// Promise 23.
#[test]
fn files_in_memory_that_are_gone_are_told_of_but_are_no_loss() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    put(&mut bench, "/memory/a");
    let [copy] = &bench.stat("/memory/a").copies[..] else { panic!("one copy") };
    let node = copy.node.to_string();
    bench.crash(&node);
    bench.advance(seconds(100));
    let health = bench.health();
    assert_eq!((health.lost, health.under_replicated), (0, 0), "{health:?}");
    assert!(health.reasons.iter().any(|reason| reason.contains("1 file below `/memory` is gone")), "{health:?}");
    bench.done("ann", rm("/memory/a"));
    assert!(!bench.health().reasons.iter().any(|reason| reason.contains("/memory")));
}

#[test]
fn a_file_goes_to_a_node_that_has_room_for_it_in_memory_however_full_its_disks_are() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    (bench.node_mut("n1").memory_free_bytes, bench.node_mut("n2").memory_free_bytes) = (5, 10);
    bench.node_mut("n2").free_bytes = 0;
    ["n1", "n2"].iter().for_each(|id| bench.report_status(id));
    let request = |at: &str| CreateRequest { bytes_expected: Some(10), parents: true, ..create(at) };
    bench.put("ann", request("/memory/a"), 10);
    assert_eq!(bench.stat("/memory/a").copies[0].node.as_str(), "n2");
    bench.node_mut("n2").memory_free_bytes = 0;
    bench.report_status("n2");
    let refusal = bench.refused("ann", ClientRequest::Create(request("/memory/b")));
    assert!(refusal.status() == Status::Unavailable && refusal.message.contains("room in memory"), "{refusal:?}");
}
