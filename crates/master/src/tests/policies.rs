//! Policies: who sets them, what they mean for files, and that they go where their entries go.

#![allow(clippy::unwrap_used)]

use protocol::{
    FileId, Policy,
    message::{
        client_master::PolicyStatus,
        request::{
            AbandonRequest, MakeFolderRequest, PolicyRequest, RemoveRequest, RenameRequest, RestoreRequest,
            SetPolicyRequest, UsageRequest,
        },
    },
};

use super::*;
use crate::replicas::desired_replication::DesiredReplication;

pub(super) fn folder(at: &str) -> ClientRequest {
    ClientRequest::MakeFolder(MakeFolderRequest { path: path(at), parents: true })
}

pub(super) fn rename(from: &str, to: &str) -> ClientRequest {
    ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) })
}

pub(super) fn set(at: &str, policy: Policy) -> ClientRequest {
    ClientRequest::SetPolicy(SetPolicyRequest { path: path(at), policy })
}

pub(super) fn copies(copies: u8) -> Policy {
    Policy { copies: Some(copies), ..Policy::default() }
}

fn sites(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Bench {
    /// Sets a policy and gives the warnings.
    pub(super) fn set_policy(&mut self, user: &str, at: &str, policy: Policy) -> Vec<String> {
        match self.ask(user, set(at, policy)) {
            ClientReply::Policy(PolicyStatus { warnings, .. }) => warnings,
            other => panic!("{other:?}"),
        }
    }

    /// What an entry says itself and what holds for it.
    fn policy(&mut self, at: &str) -> (Policy, Policy) {
        match self.ask("admin", ClientRequest::Policy(PolicyRequest(path(at)))) {
            ClientReply::Policy(PolicyStatus { own, effective, .. }) => (own, effective),
            other => panic!("{other:?}"),
        }
    }

    fn copies_of(&mut self, at: &str) -> (u8, usize) {
        let status = self.stat(at);
        let good = status.copies.iter().filter(|copy| copy.state == protocol::message::client_master::CopyState::Ok);
        (content(&status.entry).copies, good.count())
    }

    fn desired_replication(&self, at: &str) -> DesiredReplication {
        self.master.policy_replication(self.master.catalog.names().find(&path(at)).unwrap())
    }
}

// Promise 28.
#[test]
fn all_files_below_a_folder_follow_when_its_number_of_copies_changes() {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1", "b/2"]);
    bench.done("ann", folder("/d/e"));
    for at in ["/d/f", "/d/e/g", "/other"] {
        bench.put("ann", create(at), 10);
    }
    bench.put("ann", CreateRequest { copies: Some(1), ..create("/d/own") }, 10);
    bench.set_policy("ann", "/d", copies(4));
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/d/f"), (4, 4));
    assert_eq!(bench.copies_of("/d/e/g"), (4, 4));
    assert_eq!(bench.copies_of("/d/own"), (1, 1), "what the uploader asked for is the file's own");
    assert_eq!(bench.copies_of("/other"), (2, 2));
    bench.set_policy("ann", "/d/e", copies(3));
    bench.set_policy("ann", "/d", Policy::default());
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/d/f"), (2, 2), "again as the cloud says");
    assert_eq!(bench.copies_of("/d/e/g"), (3, 3), "the nearer folder has its way");
    assert_eq!(bench.health(), Health::default());
}

// Promise 28.
#[test]
fn a_files_own_policy_is_in_its_sidecars_and_outlives_an_overwrite_and_the_journal() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.set_policy("ann", "/f", copies(3));
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/f"), (3, 3));
    for fake in bench.nodes.values() {
        let held = &fake.held[&slice];
        assert_eq!((held.metadata.header.copies, held.state), (3, HeldState::Placed));
    }
    bench.put("ann", create("/f"), 20);
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/f"), (3, 3));
    bench.rows.clear();
    bench.now = bench.now.after(seconds(3_600));
    bench.restart_master();
    ["n1", "n2", "n3"].iter().for_each(|id| bench.join(id));
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/f"), (3, 3));
    bench.set_policy("ann", "/f", Policy::default());
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/f"), (2, 2));
}

#[test]
fn a_node_that_was_away_is_told_of_a_changed_wish_when_it_returns() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.set_policy("ann", "/f", copies(1));
    bench.set_policy("ann", "/f", copies(2));
    bench.join("n2");
    bench.advance(seconds(1));
    assert_eq!(bench.node("n2").held[&slice].metadata.header.copies, 2);
}

#[test]
fn an_upload_waits_for_as_many_synced_copies_as_its_folder_says() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.done("ann", folder("/d"));
    bench.set_policy("ann", "/d", Policy { copies: Some(3), sync_copies: Some(3), ..Policy::default() });
    let created = bench.created("ann", CreateRequest { parents: true, ..create("/d/e/f") });
    assert_eq!(created.chain.len(), 2);
    bench.write_to_target(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    bench.store(created.chain[0].node.as_str(), write_header(&created.chain[0]), 10);
    assert_eq!(bench.answer(number), None, "two of three");
    bench.store(created.chain[1].node.as_str(), write_header(&created.chain[1]), 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
}

#[test]
fn a_policy_follows_its_entry_and_goes_with_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.done("ann", folder("/a/b"));
    bench.done("ann", folder("/x"));
    bench.set_policy("ann", "/a/b", Policy { sites_wanted: sites(&["a", "b"]), ..copies(3) });
    bench.set_policy("ann", "/x", copies(1));
    bench.put("ann", create("/a/b/f"), 1);
    bench.done("ann", rename("/a/b", "/x/b"));
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/x/b/f"), (3, 3));
    assert_eq!(bench.desired_replication("/x/b/f").sites_wanted, ["a", "b"]);
    bench.done("ann", rename("/x/b/f", "/x/f"));
    bench.advance(seconds(5));
    assert_eq!(bench.copies_of("/x/f"), (1, 1), "the file said nothing itself");

    bench.restart_master();
    ["n1", "n2", "n3"].iter().for_each(|id| bench.join(id));
    assert_eq!(bench.policy("/x/b").0, Policy { sites_wanted: sites(&["a", "b"]), ..copies(3) });
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/x"), recursive: true, now: true }));
    assert!(!bench.rows.keys().any(|(table, _)| *table == "policies"), "no row is left of what is gone");
    bench.done("ann", folder("/x/b"));
    assert_eq!(bench.policy("/x/b").0, Policy::default());
}

#[test]
fn only_owners_set_policies_and_only_administrators_quotas() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d"));
    let quota = Policy { quota_files: Some(5), ..Policy::default() };
    let refusal = bench.refused("bob", set("/d", copies(2)));
    assert_eq!((refusal.status(), refusal.message.contains("belongs to ann")), (Status::Refused, true));
    assert!(bench.refused("ann", set("/d", quota.clone())).message.contains("quota"));
    assert_eq!(bench.status_of("ann", set("/", copies(1))), Status::Refused);
    bench.set_policy("admin", "/d", quota.clone());
    // The owner may change the rest, as long as the quota stays as it is.
    bench.set_policy("ann", "/d", Policy { copies: Some(1), ..quota });
    assert_eq!(bench.status_of("ann", set("/d", copies(1))), Status::Refused);
    bench.set_policy("admin", "/", copies(1));
    bench.put("ann", create("/f"), 1);
    assert_eq!(bench.copies_of("/f").0, 1);
}

#[test]
fn what_makes_no_sense_is_refused_and_what_cannot_be_done_yet_is_warned_of() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { parents: true, ..create("/d/f") }, 1);
    assert_eq!(bench.status_of("ann", set("/d", copies(17))), Status::Usage);
    let together = Policy { colocated: Some(true), ..Policy::default() };
    assert_eq!(bench.status_of("ann", set("/d/f", together)), Status::Usage);
    assert_eq!(bench.status_of("ann", set("/none", copies(1))), Status::NotFound);
    let created = bench.created("ann", create("/d/f"));
    assert!(bench.refused("ann", set("/d/f", copies(1))).message.contains("being written"));
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
    let desired = Policy { copies: Some(5), sites_wanted: sites(&["a", "moon"]), ..Policy::default() };
    let warnings = bench.set_policy("ann", "/d", desired);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("`moon`") && warnings[1].contains("there are 2"), "{warnings:?}");
    assert!(bench.set_policy("ann", "/d", copies(2)).is_empty());
}

// Promise 29.
#[test]
fn files_are_removed_when_their_lifetime_has_passed_since_they_were_written() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d/keep"));
    let days = |days: u64| Policy { lifetime_seconds: Some(days * 86_400), ..Policy::default() };
    bench.put("ann", create("/d/old"), 1);
    bench.set_policy("ann", "/d", days(2));
    bench.set_policy("ann", "/d/keep", days(1_000));
    for at in ["/d/new", "/d/keep/f", "/elsewhere"] {
        bench.put("ann", create(at), 1);
    }
    let day = |bench: &mut Bench| {
        // A day of the wall clock in an hour of the other, so that the test takes no more.
        bench.sleep(Duration::from_millis(23 * 3_600_000));
        bench.advance(seconds(1));
        bench.sleep(Duration::from_millis(3_600_000));
        bench.advance(seconds(1));
    };
    day(&mut bench);
    assert!(bench.exists("/d/old"));
    bench.put("ann", create("/d/new"), 2);
    // Also what comes by a rename, counted from when it was written.
    bench.done("ann", rename("/elsewhere", "/d/moved"));
    // The queue is in no row: it is made again at the start.
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(1));
    day(&mut bench);
    assert!(!bench.exists("/d/old") && !bench.exists("/d/moved"));
    assert!(bench.exists("/d/new") && bench.exists("/d/keep/f"));
    assert!(bench.exists("/d"), "folders stay");
    bench.set_policy("ann", "/d", days(30));
    day(&mut bench);
    assert!(bench.exists("/d/new"), "its folder thinks otherwise by now");
    bench.set_policy("ann", "/d", days(1));
    bench.advance(seconds(2));
    assert!(!bench.exists("/d/new"));
    let ClientReply::Entry(entry) =
        bench.ask("ann", ClientRequest::Restore(RestoreRequest { path: path("/d/new"), to: Some(path("/n")) }))
    else {
        panic!("it went to the trash, as with `rm`")
    };
    assert_eq!(content(&entry).bytes, 2);
}

// Promise 29.
#[test]
fn a_thousand_files_that_end_at_once_go_in_steps() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", folder("/d"));
    bench.set_policy("ann", "/d", Policy { lifetime_seconds: Some(100), ..Policy::default() });
    for index in 0..1_200 {
        bench.put("ann", create(&format!("/d/{index}")), 1);
    }
    let left = |bench: &mut Bench| match bench.ask("ann", ClientRequest::Usage(UsageRequest(path("/d")))) {
        ClientReply::Usage(usage) => usage.files,
        other => panic!("{other:?}"),
    };
    bench.now.unix_millis += 101_000;
    bench.master.handle_timeout(bench.now.after(seconds(1)));
    assert!(left(&mut bench) >= 1_200 - 64, "one call does one step");
    bench.advance(seconds(4));
    assert_eq!(left(&mut bench), 0);
}

/// The obvious way: from the top down, each entry looks at all that stand above it.
fn by_the_book(
    tree: &BTreeMap<Vec<u8>, Policy>,
    at: &[u8],
    together_of: impl Fn(&[u8]) -> FileId,
) -> DesiredReplication {
    let line: Vec<&[u8]> = (0..=at.len()).rev().map(|length| &at[..length]).collect();
    let nearest = |says: &dyn Fn(&Policy) -> bool| line.iter().position(|at| tree.get(*at).is_some_and(says));
    let policy = |level: usize| &tree[line[level]];
    let wanted = nearest(&|policy| !policy.sites_wanted.is_empty());
    let forbidden = nearest(&|policy| !policy.sites_forbidden.is_empty());
    let mut desired = DesiredReplication {
        copies: nearest(&|policy| policy.copies.is_some()).map_or(2, |level| policy(level).copies.unwrap()),
        sites_wanted: wanted.map(|level| policy(level).sites_wanted.clone()).unwrap_or_default(),
        sites_forbidden: forbidden.map(|level| policy(level).sites_forbidden.clone()).unwrap_or_default(),
        colocated_folder: None,
        is_in_memory: false,
    };
    if let (Some(wanted), Some(forbidden)) = (wanted, forbidden) {
        let both: Vec<_> =
            desired.sites_wanted.iter().filter(|site| desired.sites_forbidden.contains(site)).cloned().collect();
        let loser = if wanted < forbidden { &mut desired.sites_forbidden } else { &mut desired.sites_wanted };
        loser.retain(|site| !both.contains(site));
    }
    if let Some(level) = nearest(&|policy| policy.colocated.is_some())
        && policy(level).colocated == Some(true)
    {
        desired.colocated_folder = Some(together_of(line[level]));
    }
    desired
}

fn draw_policy(rng: &mut fastrand::Rng, is_file: bool) -> Policy {
    let draw_sites = |rng: &mut fastrand::Rng, taken: &[String]| {
        let names = ["a", "b", "c", "d"].iter().filter(|_| rng.u8(..4) == 0).map(|name| (*name).to_owned());
        names.filter(|name| !taken.contains(name)).collect::<Vec<_>>()
    };
    let sites_wanted = draw_sites(rng, &[]);
    Policy {
        copies: rng.bool().then(|| rng.u8(1..=5)),
        sites_forbidden: draw_sites(rng, &sites_wanted),
        sites_wanted,
        colocated: (!is_file && rng.u8(..3) == 0).then(|| rng.bool()),
        ..Policy::default()
    }
}

// Promise 28.
#[test]
fn what_holds_for_a_file_is_what_an_obvious_model_says_in_any_tree() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bench = Bench::with_nodes(&["a/1"]);
        let text = |at: &[u8]| {
            if at.is_empty() {
                "/".to_owned()
            } else {
                at.iter().map(|name| format!("/{}", char::from(*name))).collect()
            }
        };
        let (mut tree, mut files) = (BTreeMap::new(), Vec::new());
        for _ in 0..6 {
            let mut at: Vec<u8> = (0..rng.usize(1..4)).map(|_| rng.u8(b'a'..=b'c')).collect();
            bench.done("admin", folder(&text(&at)));
            at.push(b'f');
            bench.put("admin", create(&text(&at)), 1);
            files.push(at);
        }
        for _ in 0..14 {
            let file = files[rng.usize(..files.len())].clone();
            let at = file[..rng.usize(..=file.len())].to_vec();
            let policy = draw_policy(&mut rng, at.len() == file.len());
            bench.set_policy("admin", &text(&at), policy.clone());
            tree.insert(at, policy);
        }
        let check = |bench: &Bench, files: &[Vec<u8>], tree: &BTreeMap<Vec<u8>, Policy>| {
            for file in files {
                let id_of = |at: &[u8]| bench.master.catalog.names().find(&path(&text(at))).unwrap();
                assert_eq!(
                    bench.desired_replication(&text(file)),
                    by_the_book(tree, file, id_of),
                    "seed {seed}: {}",
                    text(file)
                );
            }
        };
        check(&bench, &files, &tree);
        // A folder takes all that was said in it along.
        let top = files[0][0];
        bench.done("admin", rename(&text(&[top]), "/z"));
        let moved = |at: &[u8]| if at.first() == Some(&top) { [b"z", &at[1..]].concat() } else { at.to_vec() };
        let files: Vec<_> = files.iter().map(|file| moved(file)).collect();
        let tree = tree.into_iter().map(|(at, policy)| (moved(&at), policy)).collect();
        check(&bench, &files, &tree);
        bench.restart_master();
        check(&bench, &files, &tree);
    }
}
