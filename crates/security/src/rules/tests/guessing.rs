//! Tests of many logins at the same moment: guesses wait for each other, honest ones come in.

use std::net::IpAddr;

use protocol::message::request::SetPasswordRequest;

use super::*;

/// What became of many questions at once.
#[derive(Debug, Default, PartialEq, Eq)]
struct Guesses {
    let_in: usize,
    wrong: usize,
    must_wait: usize,
    busy: usize,
    compared: usize,
    compared_at_once: usize,
}

/// Asks all at the same moment, as several masters do, and finishes comparisons one after the other.
fn all_at_once(security: &mut Security, now: Now, requests: Vec<SecurityRequest>) -> Guesses {
    for (caller, request) in (0..).map(SecurityCaller).zip(requests) {
        security.handle_message(now, caller, request);
    }
    let (mut tally, mut checks) = (Guesses::default(), VecDeque::new());
    loop {
        while let Some(action) = security.poll_action() {
            match action {
                SecurityAction::Verify { check, verification } => checks.push_back((check, verification)),
                SecurityAction::Save { batch, .. } => {
                    security.handle_completion(now, SecurityCompletion::Saved { batch })
                }
                SecurityAction::Answer { reply: SecurityReply::User(_) | DONE, .. } => tally.let_in += 1,
                SecurityAction::Answer { reply: SecurityReply::Refused(refusal), .. } => match refusal.status() {
                    Status::Unavailable => tally.busy += 1,
                    _ if refusal.message.contains("wait") => tally.must_wait += 1,
                    _ => tally.wrong += 1,
                },
                other => panic!("{other:?}"),
            }
        }
        tally.compared_at_once = tally.compared_at_once.max(checks.len());
        let Some((check, verification)) = checks.pop_front() else { return tally };
        tally.compared += 1;
        security.handle_completion(now, SecurityCompletion::Verified { check, found: verification.run() });
    }
}

fn guesses(count: usize, from: &str) -> Vec<SecurityRequest> {
    (0..count).map(|number| login("alice", password(&format!("wrong horse {number}")), from)).collect()
}

#[test]
fn guesses_at_the_same_moment_are_no_more_than_guesses_one_after_the_other() {
    let mut security = security();
    let first = all_at_once(&mut security, at(0), guesses(16, HOME));
    assert_eq!((first.compared, first.wrong, first.must_wait), (5, 5, 11), "{first:?}");
    // After the wait it is one at a time, and the wait grows by each.
    let later = all_at_once(&mut security, at(1), guesses(16, HOME));
    assert_eq!((later.compared, later.compared_at_once, later.must_wait), (1, 1, 15), "{later:?}");
    assert_eq!(all_at_once(&mut security, at(2), guesses(16, HOME)).compared, 0);
    // Also for the many addresses of one network, and for many names of one address.
    let far: Vec<_> = (0..16).map(|number| guesses(1, &format!("2001:db8::{number}")).remove(0)).collect();
    assert_eq!(all_at_once(&mut security, at(2), far).compared, 5);
}

#[test]
fn honest_logins_of_one_user_at_the_same_moment_all_come_in() {
    let mut security = security();
    let honest = || (0..20).map(|_| login("alice", password("correct horse"), HOME)).collect::<Vec<_>>();
    let tally = all_at_once(&mut security, at(0), honest());
    assert_eq!((tally.let_in, tally.compared), (20, 20), "{tally:?}");
    // And after some mistakes, as long as no wait has begun.
    all_at_once(&mut security, at(1), guesses(4, HOME));
    assert_eq!(all_at_once(&mut security, at(2), honest()[..16].to_vec()).let_in, 16);
    let none: Vec<_> = security.failed.next_timeout().into_iter().collect();
    assert!(!none.is_empty() && security.queued_logins.is_empty());
}

#[test]
fn logins_that_wait_for_others_are_bounded_and_a_token_waits_for_none() {
    let mut security = security();
    let mut requests = guesses(40, HOME);
    requests.push(login("alice", Secret::Token([1; 32]), HOME));
    let tally = all_at_once(&mut security, at(0), requests);
    assert_eq!((tally.compared, tally.let_in, tally.busy), (6, 1, 40 - 5 - 16), "{tally:?}");
}

#[test]
fn the_old_password_is_not_guessed_at_the_same_moment_either() {
    let mut security = security();
    let change = |number: usize| {
        let (old, new) = (Some(Password(format!("wrong horse {number}"))), Password("battery staple".into()));
        let request = AccountsRequest::SetPassword(SetPasswordRequest { user: "alice".parse().unwrap(), old, new });
        SecurityRequest::Accounts { by: asker("alice"), request }
    };
    let tally = all_at_once(&mut security, at(0), (0..20).map(change).collect());
    assert_eq!((tally.compared, tally.wrong, tally.busy), (5, 5, 15), "{tally:?}");
    assert_eq!(all_at_once(&mut security, at(0), vec![change(99)]).compared, 0);
}

#[test]
fn an_attempt_that_has_ended_leaves_nothing() {
    let mut failed = FailedLogins::default();
    let (alice, home): (_, IpAddr) = ("alice".parse().unwrap(), HOME.parse().unwrap());
    for _ in 0..1_000 {
        assert_eq!(failed.begin(at(0), &alice, home), crate::accounts::failed_logins::LoginAttempt::Begun);
        failed.end(&alice, home);
    }
    assert_eq!((failed.wait(at(0), &alice, home), failed.next_timeout()), (None, None));
}
