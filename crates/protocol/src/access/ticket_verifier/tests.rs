//! The door of a node with signatures that are sums: every fault, keys that roll, holders and hands.
#![allow(clippy::unwrap_used)]

use crate::Status;
use std::collections::BTreeMap;

use super::{signing_keys::RETIRED_KEYS_MAX, *};
use crate::{JournalId, LeaseId, RecordFraming, SectorPath, Version};

const LIFE_MILLIS: u64 = crate::limits::TICKET_LIFE.as_millis() as u64;

/// Whoever shows tickets in these tests.
#[derive(Clone, Copy, Default)]
struct Bearer {
    node: Option<&'static str>,
    key: Option<HolderKey>,
    is_plain: bool,
}

impl ProvedBearer for Bearer {
    fn is_role(&self) -> bool {
        self.node.is_some()
    }

    fn is_node(&self, node: &NodeId) -> bool {
        self.node == Some(node.as_str())
    }

    fn has_key(&self, key: HolderKey) -> bool {
        self.key == Some(key)
    }

    fn is_plain(&self) -> bool {
        self.is_plain
    }
}

/// Key and words as they are: what a signature of these tests is.
fn sign(key: &[u8; 32], words: &[u8]) -> Vec<u8> {
    [key, words].concat()
}

fn is_signed(key: &[u8; 32], words: &[u8], signature: &[u8]) -> bool {
    sign(key, words) == signature
}

fn keys(number: u8) -> TicketKeys {
    TicketKeys { current: [number; 32], next: [number + 1; 32] }
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn at(unix_millis: u64) -> Now {
    Now { unix_millis, ..Now::default() }
}

const ANN: HolderKey = HolderKey([100; 32]);

fn client() -> Bearer {
    Bearer { key: Some(ANN), ..Bearer::default() }
}

fn verifier() -> TicketVerifier {
    let mut verifier = TicketVerifier::new(node("here"), "uic".into(), is_signed);
    verifier.take_keys(at(0), keys(1));
    verifier
}

fn ticket(right: TicketRight) -> Ticket {
    Ticket {
        number: 1,
        user: UserName::new("ann").unwrap(),
        holder: Holder::Client(ANN),
        node: node("here"),
        right,
        file: None,
        plain_within: None,
        holder_site: None,
        until_unix_millis: LIFE_MILLIS,
    }
}

fn signed_by(number: u8, ticket: &Ticket) -> SignedTicket {
    let ticket = codec::encode(ticket);
    SignedTicket { signature: sign(&[number; 32], &ticket), ticket, delegation: None }
}

fn read() -> Ticket {
    ticket(TicketRight::Read { slice: SliceId(1), from: 0, until: 9 })
}

fn write() -> Ticket {
    let header = SliceHeader {
        slice: SliceId(1),
        path: SectorPath::parse("/a").unwrap(),
        version: Version(1),
        owner: UserName::new("ann").unwrap(),
        modified_unix_millis: 0,
        copies: 1,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        journal: JournalId(1),
        acl: None,
    };
    ticket(TicketRight::Write { lease: LeaseId(1), header, resume: None, base: None })
}

fn fault<T: std::fmt::Debug>(result: Result<T, RefusedTicket>) -> TicketFault {
    result.unwrap_err().fault.unwrap()
}

#[test]
fn every_fault_of_a_ticket_is_found_and_told_by_its_name() {
    let (mut door, client) = (verifier(), client());
    assert_eq!(fault(door.authorize_read(at(0), &client, &signed_by(9, &read()), SliceId(1))), TicketFault::Unsigned);
    let there = Ticket { node: node("there"), ..read() };
    assert_eq!(fault(door.authorize_read(at(0), &client, &signed_by(1, &there), SliceId(1))), TicketFault::OtherNode);
    let good = signed_by(1, &read());
    assert_eq!(door.authorize_read(at(LIFE_MILLIS), &client, &good, SliceId(1)), Ok(0..9), "to its last millisecond");
    assert_eq!(fault(door.authorize_read(at(LIFE_MILLIS + 1), &client, &good, SliceId(1))), TicketFault::Expired);
    assert_eq!(fault(door.authorize_read(at(0), &Bearer::default(), &good, SliceId(1))), TicketFault::NotHolder);
    assert_eq!(fault(door.authorize_read(at(0), &client, &good, SliceId(2))), TicketFault::OtherRight);
    assert_eq!(fault(door.authorize_write(at(0), &client, &good)), TicketFault::OtherRight);
    assert_eq!(fault(door.authorize_compute(at(0), &client, &good)), TicketFault::OtherRight);
    assert_eq!(fault(door.authorize_import(at(0), &client, &good)), TicketFault::OtherRight);
    assert_eq!(fault(door.authorize_inputs(at(0), &client, &good, JobId(1))), TicketFault::OtherRight);
    assert_eq!(fault(door.authorize_plain(at(0), &client, &good)), TicketFault::Plain);
    door.revoke(at(0), Revocation { user: read().user, last_ticket: 1 });
    let refused = door.authorize_read(at(0), &client, &good, SliceId(1)).unwrap_err();
    assert_eq!((refused.fault, refused.refusal.status()), (Some(TicketFault::Revoked), Status::Unavailable));
    assert!(door.is_shown_revoked(&good));
    let later = signed_by(1, &Ticket { number: 2, ..read() });
    assert_eq!(door.authorize_read(at(0), &client, &later, SliceId(1)), Ok(0..9));
    assert!(!door.is_shown_revoked(&later));
}

#[test]
fn a_clock_that_goes_back_after_a_revocation_keeps_nobody_out() {
    let (mut door, client) = (verifier(), client());
    let hours = 3_600_000;
    let ahead = signed_by(1, &Ticket { until_unix_millis: 5 * hours + LIFE_MILLIS, ..read() });
    door.revoke(at(5 * hours), Revocation { user: read().user, last_ticket: 1 });
    assert_eq!(fault(door.authorize_read(at(0), &client, &ahead, SliceId(1))), TicketFault::Revoked);
    let after = signed_by(1, &Ticket { number: 2, ..read() });
    assert_eq!(door.authorize_read(at(0), &client, &after, SliceId(1)), Ok(0..9));
}

#[test]
fn a_master_that_was_started_again_counts_its_tickets_anew() {
    let (mut door, client) = (verifier(), client());
    door.revoke(at(0), Revocation { user: read().user, last_ticket: 100 });
    door.take_keys(at(0), keys(40));
    assert_eq!(door.authorize_read(at(0), &client, &signed_by(40, &read()), SliceId(1)), Ok(0..9));
}

#[test]
fn before_the_master_was_met_nothing_is_allowed_and_no_fault_is_named() {
    let door = TicketVerifier::new(node("here"), "uic".into(), is_signed);
    let refused = door.authorize_read(at(0), &client(), &signed_by(1, &read()), SliceId(1)).unwrap_err();
    assert_eq!((refused.fault, refused.refusal.status()), (None, Status::Unavailable), "it may be tried again soon");
}

#[test]
fn a_write_may_be_tried_again_until_it_succeeded_and_never_with_that_ticket_after() {
    let (door, client, shown, mut used) = (verifier(), client(), signed_by(1, &write()), UsedTickets::default());
    let grant = door.authorize_write(at(0), &client, &shown).unwrap();
    assert_eq!(door.authorize_write(at(1), &client, &shown).as_ref(), Ok(&grant));
    assert_eq!(used.check(at(1), &grant), Ok(()));
    used.add(at(2), grant.header.slice, grant.until_unix_millis);
    for now in [2, LIFE_MILLIS] {
        assert_eq!(fault(used.check(at(now), &grant)), TicketFault::Used);
    }
}

#[test]
fn used_tickets_are_forgotten_soon_after_they_expired() {
    let mut used = UsedTickets::default();
    for slice in 0..3_000 {
        used.add(at(0), SliceId(slice), 60_000 + slice as u64);
    }
    assert!(used.has(at(60_000), SliceId(0)) && used.has(at(60_000), SliceId(2_999)));
    assert!(!used.has(at(61_500), SliceId(1_499)) && used.has(at(61_500), SliceId(1_500)));
    used.add(at(61_500), SliceId(3_000), 70_000);
    assert_eq!(used.until_unix_millis.len(), 1_501);
    used.add(at(62_499), SliceId(3_001), 70_000);
    assert_eq!(used.until_unix_millis.len(), 1_502, "not for each that is written");
}

#[test]
fn a_ticket_opens_for_its_holder_and_for_whom_that_one_handed_it_to() {
    let door = verifier();
    let reads = |bearer: Bearer, shown: &SignedTicket| door.authorize_read(at(0), &bearer, shown, SliceId(1)).is_ok();
    let of = |name| Bearer { node: Some(name), ..Bearer::default() };
    let hand = |key: HolderKey, to: Delegate| {
        let shown = signed_by(1, &read());
        let signature = sign(&key.0, &delegation_bytes(&shown.ticket, &to));
        SignedTicket { delegation: Some(Delegation { to, signature }), ..shown }
    };
    let handed = hand(ANN, Delegate::Node(node("n1")));
    assert!(reads(of("n1"), &handed));
    assert!(!reads(of("n2"), &handed) && !reads(client(), &handed));
    assert!(!reads(of("n1"), &hand(HolderKey([7; 32]), Delegate::Node(node("n1")))), "another handed it");
    assert!(!reads(of("n1"), &signed_by(1, &read())), "nobody handed it");
    let other = HolderKey([5; 32]);
    assert!(reads(Bearer { key: Some(other), ..Bearer::default() }, &hand(ANN, Delegate::Key(other))));
    let of_node = signed_by(1, &Ticket { holder: Holder::Node(node("n1")), ..read() });
    assert!(reads(of("n1"), &of_node) && !reads(of("n2"), &of_node) && !reads(client(), &of_node));
}

#[test]
fn only_a_node_that_a_ticket_was_delegated_to_delivers_hours_after_its_end() {
    let door = verifier();
    let shown = signed_by(1, &ticket(TicketRight::Compute { job: JobId(3) }));
    let to = Delegate::Node(node("n1"));
    let signature = sign(&ANN.0, &delegation_bytes(&shown.ticket, &to));
    let handed = SignedTicket { delegation: Some(Delegation { to, signature }), ..shown.clone() };
    let (late, of_node) = (LIFE_MILLIS + 1, Bearer { node: Some("n1"), ..Bearer::default() });
    assert_eq!(door.authorize_piece(at(late), &of_node, &handed), Ok(JobId(3)));
    assert_eq!(fault(door.authorize_compute(at(late), &of_node, &handed)), TicketFault::Expired);
    assert_eq!(fault(door.authorize_piece(at(late), &client(), &shown)), TicketFault::Expired);
    assert_eq!(door.authorize_piece(at(0), &client(), &shown), Ok(JobId(3)));
    let too_late = LIFE_MILLIS + DELIVERY_TIME_MAX.as_millis() as u64 + 1;
    assert_eq!(fault(door.authorize_piece(at(too_late), &of_node, &handed)), TicketFault::Expired);
}

#[test]
fn bytes_go_plain_only_with_a_ticket_that_names_the_site_of_this_node() {
    let door = verifier();
    let within = |site: &str| signed_by(1, &Ticket { plain_within: Some(site.into()), ..read() });
    assert_eq!(fault(door.authorize_plain(at(0), &client(), &within("jhu"))), TicketFault::Plain);
    door.authorize_plain(at(0), &client(), &within("uic")).unwrap();
    let plain = Bearer { is_plain: true, ..client() };
    assert_eq!(door.authorize_read(at(0), &plain, &within("uic"), SliceId(1)), Ok(0..9));
    assert_eq!(fault(door.authorize_read(at(0), &plain, &signed_by(1, &read()), SliceId(1))), TicketFault::Plain);
}

#[test]
fn while_keys_roll_tickets_live_their_life_and_an_old_key_signs_no_longer_one() {
    let mut door = verifier();
    let long = Ticket { until_unix_millis: u64::MAX, ..read() };
    let is_good =
        |door: &TicketVerifier, number, ticket: &Ticket| door.verify(at(0), &signed_by(number, ticket)).is_ok();
    // The node was told the second key a day ago, and need not have heard that it is in use.
    assert!(is_good(&door, 1, &read()) && is_good(&door, 2, &read()) && is_good(&door, 1, &long));
    door.take_keys(at(0), keys(2));
    door.take_keys(at(0), keys(2));
    assert!(is_good(&door, 1, &read()) && is_good(&door, 2, &read()));
    assert!(!is_good(&door, 1, &long) && is_good(&door, 2, &long));
    for number in 0..RETIRED_KEYS_MAX as u8 {
        assert!(is_good(&door, 1, &read()));
        door.take_keys(at(0), keys(3 + number));
    }
    assert!(!is_good(&door, 1, &read()), "it is forgotten");
    door.take_keys(at(0), keys(50));
    assert!((1..20).all(|number| !is_good(&door, number, &read())), "another master");
}

#[test]
fn who_was_struck_off_is_so_by_its_name_until_it_is_taken_back() {
    let mut door = verifier();
    let of = |name| Bearer { node: Some(name), ..Bearer::default() };
    door.strike_off(vec![node("gone")]);
    assert!(door.is_struck_off(&of("gone")) && !door.is_struck_off(&of("other")) && !door.is_struck_off(&client()));
    door.strike_off(Vec::new());
    assert!(!door.is_struck_off(&of("gone")));
}
