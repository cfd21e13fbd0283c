//! What the master tells the audit record, and the tickets it gives: to whom, of which file, and when they may go
//! plain.

use protocol::{
    Reason,
    message::{
        audit::{AuditKind, AuditOutcome, AuditQuery, AuditQuestion},
        node_master::TicketRefusal,
        request::{
            AdmitJobRequest, EmptyTrashRequest, LocateRequest, RemoveRequest, RenameRequest, RestoreRequest,
            SetQuotaRequest, StatRequest,
        },
    },
    refusals::{RecordBounds, SOURCE_REFUSALS_PER_DAY_MAX},
    ticket::{Holder, TicketFault},
};

use super::*;

#[test]
fn grants_acts_refusals_jobs_and_refused_tickets_are_recorded_and_reading_is_not() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    bench.put("ann", create("/a"), 1);
    bench.advance(seconds(1));
    bench.audited.clear();
    let quota =
        ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: Some(5), files: None });
    bench.ask("admin", quota.clone());
    bench.ask("ann", quota);
    bench.ask("ann", ClientRequest::Stat(StatRequest(path("/a"))));
    bench.ask("ann", ClientRequest::AdmitJob(AdmitJobRequest { title: "words".into(), output: None }));
    let refusal = TicketRefusal {
        unix_millis: 5,
        fault: TicketFault::NotHolder,
        user: Some(UserName::new("ann").unwrap()),
        from: "192.0.2.66".into(),
        why: "stolen".into(),
    };
    bench.report("n1", Report::TicketsRefused { refusals: vec![refusal], left_out: 2 });
    bench.advance(seconds(1));
    let told: Vec<_> = bench
        .audited
        .iter()
        .map(|event| (event.kind, event.who.as_str(), event.what.as_str(), event.object.as_str(), event.outcome))
        .collect();
    let (job, _) = told.iter().find(|event| event.0 == AuditKind::Job).map(|event| (event.3, ())).unwrap();
    let expected = [
        (AuditKind::Grant, "admin", "set quota", "ann", AuditOutcome::Done),
        (AuditKind::Refusal, "ann", "set quota", "ann", AuditOutcome::Refused),
        (AuditKind::Job, "ann", "begin job", job, AuditOutcome::Done),
        (AuditKind::Ticket, "ann", "show a ticket (not_holder)", "n1", AuditOutcome::Refused),
        (AuditKind::Ticket, "a stranger", "show tickets", "", AuditOutcome::Refused),
    ];
    assert_eq!(told, expected);
}

// Promise 26b.
#[test]
fn what_users_remove_and_rename_is_recorded_within_bounds_and_what_jobs_tidy_is_not() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    bench.put("ann", create("/a"), 1);
    bench.advance(seconds(1));
    bench.audited.clear();
    let rename = |from: &str, to: &str| ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) });
    let remove = |of: &str, now| ClientRequest::Remove(RemoveRequest { path: path(of), recursive: true, now });
    bench.ask("ann", rename("/a", "/b"));
    bench.ask("ann", remove("/b", false));
    bench.ask("ann", ClientRequest::Restore(RestoreRequest { path: path("/b"), to: Some(path("/c")) }));
    bench.ask("ann", remove("/c", true));
    bench.ask("ann", remove("/c", true));
    bench.ask("ann", remove("/.sphere-0123-0", true));
    bench.ask("ann", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }));
    bench.advance(seconds(1));
    let told: Vec<_> =
        bench.audited.iter().map(|event| (event.what.as_str(), event.object.as_str(), event.outcome)).collect();
    let done = AuditOutcome::Done;
    let expected =
        [("rename", "/a", done), ("remove", "/b", done), ("restore", "/b", done), ("remove for good", "/c", done)];
    assert_eq!(told[..4], expected);
    let nothing = ("remove for good", "/c", AuditOutcome::Failed);
    assert_eq!(told[4..], [nothing, ("empty trash", "", done)], "there was nothing any more, and no line of a job");
    assert!(bench.audited.iter().all(|event| event.kind == AuditKind::Removal && event.who == "ann"));
    assert_eq!((bench.audited[0].note.as_str(), bench.audited[2].note.as_str()), ("to /b", "to /c"));
    bench.audited.clear();
    for _ in 0..RecordBounds::REMOVALS.per_second + 7 {
        bench.ask("ann", remove("/none", false));
    }
    bench.advance(seconds(2));
    let last = bench.audited.last().unwrap();
    assert_eq!(bench.audited.len() as u64, RecordBounds::REMOVALS.per_second + 1);
    assert!(last.what == "leave out removals" && last.note.starts_with("7 more"), "{last:?}");
}

#[test]
fn a_question_about_the_record_waits_for_what_happened_before_it_and_for_nothing_else() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    bench.advance(seconds(1));
    bench.audited.clear();
    bench.security_asked.clear();
    let quota = |bytes| SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: Some(bytes), files: None };
    let show = || ClientRequest::Audit(AuditQuestion::Show(AuditQuery::default()));
    bench.audit_answers = false;
    bench.ask("admin", ClientRequest::SetQuota(quota(1)));
    assert!(bench.audited.is_empty(), "it waits for the next tick");
    bench.ask_later("admin", show());
    bench.run();
    assert_eq!(
        (bench.audited.len(), bench.security_asked.len()),
        (1, 0),
        "it is brought at once, and the question waits"
    );
    bench.ask("admin", ClientRequest::SetQuota(quota(2)));
    bench.audit_sent(Ok(()));
    bench.run();
    assert_eq!((bench.audited.len(), bench.security_asked.len()), (2, 1), "the later event is not waited for");
    bench.ask_later("admin", show());
    bench.run();
    assert_eq!(bench.security_asked.len(), 1);
    bench.audit_sent(Err(Refusal::new(Reason::Unavailable, "away")));
    bench.run();
    assert_eq!(bench.security_asked.len(), 2, "nobody waits for a security server that is away");
    bench.ask_later("admin", show());
    bench.run();
    assert_eq!(bench.security_asked.len(), 3);
}

#[test]
fn a_ticket_names_its_holder_its_file_and_never_its_number_twice() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    bench.put("ann", create("/a"), 1);
    let located = |bench: &mut Bench, user| match bench.ask(user, ClientRequest::Locate(LocateRequest(path("/a")))) {
        ClientReply::Located(located) => read_ticket(&located.sources[0].ticket),
        other => panic!("{other:?}"),
    };
    let (first, second, other) = (located(&mut bench, "ann"), located(&mut bench, "ann"), located(&mut bench, "bob"));
    assert_eq!(first.file.as_ref().unwrap().path, path("/a"));
    assert_eq!((first.plain_within.as_ref(), &first.holder), (None, &second.holder));
    assert!(first.number != second.number && second.number != other.number);
    assert!(matches!(first.holder, Holder::Client(_)) && first.holder != other.holder);
}

#[test]
fn the_next_key_takes_over_after_a_day_and_nodes_hear_which_one_follows() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    let keys = bench.master.ticket_keys();
    bench.node_mut("n1").orders.clear();
    bench.now = bench.now.after(protocol::limits::TICKET_KEY_LIFE);
    bench.master.handle_timeout(bench.now);
    bench.run();
    let rolled = bench.master.ticket_keys();
    assert_eq!(rolled.current, keys.next);
    assert!(bench.node("n1").orders.contains(&Order::TicketKeys(rolled)), "{:?}", bench.node("n1").orders);
}

// Promise 26a.
#[test]
fn data_goes_plain_only_where_the_operator_says_so_and_never_between_sites() {
    let plain = |bench: &mut Bench, from: [u8; 4]| {
        bench.login("ann", from.into());
        let mut sites: Vec<_> = bench
            .locate("ann", "/a")
            .sources
            .iter()
            .map(|source| (source.place.site.clone(), read_ticket(&source.ticket).plain_within))
            .collect();
        sites.sort();
        sites
    };
    let mut range = protocol::Topology::default();
    let spot = protocol::topology::PartialPlace { site: "uic".into(), rack: None };
    range.set_addresses("10.1.0.0/16".parse().unwrap(), spot).unwrap();
    for insecure_data in [false, true] {
        let mut bench = Bench::configured(MasterConfig { insecure_data, ..config() }, &["uic/r1", "jhu/r1"]);
        bench.master.set_topology(bench.now, None, range.clone());
        bench.put("ann", CreateRequest { copies: Some(2), ..create("/a") }, 1);
        bench.advance(seconds(1));
        let of_uic = insecure_data.then(|| "uic".to_owned());
        let (jhu, uic) = ("jhu".to_owned(), "uic".to_owned());
        assert_eq!(plain(&mut bench, [10, 1, 0, 7]), [(jhu.clone(), None), (uic.clone(), of_uic)]);
        assert_eq!(plain(&mut bench, [203, 0, 113, 9]), [(jhu, None), (uic, None)], "nobody knows where that is");
        let health = bench.health();
        assert_eq!(health.insecure_sites.is_empty(), !insecure_data);
        assert_eq!(health.reasons.iter().any(|reason| reason.contains("not encrypted")), insecure_data);
    }
}

// Promise 26b.
#[test]
fn tickets_shown_without_end_by_one_stranger_fill_no_record() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    bench.audited.clear();
    let refusal = |from: &str| TicketRefusal {
        unix_millis: 5,
        fault: TicketFault::Unsigned,
        user: None,
        from: from.into(),
        why: "made up".into(),
    };
    for _ in 0..100 {
        bench.report("n1", Report::TicketsRefused { refusals: vec![refusal("2001:db8::1"); 32], left_out: 10 });
        bench.advance(seconds(1));
    }
    let one_by_one =
        |bench: &Bench| bench.audited.iter().filter(|event| event.what.starts_with("show a ticket")).count();
    assert_eq!(one_by_one(&bench) as u64, SOURCE_REFUSALS_PER_DAY_MAX);
    let counts: Vec<_> = bench.audited.iter().filter(|event| event.what == "show tickets").collect();
    assert!((1..=2).contains(&counts.len()), "once a minute: {counts:?}");
    bench.report("n1", Report::TicketsRefused { refusals: vec![refusal("2001:db8:0:1::1")], left_out: 0 });
    // So with what a user may not do.
    let quota =
        ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: None, files: None });
    for _ in 0..100 {
        (0..10).for_each(|_| drop(bench.ask("ann", quota.clone())));
        bench.advance(seconds(1));
    }
    assert_eq!(one_by_one(&bench) as u64, SOURCE_REFUSALS_PER_DAY_MAX + 1);
    let of_ann = bench.audited.iter().filter(|event| event.who == "ann").count() as u64;
    assert_eq!(of_ann, SOURCE_REFUSALS_PER_DAY_MAX);
    bench.done("admin", quota);
    bench.advance(seconds(1));
    assert!(bench.audited.iter().any(|event| event.who == "admin"));
}

// Promise 26b.
#[test]
fn what_is_wrong_with_the_security_server_is_told_in_health() {
    let mut bench = Bench::with_nodes(&["uic/r1"]);
    bench.security_asked.clear();
    bench.advance(seconds(61));
    let asked = bench.security_asked.iter().find(|(_, request)| *request == SecurityRequest::Health).cloned();
    let (to, _) = asked.unwrap();
    bench.hear_security(to, Ok(SecurityReply::Health(vec!["its disk is nearly full".into()])));
    assert!(bench.health().reasons.contains(&"its disk is nearly full".to_owned()));
    // That it cannot be asked changes nothing.
    bench.hear_security(to, Err(Refusal::new(Reason::Unavailable, "away")));
    assert!(bench.health().reasons.contains(&"its disk is nearly full".to_owned()));
    bench.hear_security(to, Ok(SecurityReply::Health(Vec::new())));
    assert!(bench.health().reasons.is_empty());
}
