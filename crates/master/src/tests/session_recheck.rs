//! Revocation at the master: what it asks, whom it lets go on, and what nodes hear.

use std::net::IpAddr;

use protocol::{
    Reason,
    message::{
        master_security::{AccountChanges, ChangeCursor, KnownUser, SecurityReply, SecurityRequest},
        node_master::Revocation,
        request::{LogoutRequest, RemoveRequest, SetQuotaRequest},
    },
};

use super::*;
use crate::access::session_recheck::MASTER_CALLER;

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

impl Bench {
    /// The next question of the master's own, of this kind.
    fn asked(&mut self, is_it: impl Fn(&SecurityRequest) -> bool) -> Option<SecurityRequest> {
        let at = self.security_asked.iter().position(|(to, request)| *to == MASTER_CALLER && is_it(request))?;
        Some(self.security_asked.remove(at).1)
    }

    fn polled(&mut self) -> bool {
        self.asked(|request| matches!(request, SecurityRequest::Changes(_))).is_some()
    }

    /// The users whose sessions the master wants looked at.
    fn rechecking(&mut self) -> Option<Vec<String>> {
        match self.asked(|request| matches!(request, SecurityRequest::Recheck(_)))? {
            SecurityRequest::Recheck(held) => Some(held.iter().map(|held| held.user.to_string()).collect()),
            _ => None,
        }
    }

    fn changed(&mut self, users: Option<&[&str]>) {
        let users = users.map(|users| users.iter().map(|user| UserName::new(*user).unwrap()).collect());
        let mark = ChangeCursor { epoch: 1, number: 1 };
        self.hear_security(MASTER_CALLER, Ok(SecurityReply::Changes(AccountChanges { cursor: mark, users })));
    }

    fn rechecked(&mut self, known: Vec<Option<KnownUser>>) {
        self.hear_security(MASTER_CALLER, Ok(SecurityReply::Rechecked(known)));
    }

    /// Logs in, and lets the look at the new session pass.
    fn settled(&mut self, user: &str) -> SessionId {
        let session = self.login(user, FROM);
        self.advance(seconds(1));
        if self.rechecking().is_some() {
            self.rechecked(vec![Some(known(user))]);
        }
        session
    }

    fn struck_off_told(&self, id: &str) -> Vec<Vec<NodeId>> {
        let lists = self.node(id).orders.iter().filter_map(|order| match order {
            Order::StruckOff(names) => Some(names.clone()),
            _ => None,
        });
        lists.collect()
    }

    fn revoked_at(&self, id: &str) -> Vec<String> {
        let told = |order: &Order| match order {
            Order::Revoke(Revocation { user, .. }) => Some(user.to_string()),
            _ => None,
        };
        self.node(id).orders.iter().filter_map(told).collect()
    }
}

fn known(user: &str) -> KnownUser {
    let rights = UserRights { user: UserName::new(user).unwrap(), groups: Vec::new(), admin: user == "admin" };
    KnownUser { rights, credential: CredentialId(7), until_unix_millis: None }
}

// Promise 27.
#[test]
fn a_revoked_session_is_closed_and_every_node_hears_whose_tickets_are_worthless() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let (ann, bob) = (bench.settled("ann"), bench.settled("bob"));
    bench.advance(seconds(3));
    assert!(bench.polled());
    bench.changed(Some(&["ann"]));
    assert_eq!(bench.rechecking(), Some(vec!["ann".into()]));
    bench.rechecked(vec![None]);
    assert!(bench.closed.contains(&ann) && !bench.closed.contains(&bob));
    let ids: Vec<_> = bench.nodes.keys().map(ToString::to_string).collect();
    for id in ids {
        assert_eq!(bench.revoked_at(&id), ["ann"]);
    }
}

#[test]
fn a_revocation_voids_earlier_tickets_and_no_later_ones_though_the_clock_goes_back() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let given = |bench: &mut Bench, at: &str| {
        let created = bench.created("ann", create(at));
        codec::decode::<Ticket>(&created.target.ticket.ticket).unwrap().number
    };
    bench.settled("ann");
    let before = given(&mut bench, "/before");
    bench.advance(seconds(3));
    assert!(bench.polled());
    bench.changed(Some(&["ann"]));
    assert_eq!(bench.rechecking(), Some(vec!["ann".into()]));
    bench.rechecked(vec![None]);
    let told = bench.node("n1").orders.iter().find_map(|order| match order {
        Order::Revoke(Revocation { last_ticket, .. }) => Some(*last_ticket),
        _ => None,
    });
    bench.now.unix_millis -= 3_600_000;
    bench.settled("ann");
    let after = given(&mut bench, "/after");
    assert!(told.is_some_and(|last| (before..after).contains(&last)), "{told:?} between {before} and {after}");
}

// Promise 27.
#[test]
fn the_master_asks_again_every_two_seconds_also_where_nobody_answered() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let session = bench.settled("ann");
    bench.advance(seconds(3));
    assert!(bench.polled());
    bench.advance(seconds(10));
    assert!(!bench.polled(), "one question at a time");
    bench.hear_security(MASTER_CALLER, Err(Refusal::new(Reason::Unavailable, "away")));
    bench.advance(seconds(3));
    assert!(bench.polled());
    assert!(!bench.closed.contains(&session), "who is in stays in");
}

#[test]
fn a_security_server_that_was_started_again_is_asked_about_every_session() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.settled("ann");
    bench.settled("bob");
    bench.advance(seconds(3));
    bench.changed(None);
    let mut asked = bench.rechecking().unwrap();
    asked.sort();
    assert_eq!(asked, ["ann", "bob"]);
    bench.rechecked(vec![Some(known("ann")), Some(known("bob"))]);
}

#[test]
fn a_session_that_was_opened_is_looked_at_once_more() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let session = bench.login("ann", FROM);
    bench.advance(seconds(1));
    assert_eq!(bench.rechecking(), Some(vec!["ann".into()]));
    bench.rechecked(vec![None]);
    assert!(bench.closed.contains(&session), "it was revoked between the login and now");
}

#[test]
fn rights_that_were_taken_away_are_gone_in_an_open_session_and_its_tickets_too() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.settled("admin");
    bench.advance(seconds(3));
    bench.changed(Some(&["admin"]));
    assert!(bench.rechecking().is_some());
    let mut less = known("admin");
    less.rights.admin = false;
    bench.rechecked(vec![Some(less)]);
    let quota =
        ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: None, files: None });
    assert_eq!(bench.status_of("admin", quota), Status::Refused);
    let id = bench.nodes.keys().next().unwrap().to_string();
    assert_eq!(bench.revoked_at(&id), ["admin"]);
}

// Promise 27.
#[test]
fn who_left_before_the_revocation_loses_what_was_begun_too() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.settled("ann");
    bench.done("ann", ClientRequest::Logout(LogoutRequest));
    bench.advance(seconds(3));
    assert!(bench.polled());
    bench.changed(Some(&["ann", "bob"]));
    assert_eq!(bench.rechecking(), Some(vec!["ann".into()]));
    bench.rechecked(vec![None]);
    let id = bench.nodes.keys().next().unwrap().to_string();
    assert_eq!(bench.revoked_at(&id), ["ann"]);
    bench.advance(seconds(3));
    bench.changed(Some(&["ann"]));
    assert_eq!(bench.rechecking(), None, "once is enough");
}

// Promise 27.
#[test]
fn a_session_ends_at_its_time_unless_it_was_renewed() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let session = bench.settled("ann");
    bench.advance(seconds(3));
    bench.changed(Some(&["ann"]));
    assert!(bench.rechecking().is_some());
    let until_unix_millis = Some(bench.now.unix_millis + 240_000);
    bench.rechecked(vec![Some(KnownUser { until_unix_millis, ..known("ann") })]);
    bench.advance(seconds(61));
    assert_eq!(bench.rechecking(), Some(vec!["ann".into()]), "in time before its end");
    assert!(!bench.closed.contains(&session));
    bench.advance(seconds(240));
    assert!(bench.closed.contains(&session), "nobody answered, and its time has come");
}

#[test]
fn every_node_hears_of_worthless_certificates_at_once_and_again_when_it_rejoins() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let ids: Vec<_> = bench.nodes.keys().map(ToString::to_string).collect();
    let (one, other) = (&ids[0], &ids[1]);
    let gone = vec![node("gone")];
    for _ in 0..2 {
        bench.advance(seconds(3));
        assert!(bench.polled());
        bench.changed(Some(&[]));
        assert!(bench.asked(|request| *request == SecurityRequest::StruckOff).is_some());
        bench.hear_security(MASTER_CALLER, Ok(SecurityReply::StruckOff(gone.clone())));
    }
    assert_eq!(bench.struck_off_told(one), std::slice::from_ref(&gone), "once, until it changes");
    // It did not hear of the next change, and comes back.
    bench.node_mut(other).answers = false;
    bench.hear_security(MASTER_CALLER, Ok(SecurityReply::StruckOff(Vec::new())));
    assert_eq!(bench.struck_off_told(one), [gone.clone(), Vec::new()]);
    bench.node_mut(other).orders.clear();
    bench.node_mut(other).answers = true;
    bench.join(other);
    assert_eq!(bench.struck_off_told(other).last(), Some(&Vec::new()));
}

/// Messages may overtake each other, and the one that is heard last must be the newest.
#[test]
fn a_node_to_which_two_lists_were_on_their_way_at_once_is_told_the_last_again() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let id = bench.nodes.keys().next().unwrap().to_string();
    bench.node_mut(&id).answers = false;
    let lists = [vec![node("gone")], vec![node("gone"), node("lost")]];
    for list in lists.clone() {
        bench.hear_security(MASTER_CALLER, Ok(SecurityReply::StruckOff(list)));
    }
    assert_eq!(bench.struck_off_told(&id), lists);
    bench.resume(&id);
    bench.advance(seconds(3));
    assert_eq!(bench.struck_off_told(&id), [&lists[0], &lists[1], &lists[1]].map(Clone::clone));
    bench.advance(seconds(30));
    assert_eq!(bench.struck_off_told(&id).len(), 3, "and no more");
}

// Promise 39.
#[test]
fn a_revocation_that_no_node_answers_is_told_again_later_and_never_at_once() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.settled("ann");
    bench.advance(seconds(3));
    bench.changed(Some(&["ann"]));
    assert!(bench.rechecking().is_some());
    let id = bench.nodes.keys().next().unwrap().to_string();
    bench.node_mut(&id).answers = false;
    bench.rechecked(vec![None]);
    // Each order fails at once, as where the messenger's queue is full; no time passes.
    for _ in 0..100 {
        bench.fail_orders(&id);
    }
    assert_eq!(bench.revoked_at(&id), ["ann"]);
    bench.advance(seconds(4));
    assert_eq!(bench.revoked_at(&id), ["ann", "ann"]);
    bench.node_mut(&id).answers = true;
    bench.fail_orders(&id);
    bench.advance(seconds(10));
    assert_eq!(bench.revoked_at(&id), ["ann", "ann", "ann"], "once it has answered it is told no more");
}

// Promise 39.
#[test]
fn no_order_is_repeated_before_time_has_passed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/placed"), 100);
    let removed = bench.put("ann", create("/removed"), 100);
    for id in ["n1", "n2"] {
        bench.node_mut(id).answers = false;
        bench.node_mut(id).orders.clear();
    }
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: removed.path, recursive: false, now: true }));
    bench.done("ann", policies::rename("/placed", "/moved"));
    bench.settled("ann");
    bench.advance(seconds(3));
    bench.changed(Some(&["ann"]));
    bench.rechecked(vec![None]);
    let ordered = |bench: &Bench| bench.node("n1").orders.len() + bench.node("n2").orders.len();
    for id in ["n1", "n2"] {
        bench.fail_orders(id);
    }
    let before = ordered(&bench);
    assert!(before >= 6, "places, removals and revocations: {before}");
    for _ in 0..100 {
        bench.fail_orders("n1");
        bench.fail_orders("n2");
    }
    assert_eq!(ordered(&bench), before);
}
