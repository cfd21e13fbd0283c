//! Tests of what the rules tell the audit record, and of what waits for it.

use protocol::{
    Reason, UserName,
    message::{
        accounts::UserChange,
        audit::{AuditBatch, AuditEvent, AuditHead, AuditKind, AuditOutcome, AuditReply, AuditRequest},
        request::{
            AddGroupRequest, AddTokenRequest, ChangeUserRequest, GroupsRequest, RemoveGroupRequest, RemoveUserRequest,
            RevokeSessionsOfRequest, RevokeTokenRequest, SessionsRequest, SetMemberRequest, SetPasswordRequest,
            TokensRequest, UsersRequest, WhoAmIRequest,
        },
    },
    refusals::{REFUSALS_PER_SECOND_MAX, SOURCE_REFUSALS_PER_DAY_MAX},
};

use super::*;

fn recorded() -> Security {
    security().with_audit()
}

fn with_token(byte: u8) -> SecurityRequest {
    login("alice", Secret::Token([byte; 32]), HOME)
}

fn asked(request: AccountsRequest) -> SecurityRequest {
    SecurityRequest::Accounts { by: asker("alice"), request }
}

fn head(number: u64) -> AuditHead {
    AuditHead { number, hash: [1; 32] }
}

/// Does what the rules want until they want something recorded, or nothing; the answers that went out.
fn until_recorded(security: &mut Security, now: Now) -> (Vec<SecurityReply>, Option<(AuditWriteId, Vec<AuditWrite>)>) {
    let mut answers = Vec::new();
    while let Some(action) = security.poll_action() {
        match action {
            SecurityAction::Answer { reply, .. } => answers.push(reply),
            SecurityAction::Verify { check, verification } => {
                security.handle_completion(now, SecurityCompletion::Verified { check, found: verification.run() });
            }
            SecurityAction::Hash { check, hashing } => {
                security.handle_completion(now, SecurityCompletion::Hashed { check, hash: hashing.run() });
            }
            SecurityAction::Save { batch, .. } => security.handle_completion(now, SecurityCompletion::Saved { batch }),
            SecurityAction::Record { record, records } => return (answers, Some((record, records))),
            other => panic!("{other:?}"),
        }
    }
    (answers, None)
}

/// Asks, and carries out and records everything: the answer, and the events that were recorded before it.
fn through(security: &mut Security, request: SecurityRequest) -> (SecurityReply, Vec<AuditEvent>) {
    security.handle_message(at(1), SecurityCaller(1), request);
    let mut events = Vec::new();
    loop {
        let (mut answers, record) = until_recorded(security, at(1));
        if let Some(reply) = answers.pop() {
            assert!(answers.is_empty() && record.is_none(), "one question, one answer");
            return (reply, events);
        }
        let (record, records) = record.expect("an answer or something to record");
        for record in records {
            let AuditWrite::Own(own) = record else { panic!("{record:?}") };
            events.extend(own);
        }
        security.handle_completion(at(1), SecurityCompletion::Recorded { record, head: head(1) });
    }
}

// Promise 26b.
#[test]
fn logins_and_grants_are_answered_once_their_lines_without_secrets_are_on_disk() {
    let mut security = recorded();
    security.handle_message(at(1), SecurityCaller(1), with_token(1));
    let (answers, recorded) = until_recorded(&mut security, at(1));
    assert!(answers.is_empty(), "{answers:?}");
    let (first, records) = recorded.unwrap();
    let [AuditWrite::Own(events)] = &records[..] else { panic!("{records:?}") };
    let event = &events[0];
    assert_eq!((event.who.as_str(), event.from.as_str(), event.what.as_str()), ("alice", HOME, "open session"));
    assert_eq!((event.kind, event.outcome, event.unix_millis), (AuditKind::Login, AuditOutcome::Done, 1_000));
    // What comes meanwhile waits for the next batch.
    security.handle_message(at(2), SecurityCaller(2), asked(new_user("bob", Some("a secret of his"))));
    let (answers, recorded) = until_recorded(&mut security, at(2));
    assert!(answers.is_empty() && recorded.is_none());
    security.handle_completion(at(2), SecurityCompletion::Recorded { record: first, head: head(2) });
    let (answers, recorded) = until_recorded(&mut security, at(2));
    assert!(matches!(&answers[..], [SecurityReply::User(_)]), "{answers:?}");
    let (second, records) = recorded.unwrap();
    let told = format!("{records:?}");
    assert!(told.contains("add user") && told.contains("bob") && !told.contains("a secret"), "{told}");
    security.handle_completion(at(2), SecurityCompletion::Recorded { record: second, head: head(3) });
    let (answers, _) = until_recorded(&mut security, at(2));
    assert_eq!(answers, [DONE]);
}

/// The events of a batch that is to be written.
fn whats(records: Vec<AuditWrite>) -> Vec<(String, AuditOutcome)> {
    let own = records.into_iter().filter_map(|record| match record {
        AuditWrite::Own(events) => Some(events),
        AuditWrite::Batch(_) => None,
    });
    own.flatten().map(|event| (event.what, event.outcome)).collect()
}

// Promise 26b.
#[test]
fn on_a_full_disk_what_has_no_line_is_refused_and_written_down_once_there_is_room() {
    let mut security = recorded();
    let is_full = |reply: &SecurityReply| match reply {
        SecurityReply::Refused(refusal) => {
            refusal.reason == Reason::NoSpace && refusal.message.contains("disk of the security server is full")
        }
        _ => false,
    };
    security.handle_message(at(1), SecurityCaller(1), with_token(1));
    security.handle_message(at(1), SecurityCaller(2), asked(new_user("bob", None)));
    let batch = AuditBatch { writer: 7, first: 0, events: Vec::new() };
    let (_, first) = until_recorded(&mut security, at(1));
    let (first, _) = first.unwrap();
    // It comes while the first batch is being written.
    security.handle_message(at(1), SecurityCaller(3), SecurityRequest::Audit(AuditRequest::Record(batch)));
    security.handle_completion(at(1), SecurityCompletion::Unrecorded { record: first });
    let (answers, tried) = until_recorded(&mut security, at(1));
    assert!(!answers.is_empty() && answers.iter().all(is_full), "{answers:?}");
    assert!(tried.is_none(), "not again at once");
    // Meanwhile nothing is begun of which there could be no line; what needs none is answered.
    for (number, request) in [(4, with_token(1)), (5, asked(AccountsRequest::AddGroup(AddGroupRequest("geo".into()))))]
    {
        security.handle_message(at(1), SecurityCaller(number), request);
        let (answers, tried) = until_recorded(&mut security, at(1));
        assert!(answers.len() == 1 && is_full(&answers[0]) && tried.is_none(), "{answers:?}");
    }
    security.handle_message(at(1), SecurityCaller(6), SecurityRequest::Health);
    let (answers, _) = until_recorded(&mut security, at(1));
    assert!(matches!(&answers[..], [SecurityReply::Health(reasons)] if reasons[0].contains("is full")), "{answers:?}");
    assert!(security.next_timeout().unwrap() <= at(2).monotonic);
    // A second later it is tried again, and there is room.
    security.handle_timeout(at(2));
    let mut lines = Vec::new();
    let mut replies = Vec::new();
    while let (answers, Some((record, records))) = until_recorded(&mut security, at(2)) {
        replies.extend(answers);
        lines.extend(whats(records));
        security.handle_completion(at(2), SecurityCompletion::Recorded { record, head: head(1) });
    }
    assert!(lines.contains(&("open session".into(), AuditOutcome::Failed)), "{lines:?}");
    assert!(lines.contains(&("add user".into(), AuditOutcome::Done)), "{lines:?}");
    let (reply, _) = through(&mut security, with_token(1));
    assert!(matches!(reply, SecurityReply::User(_)), "{reply:?}");
    security.handle_message(at(3), SecurityCaller(7), SecurityRequest::Health);
    let (answers, _) = until_recorded(&mut security, at(3));
    assert_eq!(answers, [SecurityReply::Health(Vec::new())]);
}

// Promise 26b.
#[test]
fn while_accounts_find_no_room_they_do_not_change_and_logins_with_tokens_go_on() {
    let mut security = recorded();
    let is_full =
        |reply: &SecurityReply| matches!(reply, SecurityReply::Refused(refusal) if refusal.reason == Reason::NoSpace);
    // No batch finds room.
    let ask = |security: &mut Security, number, request| {
        security.handle_message(at(1), SecurityCaller(number), request);
        loop {
            match security.poll_action().expect("an answer") {
                SecurityAction::Answer { caller, reply } if caller == SecurityCaller(number) => return reply,
                SecurityAction::Save { .. } => security.handle_completion(at(1), SecurityCompletion::Unsaved),
                SecurityAction::Record { record, .. } => {
                    security.handle_completion(at(1), SecurityCompletion::Recorded { record, head: head(1) });
                }
                SecurityAction::Verify { check, verification } => {
                    security
                        .handle_completion(at(1), SecurityCompletion::Verified { check, found: verification.run() });
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let group = |name: &str| asked(AccountsRequest::AddGroup(AddGroupRequest(name.into())));
    let first = ask(&mut security, 1, group("geo"));
    assert!(is_full(&first) && format!("{first:?}").contains("may be done once there is room"), "{first:?}");
    assert!(is_full(&ask(&mut security, 2, group("sea"))));
    assert!(matches!(ask(&mut security, 3, with_token(1)), SecurityReply::User(_)));
    security.handle_completion(at(2), SecurityCompletion::Saved { batch: SecurityBatchId(u64::MAX) });
    assert_eq!(through(&mut security, group("sea")).0, DONE);
}

// Promise 26b.
#[test]
fn every_login_refusal_and_account_change_is_one_line_without_a_secret_reads_none() {
    const SECRET: &str = "hunter-two-hunter";
    let user = || UserName::new("bob").unwrap();
    let (secret, group) = (|| Password(SECRET.into()), || "geo".to_owned());
    let mut security = recorded();
    let from = HOME.parse().unwrap();
    let log_in =
        |secret, machine: &str| SecurityRequest::Login { user: user(), secret, address: from, machine: machine.into() };
    let node = |id: &str, fingerprint| SecurityRequest::CheckNode {
        node: id.parse().unwrap(),
        fingerprint: [fingerprint; 32],
        address: from,
    };
    let change = |change| AccountsRequest::ChangeUser(ChangeUserRequest { user: user(), change });
    let set = |old, new: &str| {
        AccountsRequest::SetPassword(SetPasswordRequest { user: user(), old, new: Password(new.into()) })
    };
    let member = |member| AccountsRequest::SetMember(SetMemberRequest { group: group(), user: user(), member });
    let token =
        |name: &str| AccountsRequest::AddToken(AddTokenRequest { user: user(), name: name.into(), life_seconds: 60 });
    let revoke = |name: &str| AccountsRequest::RevokeToken(RevokeTokenRequest { user: user(), name: name.into() });
    let by_bob = |request| SecurityRequest::Accounts { by: asker("bob"), request };
    for (request, kind, what, object, outcome) in [
        (asked(new_user("bob", Some(SECRET))), AuditKind::Grant, "add user", "bob", AuditOutcome::Done),
        (asked(new_user("bob", Some(SECRET))), AuditKind::Grant, "add user", "bob", AuditOutcome::Failed),
        (log_in(Secret::Password(SECRET.into()), "laptop"), AuditKind::Login, "log in", "", AuditOutcome::Done),
        (login("bob", password(SECRET), HOME), AuditKind::Login, "open session", "", AuditOutcome::Done),
        (log_in(password("wrong-hunter-two"), "laptop"), AuditKind::Login, "log in", "", AuditOutcome::Refused),
        (login("nobody", password(SECRET), HOME), AuditKind::Login, "open session", "", AuditOutcome::Refused),
        (login("alice", password("correct horse"), AWAY), AuditKind::Login, "open session", "", AuditOutcome::Refused),
        (node("node-1", 7), AuditKind::Login, "join", "", AuditOutcome::Done),
        (node("node-1", 8), AuditKind::Login, "join", "", AuditOutcome::Refused),
        (
            asked(AccountsRequest::AddGroup(AddGroupRequest(group()))),
            AuditKind::Grant,
            "add group",
            "geo",
            AuditOutcome::Done,
        ),
        (asked(member(true)), AuditKind::Grant, "join group", "geo", AuditOutcome::Done),
        (asked(member(false)), AuditKind::Grant, "leave group", "geo", AuditOutcome::Done),
        (asked(token("ci")), AuditKind::Grant, "add token", "bob", AuditOutcome::Done),
        (asked(revoke("ci")), AuditKind::Grant, "revoke token", "bob", AuditOutcome::Done),
        (asked(revoke("ci")), AuditKind::Grant, "revoke token", "bob", AuditOutcome::Failed),
        (by_bob(set(Some(secret()), "battery staple")), AuditKind::Grant, "set password", "bob", AuditOutcome::Done),
        (by_bob(set(Some(secret()), "battery steel")), AuditKind::Grant, "set password", "bob", AuditOutcome::Refused),
        (
            by_bob(AccountsRequest::Users(UsersRequest { after: None })),
            AuditKind::Refusal,
            "list users",
            "",
            AuditOutcome::Refused,
        ),
        (
            by_bob(AccountsRequest::RemoveGroup(RemoveGroupRequest(group()))),
            AuditKind::Grant,
            "remove group",
            "geo",
            AuditOutcome::Refused,
        ),
        (asked(change(UserChange::Admin(true))), AuditKind::Grant, "make administrator", "bob", AuditOutcome::Done),
        (asked(change(UserChange::Admin(false))), AuditKind::Grant, "make no administrator", "bob", AuditOutcome::Done),
        (asked(change(UserChange::Addresses(vec![]))), AuditKind::Grant, "set addresses", "bob", AuditOutcome::Done),
        (asked(change(UserChange::Enabled(false))), AuditKind::Grant, "disable user", "bob", AuditOutcome::Done),
        (asked(change(UserChange::Enabled(true))), AuditKind::Grant, "enable user", "bob", AuditOutcome::Done),
        (
            asked(AccountsRequest::RevokeSessionsOf(RevokeSessionsOfRequest(user()))),
            AuditKind::Grant,
            "revoke sessions",
            "bob",
            AuditOutcome::Done,
        ),
        (
            asked(AccountsRequest::RemoveGroup(RemoveGroupRequest(group()))),
            AuditKind::Grant,
            "remove group",
            "geo",
            AuditOutcome::Done,
        ),
        (
            asked(AccountsRequest::RemoveUser(RemoveUserRequest(user()))),
            AuditKind::Grant,
            "remove user",
            "bob",
            AuditOutcome::Done,
        ),
    ] {
        let (reply, events) = through(&mut security, request);
        let [event] = &events[..] else { panic!("{what}: {events:?}") };
        let told = (event.kind, event.what.as_str(), event.object.as_str(), event.outcome);
        assert_eq!(told, (kind, what, object, outcome), "{reply:?} {event:?}");
        assert_eq!(outcome == AuditOutcome::Done, !matches!(reply, SecurityReply::Refused(_)), "{what}: {reply:?}");
        let text = format!("{event:?}");
        let is_told = |secret: &str| text.contains(secret);
        assert!(![SECRET, "hunter-two", "battery", "horse"].into_iter().any(is_told), "{text}");
    }
    for looking in [
        AccountsRequest::WhoAmI(WhoAmIRequest),
        AccountsRequest::Users(UsersRequest { after: None }),
        AccountsRequest::Groups(GroupsRequest { after: None }),
        AccountsRequest::Tokens(TokensRequest("alice".parse().unwrap())),
        AccountsRequest::Sessions(SessionsRequest { after: None }),
    ] {
        let (reply, events) = through(&mut security, asked(looking));
        assert!(matches!(reply, SecurityReply::Accounts(_)) && events.is_empty(), "{reply:?} {events:?}");
    }
}

#[test]
fn refusals_faster_than_a_person_are_counted_and_the_count_is_recorded() {
    let mut security = recorded();
    for caller in 0..REFUSALS_PER_SECOND_MAX + 7 {
        security.handle_message(at(1), SecurityCaller(caller), with_token(9));
    }
    // The first is being recorded; the rest are answered or wait for the next batch.
    let mut recorded = 0;
    let mut answered = 0;
    let mut number = 0;
    loop {
        let (answers, record) = until_recorded(&mut security, at(1));
        answered += answers.len() as u64;
        let Some((record, records)) = record else { break };
        for record in &records {
            let AuditWrite::Own(events) = record else { panic!("{record:?}") };
            recorded += events.len() as u64;
        }
        number += 1;
        security.handle_completion(at(1), SecurityCompletion::Recorded { record, head: head(number) });
    }
    assert_eq!((recorded, answered), (REFUSALS_PER_SECOND_MAX, REFUSALS_PER_SECOND_MAX + 7));
    security.handle_message(at(2), SecurityCaller(100), with_token(1));
    let mut told = String::new();
    while let (_, Some((record, records))) = until_recorded(&mut security, at(2)) {
        told += &format!("{records:?}");
        security.handle_completion(at(2), SecurityCompletion::Recorded { record, head: head(99) });
    }
    assert!(told.contains("7 further refusals"), "{told}");
}

#[test]
fn a_master_hears_how_the_record_ends_when_its_events_are_on_the_disk() {
    let mut security = recorded();
    let batch = AuditBatch { writer: 7, first: 0, events: vec![] };
    security.handle_message(at(1), SecurityCaller(1), SecurityRequest::Audit(AuditRequest::Record(batch)));
    let (answers, recorded) = until_recorded(&mut security, at(1));
    assert!(answers.is_empty());
    let (record, _) = recorded.unwrap();
    security.handle_completion(at(1), SecurityCompletion::Recorded { record, head: head(5) });
    let (answers, _) = until_recorded(&mut security, at(1));
    assert_eq!(answers, [SecurityReply::Audit(AuditReply::Recorded(head(5)))]);
}

#[test]
fn only_who_is_an_administrator_here_may_look_at_the_record() {
    let mut security = recorded();
    let by = UserRights { user: "mallory".parse().unwrap(), groups: vec![], admin: true };
    let verify = AuditRequest::Verify { by, head: None };
    security.handle_message(at(1), SecurityCaller(1), SecurityRequest::Audit(verify));
    let (answers, _) = until_recorded(&mut security, at(1));
    assert!(matches!(&answers[..], [SecurityReply::Refused(Refusal { reason: Reason::NoRight, .. })]), "{answers:?}");
}

/// Asks once a second for so many seconds, and records; how many refusals were recorded one by one, and what the counts
/// say.
fn refused_for(security: &mut Security, seconds: std::ops::Range<u64>, from: impl Fn(u64) -> String) -> (u64, u64) {
    let (mut lines, mut counted) = (0, 0);
    for second in seconds {
        // The wall clock goes back all the time; nothing depends on it.
        let now = Now { unix_millis: 1_000_000_000 - second, ..at(second) };
        security.handle_message(now, SecurityCaller(second), login("alice", Secret::Token([9; 32]), &from(second)));
        while let (_, Some((record, records))) = until_recorded(security, now) {
            for record in records {
                let AuditWrite::Own(events) = record else { panic!("{record:?}") };
                for event in events {
                    match event.kind {
                        AuditKind::Record => counted += event.note.split(' ').next().unwrap().parse::<u64>().unwrap(),
                        _ => lines += 1,
                    }
                }
            }
            security.handle_completion(now, SecurityCompletion::Recorded { record, head: head(1) });
        }
    }
    (lines, counted)
}

// Promise 26b.
#[test]
fn recorded_refusals_of_one_address_are_bounded_for_a_day_others_are_all_recorded() {
    let mut security = recorded();
    let (lines, counted) = refused_for(&mut security, 1..1_001, |number| format!("2001:db8::{number:x}"));
    assert_eq!(lines, SOURCE_REFUSALS_PER_DAY_MAX, "one network is one address");
    assert!(counted > 400, "{counted}");
    assert_eq!(refused_for(&mut security, 1_100..1_101, |_| "2001:db8:0:1::1".into()).0, 1);
    let (reply, events) = through(&mut security, with_token(1));
    assert!(matches!(reply, SecurityReply::User(_)) && events.iter().any(|event| event.who == "alice"));
}

// Promise 26b.
#[test]
fn what_is_left_of_the_disk_is_for_those_who_are_known_and_health_says_so() {
    let mut security = recorded();
    let gib = 1 << 30;
    let health = |security: &mut Security| match ask(security, at(0), SecurityRequest::Health).0 {
        SecurityReply::Health(reasons) => reasons,
        other => panic!("{other:?}"),
    };
    let room = |free_bytes, record_bytes| AuditSpace { free_bytes, disk_bytes: 100 * gib, record_bytes };
    security.note_audit_space(room(50 * gib, gib));
    assert!(health(&mut security).is_empty());
    security.note_audit_space(room(50 * gib, 30 * gib));
    assert!(health(&mut security)[0].contains("move the oldest files"), "{:?}", health(&mut security));
    security.note_audit_space(room(gib - 1, gib));
    assert!(health(&mut security)[0].contains("only counted"), "{:?}", health(&mut security));
    // A stranger fills nothing any more; logins and what users may not do are recorded as ever.
    assert_eq!(refused_for(&mut security, 10..200, |_| HOME.into()).0, 0);
    assert_eq!(through(&mut security, with_token(1)).1.len(), 1);
    let robot = SecurityRequest::Accounts { by: asker("robot"), request: new_user("bob", None) };
    assert!(through(&mut security, robot).1.iter().any(|event| event.what == "add user"));
    security.note_audit_space(room(50 * gib, gib));
    assert_eq!(refused_for(&mut security, 300..301, |_| HOME.into()).0, 1);
}
