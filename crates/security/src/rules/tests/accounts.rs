//! Tests of what administrators and users change: every refusal, and what follows from each change.

use protocol::{
    Reason, UserName,
    message::{
        accounts::{NewSession, UserChange},
        master_security::{ChangeCursor, HeldSession},
        request::{
            AddGroupRequest, AddTokenRequest, ChangeUserRequest, GroupsRequest, RemoveGroupRequest, RemoveUserRequest,
            RevokeSessionRequest, RevokeSessionsOfRequest, RevokeTokenRequest, SessionsRequest, SetMemberRequest,
            SetPasswordRequest, TokensRequest, WhoAmIRequest,
        },
    },
};

use super::*;
use crate::accounts::credentials::{SESSION_LIFE_MILLIS, SESSION_LIFE_MILLIS_MAX, SESSIONS_OF_USER_MAX};

const HOUR: u64 = 3_600;

/// As [`security`], with bob, who has a password and may come from anywhere, and the group `geo`.
fn with_bob() -> Security {
    let mut security = security();
    done(&mut security, "alice", new_user("bob", Some("battery staple")));
    done(&mut security, "alice", AccountsRequest::AddGroup(AddGroupRequest("geo".into())));
    security
}

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn done(security: &mut Security, by: &str, request: AccountsRequest) {
    assert_eq!(account(security, by, request), DONE);
}

fn refusal(security: &mut Security, by: &str, request: AccountsRequest) -> Status {
    status(account(security, by, request))
}

fn begin(security: &mut Security, now: Now, user: &str, secret: Secret) -> SecurityReply {
    let (user, address, machine) = (name(user), HOME.parse().unwrap(), "laptop".to_owned());
    ask(security, now, SecurityRequest::Login { user, secret, address, machine }).0
}

fn session_of_bob(security: &mut Security, now: Now) -> NewSession {
    match begin(security, now, "bob", password("battery staple")) {
        SecurityReply::Session(session) => session,
        other => panic!("{other:?}"),
    }
}

fn in_session(
    security: &mut Security,
    now: Now,
    user: &str,
    id: CredentialId,
    request: AccountsRequest,
) -> SecurityReply {
    let by = Asker { credential: id, ..asker(user) };
    ask(security, now, SecurityRequest::Accounts { by, request }).0
}

/// Whether a master hears that this session of bob still stands, with what it hears.
fn rechecked(security: &mut Security, now: Now, id: CredentialId) -> Option<KnownUser> {
    let held = HeldSession { user: name("bob"), credential: id, address: HOME.parse().unwrap() };
    let SecurityReply::Rechecked(mut known) = ask(security, now, SecurityRequest::Recheck(vec![held])).0 else {
        panic!("not rechecked")
    };
    known.pop().unwrap()
}

fn enters(security: &mut Security, now: Now, token: [u8; 32]) -> bool {
    matches!(ask(security, now, login("bob", Secret::Token(token), HOME)).0, SecurityReply::User(_))
}

fn change(user: &str, change: UserChange) -> AccountsRequest {
    AccountsRequest::ChangeUser(ChangeUserRequest { user: name(user), change })
}

fn set_password(user: &str, old: Option<&str>, new: &str) -> AccountsRequest {
    let old = old.map(|old| Password(old.into()));
    AccountsRequest::SetPassword(SetPasswordRequest { user: name(user), old, new: Password(new.into()) })
}

fn add_token(user: &str, life_seconds: u64) -> AccountsRequest {
    AccountsRequest::AddToken(AddTokenRequest { user: name(user), name: "nightly".into(), life_seconds })
}

#[test]
fn a_login_gives_a_session_whose_token_enters_until_it_ends() {
    let mut security = with_bob();
    let session = session_of_bob(&mut security, at(0));
    assert!(enters(&mut security, at(0), session.token));
    assert!(!enters(&mut security, at(12 * HOUR), session.token));
    assert_eq!(
        begin(&mut security, at(0), "bob", Secret::Token(session.token)),
        refused(Reason::Invalid, "a token begins no login session; give the password")
    );
    assert_eq!(message(begin(&mut security, at(0), "bob", password("wrong"))), WRONG_LOGIN);
    assert_eq!(message(begin(&mut security, at(0), "robot", password("no one's password"))), WRONG_LOGIN);
}

// Promise 27.
#[test]
fn use_renews_a_session_but_not_for_ever() {
    let mut security = with_bob();
    let session = session_of_bob(&mut security, at(0));
    assert_eq!(session.until_unix_millis, SESSION_LIFE_MILLIS);
    let (mut hours, mut until) = (0, 0);
    while let Some(known) = rechecked(&mut security, at(hours * HOUR), session.credential) {
        until = known.until_unix_millis.unwrap();
        hours += 11;
    }
    assert_eq!(until, SESSION_LIFE_MILLIS_MAX);
    assert!(hours * HOUR * 1_000 >= SESSION_LIFE_MILLIS_MAX);
    assert!(!enters(&mut security, at(hours * HOUR), session.token));
    security.handle_timeout(at(hours * HOUR));
    assert!(security.accounts.sessions().is_empty(), "its row is forgotten");
}

// Promise 27.
#[test]
fn a_session_that_was_revoked_enters_nowhere_and_masters_hear_whose() {
    let mut security = with_bob();
    let [first, second] = [0, 1].map(|_| session_of_bob(&mut security, at(0)));
    let changes = |security: &mut Security, mark| match ask(security, at(0), SecurityRequest::Changes(mark)).0 {
        SecurityReply::Changes(changes) => changes,
        other => panic!("{other:?}"),
    };
    let before = changes(&mut security, ChangeCursor::default());
    assert_eq!(before.users, None, "who knows nothing looks at everyone");
    assert_eq!(
        status(account(&mut security, "robot", AccountsRequest::RevokeSession(RevokeSessionRequest(first.credential)))),
        Status::NotFound
    );
    let revoke = AccountsRequest::RevokeSession(RevokeSessionRequest(first.credential));
    assert_eq!(in_session(&mut security, at(0), "bob", first.credential, revoke.clone()), DONE);
    assert_eq!(changes(&mut security, before.cursor).users, Some(vec![name("bob")]));
    assert!(!enters(&mut security, at(0), first.token) && enters(&mut security, at(0), second.token));
    assert_eq!(rechecked(&mut security, at(0), first.credential), None);
    assert!(rechecked(&mut security, at(0), second.credential).is_some());
    assert_eq!(
        status(in_session(&mut security, at(0), "bob", first.credential, AccountsRequest::WhoAmI(WhoAmIRequest))),
        Status::Refused
    );
    assert_eq!(refusal(&mut security, "alice", revoke), Status::NotFound);
    assert_eq!(
        refusal(&mut security, "robot", AccountsRequest::RevokeSessionsOf(RevokeSessionsOfRequest(name("bob")))),
        Status::Refused
    );
    done(&mut security, "alice", AccountsRequest::RevokeSessionsOf(RevokeSessionsOfRequest(name("bob"))));
    assert!(!enters(&mut security, at(0), second.token));
}

// Promise 27.
#[test]
fn every_master_hears_of_a_change_also_one_that_was_away() {
    let mut security = with_bob();
    let changes = |security: &mut Security, mark| match ask(security, at(0), SecurityRequest::Changes(mark)).0 {
        SecurityReply::Changes(changes) => changes,
        other => panic!("{other:?}"),
    };
    let [one, away] = [0, 1].map(|_| changes(&mut security, ChangeCursor::default()).cursor);
    done(&mut security, "alice", change("bob", UserChange::Enabled(false)));
    let heard = changes(&mut security, one);
    assert_eq!(heard.users, Some(vec![name("bob")]));
    done(&mut security, "alice", change("robot", UserChange::Enabled(false)));
    assert_eq!(changes(&mut security, heard.cursor).users, Some(vec![name("robot")]));
    assert_eq!(changes(&mut security, away).users, Some(vec![name("bob"), name("robot")]));
}

#[test]
fn each_sees_his_own_sessions_and_an_administrator_all() {
    let mut security = with_bob();
    session_of_bob(&mut security, at(0));
    let seen = |security: &mut Security, who| match account(
        security,
        who,
        AccountsRequest::Sessions(SessionsRequest { after: None }),
    ) {
        SecurityReply::Accounts(AccountsReply::Sessions { sessions, more: false }) => sessions.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(["alice", "bob", "robot"].map(|who| seen(&mut security, who)), [1, 1, 0]);
}

#[test]
fn the_session_unused_for_longest_ends_where_a_user_has_too_many() {
    let mut security = with_bob();
    let sessions: Vec<_> =
        (0..=SESSIONS_OF_USER_MAX as u64).map(|second| session_of_bob(&mut security, at(second))).collect();
    assert!(!enters(&mut security, at(99), sessions[0].token));
    assert!(enters(&mut security, at(99), sessions[1].token));
    assert_eq!(security.accounts.sessions().len(), SESSIONS_OF_USER_MAX);
}

#[test]
fn a_disabled_user_is_out_at_once_and_hears_why_only_with_the_right_password() {
    let mut security = with_bob();
    let session = session_of_bob(&mut security, at(0));
    done(&mut security, "alice", change("bob", UserChange::Enabled(false)));
    assert!(!enters(&mut security, at(0), session.token));
    assert_eq!(rechecked(&mut security, at(0), session.credential), None);
    assert!(message(begin(&mut security, at(0), "bob", password("battery staple"))).contains("is disabled"));
    assert_eq!(message(begin(&mut security, at(0), "bob", password("battery"))), WRONG_LOGIN);
    assert_eq!(refusal(&mut security, "bob", AccountsRequest::WhoAmI(WhoAmIRequest)), Status::Refused);
    done(&mut security, "alice", change("bob", UserChange::Enabled(true)));
    assert!(!enters(&mut security, at(0), session.token), "its sessions stay ended");
    session_of_bob(&mut security, at(0));
}

// Promise 27.
#[test]
fn the_last_administrator_who_may_come_in_stays_one() {
    let mut security = with_bob();
    let takes_away = |user: &str| {
        [
            change(user, UserChange::Admin(false)),
            change(user, UserChange::Enabled(false)),
            AccountsRequest::RemoveUser(RemoveUserRequest(name(user))),
        ]
    };
    for request in takes_away("alice") {
        assert_eq!(refusal(&mut security, "alice", request), Status::Refused);
    }
    done(&mut security, "alice", change("bob", UserChange::Admin(true)));
    done(&mut security, "alice", change("alice", UserChange::Enabled(false)));
    for request in takes_away("bob") {
        assert_eq!(refusal(&mut security, "bob", request), Status::Refused, "alice is disabled");
    }
}

// Promise 27.
#[test]
fn an_administrator_without_a_lasting_credential_does_not_count_as_the_last_one() {
    let mut security = security();
    let AccountsRequest::AddUser(new) = new_user("carol", None) else { panic!() };
    done(&mut security, "alice", AccountsRequest::AddUser(NewUser { admin: true, service: true, ..new }));
    let remove = AccountsRequest::RemoveUser(RemoveUserRequest(name("alice")));
    assert_eq!(refusal(&mut security, "alice", remove.clone()), Status::Refused, "carol has nothing");
    let reply = account(&mut security, "alice", add_token("carol", HOUR));
    assert!(matches!(reply, SecurityReply::Accounts(AccountsReply::Token(_))));
    assert_eq!(refusal(&mut security, "alice", remove), Status::Refused, "carol's token ends");
}

// Promise 27.
#[test]
fn the_last_administrator_keeps_the_token_that_is_the_only_way_in() {
    let mut security = with_bob();
    done(&mut security, "alice", change("robot", UserChange::Admin(true)));
    done(&mut security, "robot", change("alice", UserChange::Enabled(false)));
    let revoke = AccountsRequest::RevokeToken(RevokeTokenRequest { user: name("robot"), name: "token-2".into() });
    assert!(message(account(&mut security, "robot", revoke.clone())).contains("last administrator"));
    done(&mut security, "robot", change("bob", UserChange::Admin(true)));
    done(&mut security, "robot", revoke);
}

// Promise 27.
#[test]
fn nobody_shuts_the_own_address_out_by_mistake() {
    let mut security = with_bob();
    let ranges = |range: &str| UserChange::Addresses(vec![range.parse().unwrap()]);
    assert!(message(account(&mut security, "alice", change("alice", ranges("192.0.2.0/24")))).contains(HOME));
    done(&mut security, "alice", change("alice", ranges("10.0.0.1")));
    done(&mut security, "alice", change("bob", ranges("192.0.2.0/24")));
}

#[test]
fn rights_that_change_reach_a_session_that_is_open() {
    let mut security = with_bob();
    let session = session_of_bob(&mut security, at(0));
    let member =
        |member| AccountsRequest::SetMember(SetMemberRequest { group: "geo".into(), user: name("bob"), member });
    done(&mut security, "alice", member(true));
    done(&mut security, "alice", change("bob", UserChange::Admin(true)));
    let known = rechecked(&mut security, at(0), session.credential).unwrap();
    assert_eq!((known.rights.groups, known.rights.admin), (vec!["geo".to_owned()], true));
    done(&mut security, "alice", AccountsRequest::RemoveGroup(RemoveGroupRequest("geo".into())));
    assert_eq!(rechecked(&mut security, at(0), session.credential).unwrap().rights.groups, Vec::<String>::new());
    done(&mut security, "alice", change("bob", UserChange::Addresses(vec!["192.0.2.0/24".parse().unwrap()])));
    assert_eq!(rechecked(&mut security, at(0), session.credential), None, "he came from elsewhere");
}

#[test]
fn groups_are_added_filled_listed_and_removed_by_administrators() {
    let mut security = with_bob();
    let member = |group: &str, user: &str| {
        AccountsRequest::SetMember(SetMemberRequest { group: group.into(), user: name(user), member: true })
    };
    assert_eq!(refusal(&mut security, "alice", member("none", "bob")), Status::NotFound);
    assert_eq!(refusal(&mut security, "alice", member("geo", "nobody")), Status::NotFound);
    assert_eq!(
        refusal(&mut security, "alice", AccountsRequest::AddGroup(AddGroupRequest("geo".into()))),
        Status::Exists
    );
    assert_eq!(
        refusal(&mut security, "alice", AccountsRequest::AddGroup(AddGroupRequest("a group".into()))),
        Status::Usage
    );
    assert_eq!(
        refusal(&mut security, "alice", AccountsRequest::RemoveGroup(RemoveGroupRequest("none".into()))),
        Status::NotFound
    );
    for request in [
        member("geo", "bob"),
        AccountsRequest::AddGroup(AddGroupRequest("mine".into())),
        AccountsRequest::RemoveGroup(RemoveGroupRequest("geo".into())),
        AccountsRequest::Groups(GroupsRequest { after: None }),
        change("bob", UserChange::Admin(true)),
    ] {
        assert_eq!(refusal(&mut security, "bob", request), Status::Refused);
    }
    done(&mut security, "alice", member("geo", "bob"));
    done(&mut security, "alice", member("geo", "bob"));
    let reply = account(&mut security, "alice", AccountsRequest::Groups(GroupsRequest { after: None }));
    let SecurityReply::Accounts(AccountsReply::Groups { groups, more: false }) = reply else { panic!("{reply:?}") };
    assert_eq!((groups.len(), &groups[0].members), (1, &vec![name("bob")]));
}

#[test]
fn a_user_changes_the_own_password_with_the_old_one_and_other_sessions_end() {
    let mut security = with_bob();
    let [mine, other] = [0, 1].map(|_| session_of_bob(&mut security, at(0)));
    let mut set = |request| in_session(&mut security, at(0), "bob", mine.credential, request);
    assert_eq!(status(set(set_password("bob", None, "paper clip"))), Status::Usage);
    assert_eq!(status(set(set_password("bob", Some("guess"), "paper clip"))), Status::Refused);
    assert_eq!(status(set(set_password("bob", Some("battery staple"), "short"))), Status::Usage);
    for mostly_the_name in ["bobbob-secret", "bobBOBbob", "bob12345"] {
        assert_eq!(status(set(set_password("bob", Some("battery staple"), mostly_the_name))), Status::Usage);
    }
    assert_eq!(status(set(set_password("alice", Some("battery staple"), "paper clip"))), Status::Refused);
    assert_eq!(set(set_password("bob", Some("battery staple"), "paper clip")), DONE);
    assert!(enters(&mut security, at(0), mine.token) && !enters(&mut security, at(0), other.token));
    assert_eq!(message(begin(&mut security, at(0), "bob", password("battery staple"))), WRONG_LOGIN);
    assert!(matches!(begin(&mut security, at(0), "bob", password("paper clip")), SecurityReply::Session(_)));
    let by_chance = in_session(
        &mut security,
        at(0),
        "bob",
        mine.credential,
        set_password("bob", Some("paper clip"), "a bobsled ride"),
    );
    assert_eq!(by_chance, DONE);
}

#[test]
fn who_took_over_a_session_cannot_guess_the_old_password_fast() {
    let mut security = with_bob();
    for _ in 0..5 {
        let guess = account(&mut security, "bob", set_password("bob", Some("guess"), "paper clip"));
        assert!(message(guess).contains("is another one"));
    }
    let right = account(&mut security, "bob", set_password("bob", Some("battery staple"), "paper clip"));
    assert!(message(right).contains("wait 1 s"));
}

#[test]
fn an_administrator_gives_any_person_a_password_and_no_service_account() {
    let mut security = with_bob();
    let AccountsRequest::AddUser(new) = new_user("nightly", None) else { panic!() };
    let service = NewUser { service: true, ..new };
    let with_password = NewUser { password: Some(Password("battery staple".into())), ..service.clone() };
    assert_eq!(refusal(&mut security, "alice", AccountsRequest::AddUser(with_password)), Status::Usage);
    done(&mut security, "alice", AccountsRequest::AddUser(service));
    done(&mut security, "alice", set_password("bob", None, "paper clip"));
    assert_eq!(refusal(&mut security, "alice", set_password("nightly", None, "paper clip")), Status::Refused);
    assert_eq!(refusal(&mut security, "alice", set_password("nobody", None, "paper clip")), Status::NotFound);
    assert_eq!(refusal(&mut security, "robot", set_password("robot", None, "paper clip")), Status::Refused);
}

#[test]
fn a_password_that_changes_while_the_old_one_is_compared_lets_nobody_in() {
    let mut security = with_bob();
    security.handle_message(at(0), SecurityCaller(7), login("bob", password("battery staple"), HOME));
    let Some(SecurityAction::Verify { check, verification }) = security.poll_action() else { panic!("no comparison") };
    done(&mut security, "alice", set_password("bob", None, "paper clip"));
    security.handle_completion(at(0), SecurityCompletion::Verified { check, found: verification.run() });
    let Some(SecurityAction::Answer { reply, .. }) = security.poll_action() else { panic!("no answer") };
    assert_eq!(message(reply), WRONG_LOGIN);
}

#[test]
fn a_token_enters_until_it_ends_or_is_revoked_and_shows_when_it_was_used() {
    let mut security = with_bob();
    let reply = account(&mut security, "alice", add_token("bob", 24 * HOUR));
    let SecurityReply::Accounts(AccountsReply::Token(token)) = reply else { panic!("{reply:?}") };
    assert_eq!(refusal(&mut security, "alice", add_token("bob", 1)), Status::Exists);
    for life in [0, 400 * 24 * HOUR] {
        assert_eq!(refusal(&mut security, "alice", add_token("bob", life)), Status::Usage);
    }
    assert_eq!(refusal(&mut security, "robot", add_token("bob", 1)), Status::Refused);
    assert_eq!(refusal(&mut security, "robot", AccountsRequest::Tokens(TokensRequest(name("bob")))), Status::Refused);
    assert!(enters(&mut security, at(HOUR), token.token));
    let reply = account(&mut security, "bob", AccountsRequest::Tokens(TokensRequest(name("bob"))));
    let SecurityReply::Accounts(AccountsReply::Tokens(tokens)) = reply else { panic!("{reply:?}") };
    assert_eq!((tokens[0].name.as_str(), tokens[0].used_unix_millis), ("nightly", Some(HOUR * 1_000)));
    assert!(!enters(&mut security, at(24 * HOUR), token.token));
    let revoke = AccountsRequest::RevokeToken(RevokeTokenRequest { user: name("bob"), name: "nightly".into() });
    done(&mut security, "bob", revoke.clone());
    assert!(!enters(&mut security, at(HOUR), token.token));
    assert_eq!(refusal(&mut security, "bob", revoke), Status::NotFound);
}

#[test]
fn a_token_makes_no_tokens_but_a_login_session_does() {
    let mut security = with_bob();
    let token = CredentialId(2);
    let reply = in_session(&mut security, at(0), "robot", token, add_token("robot", HOUR));
    assert!(message(reply).contains("makes no tokens"));
    let session = session_of_bob(&mut security, at(0));
    let reply = in_session(&mut security, at(0), "bob", session.credential, add_token("bob", HOUR));
    assert!(matches!(reply, SecurityReply::Accounts(AccountsReply::Token(_))));
}

#[test]
fn a_session_begun_with_a_password_alone_ends_at_any_change() {
    let mut security = with_bob();
    assert_eq!(rechecked(&mut security, at(0), CredentialId(0)), None);
}

#[test]
fn a_group_that_is_not_there_takes_no_new_user() {
    let mut security = with_bob();
    let AccountsRequest::AddUser(new) = new_user("carol", None) else { panic!() };
    let request = |group: &str| AccountsRequest::AddUser(NewUser { groups: vec![group.into()], ..new.clone() });
    assert_eq!(refusal(&mut security, "alice", request("none")), Status::NotFound);
    done(&mut security, "alice", request("geo"));
}
