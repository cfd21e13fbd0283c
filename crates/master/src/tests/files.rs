//! Names as clients see them: rights, listing, renaming, locating.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason,
    message::{
        client_master::{ListPage, Usage},
        request::{
            ListRequest, LocateRequest, LogoutRequest, MakeFolderRequest, NodesRequest, RemoveRequest, RenameRequest,
            StatRequest, UsageRequest,
        },
    },
};

use super::*;

fn folder(at: &str) -> ClientRequest {
    ClientRequest::MakeFolder(MakeFolderRequest { path: path(at), parents: false })
}

fn remove(at: &str) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: true })
}

fn rename(from: &str, to: &str) -> ClientRequest {
    ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) })
}

fn page(bench: &mut Bench, at: &str, recursive: bool, after: Option<&str>) -> ListPage {
    let after = after.map(path);
    match bench.ask("ann", ClientRequest::List(ListRequest { folder: path(at), recursive, after, with_nodes: true })) {
        ClientReply::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

// Promise 13.
#[test]
fn only_owners_and_administrators_change_what_is_theirs() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/ann"));
    bench.put("ann", create("/ann/f"), 1);
    bench.put("ann", create("/top"), 1);
    for request in [
        remove("/top"),
        remove("/ann"),
        remove("/ann/f"),
        rename("/top", "/mine"),
        folder("/ann/bob"),
        ClientRequest::Create(create("/ann/g")),
        ClientRequest::Create(create("/top")),
        ClientRequest::Create(CreateRequest { parents: true, ..create("/ann/x/y/g") }),
    ] {
        let refusal = bench.refused("bob", request.clone());
        assert_eq!(refusal.status(), Status::Refused, "{request:?}: {refusal}");
        assert!(refusal.message.contains("belongs to ann"), "{refusal}");
    }
    bench.put("bob", create("/bobs"), 1);
    assert_eq!(bench.status_of("bob", rename("/bobs", "/top")), Status::Refused, "it would replace ann's");
    assert_eq!(bench.status_of("bob", rename("/bobs", "/ann/bobs")), Status::Refused, "into ann's folder");

    assert_eq!(bench.locate("bob", "/ann/f").entry.owner.as_str(), "ann");
    bench.put("admin", create("/top"), 2);
    assert_eq!(bench.stat("/top").entry.owner.as_str(), "ann", "a replaced file stays its owner's");
    bench.done("admin", remove("/ann"));
    bench.done("ann", remove("/top"));
}

#[test]
fn the_root_folder_is_neither_removed_nor_renamed() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for request in [remove("/"), rename("/", "/x")] {
        assert_eq!(bench.status_of("admin", request), Status::Refused);
    }
    assert_eq!(bench.status_of("admin", folder("/")), Status::Exists);
    bench.done("admin", folder("/x"));
    assert_eq!(bench.status_of("admin", rename("/x", "/")), Status::Refused);
}

#[test]
fn what_is_not_there_is_named_in_the_refusal() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for request in [
        ClientRequest::Stat(StatRequest(path("/no/where"))),
        ClientRequest::Locate(LocateRequest(path("/no/where"))),
        ClientRequest::Usage(UsageRequest(path("/no/where"))),
        ClientRequest::Remove(RemoveRequest { path: path("/no/where"), recursive: false, now: true }),
        ClientRequest::List(ListRequest {
            folder: path("/no/where"),
            recursive: false,
            after: None,
            with_nodes: false,
        }),
        rename("/no/where", "/x"),
    ] {
        let refusal = bench.refused("ann", request);
        assert_eq!(refusal, Refusal::new(Reason::NotFound, "there is no file or folder `/no/where`"));
    }
}

#[test]
fn a_folder_is_not_read_replaced_or_removed_like_a_file() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d"));
    bench.put("ann", create("/d/f"), 1);
    bench.put("ann", create("/f"), 1);
    assert_eq!(bench.status_of("ann", ClientRequest::Locate(LocateRequest(path("/d")))), Status::Exists);
    assert_eq!(bench.status_of("ann", rename("/f", "/d")), Status::Exists);
    assert_eq!(bench.status_of("ann", rename("/d", "/f")), Status::Exists);
    assert_eq!(bench.status_of("ann", rename("/d", "/d/e")), Status::Refused);
    let refusal =
        bench.refused("ann", ClientRequest::Remove(RemoveRequest { path: path("/d"), recursive: false, now: true }));
    assert!(refusal.message.contains("not empty"), "{refusal}");
    let listed = page(&mut bench, "/f", false, None);
    assert_eq!(listed.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/f"], "as `ls` has it");
    assert_eq!(bench.status_of("ann", folder("/f/x")), Status::Exists);
}

#[test]
fn a_file_renamed_over_another_replaces_it_and_frees_its_bytes() {
    let mut bench = Bench::without_versions(&["a/1", "b/1"]);
    let new = content(&bench.put("ann", create("/new"), 10)).slice;
    let old = content(&bench.put("ann", create("/old"), 20)).slice;
    bench.done("ann", rename("/new", "/old"));
    assert_eq!(content(&bench.stat("/old").entry).slice, new);
    assert!(!bench.exists("/new"));
    assert!(bench.holders(old).is_empty());
    assert_eq!(bench.node("n1").paths(), ["/old"]);
    bench.done("ann", rename("/old", "/old"));
    assert!(bench.exists("/old"));
}

#[test]
fn a_renamed_folder_takes_its_files_along_on_the_nodes_too() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d"));
    for index in 0..700 {
        bench.put("ann", create(&format!("/d/{index:03}")), 1);
    }
    let rows_before = bench.rows.clone();
    bench.done("ann", rename("/d", "/e"));
    let names = bench.rows.iter().filter(|((table, _), _)| *table == "names");
    let changed = names.filter(|(key, value)| rows_before.get(key) != Some(value)).count();
    assert_eq!(changed, 1, "a rename is one row, whatever lies below");
    bench.advance(seconds(1));
    assert_eq!(bench.node("n1").paths().first().unwrap(), "/e/000");
    assert_eq!(bench.node("n1").paths().last().unwrap(), "/e/699");
}

#[test]
fn a_rename_that_would_make_a_path_too_long_is_refused() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let name = "x".repeat(200);
    let deep = |depth: usize| format!("/{name}").repeat(depth);
    bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path(&deep(10)), parents: true }));
    bench.done(
        "ann",
        ClientRequest::MakeFolder(MakeFolderRequest { path: path(&format!("/d{}", deep(9))), parents: true }),
    );
    let too_deep = rename("/d", &format!("{}/d", deep(10)));
    let refusal = bench.refused("ann", too_deep);
    assert_eq!(refusal.status(), Status::Refused);
    assert!(refusal.message.contains("longer than 3500 bytes"), "{refusal}");
    // Half of it fits, and what lies below is still found.
    bench.done("ann", rename("/d", &format!("{}/d", deep(5))));
    assert!(bench.exists(&format!("{}/d{}", deep(5), deep(9))));
    // What became the longest path by that rename counts for the next one.
    bench.done(
        "ann",
        ClientRequest::MakeFolder(MakeFolderRequest { path: path(&format!("/e{}", deep(5))), parents: true }),
    );
    assert_eq!(bench.status_of("ann", rename(&deep(1), &format!("/e{}/f", deep(5)))), Status::Refused);
}

// Promise 11.
#[test]
fn a_listing_goes_on_where_it_stopped_although_names_change() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d"));
    for index in 0..2_500 {
        bench.done("ann", folder(&format!("/d/{index:04}")));
    }
    bench.put("ann", create("/d/0007/f"), 1);
    let first = page(&mut bench, "/d", true, None);
    assert_eq!((first.entries.len(), first.more), (2_000, true));
    assert_eq!(first.entries[8].path, path("/d/0007/f"));
    assert_eq!(first.entries[8].nodes, [node("n1")]);
    let last = first.entries[1_999].path.to_string();
    assert_eq!(last, "/d/1998");
    bench.done("ann", remove(&last));
    bench.done("ann", remove("/d/1999"));
    let second = page(&mut bench, "/d", true, Some(&last));
    assert_eq!(second.entries[0].path, path("/d/2000"));
    assert_eq!((second.entries.len(), second.more), (500, false));
    let outside = ClientRequest::List(ListRequest {
        folder: path("/d"),
        recursive: true,
        after: Some(path("/e")),
        with_nodes: false,
    });
    assert_eq!(bench.status_of("ann", outside), Status::Usage);
}

#[test]
fn a_page_fits_into_a_message_whatever_the_metadata() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let user = BTreeMap::from([("key".to_owned(), "x".repeat(60_000))]);
    for index in 0..30 {
        bench.put("ann", CreateRequest { user: user.clone(), ..create(&format!("/{index:02}")) }, 1);
    }
    let (mut seen, mut after) = (0, None);
    loop {
        let page = page(&mut bench, "/", false, after.as_deref());
        assert!(codec::encode(&ClientReply::Page(page.clone())).len() <= protocol::limits::MESSAGE_BYTES_MAX);
        seen += page.entries.len();
        if !page.more {
            break;
        }
        after = page.entries.last().map(|entry| entry.path.to_string());
    }
    assert_eq!(seen, 30);
}

#[test]
fn usage_counts_what_lies_at_and_below() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/a/b/f") }, 10);
    bench.put("ann", create("/a/g"), 5);
    let usage = |bench: &mut Bench, at: &str| bench.ask("ann", ClientRequest::Usage(UsageRequest(path(at))));
    assert_eq!(usage(&mut bench, "/a"), ClientReply::Usage(Usage { files: 2, folders: 2, bytes: 15 }));
    assert_eq!(usage(&mut bench, "/a/g"), ClientReply::Usage(Usage { files: 1, folders: 0, bytes: 5 }));
}

#[test]
fn a_file_is_read_at_the_clients_own_machine_first_then_where_least_is_done() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", CreateRequest { copies: Some(3), ..create("/f") }, 10)).slice;
    bench.node_mut("n1").transfers = 5;
    bench.node_mut("n2").transfers = 2;
    bench.node_mut("n3").transfers = 9;
    bench.advance(seconds(1));
    let order = |bench: &mut Bench| {
        let sources = bench.locate("cat", "/f").sources;
        for source in &sources {
            let ticket = read_ticket(&source.ticket);
            assert_eq!((&ticket.node, ticket.user.as_str()), (&source.node, "cat"));
            assert_eq!(ticket.right, TicketRight::Read { slice, from: 0, until: 10 });
            assert_eq!(ticket.until_unix_millis, bench.now.unix_millis + 60_000);
        }
        sources.into_iter().map(|source| source.node.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(order(&mut bench), ["n2", "n1", "n3"]);
    bench.login("cat", [10, 0, 0, 3].into());
    assert_eq!(order(&mut bench), ["n3", "n2", "n1"]);
}

#[test]
fn only_a_client_of_a_nodes_own_machine_is_told_its_local_socket() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { copies: Some(2), ..create("/f") }, 10);
    let told = |bench: &mut Bench, from: [u8; 4]| -> Vec<Option<String>> {
        bench.login("cat", from.into());
        let mut sources = bench.locate("cat", "/f").sources;
        sources.sort_by(|a, b| a.node.cmp(&b.node));
        sources.into_iter().map(|source| source.local).collect()
    };
    assert_eq!(told(&mut bench, [10, 0, 0, 2]), [None, Some("socket-of-n2".into())]);
    assert_eq!(told(&mut bench, [192, 0, 2, 1]), [None, None]);
    assert_eq!(told(&mut bench, [127, 0, 0, 1]), [None, None], "these nodes joined from elsewhere");
    // A writer is told the socket too: the open file may then be passed.
    bench.login("cat", [10, 0, 0, 2].into());
    let mut to = |at: &str, node: &str| {
        let request = CreateRequest { at: Some(node.parse().unwrap()), ..create(at) };
        bench.created("cat", request).target.local
    };
    assert_eq!((to("/x", "n1"), to("/y", "n2")), (None, Some("socket-of-n2".into())));
}

#[test]
fn a_closed_or_idle_session_is_not_listened_to() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let ann = bench.login("ann", [192, 0, 2, 1].into());
    let bob = bench.login("bob", [192, 0, 2, 2].into());
    bench.done("ann", ClientRequest::Logout(LogoutRequest));
    assert!(bench.closed.contains(&ann) && bench.master.peer(ann).is_none());
    bench.advance(seconds(29 * 60));
    assert!(bench.master.peer(bob).is_some());
    bench.advance(seconds(2 * 60));
    assert!(bench.closed.contains(&bob));
    let from = SessionCaller { session: bob, request: Some(1) };
    bench.master.handle_message(bench.now, from, MasterMessage::Client(ClientRequest::Nodes(NodesRequest)));
    assert_eq!(bench.master.poll_action(), None);
}

#[test]
fn a_client_cannot_report_and_a_node_cannot_ask() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let client = SessionCaller { session: bench.login("ann", [192, 0, 2, 1].into()), request: Some(1) };
    let report = Report::Inventory { slices: Vec::new(), last: true };
    bench.master.handle_message(bench.now, client, MasterMessage::Node(report));
    assert_eq!(bench.master.poll_action(), None);
    let fake = SessionCaller { session: bench.node("n1").session.unwrap(), request: Some(1) };
    bench.master.handle_message(
        bench.now,
        fake,
        MasterMessage::Client(ClientRequest::Remove(RemoveRequest { path: path("/"), recursive: true, now: true })),
    );
    assert_eq!(bench.master.poll_action(), None);
}

#[test]
fn a_file_moved_away_and_back_over_another_frees_the_others_bytes() {
    let mut bench = Bench::without_versions(&["a/1"]);
    bench.put("ann", create("/f"), 10);
    let other = content(&bench.put("ann", create("/g"), 20)).slice;
    // All in one batch: the node never learns that the file was away, so no order about it will ever be answered.
    bench.saves = false;
    bench.ask_later("ann", rename("/f", "/h"));
    bench.ask_later("ann", rename("/g", "/f"));
    bench.ask_later("ann", rename("/h", "/f"));
    bench.save_all();
    bench.saves = true;
    bench.run();
    assert!(bench.holders(other).is_empty());
    assert_eq!(bench.node("n1").paths(), ["/f"]);
}
