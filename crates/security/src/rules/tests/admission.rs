//! Tests of how machines come in: every way, and every refusal.

use std::sync::LazyLock;

use net::identity::{Authority, NewKey, ticket_digest};
use protocol::{
    KeyDigest, MachineKind, NodeId, Now, Reason, Refusal, Status, TicketSecret,
    message::{
        admission::{AdmissionReply, AdmissionRequest, AdmissionVerb, Enrolment, MachineStatus},
        master_security::{SecurityReply, SecurityRequest},
        request::{
            AddTicketRequest, AllowRequest, ApproveRequest, MachinesRequest, RejectRequest, StrikeRequest,
            WaitingMachinesRequest,
        },
    },
};

use super::{AWAY, HOME, ask, asker, at, message, security};
use crate::{
    accounts::MASTER,
    rules::{Connection, Security, SecurityAction, SecurityCaller, SecurityCompletion},
    server::signer::Signer,
};

/// The authority of all these tests.
pub(super) fn signer() -> &'static Signer {
    static SIGNER: LazyLock<Signer> = LazyLock::new(|| Signer {
        authority: Authority::create("cloud").unwrap(),
        life: std::time::Duration::from_secs(3_600),
    });
    &SIGNER
}

/// Stands for an answer that was not given.
pub(super) fn hung_up() -> SecurityReply {
    SecurityReply::Refused(Refusal::new(Reason::Failed, "hung up"))
}

fn name(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn secret(byte: u8) -> TicketSecret {
    TicketSecret([byte; 16])
}

/// An administrator's words, through a master.
fn administer(security: &mut Security, now: Now, user: &str, verb: AdmissionVerb) -> SecurityReply {
    let request = AdmissionRequest::Administer { by: asker(user), verb };
    ask(security, now, SecurityRequest::Admission(request)).0
}

fn done(security: &mut Security, now: Now, verb: AdmissionVerb) {
    assert_eq!(administer(security, now, "alice", verb), SecurityReply::Admission(AdmissionReply::Done));
}

fn ticket(secret: TicketSecret, for_name: Option<&str>) -> AdmissionVerb {
    AdmissionVerb::AddTicket(AddTicketRequest {
        kind: MachineKind::Node,
        digest: ticket_digest(&secret),
        name: for_name.map(name),
        life_seconds: 3_600,
    })
}

/// What a node says to a master, which passes it on with what it has seen.
fn enrol(security: &mut Security, now: Now, shown: Option<[u8; 32]>, enrolment: Enrolment) -> SecurityReply {
    let request = AdmissionRequest::Enrol { address: HOME.parse().unwrap(), fingerprint: shown, enrolment };
    ask(security, now, SecurityRequest::Admission(request)).0
}

fn with_ticket(key: &NewKey, secret: TicketSecret, wanted: Option<&str>) -> Enrolment {
    let wanted = wanted.map(name);
    let key = key.request(wanted.as_ref()).unwrap();
    Enrolment::WithTicket { kind: MachineKind::Node, secret, name: wanted, key }
}

/// Uses a ticket for a node.
fn come(security: &mut Security, now: Now, key: &NewKey, secret: TicketSecret, wanted: Option<&str>) -> SecurityReply {
    enrol(security, now, None, with_ticket(key, secret, wanted))
}

fn wait_for(security: &mut Security, now: Now, key: &NewKey, wanted: &str) -> SecurityReply {
    let wanted = name(wanted);
    let key = key.request(Some(&wanted)).unwrap();
    enrol(security, now, None, Enrolment::Ask { name: wanted, key })
}

/// The name and fingerprint of what was issued.
fn issued(reply: SecurityReply) -> (String, [u8; 32]) {
    match reply {
        SecurityReply::Admission(AdmissionReply::Issued { name, certificate_pem, authority_pem }) => {
            assert_eq!(authority_pem, signer().authority.certificate_pem());
            (name.to_string(), net::identity::fingerprint(&certificate_pem).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

fn joins(security: &mut Security, node: &str, fingerprint: [u8; 32], from: &str) -> SecurityReply {
    let request = SecurityRequest::CheckNode { node: name(node), fingerprint, address: from.parse().unwrap() };
    ask(security, at(0), request).0
}

fn key() -> NewKey {
    NewKey::generate().unwrap()
}

fn digest(key: &NewKey) -> KeyDigest {
    net::identity::key_digest(&key.request(None).unwrap())
}

fn machines(security: &mut Security) -> Vec<MachineStatus> {
    match administer(security, at(0), "alice", AdmissionVerb::Machines(MachinesRequest { after: None })) {
        SecurityReply::Admission(AdmissionReply::Machines { machines, more: false }) => machines,
        other => panic!("{other:?}"),
    }
}

// Promise 27.
#[test]
fn a_ticket_admits_one_machine_and_the_same_one_again_when_its_answer_was_lost() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), None));
    let (first, second) = (key(), key());
    let (node, fingerprint) = issued(come(&mut security, at(1), &first, secret(1), None));
    assert_eq!(node, "node-2", "the first free name");
    assert_eq!(joins(&mut security, "node-2", fingerprint, HOME), SecurityReply::NodeAllowed);
    assert!(message(come(&mut security, at(2), &second, secret(1), None)).contains("used already"));
    let (again, other) = issued(come(&mut security, at(3), &first, secret(1), None));
    assert_eq!(again, "node-2");
    assert_eq!(joins(&mut security, "node-2", other, HOME), SecurityReply::NodeAllowed);
    done(&mut security, at(4), AdmissionVerb::Strike(StrikeRequest { name: name("node-2"), undo: false }));
    assert!(message(come(&mut security, at(5), &first, secret(1), None)).contains("used already"));
}

#[test]
fn a_ticket_that_is_unknown_expired_or_of_another_kind_is_refused() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), None));
    assert!(message(come(&mut security, at(1), &key(), secret(2), None)).contains("not known"));
    assert!(message(come(&mut security, at(3_600), &key(), secret(1), None)).contains("expired"));
    let as_master = Enrolment::WithTicket {
        kind: MachineKind::Master,
        secret: secret(1),
        name: None,
        key: key().request(None).unwrap(),
    };
    assert!(message(enrol(&mut security, at(1), None, as_master.clone())).contains("at the security server"));
    let reply = from_stranger(&mut security, as_master);
    assert!(message(reply).contains("this ticket is for a node"));
    assert_eq!(issued(come(&mut security, at(3_599), &key(), secret(1), None)).0, "node-2");
}

#[test]
fn a_ticket_for_one_name_is_good_for_no_other_and_may_bring_a_known_node_back() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), Some("node-1")));
    assert!(message(come(&mut security, at(1), &key(), secret(1), Some("node-9"))).contains("for `node-1`"));
    let (node, fingerprint) = issued(come(&mut security, at(1), &key(), secret(1), Some("node-1")));
    assert_eq!(node, "node-1");
    assert!(message(joins(&mut security, "node-1", [7; 32], HOME)).contains("not that of `node-1`"));
    assert_eq!(joins(&mut security, "node-1", fingerprint, HOME), SecurityReply::NodeAllowed);
    assert!(message(joins(&mut security, "node-1", fingerprint, AWAY)).contains("may not join from"));
}

#[test]
fn a_name_that_is_taken_or_reserved_for_a_role_is_not_given_to_any_ticket() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), None));
    for wanted in ["node-1", "master", "security"] {
        let reply = come(&mut security, at(1), &key(), secret(1), Some(wanted));
        assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::Exists), "{wanted}");
        let reply = wait_for(&mut security, at(1), &key(), wanted);
        assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::Exists), "{wanted}");
    }
    for wanted in ["master", "security"] {
        let reply = administer(&mut security, at(0), "alice", ticket(secret(2), Some(wanted)));
        assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::Exists), "{wanted}");
    }
    assert_eq!(issued(come(&mut security, at(1), &key(), secret(1), Some("chicago-7"))).0, "chicago-7");
}

#[test]
fn a_request_with_a_proof_of_another_key_or_name_gets_and_uses_up_nothing() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), None));
    let mut stolen = key().request(None).unwrap();
    (stolen.x, stolen.y) = {
        let other = key().request(None).unwrap();
        (other.x, other.y)
    };
    let other_name = key().request(Some(&name("node-5"))).unwrap();
    for (wanted, key) in [(None, stolen), (Some(name("node-6")), other_name)] {
        let enrolment = Enrolment::WithTicket { kind: MachineKind::Node, secret: secret(1), name: wanted, key };
        assert!(message(enrol(&mut security, at(1), None, enrolment)).contains("proof"));
    }
    assert_eq!(issued(come(&mut security, at(1), &key(), secret(1), None)).0, "node-2");
}

#[test]
fn two_who_use_a_ticket_at_the_same_moment_do_not_both_come_in() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), None));
    for caller in 1..=2 {
        let enrolment = with_ticket(&key(), secret(1), None);
        let request = AdmissionRequest::Enrol { address: HOME.parse().unwrap(), fingerprint: None, enrolment };
        security.handle_message(at(1), SecurityCaller(caller), SecurityRequest::Admission(request));
    }
    let (mut asked, mut refused) = (0, 0);
    while let Some(action) = security.poll_action() {
        match action {
            SecurityAction::Issue { .. } => asked += 1,
            SecurityAction::Answer { caller: SecurityCaller(2), reply: SecurityReply::Refused(_) } => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((asked, refused), (1, 1));
}

// Promise 27.
#[test]
fn an_answer_with_a_certificate_waits_until_its_row_is_durable() {
    let mut security = security();
    done(&mut security, at(0), ticket(secret(1), None));
    let enrolment = with_ticket(&key(), secret(1), None);
    let request = AdmissionRequest::Enrol { address: HOME.parse().unwrap(), fingerprint: None, enrolment };
    security.handle_message(at(1), SecurityCaller(1), SecurityRequest::Admission(request));
    let Some(SecurityAction::Issue { check, name, kind, key }) = security.poll_action() else { panic!("an issue") };
    let issued = signer().issue(&name, kind, &key);
    security.handle_completion(at(1), SecurityCompletion::Issued { check, issued });
    let Some(SecurityAction::Save { batch, changes }) = security.poll_action() else { panic!("a save") };
    assert_eq!(changes.len(), 2, "the machine and its used ticket, or neither");
    assert!(security.poll_action().is_none());
    security.handle_completion(at(1), SecurityCompletion::Saved { batch });
    assert!(matches!(security.poll_action(), Some(SecurityAction::Answer { caller: SecurityCaller(1), .. })));
}

#[test]
fn only_administrators_let_machines_in_and_only_at_the_server_itself_masters() {
    let mut security = security();
    assert!(message(administer(&mut security, at(0), "robot", ticket(secret(1), None))).contains("may not"));
    let AdmissionVerb::AddTicket(AddTicketRequest { digest, .. }) = ticket(secret(1), None) else { panic!("a ticket") };
    let for_master = AdmissionVerb::AddTicket(AddTicketRequest {
        kind: MachineKind::Master,
        digest,
        name: Some(name("master-2")),
        life_seconds: 60,
    });
    let reply = administer(&mut security, at(0), "alice", for_master.clone());
    assert!(message(reply).contains("at the security server itself"));
    let own = |verb| SecurityRequest::Admission(AdmissionRequest::Own(verb));
    assert!(message(ask(&mut security, at(0), own(for_master.clone())).0).contains("at the security server itself"));
    assert_eq!(on(&mut security, Some([9; 32]), own(for_master.clone())), hung_up(), "a master");
    assert_eq!(on(&mut security, Some([7; 32]), own(for_master.clone())), hung_up(), "a node");
    assert_eq!(on(&mut security, None, own(for_master.clone())), hung_up(), "a stranger");
    assert_eq!(on(&mut security, Some([5; 32]), own(for_master)), SecurityReply::Admission(AdmissionReply::Done));
    let (master, key) = (name("master-2"), key());
    let key = key.request(None).unwrap();
    let enrolment = Enrolment::WithTicket { kind: MachineKind::Master, secret: secret(1), name: None, key };
    let (named, fingerprint) = issued(from_stranger(&mut security, enrolment));
    assert_eq!(named, master.as_str());
    assert!(security.is_server(fingerprint) && security.is_server([9; 32]), "both masters may ask");
    assert!(!security.is_server([7; 32]));
}

/// Asks on a connection with whoever showed this certificate.
fn on(security: &mut Security, shown: Option<[u8; 32]>, request: SecurityRequest) -> SecurityReply {
    security.handle_question(at(0), SecurityCaller(1), Connection::new(shown), request);
    loop {
        match security.poll_action().expect("an answer") {
            SecurityAction::Answer { reply, .. } => return reply,
            SecurityAction::HangUp { .. } => return hung_up(),
            SecurityAction::Save { batch, .. } => {
                security.handle_completion(at(0), SecurityCompletion::Saved { batch })
            }
            SecurityAction::Issue { check, name, kind, key } => {
                let issued = signer().issue(&name, kind, &key);
                security.handle_completion(at(0), SecurityCompletion::Issued { check, issued });
            }
            other => panic!("nothing to compare, to ask or to record: {other:?}"),
        }
    }
}

fn from_stranger(security: &mut Security, enrolment: Enrolment) -> SecurityReply {
    let request = AdmissionRequest::Enrol { address: AWAY.parse().unwrap(), fingerprint: None, enrolment };
    on(security, None, SecurityRequest::Admission(request))
}

#[test]
fn a_stranger_at_the_security_server_is_heard_with_a_masters_ticket_only() {
    let mut security = security();
    let node = name("node-5");
    let requests = [
        Enrolment::Ask { name: node.clone(), key: key().request(Some(&node)).unwrap() },
        Enrolment::Renew { name: node.clone(), key: key().request(Some(&node)).unwrap() },
        Enrolment::Confirm { name: node.clone() },
        with_ticket(&key(), secret(1), None),
    ];
    for enrolment in requests {
        assert_eq!(from_stranger(&mut security, enrolment), hung_up());
    }
    let check = SecurityRequest::CheckNode { node, fingerprint: [7; 32], address: HOME.parse().unwrap() };
    for shown in [None, Some([7; 32]), Some([1; 32]), Some([5; 32])] {
        assert_eq!(on(&mut security, shown, check.clone()), hung_up());
    }
    assert!(message(on(&mut security, Some([9; 32]), check)).contains("no node `node-5`"));
}

// Promise 27.
#[test]
fn one_without_a_ticket_waits_until_it_is_approved() {
    let mut security = security();
    let key = key();
    let waiting = SecurityReply::Admission(AdmissionReply::Waiting { key: digest(&key) });
    assert_eq!(wait_for(&mut security, at(0), &key, "node-5"), waiting);
    assert_eq!(wait_for(&mut security, at(5), &key, "node-5"), waiting);
    let reply = administer(&mut security, at(6), "alice", AdmissionVerb::Requests(WaitingMachinesRequest));
    let SecurityReply::Admission(AdmissionReply::Requests(requests)) = reply else { panic!("{reply:?}") };
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].name.as_str(), requests[0].key), ("node-5", digest(&key)));
    done(&mut security, at(7), AdmissionVerb::Approve(ApproveRequest { name: name("node-5"), key: None }));
    // The approval is for that key, also when the list of those who wait is gone with a restart.
    assert_eq!(
        wait_for(&mut security, at(8), &NewKey::generate().unwrap(), "node-5"),
        SecurityReply::Admission(AdmissionReply::Waiting { key: digest_of_last(&mut security) })
    );
    let (node, fingerprint) = issued(wait_for(&mut security, at(9), &key, "node-5"));
    assert_eq!(node, "node-5");
    assert_eq!(joins(&mut security, "node-5", fingerprint, HOME), SecurityReply::NodeAllowed);
    // Its answer was lost: the same key asks once more.
    let (_, again) = issued(wait_for(&mut security, at(10), &key, "node-5"));
    assert_eq!(joins(&mut security, "node-5", again, HOME), SecurityReply::NodeAllowed);
}

fn digest_of_last(security: &mut Security) -> KeyDigest {
    match administer(security, at(0), "alice", AdmissionVerb::Requests(WaitingMachinesRequest)) {
        SecurityReply::Admission(AdmissionReply::Requests(requests)) => requests.last().unwrap().key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_several_who_want_a_name_the_administrator_must_say_which() {
    let mut security = security();
    let (mine, theirs) = (key(), key());
    for key in [&mine, &theirs] {
        wait_for(&mut security, at(0), key, "node-5");
    }
    let approve = |key| AdmissionVerb::Approve(ApproveRequest { name: name("node-5"), key });
    assert!(message(administer(&mut security, at(1), "alice", approve(None))).contains("2 machines want"));
    assert!(message(administer(&mut security, at(1), "alice", approve(Some(KeyDigest(1))))).contains("another key"));
    assert!(message(administer(&mut security, at(1), "robot", approve(Some(digest(&mine))))).contains("may not"));
    done(&mut security, at(1), approve(Some(digest(&mine))));
    issued(wait_for(&mut security, at(2), &mine, "node-5"));
    let reply = wait_for(&mut security, at(2), &theirs, "node-5");
    assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::Exists));
}

#[test]
fn a_rejection_is_told_and_an_approval_withdrawn_or_expired_is_worth_nothing() {
    let mut security = security();
    let (key, late) = (key(), key());
    let reject = AdmissionVerb::Reject(RejectRequest { name: name("node-5") });
    let reply = administer(&mut security, at(0), "alice", reject.clone());
    assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::NotFound));
    wait_for(&mut security, at(0), &key, "node-5");
    done(&mut security, at(1), AdmissionVerb::Approve(ApproveRequest { name: name("node-5"), key: None }));
    done(&mut security, at(2), reject);
    assert!(message(wait_for(&mut security, at(3), &key, "node-5")).contains("turned this request away"));
    wait_for(&mut security, at(0), &late, "node-6");
    done(&mut security, at(0), AdmissionVerb::Approve(ApproveRequest { name: name("node-6"), key: None }));
    let reply = wait_for(&mut security, at(86_400), &late, "node-6");
    assert!(matches!(reply, SecurityReply::Admission(AdmissionReply::Waiting { .. })), "{reply:?}");
}

// Promise 27.
#[test]
fn a_renewed_certificate_and_the_old_one_are_both_good_until_the_new_one_is_used() {
    for confirms in [true, false] {
        let mut security = security();
        let node = name("node-1");
        let renew = |key: &NewKey| Enrolment::Renew { name: node.clone(), key: key.request(Some(&node)).unwrap() };
        let (_, lost) = issued(enrol(&mut security, at(0), Some([7; 32]), renew(&key())));
        let (_, new) = issued(enrol(&mut security, at(0), Some([7; 32]), renew(&key())));
        assert!(message(joins(&mut security, "node-1", lost, HOME)).contains("not that of"));
        assert_eq!(joins(&mut security, "node-1", [7; 32], HOME), SecurityReply::NodeAllowed);
        let known = machines(&mut security).into_iter().find(|machine| machine.name == node).unwrap();
        assert_eq!((known.fingerprint, known.next_fingerprint), ([7; 32], Some(new)));
        if confirms {
            let confirm = Enrolment::Confirm { name: node.clone() };
            assert!(message(enrol(&mut security, at(0), Some(lost), confirm.clone())).contains("not that of"));
            let reply = enrol(&mut security, at(0), Some(new), confirm);
            assert_eq!(reply, SecurityReply::Admission(AdmissionReply::Done));
        }
        assert_eq!(joins(&mut security, "node-1", new, HOME), SecurityReply::NodeAllowed);
        assert!(message(joins(&mut security, "node-1", [7; 32], HOME)).contains("not that of"));
        let known = machines(&mut security).into_iter().find(|machine| machine.name == node).unwrap();
        assert_eq!((known.fingerprint, known.next_fingerprint), (new, None));
    }
}

#[test]
fn a_certificate_is_renewed_for_who_shows_it_and_for_nobody_else() {
    let mut security = security();
    let (node, master) = (name("node-1"), name(MASTER));
    let renew = |name: &NodeId| Enrolment::Renew { name: name.clone(), key: key().request(Some(name)).unwrap() };
    for shown in [None, Some([9; 32]), Some([1; 32])] {
        assert!(message(enrol(&mut security, at(0), shown, renew(&node))).contains("not that of `node-1`"));
    }
    // A master is not believed about another master's certificate: it must show its own to the security server.
    assert!(message(enrol(&mut security, at(0), Some([9; 32]), renew(&master))).contains("not that of `master`"));
    let own = |enrolment| {
        SecurityRequest::Admission(AdmissionRequest::Enrol {
            address: HOME.parse().unwrap(),
            fingerprint: None,
            enrolment,
        })
    };
    let (_, new) = issued(on(&mut security, Some([9; 32]), own(renew(&master))));
    assert!(security.is_server([9; 32]) && security.is_server(new));
    let confirm = own(Enrolment::Confirm { name: master });
    assert_eq!(on(&mut security, Some(new), confirm), SecurityReply::Admission(AdmissionReply::Done));
    assert!(!security.is_server([9; 32]) && security.is_server(new));
}

// Promise 27.
#[test]
fn a_node_that_was_struck_off_neither_joins_nor_renews_until_it_is_taken_back() {
    let mut security = security();
    let node = name("node-1");
    let strike = |undo| AdmissionVerb::Strike(StrikeRequest { name: name("node-1"), undo });
    let renew = || Enrolment::Renew { name: node.clone(), key: key().request(Some(&node)).unwrap() };
    done(&mut security, at(0), strike(false));
    assert!(message(joins(&mut security, "node-1", [7; 32], HOME)).contains("was removed"));
    assert!(message(enrol(&mut security, at(0), Some([7; 32]), renew())).contains("was removed"));
    assert!(message(administer(&mut security, at(0), "robot", strike(true))).contains("may not"));
    done(&mut security, at(0), strike(true));
    assert_eq!(joins(&mut security, "node-1", [7; 32], HOME), SecurityReply::NodeAllowed);
    let of_master = AdmissionVerb::Strike(StrikeRequest { name: name(MASTER), undo: false });
    assert!(message(administer(&mut security, at(0), "alice", of_master.clone())).contains("is no node"));
    let own = SecurityRequest::Admission(AdmissionRequest::Own(of_master));
    assert!(message(on(&mut security, Some([5; 32]), own)).contains("the last master"));
}

#[test]
fn masters_hear_of_every_machine_struck_off_while_its_certificate_lasts() {
    let mut security = security();
    let struck = |security: &mut Security, seconds| match ask(security, at(seconds), SecurityRequest::StruckOff).0 {
        SecurityReply::StruckOff(names) => names,
        other => panic!("{other:?}"),
    };
    let strike = |undo| AdmissionVerb::Strike(StrikeRequest { name: name("node-1"), undo });
    assert_eq!(struck(&mut security, 0), []);
    done(&mut security, at(0), strike(false));
    assert_eq!(struck(&mut security, 0), [name("node-1")]);
    done(&mut security, at(0), strike(true));
    assert_eq!(struck(&mut security, 0), []);
}

// Promise 27.
#[test]
fn an_administrator_says_from_where_a_node_may_join() {
    let mut security = security();
    let allow = |name: &str, range: &str| {
        AdmissionVerb::Allow(AllowRequest { name: name.parse().unwrap(), addresses: vec![range.parse().unwrap()] })
    };
    done(&mut security, at(0), allow("node-1", "203.0.113.0/24"));
    assert_eq!(joins(&mut security, "node-1", [7; 32], AWAY), SecurityReply::NodeAllowed);
    assert!(message(joins(&mut security, "node-1", [7; 32], HOME)).contains("may not join from 10.0.0.1"));
    let known = machines(&mut security).into_iter().find(|machine| machine.name.as_str() == "node-1").unwrap();
    assert_eq!(known.addresses, ["203.0.113.0/24".parse().unwrap()]);
    for missing in [MASTER, "node-9"] {
        let reply = administer(&mut security, at(0), "alice", allow(missing, "10.0.0.0/8"));
        assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::NotFound));
    }
}

#[test]
fn tickets_are_bounded_in_number_and_life_and_expired_ones_make_room() {
    let mut security = security();
    let with_life = |number: u16, life_seconds| {
        let mut digest = [0; 32];
        digest[..2].copy_from_slice(&number.to_be_bytes());
        AdmissionVerb::AddTicket(AddTicketRequest { kind: MachineKind::Node, digest, name: None, life_seconds })
    };
    for life_seconds in [0, 31 * 86_400, u64::MAX] {
        let reply = administer(&mut security, at(0), "alice", with_life(0, life_seconds));
        assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::Usage));
    }
    for number in 0..1_000 {
        done(&mut security, at(0), with_life(number, 100));
    }
    let reply = administer(&mut security, at(99), "alice", with_life(1_000, 100));
    assert!(matches!(reply, SecurityReply::Refused(refusal) if refusal.status() == Status::Unavailable));
    done(&mut security, at(100), with_life(1_000, 100));
    assert_eq!(security.accounts.machines().tickets().count(), 1);
}
