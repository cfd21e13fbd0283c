//! Tests of the security server's rules: who is let in, and what each question changes.

#![allow(clippy::unwrap_used)]
mod access_keys;
mod accounts;
mod guessing;
mod recording;

use std::{collections::VecDeque, time::Duration};

use protocol::{
    CredentialId, MachineKind, Now, Status,
    message::{
        accounts::{AccountsReply, AccountsRequest, NewUser, Password},
        join::Secret,
        master_security::{Asker, KnownUser, SecurityReply, SecurityRequest, UserRights},
        request::{RemoveUserRequest, UsersRequest, WhoAmIRequest},
    },
};

use super::{login::WRONG_LOGIN, *};
use crate::{
    AddressRange, accounts as rows,
    accounts::{
        MASTER, SECURITY, User,
        credentials::Token,
        machines::{self, Certificate, Machine},
        password_hash::TokenHash,
    },
};

mod admission;

const HOME: &str = "10.0.0.1";
const AWAY: &str = "203.0.113.9";

/// Alice has a password and a token and may come from 10/8; robot has a token only; node-1 may join from 10/8.
fn security() -> Security {
    let mut accounts = Accounts::default();
    let home: AddressRange = "10.0.0.0/8".parse().unwrap();
    let alice = User {
        password: Some(PasswordHash::new("correct horse").unwrap()),
        tokens: vec![token(1)],
        groups: vec!["astro".into()],
        admin: true,
        addresses: vec![home],
        ..User::default()
    };
    let robot = User { tokens: vec![token(2)], ..User::default() };
    for (name, user) in [("alice", alice), ("robot", robot)] {
        accounts.apply(&rows::set_user(&name.parse().unwrap(), &user).unwrap()).unwrap();
    }
    for (name, kind, fingerprint, addresses) in [
        ("node-1", MachineKind::Node, [7; 32], vec![home]),
        (MASTER, MachineKind::Master, [9; 32], vec![]),
        (SECURITY, MachineKind::Security, [5; 32], vec![]),
    ] {
        let certificate = Certificate { fingerprint, key: None, until_unix_millis: None };
        let machine = Machine { addresses, ..Machine::new(kind, certificate) };
        accounts.apply(&machines::set_machine(&name.parse().unwrap(), &machine).unwrap()).unwrap();
    }
    Security::new(accounts).unwrap()
}

fn token(byte: u8) -> Token {
    Token {
        id: CredentialId(byte.into()),
        name: format!("token-{byte}"),
        hash: TokenHash::new(&[byte; 32]),
        made_unix_millis: 0,
        until_unix_millis: None,
        used_unix_millis: 0,
    }
}

fn login(user: &str, secret: Secret, from: &str) -> SecurityRequest {
    SecurityRequest::CheckUser { user: user.parse().unwrap(), secret, address: from.parse().unwrap() }
}

fn password(text: &str) -> Secret {
    Secret::Password(text.into())
}

fn at(seconds: u64) -> Now {
    Now::default().after(Duration::from_secs(seconds))
}

/// Asks and carries out every action until the answer comes; also says whether a comparison was made.
fn ask(security: &mut Security, now: Now, request: SecurityRequest) -> (SecurityReply, bool) {
    security.handle_message(now, SecurityCaller(1), request);
    let mut compared = false;
    loop {
        match security.poll_action().expect("an answer") {
            SecurityAction::Answer { caller, reply } => {
                assert_eq!(caller, SecurityCaller(1));
                assert!(security.poll_action().is_none(), "one question, one answer");
                return (reply, compared);
            }
            SecurityAction::Issue { check, name, kind, key } => {
                let issued = admission::signer().issue(&name, kind, &key);
                security.handle_completion(now, SecurityCompletion::Issued { check, issued });
            }
            SecurityAction::HangUp { .. } => return (admission::hung_up(), false),
            SecurityAction::Verify { check, verification } => {
                compared = true;
                security.handle_completion(now, SecurityCompletion::Verified { check, found: verification.run() });
            }
            SecurityAction::Hash { check, hashing } => {
                security.handle_completion(now, SecurityCompletion::Hashed { check, hash: hashing.run() });
            }
            SecurityAction::AskProvider { .. } => panic!("there is no provider"),
            SecurityAction::Save { batch, .. } => security.handle_completion(now, SecurityCompletion::Saved { batch }),
            other => panic!("{other:?}"),
        }
    }
}

/// What `user` (an administrator or not, as the master believes) gets for a question about accounts.
fn account(security: &mut Security, user: &str, request: AccountsRequest) -> SecurityReply {
    ask(security, at(0), SecurityRequest::Accounts { by: asker(user), request }).0
}

fn asker(user: &str) -> Asker {
    let rights = UserRights { user: user.parse().unwrap(), groups: vec![], admin: true };
    Asker { rights, credential: CredentialId(0), address: HOME.parse().unwrap() }
}

fn new_user(user: &str, password: Option<&str>) -> AccountsRequest {
    let password = password.map(|password| Password(password.into()));
    AccountsRequest::AddUser(NewUser {
        user: user.parse().unwrap(),
        password,
        groups: vec![],
        admin: false,
        addresses: vec![],
        service: false,
    })
}

fn status(reply: SecurityReply) -> Status {
    match reply {
        SecurityReply::Refused(refusal) => refusal.status(),
        other => panic!("{other:?}"),
    }
}

const DONE: SecurityReply = SecurityReply::Accounts(AccountsReply::Done);

fn message(reply: SecurityReply) -> String {
    match reply {
        SecurityReply::Refused(refusal) => {
            assert_eq!(refusal.status(), Status::Refused);
            refusal.message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_user_proves_herself_by_password_or_token() {
    let mut security = security();
    let rights = UserRights { user: "alice".parse().unwrap(), groups: vec!["astro".into()], admin: true };
    for secret in [password("correct horse"), Secret::Token([1; 32])] {
        let (reply, _) = ask(&mut security, at(0), login("alice", secret, HOME));
        assert!(matches!(reply, SecurityReply::User(known) if known.rights == rights));
    }
    let (reply, _) = ask(&mut security, at(0), login("robot", Secret::Token([2; 32]), AWAY));
    assert!(matches!(reply, SecurityReply::User(known) if !known.rights.admin));
}

// Promise 27.
#[test]
fn a_wrong_secret_an_unknown_user_and_a_missing_password_cannot_be_told_apart() {
    let mut security = security();
    for (user, secret) in [
        ("alice", password("wrong horse")),
        ("alice", Secret::Token([2; 32])),
        ("nobody", password("correct horse")),
        ("nobody", Secret::Token([1; 32])),
        ("robot", password("no one's password")),
        ("nobody", password("no one's password")),
    ] {
        let (reply, compared) = ask(&mut security, at(0), login(user, secret, HOME));
        assert_eq!(message(reply), WRONG_LOGIN, "{user}");
        assert!(compared, "{user} cost nothing");
    }
}

#[test]
fn a_wrong_address_is_told_only_to_those_who_proved_themselves() {
    let mut security = security();
    let (reply, _) = ask(&mut security, at(0), login("alice", password("correct horse"), AWAY));
    assert!(message(reply).contains("may not log in from 203.0.113.9"));
    let (reply, _) = ask(&mut security, at(0), login("alice", password("wrong horse"), AWAY));
    assert_eq!(message(reply), WRONG_LOGIN);
}

#[test]
fn guessing_passwords_is_slowed_down_also_for_users_that_do_not_exist() {
    for user in ["alice", "nobody"] {
        let mut security = security();
        let mut guess = |now, secret| ask(&mut security, now, login(user, secret, HOME));
        for _ in 0..5 {
            assert!(guess(at(0), password("wrong horse")).1);
        }
        let (reply, compared) = guess(at(0), password("correct horse"));
        assert!(message(reply).contains("wait 1 s"), "{user}");
        assert!(!compared);
        // A token is no guess, and the wait ends.
        assert!(guess(at(0), Secret::Token([5; 32])).1);
        assert!(guess(at(1), password("wrong horse")).1);
        assert!(!guess(at(2), password("wrong horse")).1);
        security.handle_timeout(at(2));
        assert_eq!(security.next_timeout(), Some(Duration::from_secs(601)));
    }
}

#[test]
fn comparisons_at_once_and_logins_waiting_are_bounded() {
    let mut security = security();
    for caller in 0..=PENDING_MAX as u64 {
        security.handle_message(at(0), SecurityCaller(caller), login("robot", Secret::Token([2; 32]), HOME));
    }
    let mut checks = VecDeque::new();
    let (mut answered, mut turned_away) = (0, 0);
    loop {
        while let Some(action) = security.poll_action() {
            match action {
                SecurityAction::Verify { check, verification } => checks.push_back((check, verification)),
                SecurityAction::Answer { reply: SecurityReply::User(_), .. } => answered += 1,
                SecurityAction::Answer { caller, reply: SecurityReply::Refused(refusal) } => {
                    assert_eq!((caller.0, refusal.status()), (PENDING_MAX as u64, Status::Unavailable));
                    turned_away += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(checks.len() <= WORK_MAX);
        let Some((check, verification)) = checks.pop_front() else { break };
        security.handle_completion(at(0), SecurityCompletion::Verified { check, found: verification.run() });
    }
    assert_eq!((answered, turned_away), (PENDING_MAX, 1));
}

#[test]
fn a_completion_nobody_waits_for_changes_nothing() {
    let mut security = security();
    security.handle_completion(at(0), SecurityCompletion::Verified { check: CheckId(99), found: None });
    security.handle_completion(at(0), SecurityCompletion::Saved { batch: SecurityBatchId(99) });
    assert!(security.poll_action().is_none());
}

#[test]
fn a_node_joins_with_its_own_certificate_from_its_own_addresses() {
    let mut security = security();
    let mut join = |id: &str, fingerprint, from: &str| {
        let (node, address) = (id.parse().unwrap(), from.parse().unwrap());
        ask(&mut security, at(0), SecurityRequest::CheckNode { node, fingerprint, address }).0
    };
    assert_eq!(join("node-1", [7; 32], HOME), SecurityReply::NodeAllowed);
    assert_eq!(join("node-1", [7; 32], "::ffff:10.9.9.9"), SecurityReply::NodeAllowed);
    assert!(message(join("node-1", [7; 32], AWAY)).contains("may not join from 203.0.113.9"));
    assert!(message(join("node-1", [8; 32], HOME)).contains("not that of `node-1`"));
    assert!(message(join("node-2", [7; 32], HOME)).contains("no node `node-2`"));
    assert!(message(join(MASTER, [9; 32], HOME)).contains("no node `master`"));
}

// Promise 27.
#[test]
fn an_answer_that_depends_on_a_change_waits_until_the_change_is_durable() {
    let mut security = security();
    let by = asker("alice");
    let question = |request| SecurityRequest::Accounts { by: by.clone(), request };
    security.handle_message(at(0), SecurityCaller(1), question(new_user("bob", None)));
    let Some(SecurityAction::Save { batch, changes }) = security.poll_action() else { panic!("nothing saved") };
    assert_eq!(changes.len(), 1);
    // Whoever comes meanwhile sees the change, and must not hear of it before it is durable either.
    security.handle_message(at(0), SecurityCaller(2), question(AccountsRequest::Users(UsersRequest { after: None })));
    security.handle_message(
        at(0),
        SecurityCaller(3),
        question(AccountsRequest::RemoveUser(RemoveUserRequest("bob".parse().unwrap()))),
    );
    let Some(SecurityAction::Save { batch: second, .. }) = security.poll_action() else { panic!("nothing saved") };
    assert!(security.poll_action().is_none(), "nobody is answered yet");
    let answered = |security: &mut Security, batch| {
        security.handle_completion(at(0), SecurityCompletion::Saved { batch });
        let mut callers = Vec::new();
        while let Some(action) = security.poll_action() {
            let SecurityAction::Answer { caller, .. } = action else { panic!("{action:?}") };
            callers.push(caller.0);
        }
        callers
    };
    assert_eq!(answered(&mut security, batch), [1, 2]);
    assert_eq!(answered(&mut security, second), [3]);
}

#[test]
fn a_user_who_was_added_comes_in_and_one_who_was_removed_does_not() {
    let mut security = security();
    assert_eq!(account(&mut security, "alice", new_user("bob", Some("battery staple"))), DONE);
    let bob = || login("bob", password("battery staple"), AWAY);
    assert!(matches!(ask(&mut security, at(0), bob()).0, SecurityReply::User(_)));
    assert_eq!(status(account(&mut security, "alice", new_user("bob", None))), Status::Exists);
    let remove = |user: &str| AccountsRequest::RemoveUser(RemoveUserRequest(user.parse().unwrap()));
    assert_eq!(account(&mut security, "alice", remove("bob")), DONE);
    assert_eq!(message(ask(&mut security, at(0), bob()).0), WRONG_LOGIN);
    assert_eq!(status(account(&mut security, "alice", remove("bob"))), Status::NotFound);
    assert!(message(account(&mut security, "alice", remove("alice"))).contains("last administrator"));
}

#[test]
fn only_a_current_administrator_may_change_accounts_whatever_the_master_believes() {
    let mut security = security();
    for who in ["robot", "nobody"] {
        for request in [
            new_user("bob", None),
            AccountsRequest::RemoveUser(RemoveUserRequest("alice".parse().unwrap())),
            AccountsRequest::Users(UsersRequest { after: None }),
        ] {
            assert_eq!(status(account(&mut security, who, request)), Status::Refused, "{who}");
        }
    }
    let from_away = Asker { address: AWAY.parse().unwrap(), ..asker("alice") };
    let request = SecurityRequest::Accounts { by: from_away, request: AccountsRequest::WhoAmI(WhoAmIRequest) };
    assert!(message(ask(&mut security, at(0), request).0).contains("may not come in any more"));
    let you = account(&mut security, "robot", AccountsRequest::WhoAmI(WhoAmIRequest));
    assert!(matches!(you, SecurityReply::Accounts(AccountsReply::You(KnownUser { rights, .. })) if !rights.admin));
}

#[test]
fn a_password_that_is_too_short_or_the_users_name_and_a_wrong_group_are_not_taken() {
    let mut security = security();
    for password in ["short", "robert-the-bold", "ROBERT-99"] {
        assert_eq!(status(account(&mut security, "alice", new_user("robert", Some(password)))), Status::Usage);
    }
    let AccountsRequest::AddUser(new) = new_user("robert", None) else { panic!() };
    let wrong = AccountsRequest::AddUser(NewUser { groups: vec!["a group".into()], ..new });
    assert_eq!(status(account(&mut security, "alice", wrong)), Status::Usage);
}

#[test]
fn users_are_told_in_pages() {
    let mut security = security();
    for number in 0..=200 {
        assert_eq!(account(&mut security, "alice", new_user(&format!("user-{number:03}"), None)), DONE);
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let reply = account(&mut security, "alice", AccountsRequest::Users(UsersRequest { after }));
        let SecurityReply::Accounts(AccountsReply::Users { users, more }) = reply else { panic!("{reply:?}") };
        seen.extend(users.into_iter().map(|status| status.user));
        pages += 1;
        if !more {
            break;
        }
        after = seen.last().cloned();
    }
    assert_eq!((pages, seen.len()), (3, 203));
    assert!(seen.is_sorted());
}
