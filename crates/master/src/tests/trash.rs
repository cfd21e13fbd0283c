//! The trash: removed entries can be restored by their owners for a while, and are in nobody's way.

#![allow(clippy::unwrap_used)]

use protocol::{
    Policy, limits,
    message::{
        client_master::{ListPage, TrashItem, Usage},
        request::{
            ConfirmClockRequest, CopiesRequest, EmptyTrashRequest, ListRequest, LocateRequest, PolicyRequest,
            RemoveRequest, RestoreRequest, StatRequest, TrashRequest, UsageRequest,
        },
    },
};

use super::{
    policies::{copies, folder, rename, set},
    *,
};

fn rm(at: &str) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false })
}

fn restore(at: &str, to: Option<&str>) -> ClientRequest {
    ClientRequest::Restore(RestoreRequest { path: path(at), to: to.map(path) })
}

impl Bench {
    fn trash(&mut self, user: &str) -> Vec<TrashItem> {
        match self.ask(user, ClientRequest::Trash(TrashRequest { all_users: user == "admin", after: None })) {
            ClientReply::Trash(page) => page.items,
            other => panic!("{other:?}"),
        }
    }

    fn restored(&mut self, user: &str, at: &str, to: Option<&str>) -> String {
        match self.ask(user, restore(at, to)) {
            ClientReply::Entry(entry) => entry.path.to_string(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn page(&mut self, user: &str, at: &str, after: Option<&str>) -> ListPage {
        let list = ClientRequest::List(ListRequest {
            folder: path(at),
            recursive: true,
            after: after.map(path),
            with_nodes: false,
        });
        match self.ask(user, list) {
            ClientReply::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    /// How many folders there are for what a user removed.
    fn names_in_trash_of(&mut self, user: &str) -> usize {
        let own = format!("/.trash/{user}");
        self.listed(user, &own).iter().filter(|at| at.matches('/').count() == 3).count()
    }

    fn listed(&mut self, user: &str, at: &str) -> Vec<String> {
        self.page(user, at, None).entries.into_iter().map(|entry| entry.path.to_string()).collect()
    }
}

// Promise 30.
#[test]
fn what_was_removed_comes_back_where_it_was_with_all_that_is_in_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/a/b/f") }, 10);
    let slice = content(&bench.put("ann", create("/a/g"), 20)).slice;
    let before = bench.listed("ann", "/");
    bench.done("ann", rm("/a"));
    assert!(bench.listed("ann", "/").is_empty());
    let items = bench.trash("ann");
    assert_eq!((items.len(), items[0].from.as_str(), items[0].bytes), (1, "/a", None));
    let at = format!("/.trash/ann/{}/a", items[0].key.removed_unix_millis);
    assert_eq!(items[0].at.as_str(), at);
    bench.advance(seconds(1));
    assert_eq!(bench.node("n1").paths(), [format!("{at}/b/f"), format!("{at}/g")], "the disk tells where it is");

    bench.restart_master();
    ["n1", "n2"].iter().for_each(|id| bench.join(id));
    assert_eq!(bench.trash("ann"), items);
    assert_eq!(bench.restored("ann", "/a", None), "/a");
    assert_eq!(bench.listed("ann", "/"), before);
    assert_eq!(content(&bench.stat("/a/g").entry).slice, slice);
    bench.advance(seconds(1));
    assert_eq!(bench.node("n1").paths(), ["/a/b/f", "/a/g"]);
    assert_eq!((bench.trash("ann"), bench.listed("admin", "/.trash")), (vec![], vec![]), "and nothing is left behind");
    assert!(!bench.rows.keys().any(|(table, _)| *table == "trash"));
}

#[test]
fn a_place_that_is_taken_again_is_not_lost_and_the_newest_is_meant() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for bytes in 1..=3 {
        bench.put("ann", CreateRequest { parents: true, ..create("/d/f") }, bytes);
        bench.done("ann", rm("/d/f"));
        bench.advance(Duration::from_millis(1));
    }
    bench.put("ann", create("/d/f"), 9);
    let refusal = bench.refused("ann", restore("/d/f", None));
    assert_eq!((refusal.status(), refusal.message.contains("--to")), (Status::Exists, true));
    assert_eq!(bench.restored("ann", "/d/f", Some("/new/folder/f")), "/new/folder/f");
    assert_eq!(content(&bench.stat("/new/folder/f").entry).bytes, 3);
    let oldest = bench.trash("ann")[0].at.to_string();
    bench.restored("ann", &oldest, Some("/oldest"));
    assert_eq!(content(&bench.stat("/oldest").entry).bytes, 1);
    assert_eq!(content(&bench.stat("/d/f").entry).bytes, 9);
    assert_eq!(bench.status_of("ann", restore("/d/none", None)), Status::NotFound);
}

// Promise 30.
#[test]
fn what_was_removed_last_is_meant_also_after_the_clock_went_back() {
    for restarts in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1"]);
        let month = Duration::from_secs(30 * 86_400);
        let move_clock = |bench: &mut Bench, unix_millis: u64| {
            bench.now.unix_millis = unix_millis;
            bench.done("admin", ClientRequest::ConfirmClock(ConfirmClockRequest));
            bench.advance(seconds(20));
        };
        let (before, ahead) = (bench.now.unix_millis, bench.now.after(month).unix_millis);
        // The clock is a month ahead, and somebody believes it; then it is put right.
        move_clock(&mut bench, ahead);
        bench.put("ann", create("/f"), 1);
        bench.done("ann", rm("/f"));
        move_clock(&mut bench, before);
        if restarts {
            bench.restart_master();
            bench.join("n1");
        }
        for bytes in 2..=3 {
            bench.put("ann", create("/f"), bytes);
            bench.done("ann", rm("/f"));
        }
        let items = bench.trash("ann");
        let last_by_date = items.last().map(|item| item.bytes);
        assert_eq!((items.len(), last_by_date), (3, Some(Some(1))), "by its date the first would be the last");
        for (to, bytes) in [("/last", 3), ("/before", 2), ("/first", 1)] {
            // An administrator, who has removed none of them, means the same one.
            let user = if bytes == 2 { "admin" } else { "ann" };
            bench.restored(user, "/f", Some(to));
            assert_eq!(content(&bench.stat(to).entry).bytes, bytes, "restarted: {restarts}");
        }
    }
}

#[test]
fn removals_of_a_moment_share_a_folder_also_after_the_clock_went_back() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/ahead"), 1);
    bench.done("ann", rm("/ahead"));
    bench.advance(seconds(20));
    bench.now.unix_millis -= 3_600_000;
    for index in 0..5 {
        bench.put("ann", create(&format!("/{index}")), 1);
        bench.done("ann", rm(&format!("/{index}")));
    }
    assert_eq!(bench.names_in_trash_of("ann"), 2);
}

#[test]
fn a_part_of_what_was_removed_can_be_taken_out_alone() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/a/b/f") }, 1);
    bench.put("ann", create("/a/g"), 2);
    bench.done("ann", rm("/a"));
    let at = bench.trash("ann")[0].at.to_string();
    assert_eq!(bench.restored("ann", &format!("{at}/b/f"), None), "/a/b/f");
    assert_eq!(bench.trash("ann").len(), 1);
    assert_eq!(bench.restored("ann", &at, Some("/rest")), "/rest");
    assert_eq!(bench.listed("ann", "/rest"), ["/rest/b", "/rest/g"], "with the folder that is empty now");
}

// Promise 30.
#[test]
fn each_user_sees_and_restores_his_own_and_administrators_all() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/ann"), 1);
    bench.put("bob", create("/bob"), 2);
    bench.done("ann", rm("/ann"));
    // Whoever removes it, it goes to the trash of its owner.
    bench.done("admin", rm("/bob"));
    let (anns, bobs) = (bench.trash("ann"), bench.trash("bob"));
    assert_eq!((anns[0].from.as_str(), bobs[0].from.as_str()), ("/ann", "/bob"));
    assert_eq!((anns.len(), bobs.len(), bench.trash("admin").len()), (1, 1, 2));
    for request in [
        ClientRequest::Stat(StatRequest(bobs[0].at.clone())),
        ClientRequest::Locate(LocateRequest(bobs[0].at.clone())),
        ClientRequest::Copies(CopiesRequest(bobs[0].at.clone())),
        ClientRequest::Usage(UsageRequest(path("/.trash/bob"))),
        ClientRequest::Policy(PolicyRequest(bobs[0].at.clone())),
        ClientRequest::List(ListRequest {
            folder: path("/.trash/bob"),
            recursive: false,
            after: None,
            with_nodes: false,
        }),
        restore(bobs[0].at.as_str(), None),
        ClientRequest::Remove(RemoveRequest { path: bobs[0].at.clone(), recursive: true, now: true }),
        ClientRequest::Trash(TrashRequest { all_users: true, after: None }),
        ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: true }),
    ] {
        assert_eq!(bench.status_of("ann", request), Status::Refused);
    }
    assert_eq!(bench.status_of("ann", restore("/bob", None)), Status::NotFound);
    let own: Vec<_> = bench.listed("ann", "/.trash");
    assert!(own[0] == "/.trash/ann" && own.iter().all(|at| at.starts_with("/.trash/ann")), "{own:?}");
    assert!(matches!(bench.ask("ann", ClientRequest::Stat(StatRequest(anns[0].at.clone()))), ClientReply::Status(_)));
    assert_eq!(bench.restored("admin", "/bob", None), "/bob");
    bench.done("ann", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }));
    assert!(bench.trash("ann").is_empty());
}

#[test]
fn nobody_makes_anything_in_the_trash() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/f"), 1);
    bench.put("ann", create("/g"), 1);
    bench.done("ann", rm("/f"));
    let at = bench.trash("ann")[0].at.to_string();
    for request in [
        ClientRequest::Create(create("/.trash/ann/x")),
        ClientRequest::Create(create("/.trash")),
        ClientRequest::Create(create(&at)),
        folder("/.trash/ann/x"),
        rename("/g", "/.trash/ann/g"),
        rename(&at, "/f"),
        set("/.trash", copies(1)),
        set(&at, copies(1)),
        rm(&at),
        ClientRequest::Remove(RemoveRequest { path: path("/.trash/ann"), recursive: true, now: true }),
        restore("/f", Some("/.trash/ann/f")),
    ] {
        let refusal = bench.refused("admin", request.clone());
        assert_eq!(refusal.status(), Status::Refused, "{request:?}: {refusal}");
    }
    // Nor is anything else called so by mistake.
    bench.done("ann", folder("/.trashed"));
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path(&at), recursive: true, now: true }));
    assert_eq!((bench.trash("ann").len(), bench.listed("admin", "/.trash").len()), (0, 0));
}

// Promise 30.
#[test]
fn the_trash_shows_only_where_it_is_named() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/!first"));
    let many = limits::LISTING_PAGE_ENTRIES_MAX as u64 + 200;
    for index in 0..many {
        bench.put("ann", CreateRequest { parents: true, ..create(&format!("/d/{index}")) }, 1);
    }
    bench.done("ann", rm("/d"));
    bench.put("ann", CreateRequest { parents: true, ..create("/z/f") }, 5);
    // More lies in the trash than a page holds, between what is before and behind it.
    let first = bench.page("ann", "/", None);
    let mut seen: Vec<_> = first.entries.iter().map(|entry| entry.path.to_string()).collect();
    let (mut more, mut pages) = (first.more, 1);
    while more {
        let next = bench.page("ann", "/", seen.last().cloned().as_deref());
        assert!(!next.entries.is_empty(), "no empty page: a client would take it for the end");
        seen.extend(next.entries.iter().map(|entry| entry.path.to_string()));
        (more, pages) = (next.more, pages + 1);
    }
    assert_eq!((seen, pages), (vec!["/!first".to_owned(), "/z".into(), "/z/f".into()], 1));
    let usage = |bench: &mut Bench, at: &str| bench.ask("admin", ClientRequest::Usage(UsageRequest(path(at))));
    assert_eq!(usage(&mut bench, "/"), ClientReply::Usage(Usage { files: 1, folders: 3, bytes: 5 }));
    let ClientReply::Usage(hidden) = usage(&mut bench, "/.trash") else { panic!() };
    assert_eq!((hidden.files, hidden.bytes), (many, many));
    let top = ClientRequest::List(ListRequest { folder: path("/"), recursive: false, after: None, with_nodes: false });
    let ClientReply::Page(page) = bench.ask("admin", top) else { panic!() };
    assert_eq!(page.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/!first", "/z"]);
}

// Promise 30.
#[test]
fn after_its_time_it_is_gone_in_steps_and_so_are_its_bytes() {
    let trash = seconds(1_000);
    let mut bench = Bench::configured(MasterConfig { trash, ..config() }, &["a/1", "b/1"]);
    for index in 0..300 {
        bench.put("ann", CreateRequest { parents: true, ..create(&format!("/d/{}/{index}", index % 7)) }, 1);
    }
    bench.put("ann", create("/f"), 1);
    bench.done("ann", rm("/d"));
    bench.advance(seconds(500));
    bench.done("ann", rm("/f"));
    bench.restart_master();
    ["n1", "n2"].iter().for_each(|id| bench.join(id));
    bench.advance(seconds(498));
    assert_eq!(bench.trash("ann").len(), 2);
    bench.advance(seconds(5));
    assert_eq!(bench.trash("ann").len(), 1, "the one that was removed later is still there");
    assert_eq!(bench.node("n1").held.len(), 1);
    bench.advance(seconds(600));
    assert!(bench.listed("admin", "/.trash").is_empty());
    assert!(bench.node("n1").held.is_empty() && bench.node("n2").held.is_empty());
    assert_eq!(bench.status_of("ann", restore("/f", None)), Status::NotFound);
}

#[test]
fn what_was_given_up_is_not_restored_and_goes_also_after_a_crash() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/f"), 1);
    bench.put("bob", create("/g"), 1);
    bench.done("ann", rm("/f"));
    bench.done("bob", rm("/g"));
    bench.done("ann", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }));
    assert_eq!(bench.status_of("ann", restore("/f", None)), Status::NotFound);
    bench.restart_master();
    bench.join("n1");
    assert!(bench.trash("ann").is_empty());
    bench.advance(seconds(2));
    assert_eq!(bench.node("n1").held.len(), 1);
    assert_eq!(bench.trash("admin").len(), 1, "of bob");
    bench.done("admin", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: true }));
    bench.advance(seconds(2));
    assert!(bench.node("n1").held.is_empty());
}

#[test]
fn without_a_trash_or_with_now_it_is_gone_at_once() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", create("/f"), 1);
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/f"), recursive: false, now: true }));
    assert!(bench.trash("ann").is_empty() && bench.node("n1").held.is_empty());
    let mut bench = Bench::configured(MasterConfig { trash: Duration::ZERO, ..config() }, &["a/1"]);
    bench.put("ann", create("/f"), 1);
    bench.done("ann", rm("/f"));
    assert!(bench.node("n1").held.is_empty());
}

#[test]
fn only_rm_r_removes_a_folder_that_is_not_empty_to_the_trash_too() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/d/f") }, 1);
    let request = ClientRequest::Remove(RemoveRequest { path: path("/d"), recursive: false, now: false });
    assert!(bench.refused("ann", request).message.contains("not empty"));
    assert_eq!(bench.status_of("ann", rm("/")), Status::Refused);
    assert_eq!(bench.status_of("bob", rm("/d/f")), Status::Refused);
}

#[test]
fn a_path_too_long_for_the_trash_is_refused_and_leaves_nothing() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let name = "x".repeat(200);
    let deep = format!("/{name}").repeat(17);
    bench.done("ann", folder(&format!("{deep}/{}", "y".repeat(70))));
    let before = bench.rows.clone();
    for at in [format!("{deep}/{}", "y".repeat(70)), format!("/{name}")] {
        let refusal = bench.refused("ann", rm(&at));
        assert_eq!((refusal.status(), refusal.message.contains("--now")), (Status::Refused, true), "{refusal}");
    }
    assert_eq!(bench.rows, before);
    assert_eq!(bench.status_of("admin", ClientRequest::Stat(StatRequest(path("/.trash")))), Status::NotFound);
    bench.done(
        "ann",
        ClientRequest::Remove(RemoveRequest { path: path(&format!("/{name}")), recursive: true, now: true }),
    );
}

#[test]
fn copies_in_the_trash_stay_as_many_and_where_they_were() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.done("ann", folder("/d"));
    let desired = Policy { sites_forbidden: vec!["b".into()], lifetime_seconds: Some(500), ..copies(1) };
    bench.set_policy("ann", "/d", desired);
    let slice = content(&bench.put("ann", create("/d/f"), 1)).slice;
    bench.advance(seconds(1));
    let holders = bench.holders(slice);
    bench.done("ann", rm("/d/f"));
    bench.advance(seconds(700));
    assert_eq!((holders.len(), bench.holders(slice)), (1, holders));
    let file = bench.master.catalog.names().file_of_slice(slice).unwrap();
    assert_eq!(bench.master.policy_replication(file).sites_forbidden, ["b"]);
    bench.restored("ann", "/d/f", Some("/f"));
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice).len(), 2, "and outside as the cloud says");
}

#[test]
fn the_trash_is_found_again_by_a_master_without_a_journal() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/d/f") }, 1);
    bench.put("ann", create("/d/g"), 2);
    bench.done("ann", rm("/d"));
    bench.advance(seconds(1));
    bench.rows.clear();
    bench.now = bench.now.after(seconds(3_600));
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.trash("ann").len(), 1, "the folder as it was removed");
    let part = format!("{}/g", bench.trash("ann")[0].at);
    assert_eq!(bench.restored("ann", &part, None), "/d/g");
    bench.sleep(Duration::from_millis(8 * 86_400_000));
    bench.advance(seconds(5));
    assert!(bench.listed("admin", "/.trash").is_empty());
}

#[test]
fn the_oldest_goes_first_where_the_nodes_are_nearly_full() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for index in 0..100 {
        bench.put("ann", CreateRequest { bytes_expected: Some(100), ..create(&format!("/{index:03}")) }, 100);
        bench.done("ann", rm(&format!("/{index:03}")));
        bench.advance(Duration::from_millis(10));
    }
    bench.advance(seconds(60));
    assert_eq!(bench.trash("ann").len(), 100, "there is room");
    bench.restart_master();
    bench.advance(seconds(60));
    assert_eq!(bench.trash("ann").len(), 100, "nobody knows how much there is");
    bench.join("n1");
    bench.advance(seconds(60));
    bench.node_mut("n1").free_bytes = 1_200;
    bench.advance(seconds(30));
    bench.node_mut("n1").free_bytes = 1_000_000;
    bench.advance(seconds(60));
    let left = bench.trash("ann");
    assert_eq!((left.len(), left[0].from.as_str()), (36, "/064"));
    assert_eq!(bench.node("n1").held.len(), 36);
}

// Promise 30.
#[test]
fn the_trash_is_kept_where_the_only_full_node_that_is_up_holds_none_of_it() {
    // Its disk is broken and the other two are away, or cut off.
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let at = |id| CreateRequest { at: Some(node(id)), copies: Some(1), sync_copies: Some(1), ..create("/f") };
    bench.put("ann", at("n1"), 100);
    bench.done("ann", rm("/f"));
    bench.advance(seconds(60));
    bench.crash("n1");
    bench.crash("n2");
    bench.node_mut("n3").free_bytes = 0;
    bench.advance(seconds(300));
    assert_eq!(bench.trash("ann").len(), 1, "nothing lies at the third node");
    bench.join_each(&["n1"]);
    bench.node_mut("n1").free_bytes = 0;
    bench.advance(seconds(60));
    assert_eq!(bench.trash("ann").len(), 0, "it makes room at the first one");
}

// Promise 30.
#[test]
fn a_node_that_is_away_for_a_moment_still_has_its_room() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let at = CreateRequest { at: Some(node("n1")), copies: Some(1), sync_copies: Some(1), ..create("/f") };
    bench.put("ann", at, 100);
    bench.done("ann", rm("/f"));
    bench.node_mut("n1").free_bytes = 0;
    bench.node_mut("n2").free_bytes = 1_000_000;
    bench.advance(seconds(60));
    bench.crash("n2");
    bench.advance(config().replicate_after);
    assert_eq!(bench.trash("ann").len(), 1, "it may be back the next moment");
    bench.advance(seconds(120));
    assert_eq!(bench.trash("ann").len(), 0, "its files are copied elsewhere by now");
}

#[test]
fn what_was_taken_back_is_not_in_the_trash_again_since_an_old_copy_came_first() {
    for dies_in_the_midst in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        let slice = content(&bench.put("ann", CreateRequest { copies: Some(3), ..create("/f") }, 5)).slice;
        bench.advance(seconds(5));
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/f"), recursive: false, now: false }));
        bench.advance(seconds(5));
        // What it knows and has is from the time when the file was in the trash.
        bench.crash("n1");
        bench.advance(seconds(12));
        let restore = ClientRequest::Restore(RestoreRequest { path: path("/f"), to: None });
        assert!(matches!(bench.ask("ann", restore), ClientReply::Entry(_)));
        bench.advance(seconds(5));
        // The newest copy of the small rows is first told by a node that has nothing of the file.
        bench.node_mut("n2").held.remove(&slice);
        bench.lose_journal(0);
        bench.come(&["n1", "n2"]);
        if dies_in_the_midst {
            bench.restart_master();
            bench.come(&["n1", "n2"]);
        }
        bench.come(&["n1", "n2", "n3"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        assert!(bench.exists("/f"));
        let trash = bench.ask("admin", ClientRequest::Trash(TrashRequest { all_users: true, after: None }));
        assert!(matches!(&trash, ClientReply::Trash(trash) if trash.items.is_empty()), "{trash:?}");
        assert_eq!(bench.conflicts(), []);
    }
}

#[test]
fn what_was_taken_back_in_the_last_moment_is_listed_whatever_its_node_tells_first() {
    for tells_held_first in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.put("ann", CreateRequest { copies: Some(2), ..create("/f") }, 1);
        bench.advance(seconds(3));
        bench.done("ann", rm("/f"));
        bench.advance(seconds(3));
        let (held, old) = (bench.node("n2").held.clone(), bench.node("n2").mirror.clone());
        bench.mkdir("ann", "/later");
        bench.advance(seconds(3));
        let kept = bench.node("n1").mirror.clone();
        bench.ask("ann", ClientRequest::Restore(RestoreRequest { path: path("/f"), to: None }));
        bench.advance(seconds(3));
        // What nodes keep does not know of the last half second.
        bench.node_mut("n1").mirror = kept;
        (bench.node_mut("n2").held, bench.node_mut("n2").mirror) = (held, old);
        bench.lose_journal(0);
        bench.tells_held_first = tells_held_first;
        bench.come(&["n2", "n1"]);
        bench.advance(seconds(70));
        assert_eq!(bench.conflicts(), [("/f".to_owned(), ConflictKind::TwoPaths, false)], "{tells_held_first}");
    }
}
