//! Quotas: of users and of folders, counted right whatever happens.

#![allow(clippy::unwrap_used)]

use protocol::{
    Policy, Reason,
    message::{
        client_master::{QuotaOf, QuotaStatus, Usage},
        request::{
            EmptyTrashRequest, ListRequest, QuotasRequest, RemoveRequest, RestoreRequest, SetPolicyRequest,
            SetQuotaRequest, UsageRequest,
        },
    },
};

use super::{
    policies::{folder, rename},
    *,
};

fn set_quota(user: &str, bytes: Option<u64>, files: Option<u64>) -> ClientRequest {
    ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new(user).unwrap(), bytes, files })
}

fn rm(at: &str, now: bool) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now })
}

fn of_bytes(bytes: u64) -> Policy {
    Policy { quota_bytes: Some(bytes), ..Policy::default() }
}

fn with_bytes(at: &str, bytes: u64) -> CreateRequest {
    CreateRequest { bytes_expected: Some(bytes), parents: true, ..create(at) }
}

impl Bench {
    fn quotas(&mut self, user: &str) -> Vec<QuotaStatus> {
        match self.ask(user, ClientRequest::Quotas(QuotasRequest { after: None })) {
            ClientReply::Quotas(page) => page.quotas,
            other => panic!("{other:?}"),
        }
    }

    /// Bytes and files of a user or folder.
    fn used(&mut self, of: &QuotaOf) -> (u64, u64) {
        let quota = self.quotas("admin").into_iter().find(|quota| quota.of == *of);
        quota.map_or((0, 0), |quota| (quota.used_bytes, quota.used_files))
    }
}

fn user(name: &str) -> QuotaOf {
    QuotaOf::User(UserName::new(name).unwrap())
}

#[test]
fn who_may_keep_no_more_is_told_who_what_how_much_and_what_to_do() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("admin", set_quota("ann", Some(100), Some(3)));
    bench.put("ann", with_bytes("/a", 60), 60);
    let refusal = bench.refused("ann", ClientRequest::Create(with_bytes("/b", 41)));
    assert_eq!(refusal.status(), Status::Refused);
    for word in ["ann", "`/b`", "100 bytes", "has 60", "101", "sector trash empty", "administrator"] {
        assert!(refusal.message.contains(word), "{word}: {refusal}");
    }
    bench.put("bob", with_bytes("/bobs", 5_000), 5_000);
    // Nobody knew how much would come: then it is the end of the write that is refused, and nothing stays of it.
    let created = bench.created("ann", CreateRequest { bytes_expected: None, ..create("/b") });
    bench.write(&created, 41);
    let number = bench.commit_later("ann", created.lease, 41);
    assert!(matches!(bench.answer(number), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Refused));
    assert!(!bench.exists("/b") && bench.holders(created.slice).is_empty());
    bench.put("ann", with_bytes("/b", 40), 40);
    bench.put("ann", with_bytes("/empty", 0), 0);
    assert!(bench.refused("ann", ClientRequest::Create(with_bytes("/fourth", 0))).message.contains("3 files"));
    // A write that does not grow the usage is always allowed, even to a user over quota.
    bench.done("admin", set_quota("ann", Some(1), Some(1)));
    bench.put("ann", with_bytes("/a", 59), 59);
    bench.done("ann", rename("/a", "/c"));
    assert_eq!(bench.used(&user("ann")), (99, 3));
    bench.done("admin", set_quota("ann", None, None));
    bench.put("ann", with_bytes("/large", 5_000), 5_000);
}

// Promise 31.
#[test]
fn two_writes_at_once_do_not_slip_through_together() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("admin", set_quota("ann", Some(100), None));
    // Nobody knows how long they will be: else the second would be refused before it was begun.
    let unknown = |at| CreateRequest { bytes_expected: None, ..create(at) };
    let (first, second) = (bench.created("ann", unknown("/a")), bench.created("ann", unknown("/b")));
    bench.write(&first, 60);
    bench.write(&second, 60);
    let (first, second) = (bench.commit_later("ann", first.lease, 60), bench.commit_later("ann", second.lease, 60));
    assert!(matches!(bench.answer(first), Some(ClientReply::Entry(_))));
    assert!(matches!(bench.answer(second), Some(ClientReply::Refused(_))));
}

// Promise 31.
#[test]
fn a_quota_with_room_but_for_ones_own_writes_refuses_and_waits_only_for_others() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d"));
    bench.set_policy("admin", "/d", of_bytes(100));
    let open = bench.created("admin", with_bytes("/d/a", 60));
    let refusal = bench.refused("admin", ClientRequest::Create(with_bytes("/d/b", 60)));
    assert!(refusal.reason == Reason::QuotaExceeded && refusal.message.contains("would have 120"), "{refusal}");
    bench.done("admin", set_quota("admin", None, Some(1)));
    let refusal = bench.refused("admin", ClientRequest::Create(with_bytes("/c", 1)));
    assert!(refusal.reason == Reason::QuotaExceeded && refusal.message.contains("may keep 1 files"), "{refusal}");
    // Another's write may yet end without a file.
    let refusal = bench.refused("ann", ClientRequest::Create(with_bytes("/d/b", 60)));
    assert!(matches!(refusal.reason, Reason::TooManyRequests { .. }), "{refusal}");
    bench.done("admin", ClientRequest::Abandon(protocol::message::request::AbandonRequest(open.lease)));
    bench.put("ann", with_bytes("/d/b", 60), 60);
}

#[test]
fn the_trash_counts_until_it_is_empty_and_an_overwritten_file_counts_for_its_owner() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", with_bytes("/a", 60), 60);
    bench.put("admin", with_bytes("/a", 70), 70);
    assert_eq!((bench.used(&user("ann")), bench.used(&user("admin"))), ((70, 1), (0, 0)));
    bench.done("admin", set_quota("ann", Some(100), None));
    assert_eq!(bench.status_of("admin", ClientRequest::Create(with_bytes("/a", 101))), Status::Refused);
    bench.done("ann", rm("/a", false));
    assert_eq!(bench.status_of("ann", ClientRequest::Create(with_bytes("/b", 31))), Status::Refused);
    bench.done("ann", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }));
    bench.advance(seconds(2));
    assert_eq!(bench.used(&user("ann")), (0, 0));
    bench.put("ann", with_bytes("/b", 100), 100);
}

// Promise 31.
#[test]
fn a_folder_holds_no_more_than_its_quota_however_it_gets_there() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("ann", with_bytes("/d/e/f", 50), 50);
    bench.put("bob", with_bytes("/other/g", 60), 60);
    bench.put("bob", with_bytes("/other/h", 10), 10);
    bench.set_policy("admin", "/d", of_bytes(100));
    bench.set_policy("admin", "/d/e", of_bytes(1_000));
    let refusal = bench.refused("admin", rename("/other", "/d/e/other"));
    assert!(refusal.status() == Status::Refused && refusal.message.contains("the folder `/d` "), "{refusal}");
    assert_eq!(bench.status_of("admin", ClientRequest::Create(with_bytes("/d/new/deep", 51))), Status::Refused);
    // Replaced files make room.
    bench.done("admin", rename("/other/g", "/d/e/f"));
    assert_eq!(bench.used(&QuotaOf::Folder(path("/d"))), (60, 1));
    assert_eq!(bench.used(&user("ann")), (0, 0), "hers was replaced");
    bench.done("admin", rename("/d/e/f", "/d/f"));
    assert_eq!(bench.used(&QuotaOf::Folder(path("/d/e"))), (0, 0));
    // What goes to the trash is out of the folder, and must fit in again to come back.
    bench.done("admin", rm("/d/f", false));
    assert_eq!(bench.used(&QuotaOf::Folder(path("/d"))), (0, 0));
    bench.put("ann", with_bytes("/d/x", 70), 70);
    let restore = |to: &str| ClientRequest::Restore(RestoreRequest { path: path("/d/f"), to: Some(path(to)) });
    assert_eq!(bench.status_of("admin", restore("/d/f")), Status::Refused);
    assert!(matches!(bench.ask("admin", restore("/f")), ClientReply::Entry(_)));
    let warnings = bench.set_policy("admin", "/d", of_bytes(10));
    assert!(warnings.len() == 1 && warnings[0].contains("70 bytes"), "{warnings:?}");
    bench.done("admin", rm("/d", true));
    assert!(!bench.quotas("admin").iter().any(|quota| matches!(quota.of, QuotaOf::Folder(_))));
}

#[test]
fn quotas_are_set_by_administrators_seen_by_their_users_and_outlive_a_restart() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("admin", set_quota("ann", Some(7), None));
    bench.done("admin", set_quota("bob", None, Some(3)));
    assert_eq!(bench.status_of("ann", set_quota("ann", None, None)), Status::Refused);
    bench.done("bob", folder("/b"));
    bench.set_policy("admin", "/b", of_bytes(9));
    bench.restart_master();
    let quota = |of, bytes, files| QuotaStatus { of, used_bytes: 0, used_files: 0, bytes, files };
    let (ann, bob) = (quota(user("ann"), Some(7), None), quota(user("bob"), None, Some(3)));
    let shared = quota(QuotaOf::Folder(path("/b")), Some(9), None);
    assert_eq!(bench.quotas("admin"), [ann.clone(), bob.clone(), shared.clone()]);
    assert_eq!(bench.quotas("ann"), [ann]);
    assert_eq!(bench.quotas("bob"), [bob, shared]);
    bench.done("admin", set_quota("ann", None, None));
    assert!(bench.quotas("ann").is_empty());
    for index in 0..6_000 {
        bench.done("admin", set_quota(&format!("{index:04}-{}", "x".repeat(50)), Some(1), None));
    }
    let (mut seen, mut after) = (0, None);
    loop {
        let ClientReply::Quotas(page) = bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after })) else {
            panic!()
        };
        seen += page.quotas.len();
        let message = codec::encode(&ClientReply::Quotas(page.clone()));
        assert!(message.len() <= protocol::limits::MESSAGE_BYTES_MAX);
        if !page.more {
            break;
        }
        after = page.quotas.last().map(|quota| quota.of.clone());
    }
    assert_eq!(seen, 6_002);
}

/// What a walk over all names finds, beside what is counted all the time.
fn check_counts(bench: &mut Bench, seed: u64) {
    let mut of_users: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for at in ["/", "/.trash"] {
        let list =
            ClientRequest::List(ListRequest { folder: path(at), recursive: true, after: None, with_nodes: false });
        let ClientReply::Page(page) = bench.ask("admin", list) else { continue };
        assert!(!page.more);
        for entry in &page.entries {
            // Replaced content is in nobody's way, and is not counted.
            if let EntryKind::File(content) = &entry.kind
                && !bench.is_replaced(&entry.path)
            {
                let sum = of_users.entry(entry.owner.to_string()).or_default();
                *sum = (sum.0 + content.bytes, sum.1 + 1);
            }
        }
    }
    for quota in bench.quotas("admin") {
        let expected = match &quota.of {
            QuotaOf::User(user) => of_users.remove(user.as_str()).unwrap_or_default(),
            // The random ones are below the root, and the trash is not below them.
            QuotaOf::Folder(at) => match bench.ask("admin", ClientRequest::Usage(UsageRequest(at.clone()))) {
                ClientReply::Usage(Usage { bytes, files, .. }) => (bytes, files),
                other => panic!("{other:?}"),
            },
        };
        assert_eq!((quota.used_bytes, quota.used_files), expected, "seed {seed}: {:?}", quota.of);
    }
    assert!(of_users.is_empty(), "seed {seed}: {of_users:?} are not counted");
}

// Promise 31.
#[test]
fn what_is_counted_with_each_change_is_what_a_walk_finds() {
    for seed in 0..25 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let config = MasterConfig { trash: seconds(30), ..config() };
        let mut bench = Bench::configured(config, &["a/1"]);
        for step in 0..120 {
            let mut draw = |names: usize| {
                let name = |rng: &mut fastrand::Rng| format!("/{}", char::from(rng.u8(b'a'..=b'c')));
                (0..names).map(|_| name(&mut rng)).collect::<String>()
            };
            let (one, two, three) = (draw(1), draw(2), draw(3));
            let at = [&one, &two, &three][rng.usize(..3)].clone();
            let who = ["ann", "bob", "admin"][rng.usize(..3)];
            match rng.u8(..12) {
                0..4 => {
                    if let ClientReply::Created(created) = bench.ask(who, ClientRequest::Create(with_bytes(&at, step)))
                    {
                        bench.write(&created, step);
                        bench.commit_later(who, created.lease, step);
                    }
                }
                4 | 5 => drop(bench.ask("admin", rename(&at, &[one, two, three][rng.usize(..3)]))),
                6 => drop(bench.ask("admin", rm(&at, true))),
                7 => drop(bench.ask("admin", rm(&at, false))),
                8 => drop(bench.ask("admin", ClientRequest::Restore(RestoreRequest { path: path(&at), to: None }))),
                9 => {
                    let policy = if rng.bool() { of_bytes(1_000) } else { Policy::default() };
                    bench.ask("admin", ClientRequest::SetPolicy(SetPolicyRequest { path: path(&at), policy }));
                }
                10 if rng.u8(..3) == 0 => {
                    bench.restart_master();
                    bench.join("n1");
                }
                _ => bench.advance(seconds(rng.u64(..10))),
            }
            check_counts(&mut bench, seed);
        }
    }
}
