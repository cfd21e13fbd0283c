//! Replaced content: kept for a while, listed, taken back, and in the way of nobody.

#![allow(clippy::unwrap_used)]

use protocol::{
    Policy, Reason, limits,
    message::{
        access::{AclReply, AclRequest},
        client_master::{FileVersion, QuotaOf, TrashItem},
        request::{
            ConfirmClockRequest, EmptyTrashRequest, FinishRebuildRequest, GetAclRequest, QuotasRequest, RemoveRequest,
            RestoreRequest, SetAclRequest, SetQuotaRequest, TrashRequest, VersionsRequest,
        },
    },
};

use super::{
    policies::{folder, rename},
    *,
};

impl Bench {
    pub(super) fn versions(&mut self, user: &str, at: &str) -> Vec<FileVersion> {
        match self.ask(user, ClientRequest::Versions(VersionsRequest(path(at)))) {
            ClientReply::Versions(versions) => versions,
            other => panic!("{other:?}"),
        }
    }

    /// How long what was replaced at a path is, oldest first.
    fn replaced(&mut self, at: &str) -> Vec<u64> {
        self.versions("admin", at).iter().map(|version| version.bytes).collect()
    }

    /// Whether a path of the trash is one of replaced content.
    pub(super) fn is_replaced(&mut self, at: &SectorPath) -> bool {
        let from = at.components().skip(3).collect::<Vec<_>>().join("/");
        !from.is_empty()
            && at.as_str().starts_with("/.trash/")
            && self.versions("admin", &format!("/{from}")).iter().any(|version| version.at == *at)
    }

    fn removed(&mut self) -> Vec<TrashItem> {
        match self.ask("admin", ClientRequest::Trash(TrashRequest { all_users: true, after: None })) {
            ClientReply::Trash(page) => page.items,
            other => panic!("{other:?}"),
        }
    }

    /// Writes so many bytes to a path.
    fn write_at(&mut self, user: &str, at: &str, bytes: u64) {
        self.put(user, CreateRequest { bytes_expected: Some(bytes), parents: true, ..create(at) }, bytes);
    }

    fn bytes_at(&mut self, at: &str) -> u64 {
        content(&self.stat(at).entry).bytes
    }

    fn quota_of_ann(&mut self, bytes: u64) {
        let user = UserName::new("ann").unwrap();
        self.done("admin", ClientRequest::SetQuota(SetQuotaRequest { user, bytes: Some(bytes), files: None }));
    }

    fn used_by_ann(&mut self) -> (u64, u64) {
        let ClientReply::Quotas(page) = self.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) else {
            panic!()
        };
        let ann = QuotaOf::User(UserName::new("ann").unwrap());
        page.quotas.iter().find(|quota| quota.of == ann).map_or((0, 0), |quota| (quota.used_bytes, quota.used_files))
    }
}

fn rm(at: &str) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false })
}

fn restore(at: &SectorPath, to: Option<&str>) -> ClientRequest {
    ClientRequest::Restore(RestoreRequest { path: at.clone(), to: to.map(path) })
}

fn kept_for(seconds: u64) -> Policy {
    Policy { versions_seconds: Some(seconds), ..Policy::default() }
}

const DAY_MILLIS: u64 = 86_400_000;
const NONE: [u64; 0] = [];

// Promise 30b.
#[test]
fn what_was_replaced_is_listed_with_who_did_it_and_comes_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.write_at("ann", "/d/f", 1);
    let first = content(&bench.stat("/d/f").entry).clone();
    bench.write_at("admin", "/d/f", 2);
    bench.write_at("ann", "/g", 3);
    bench.done("ann", rename("/g", "/d/f"));
    let versions = bench.versions("ann", "/d/f");
    let told: Vec<_> = versions.iter().map(|version| (version.bytes, version.replaced_by.as_str())).collect();
    assert_eq!(told, [(1, "admin"), (2, "ann")]);
    assert_eq!((versions[0].version, versions[0].user.as_str()), (first.version, "ann"));
    assert_eq!(versions[0].until_unix_millis - versions[0].replaced_unix_millis, DAY_MILLIS);
    assert!(versions[0].at.as_str().starts_with("/.trash/ann/") && versions[0].at.as_str().ends_with("/d/f"));
    assert_eq!(bench.stat(versions[0].at.as_str()).entry.kind, EntryKind::File(first.clone()));
    assert_eq!(bench.removed(), [], "nobody removed it");
    bench.advance(seconds(1));
    let on_disk = bench.node("n1").paths();
    assert!(versions.iter().all(|version| on_disk.contains(&version.at.to_string())), "{on_disk:?}");

    bench.restart_master();
    ["n1", "n2"].iter().for_each(|id| bench.join(id));
    assert_eq!(bench.versions("ann", "/d/f"), versions);
    let refusal = bench.refused("ann", restore(&versions[0].at, None));
    assert_eq!((refusal.status(), refusal.message.contains("`sector cp /.trash/ann/")), (Status::Exists, true));
    assert!(matches!(bench.ask("ann", restore(&versions[0].at, Some("/back"))), ClientReply::Entry(_)));
    assert_eq!(content(&bench.stat("/back").entry), &first);
    assert_eq!((bench.replaced("/d/f"), bench.bytes_at("/d/f")), (vec![2], 3));
    // Only what was removed is meant by its former path.
    bench.done("ann", rename("/d/f", "/elsewhere"));
    assert_eq!(bench.status_of("ann", restore(&path("/d/f"), None)), Status::NotFound);
    assert!(matches!(bench.ask("ann", restore(&versions[1].at, None)), ClientReply::Entry(_)));
    assert_eq!((bench.replaced("/d/f"), bench.bytes_at("/d/f")), (vec![], 2));
}

// Promise 30b.
#[test]
fn only_its_owner_and_administrators_see_it_and_it_keeps_its_rights() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.write_at("ann", "/f", 1);
    let acl = "user:bob:rw".parse().unwrap();
    let set = AclRequest::Set(SetAclRequest { path: path("/f"), acl });
    assert!(matches!(bench.ask("ann", ClientRequest::Acl(set)), ClientReply::Acl(_)));
    bench.write_at("bob", "/f", 2);
    assert_eq!(bench.versions("bob", "/f"), []);
    let at = bench.versions("ann", "/f")[0].at.clone();
    assert_eq!(bench.status_of("bob", restore(&at, Some("/bobs"))), Status::Refused);
    assert_eq!(bench.status_of("bob", ClientRequest::Locate(LocateRequest(at.clone()))), Status::Refused);
    assert!(matches!(bench.ask("admin", restore(&at, Some("/back"))), ClientReply::Entry(_)));
    let rights = |bench: &mut Bench, at: &str| match bench
        .ask("admin", ClientRequest::Acl(AclRequest::Get(GetAclRequest(path(at)))))
    {
        ClientReply::Acl(AclReply::Status(status)) => (status.owner.to_string(), status.own),
        other => panic!("{other:?}"),
    };
    assert_eq!(rights(&mut bench, "/back"), rights(&mut bench, "/f"));
}

// Promise 30b.
#[test]
fn each_goes_at_its_own_time_also_after_a_restart_and_its_bytes_with_it() {
    let config = MasterConfig { versions: seconds(100), trash: seconds(300), ..config() };
    let mut bench = Bench::configured(config, &["a/1", "b/1"]);
    for (at, wish) in [("/short", Some(10)), ("/none", Some(0)), ("/as/the/cloud", None)] {
        bench.done("ann", folder(at));
        if let Some(wish) = wish {
            bench.set_policy("ann", at, kept_for(wish));
        }
    }
    // First what stays longest: an order by the date would keep the others back.
    let files = ["/as/the/cloud/f", "/short/f", "/none/f"];
    for bytes in [1, 2] {
        files.iter().for_each(|at| bench.write_at("ann", at, bytes));
    }
    bench.write_at("ann", "/removed", 1);
    bench.done("ann", rm("/removed"));
    let kept = |bench: &mut Bench| files.map(|at| bench.replaced(at).len());
    bench.advance(seconds(8));
    assert_eq!((kept(&mut bench), bench.node("n1").held.len()), ([1, 1, 0], 6));
    bench.restart_master();
    ["n1", "n2"].iter().for_each(|id| bench.join(id));
    bench.advance(seconds(5));
    assert_eq!((kept(&mut bench), bench.node("n1").held.len()), ([1, 0, 0], 5));
    bench.advance(seconds(100));
    assert_eq!((kept(&mut bench), bench.node("n1").held.len()), ([0, 0, 0], 4));
    assert_eq!(bench.removed().len(), 1, "what was removed stays longer");
    bench.advance(seconds(300));
    assert_eq!((bench.removed().len(), bench.node("n1").held.len()), (0, 3));
    assert!(!bench.rows.keys().any(|(table, _)| *table == "trash"));
}

#[test]
fn a_clock_that_goes_ahead_ends_none_early() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.write_at("ann", "/f", 1);
    bench.write_at("ann", "/f", 2);
    bench.advance(seconds(20));
    bench.now.unix_millis += 3 * DAY_MILLIS;
    bench.advance(seconds(5));
    bench.done("admin", ClientRequest::ConfirmClock(ConfirmClockRequest));
    bench.advance(seconds(20));
    assert_eq!(bench.replaced("/f"), [1]);
    bench.sleep(seconds(86_400));
    bench.advance(seconds(20));
    assert_eq!(bench.replaced("/f"), NONE);
}

#[test]
fn what_no_bytes_are_in_or_all_are_still_there_is_not_kept() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.write_at("ann", "/empty", 0);
    bench.write_at("ann", "/empty", 1);
    bench.write_at("ann", "/log", 10);
    let created = bench.created("ann", CreateRequest { append: true, bytes_expected: Some(5), ..create("/log") });
    bench.write(&created, 15);
    let number = bench.commit_later("ann", created.lease, 15);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    for bytes in [1, 2] {
        bench.write_at("ann", "/out/.sphere-1/journal", bytes);
    }
    bench.write_at("ann", "/self", 1);
    bench.done("ann", rename("/self", "/self"));
    bench.write_at("ann", "/again", 1);
    bench.write_at("ann", "/again", 1);
    for at in ["/empty", "/log", "/out/.sphere-1/journal", "/self", "/again"] {
        assert_eq!(bench.replaced(at), NONE, "{at}");
    }
    bench.advance(seconds(2));
    assert_eq!(bench.node("n1").held.len(), 5, "one slice a file");
    let mut bench = Bench::configured(MasterConfig { versions: Duration::ZERO, ..config() }, &["a/1"]);
    bench.write_at("ann", "/f", 1);
    bench.write_at("ann", "/f", 2);
    assert_eq!(bench.replaced("/f"), NONE);
}

// Promise 20.
#[test]
fn a_job_goes_on_with_no_input_that_was_replaced() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.write_at("ann", "/f", 1);
    let slice = content(&bench.stat("/f").entry).slice;
    let check = |bench: &Bench| bench.master.catalog.check_input(&rights_of("ann"), slice).map_err(|no| no.reason);
    assert_eq!(check(&bench), Ok(()));
    bench.write_at("ann", "/f", 2);
    assert_eq!(bench.replaced("/f"), [1]);
    assert_eq!(check(&bench), Err(Reason::VersionChanged { current: None }));
}

#[test]
fn a_path_too_long_for_the_trash_is_replaced_all_the_same() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let at = format!("{}/{}", format!("/{}", "x".repeat(200)).repeat(17), "y".repeat(70));
    for bytes in [1, 2] {
        bench.write_at("ann", &at, bytes);
    }
    assert_eq!((bench.bytes_at(&at), bench.replaced(&at)), (2, vec![]));
    let trash = ClientRequest::Stat(StatRequest(path("/.trash")));
    assert_eq!(bench.status_of("admin", trash), Status::NotFound, "nothing was made for it");
}

#[test]
fn of_a_file_that_is_written_all_the_time_the_newest_are_kept() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for bytes in 1..=40 {
        bench.write_at("ann", "/f", bytes);
        // The clock goes back in the midst, which makes none of them older.
        if bytes == 20 {
            bench.now.unix_millis -= 1_800_000;
        }
        bench.advance(Duration::from_millis(100));
    }
    let kept = limits::VERSIONS_KEPT_MAX as u64;
    assert_eq!(bench.replaced("/f"), (40 - kept..40).collect::<Vec<_>>());
    bench.advance(seconds(5));
    assert_eq!(bench.node("n1").held.len() as u64, kept + 1);
}

// Promise 30b, 31.
#[test]
fn no_write_is_refused_for_what_it_or_another_one_replaced() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.quota_of_ann(100);
    bench.write_at("ann", "/a", 60);
    bench.write_at("ann", "/a", 70);
    assert_eq!((bench.replaced("/a"), bench.used_by_ann()), (vec![], (70, 1)), "there is no room for both");
    bench.quota_of_ann(150);
    bench.write_at("ann", "/a", 60);
    assert_eq!((bench.replaced("/a"), bench.used_by_ann()), (vec![70], (60, 1)), "it is not counted");
    bench.write_at("ann", "/b", 50);
    assert_eq!((bench.replaced("/a"), bench.used_by_ann()), (vec![], (110, 2)));
    // What was removed gives way to nothing.
    bench.done("ann", rm("/b"));
    bench.write_at("ann", "/a", 40);
    assert_eq!((bench.replaced("/a"), bench.used_by_ann()), (vec![60], (90, 2)));
    bench.write_at("ann", "/a", 45);
    assert_eq!((bench.replaced("/a"), bench.used_by_ann()), (vec![40], (95, 2)), "the oldest goes first");
    assert_eq!(bench.removed().len(), 1);
    let large = ClientRequest::Create(CreateRequest { bytes_expected: Some(56), ..create("/c") });
    assert_eq!(bench.status_of("ann", large), Status::Refused);
    // Taken back it counts like any file.
    bench.quota_of_ann(120);
    let at = bench.versions("ann", "/a")[0].at.clone();
    assert_eq!(bench.status_of("ann", restore(&at, Some("/back"))), Status::Refused);
    bench.quota_of_ann(135);
    assert!(matches!(bench.ask("ann", restore(&at, Some("/back"))), ClientReply::Entry(_)));
    assert_eq!(bench.used_by_ann(), (135, 3));
    bench.done("ann", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }));
    bench.advance(seconds(2));
    assert_eq!(bench.used_by_ann(), (85, 2));
}

// Promise 15.
#[test]
fn what_a_quota_has_no_room_for_is_removed_only_after_its_successor_is_placed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.quota_of_ann(39);
    bench.write_at("ann", "/f", 10);
    let older = content(&bench.stat("/f").entry).slice;
    bench.write_at("ann", "/f", 20);
    let old = content(&bench.stat("/f").entry).slice;
    assert_eq!(bench.replaced("/f"), [10]);
    bench.advance(seconds(2));
    for id in ["n1", "n2"] {
        bench.node_mut(id).answers = false;
    }
    let created =
        bench.created("ann", CreateRequest { sync_copies: Some(1), bytes_expected: Some(30), ..create("/f") });
    bench.write(&created, 30);
    let number = bench.commit_later("ann", created.lease, 30);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.replaced("/f"), NONE);
    let is_removal = |order: &Order| [older, old].iter().any(|slice| *order == Order::Remove(*slice));
    assert!(!bench.nodes.values().any(|fake| fake.orders.iter().any(is_removal)));
    for id in ["n1", "n2"] {
        bench.resume(id);
    }
    bench.advance(seconds(2));
    assert!(bench.holders(old).is_empty() && bench.holders(older).is_empty());
}

#[test]
fn of_all_that_is_kept_the_oldest_of_the_user_with_most_goes_first() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.master.catalog.versions_max = 4;
    bench.write_at("bob", "/b", 1);
    bench.write_at("bob", "/b", 2);
    for bytes in 1..=6 {
        bench.write_at("ann", "/a", bytes);
    }
    assert_eq!((bench.replaced("/a"), bench.replaced("/b")), (vec![3, 4, 5], vec![1]));
    bench.master.catalog.versions_max = 2;
    bench.write_at("bob", "/new", 1);
    assert_eq!((bench.replaced("/a"), bench.replaced("/b")), (vec![5], vec![1]));
}

#[test]
fn a_quota_of_the_whole_cloud_refuses_none_either() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.set_policy("admin", "/", Policy { quota_bytes: Some(100), ..Policy::default() });
    bench.write_at("ann", "/a", 40);
    bench.write_at("ann", "/a", 50);
    assert_eq!(bench.replaced("/a"), [40]);
    bench.write_at("bob", "/b", 50);
    assert_eq!(bench.replaced("/a"), NONE);
    let more = ClientRequest::Create(CreateRequest { bytes_expected: Some(1), ..create("/c") });
    assert_eq!(bench.status_of("bob", more), Status::Refused);
}

// Promise 17, 30b.
#[test]
fn a_master_without_a_journal_finds_it_as_the_nodes_kept_it_or_as_if_it_had_been_removed() {
    for has_copies in [true, false] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.write_at("ann", "/d/f", 1);
        bench.write_at("ann", "/d/f", 2);
        bench.advance(seconds(3));
        let before = bench.versions("ann", "/d/f");
        if !has_copies {
            bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
        }
        bench.lose_journal(0);
        bench.join_each(&["n2", "n1"]);
        if !has_copies {
            bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
        }
        assert_eq!((bench.bytes_at("/d/f"), bench.conflicts()), (2, vec![]));
        match has_copies {
            true => assert_eq!((bench.versions("ann", "/d/f"), bench.removed()), (before.clone(), vec![])),
            false => assert_eq!(bench.removed()[0].at, before[0].at),
        }
        let back = bench.ask("ann", restore(&path(before[0].at.as_str()), Some("/back")));
        assert!(matches!(back, ClientReply::Entry(_)), "{back:?}");
        assert_eq!(bench.bytes_at("/back"), 1);
    }
}

// Promise 17.
#[test]
fn what_one_change_makes_and_removes_again_is_not_left_in_the_rows_of_the_nodes() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.done("ann", folder("/empty"));
    bench.master.catalog.versions_max = 0;
    bench.write_at("ann", "/d/f", 1);
    bench.write_at("ann", "/d/f", 2);
    bench.advance(seconds(3));
    assert_eq!(bench.replaced("/d/f"), NONE);
    // A folder without the one above it would make the whole copy useless.
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    assert!(bench.exists("/empty"));
    assert!(!bench.exists("/.trash/ann"));
}

// Promise 30b.
#[test]
fn a_node_that_was_away_when_it_was_replaced_brings_it_back_to_the_trash_alone() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.write_at("ann", "/f", 1);
    bench.advance(seconds(3));
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.write_at("ann", "/f", 2);
    bench.advance(seconds(3));
    bench.lose_journal(0);
    // The one that has it at its former path comes first.
    bench.come(&["n2", "n1"]);
    bench.advance(seconds(70));
    assert_eq!((bench.bytes_at("/f"), bench.replaced("/f"), bench.conflicts()), (2, vec![1], vec![]));
    let at = bench.versions("ann", "/f")[0].at.to_string();
    assert!(bench.node("n2").paths().contains(&at), "{:?}", bench.node("n2").paths());
}
