//! What comes back from the small rows that the nodes keep: folders, policies, quotas, the trash.

use protocol::message::request::{
    FinishRebuildRequest, MakeFolderRequest, PolicyRequest, QuotasRequest, RemoveRequest, RestoreRequest,
    SetPolicyRequest, SetQuotaRequest, TrashRequest,
};

use super::*;

#[test]
fn nodes_keep_every_folder_and_no_file_and_learn_what_they_missed() {
    let mut bench = filled(&["a/1", "b/1"]);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.mkdir("ann", "/later");
    bench.remove("/ann/empty");
    bench.advance(seconds(1));
    let newer = bench.node("n1").mirror.clone().unwrap();
    assert!(newer.mark.sequence > bench.node("n2").mirror.as_ref().unwrap().mark.sequence);
    bench.join_each(&["n2"]);
    let copies: Vec<_> = bench.nodes.values().map(|fake| fake.mirror.clone().unwrap()).collect();
    assert_eq!(copies[0].rows, copies[1].rows);
    let kept = |table: &str| copies[0].rows.keys().filter(|(of, _)| of == table).count();
    // The root, and `/ann`, `/bob`, `/later`.
    assert_eq!((kept("names"), kept("members"), kept("jobs")), (4, 2, 0));
    let is_full = |order: &Order| matches!(order, Order::Mirror(MirrorUpdate { base: MirrorBase::Page { .. }, .. }));
    assert_eq!(bench.node("n2").orders.iter().filter(|order| is_full(order)).count(), 1, "the rest came as changes");
    // A master that starts again has no log of changes; a node that has all rows needs nothing.
    bench.restart_master();
    bench.nodes.values_mut().for_each(|fake| fake.orders.clear());
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(5));
    let keeps = |bench: &Bench| {
        bench.nodes.values().flat_map(|fake| &fake.orders).filter(|order| matches!(order, Order::Mirror(_))).count()
    };
    assert_eq!(keeps(&bench), 0);
}

#[test]
fn nobody_is_told_to_keep_what_is_not_durable() {
    let mut bench = filled(&["a/1"]);
    let before = bench.node("n1").mirror.clone().unwrap().rows;
    bench.saves = false;
    bench.ask_later("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/x"), parents: false }));
    bench.advance(seconds(3));
    assert_eq!(bench.node("n1").mirror.as_ref().unwrap().rows, before);
    bench.saves = true;
    bench.run();
    bench.advance(seconds(3));
    assert_ne!(bench.node("n1").mirror.as_ref().unwrap().rows, before);
}

#[test]
fn the_newest_copy_is_taken_whoever_comes_first() {
    for ids in [["n1", "n2", "n3"], ["n3", "n2", "n1"], ["n2", "n3", "n1"]] {
        let mut bench = filled(&["a/1", "b/1", "c/1"]);
        for (away, folder) in [("n2", "/two"), ("n3", "/three")] {
            bench.crash(away);
            bench.advance(seconds(12));
            bench.mkdir("ann", folder);
            bench.rename("/ann/empty", &format!("{folder}/empty"));
            bench.rename(&format!("{folder}/empty"), "/ann/empty");
            bench.advance(seconds(1));
        }
        bench.remove("/ann/empty");
        bench.advance(seconds(1));
        let before = bench.names_of();
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.names_of(), before, "{ids:?}");
        let copy = bench.rebuild_status().copy.unwrap();
        assert_eq!(copy.0, node("n1"));
        assert_eq!(bench.conflicts(), []);
    }
}

// Promise 17.
#[test]
fn policies_and_quotas_are_in_force_again_and_files_that_have_one_keep_their_ids() {
    let mut bench = filled(&["a/1", "b/1"]);
    let (file, folder) = (bench.stat("/ann/f2").entry.id, bench.stat("/bob").entry.id);
    let set = |at: &str, policy| ClientRequest::SetPolicy(SetPolicyRequest { path: path(at), policy });
    let of_folder = Policy { lifetime_seconds: Some(3_600), quota_files: Some(6), ..Policy::default() };
    let of_file = Policy { sites_forbidden: vec!["c".into()], copies: Some(1), ..Policy::default() };
    let quota =
        ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: None, files: Some(6) });
    for request in [set("/bob", of_folder), set("/ann/f2", of_file)] {
        assert!(matches!(bench.ask("admin", request), ClientReply::Policy(_)));
    }
    bench.done("admin", quota);
    // The file changes after it has its policy.
    bench.put("ann", CreateRequest { copies: Some(1), sync_copies: Some(1), ..create("/ann/f2") }, 222);
    bench.advance(seconds(3));
    let state = |bench: &mut Bench| {
        let policies = ["/bob", "/ann/f2"].map(|at| bench.ask("admin", ClientRequest::Policy(PolicyRequest(path(at)))));
        (policies, bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })))
    };
    let before = state(&mut bench);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    assert_eq!((bench.stat("/ann/f2").entry.id, bench.stat("/bob").entry.id), (file, folder));
    assert_eq!(content(&bench.stat("/ann/f2").entry).bytes, 222);
    assert_eq!(bench.conflicts(), []);
    assert_eq!(state(&mut bench), before);
    for user in ["ann", "bob"] {
        let more = ClientRequest::Create(create(&format!("/{user}/more")));
        assert_eq!(bench.refused(user, more).status(), Status::Refused, "{user} has six files");
    }
    // As durable as before; and files end when they should have.
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    assert_eq!(state(&mut bench), before);
    bench.advance(seconds(3_700));
    assert!(!bench.exists("/bob/f1") && bench.exists("/ann/f0"));
}

// Promise 17.
#[test]
fn what_was_in_the_trash_can_be_restored_as_it_was_removed() {
    for has_copies in [true, false] {
        let mut bench = filled(&["a/1", "b/1"]);
        let to_trash = |at: &str| ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false });
        bench.done("ann", to_trash("/ann/f0"));
        bench.done("bob", to_trash("/bob"));
        bench.advance(seconds(3));
        if !has_copies {
            bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
        }
        bench.lose_journal(0);
        bench.join_each(&["n2", "n1"]);
        if !has_copies {
            bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
        }
        assert!(!bench.exists("/bob/f1") && !bench.exists("/ann/f0"));
        let trash = bench.ask("admin", ClientRequest::Trash(TrashRequest { all_users: true, after: None }));
        let ClientReply::Trash(trash) = trash else { panic!("{trash:?}") };
        // Without a copy nobody knows that it was one folder.
        assert_eq!(trash.items.len(), if has_copies { 2 } else { 7 });
        let restore = |at: &str| ClientRequest::Restore(RestoreRequest { path: path(at), to: None });
        for (user, at) in [("ann", "/ann/f0"), ("bob", if has_copies { "/bob" } else { "/bob/f1" })] {
            assert!(matches!(bench.ask(user, restore(at)), ClientReply::Entry(_)), "{at}");
        }
        assert!(bench.exists("/bob/f1") && bench.exists("/ann/f0"));
        bench.advance(seconds(5));
        assert_eq!(bench.conflicts(), []);
    }
}

#[test]
fn a_file_that_left_the_trash_is_kept_no_longer_and_its_old_row_misleads_nobody() {
    let mut bench = filled(&["a/1", "b/1"]);
    let names_kept = |bench: &Bench| {
        bench.node("n1").mirror.as_ref().unwrap().rows.keys().filter(|(table, _)| table == "names").count()
    };
    let at_first = names_kept(&bench);
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/ann/f0"), recursive: false, now: false }));
    bench.advance(seconds(3));
    assert!(names_kept(&bench) > at_first);
    bench.ask("ann", ClientRequest::Restore(RestoreRequest { path: path("/ann/f0"), to: None }));
    bench.advance(seconds(3));
    // What stays is the root of the trash.
    assert_eq!(names_kept(&bench), at_first + 1);
    bench.rename("/ann/f0", "/ann/other");
    bench.put("ann", create("/ann/f0"), 500);
    bench.advance(seconds(3));
    let before = bench.names_of();
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    assert_eq!((bench.names_of(), bench.conflicts()), (before, vec![]));
}

#[test]
fn a_folder_that_was_being_removed_does_not_come_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    for index in 0..700 {
        bench.mkdir("ann", &format!("/large/{index}"));
    }
    bench.put("ann", create("/f"), 5);
    bench.advance(seconds(3));
    // Its rows do not reach the nodes' copies before the master's disk is lost: only that it was cut off does.
    let cut = {
        let id = bench.stat("/large").entry.id;
        bench.master.catalog.remove_entry(&path("/large"), true).unwrap();
        bench.master.catalog.names().row_of(id).unwrap()
    };
    let RowChange::Set { table, key, value } = cut else { panic!("one row says so") };
    for fake in bench.nodes.values_mut() {
        let rows = &mut fake.mirror.as_mut().unwrap().rows;
        assert!(rows.insert((table.to_owned(), key.clone()), value.clone()).is_some());
    }
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(5));
    assert_eq!(bench.names_of(), [("/f".to_owned(), "ann".to_owned())]);
    let names = bench.rows.keys().filter(|(table, _)| *table == "names").count();
    assert_eq!(names, 2, "the root and the file: nothing of it is left");
}
