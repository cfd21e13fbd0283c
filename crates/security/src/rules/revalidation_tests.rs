//! Tests of what becomes of users of providers after they came in, with made-up answers of providers.

#![allow(clippy::unwrap_used)]
use std::path::Path;

use daemon::settings::{Checked, LdapSettings, OidcSettings, ProviderSettings, SecuritySettings};
use protocol::{
    CredentialId, Refusal, Status,
    message::{
        accounts::{AccountsRequest, NewSession, Password, UserChange},
        join::Secret,
        login::{DeviceReply, DeviceRequest},
        master_security::{Asker, ChangeCursor, HeldSession, KnownUser, SecurityReply, SecurityRequest, UserRights},
        request::{
            AddGroupRequest, ChangeUserRequest, RemoveUserRequest, RevokeSessionsOfRequest, SetMemberRequest,
            SetPasswordRequest,
        },
    },
};

use super::*;
use crate::{
    accounts::{self, Accounts, User, password_hash::PasswordHash},
    provider::{DeviceBegun, DeviceGrant, ProviderFailure, ProviderMapping, ProviderUser, SecretText},
    rules::{CheckId, SecurityAction, SecurityCaller, SecurityCompletion},
};

const HOME: &str = "10.0.0.1";

/// Two providers: the directory `staff`, of which only members of `cn=all` may come in, and `campus`, OpenID Connect.
/// The account `root` is this server's own, and administers.
fn security() -> Security {
    let mut accounts = Accounts::default();
    let root = User { password: Some(PasswordHash::new("correct horse").unwrap()), admin: true, ..User::default() };
    accounts.apply(&accounts::set_user(&name("root"), &root).unwrap()).unwrap();
    with(accounts)
}

fn with(accounts: Accounts) -> Security {
    let staff = LdapSettings {
        urls: Some(vec!["ldaps://ldap".into()]),
        user_base: Some("ou=people".into()),
        bind_dn: Some("cn=sector".into()),
        bind_password_file: Some("password".into()),
        groups: Some([("cn=astro".to_owned(), "astro".to_owned())].into()),
        admin_group: Some("cn=admins".into()),
        allowed_groups: Some(vec!["cn=all".into()]),
        ..LdapSettings::default()
    };
    let campus = OidcSettings { suffix: Some(".campus".into()), ..OidcSettings::default() };
    let providers =
        [("staff".to_owned(), ProviderSettings::Ldap(staff)), ("campus".to_owned(), ProviderSettings::Oidc(campus))];
    let settings = SecuritySettings {
        provider_order: Some(vec!["staff".into()]),
        providers: Some(providers.into()),
        ..SecuritySettings::default()
    };
    let settings = Checked::of(settings, Path::new("/")).unwrap();
    Security::new(accounts).unwrap().with_providers(ProviderMapping::new(&settings))
}

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn at(seconds: u64) -> Now {
    Now::default().after(Duration::from_secs(seconds))
}

fn user(name: &str, groups: &[&str]) -> ProviderAnswer {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    ProviderAnswer::User(ProviderUser { name: name.into(), subject: None, groups })
}

/// Asks, with this answer of the provider if it is asked.
fn ask(security: &mut Security, now: Now, request: SecurityRequest, said: Option<ProviderAnswer>) -> SecurityReply {
    security.handle_message(now, SecurityCaller(1), request);
    let mut said = said;
    loop {
        match security.poll_action().expect("an answer") {
            SecurityAction::Answer { reply, .. } => return reply,
            SecurityAction::AskProvider { check, .. } => {
                let answer = said.take().expect("nobody was to be asked");
                security.handle_completion(now, SecurityCompletion::Asked { check, answer });
            }
            SecurityAction::Verify { check, verification } => {
                security.handle_completion(now, SecurityCompletion::Verified { check, found: verification.run() });
            }
            SecurityAction::Hash { check, hashing } => {
                security.handle_completion(now, SecurityCompletion::Hashed { check, hash: hashing.run() });
            }
            SecurityAction::Save { batch, .. } => security.handle_completion(now, SecurityCompletion::Saved { batch }),
            other => panic!("{other:?}"),
        }
    }
}

/// Logs in with a password, and begins a session.
fn log_in(security: &mut Security, now: Now, user: &str, answer: ProviderAnswer) -> Result<NewSession, Refusal> {
    let secret = Secret::Password("secret".into());
    let (user, address) = (name(user), HOME.parse().unwrap());
    let request = SecurityRequest::Login { user, secret, address, machine: "laptop".into() };
    match ask(security, now, request, Some(answer)) {
        SecurityReply::Session(session) => Ok(session),
        SecurityReply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

/// What a master hears of a session that it has open.
fn stands(security: &mut Security, now: Now, user: &str, credential: CredentialId) -> Option<KnownUser> {
    let held = HeldSession { user: name(user), credential, address: HOME.parse().unwrap() };
    match ask(security, now, SecurityRequest::Recheck(vec![held]), None) {
        SecurityReply::Rechecked(known) => known.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Lets time pass; gives the questions that providers are asked now.
fn looks(security: &mut Security, now: Now) -> Vec<(CheckId, String)> {
    security.handle_timeout(now);
    let mut asked = Vec::new();
    while let Some(action) = security.poll_action() {
        match action {
            SecurityAction::AskProvider { check, provider, question: ProviderQuestion::LookUp { user } } => {
                assert_eq!(provider, "staff");
                asked.push((check, user));
            }
            SecurityAction::Save { batch, .. } => security.handle_completion(now, SecurityCompletion::Saved { batch }),
            other => panic!("{other:?}"),
        }
    }
    asked
}

/// The one look that is due, with this answer.
fn look(security: &mut Security, now: Now, answer: ProviderAnswer) {
    let [(check, _)] = looks(security, now)[..] else { panic!("one look") };
    security.handle_completion(now, SecurityCompletion::Asked { check, answer });
    while let Some(SecurityAction::Save { batch, .. }) = security.poll_action() {
        security.handle_completion(now, SecurityCompletion::Saved { batch });
    }
}

fn changed(security: &mut Security, now: Now, mark: ChangeCursor) -> (ChangeCursor, Vec<UserName>) {
    match ask(security, now, SecurityRequest::Changes(mark), None) {
        SecurityReply::Changes(changes) => (changes.cursor, changes.users.unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

fn as_root(security: &mut Security, request: AccountsRequest) -> Result<(), Refusal> {
    let rights = UserRights { user: name("root"), groups: vec![], admin: true };
    let by = Asker { rights, credential: CredentialId(0), address: HOME.parse().unwrap() };
    match ask(security, at(0), SecurityRequest::Accounts { by, request }, None) {
        SecurityReply::Refused(refusal) => Err(refusal),
        _ => Ok(()),
    }
}

// Promise 44.
#[test]
fn a_user_removed_from_the_directory_is_out_within_minutes_and_can_come_back() {
    let mut security = security();
    let session = log_in(&mut security, at(0), "ann", user("ann", &["cn=all"])).unwrap();
    let (mark, _) = changed(&mut security, at(0), ChangeCursor::default());
    assert!(looks(&mut security, at(299)).is_empty());
    look(&mut security, at(300), ProviderAnswer::NoSuchUser);
    assert_eq!(changed(&mut security, at(300), mark).1, [name("ann")], "masters hear of it");
    assert_eq!(stands(&mut security, at(300), "ann", session.credential), None);
    let (secret, address) = (Secret::Token(session.token), HOME.parse().unwrap());
    let enter = SecurityRequest::CheckUser { user: name("ann"), secret, address };
    match ask(&mut security, at(300), enter.clone(), None) {
        SecurityReply::Refused(refusal) => assert!(refusal.message.contains("`staff`"), "{refusal}"),
        other => panic!("{other:?}"),
    }
    // What she holds is kept: a directory may have been restored from an old copy.
    look(&mut security, at(600), user("ann", &["cn=all"]));
    assert!(stands(&mut security, at(600), "ann", session.credential).is_some());
    assert!(matches!(ask(&mut security, at(600), enter, None), SecurityReply::User(_)));
}

// Promise 44.
#[test]
fn that_a_user_is_gone_is_remembered_over_a_restart() {
    let mut security = security();
    let session = log_in(&mut security, at(0), "ann", user("ann", &["cn=all"])).unwrap();
    look(&mut security, at(300), ProviderAnswer::NoSuchUser);
    let mut again = with(security.accounts.clone());
    assert_eq!(stands(&mut again, at(0), "ann", session.credential), None);
    // And asked about at once.
    look(&mut again, at(0), user("ann", &["cn=all"]));
    assert!(stands(&mut again, at(0), "ann", session.credential).is_some());
}

// Promise 44.
#[test]
fn groups_follow_the_directory_while_a_user_is_in() {
    let mut security = security();
    let session = log_in(&mut security, at(0), "ann", user("ann", &["cn=all", "cn=astro", "cn=admins"])).unwrap();
    let rights = |known: Option<KnownUser>| known.map(|known| (known.rights.groups, known.rights.admin));
    let astro = vec!["astro".to_owned()];
    assert_eq!(rights(stands(&mut security, at(1), "ann", session.credential)), Some((astro, true)));
    assert!(security.accounts.groups().contains("astro"), "it is shown among the groups");
    look(&mut security, at(300), user("ann", &["cn=all"]));
    assert_eq!(rights(stands(&mut security, at(300), "ann", session.credential)), Some((vec![], false)));
    // Out of all groups that may log in.
    look(&mut security, at(600), user("ann", &["cn=astro"]));
    assert_eq!(stands(&mut security, at(600), "ann", session.credential), None);
}

// Promise 44.
#[test]
fn a_directory_that_does_not_answer_puts_nobody_out() {
    let mut security = security();
    let session = log_in(&mut security, at(0), "ann", user("ann", &["cn=all"])).unwrap();
    for (seconds, why) in
        [(300, ProviderFailure::Unreachable("away".into())), (600, ProviderFailure::Misconfigured("no".into()))]
    {
        look(&mut security, at(seconds), ProviderAnswer::Failed(why));
        assert!(stands(&mut security, at(seconds), "ann", session.credential).is_some());
    }
}

#[test]
fn a_login_refused_as_unknown_has_the_users_session_revalidated_at_once() {
    let mut security = security();
    let session = log_in(&mut security, at(0), "ann", user("ann", &["cn=all"])).unwrap();
    log_in(&mut security, at(10), "ann", ProviderAnswer::WrongSecret).unwrap_err();
    assert!(looks(&mut security, at(10)).is_empty(), "anyone can give a wrong password");
    log_in(&mut security, at(10), "ann", ProviderAnswer::NoSuchUser).unwrap_err();
    look(&mut security, at(10), ProviderAnswer::NoSuchUser);
    assert_eq!(stands(&mut security, at(10), "ann", session.credential), None);
    log_in(&mut security, at(11), "ann", user("ann", &["cn=all"])).unwrap();
    assert!(stands(&mut security, at(11), "ann", session.credential).is_some(), "who was proved is not gone");
}

// Promise 44.
#[test]
fn after_a_start_all_who_hold_something_are_looked_after_two_at_a_time() {
    let mut security = security();
    for number in 0..5 {
        let ann = format!("ann-{number}");
        log_in(&mut security, at(0), &ann, user(&ann, &["cn=all"])).unwrap();
    }
    as_root(&mut security, AccountsRequest::RevokeSessionsOf(RevokeSessionsOfRequest(name("ann-0")))).unwrap();
    as_root(&mut security, AccountsRequest::RemoveUser(RemoveUserRequest(name("ann-1")))).unwrap();
    let mut again = with(security.accounts.clone());
    let first = looks(&mut again, at(0));
    assert_eq!(first.iter().map(|(_, user)| user.as_str()).collect::<Vec<_>>(), ["ann-2", "ann-3"]);
    assert_eq!(again.next_revalidation(), None);
    let answer = user("ann-2", &["cn=all"]);
    again.handle_completion(at(0), SecurityCompletion::Asked { check: first[0].0, answer });
    let then: Vec<_> = looks(&mut again, at(0)).into_iter().map(|(_, user)| user).collect();
    assert_eq!(then, ["ann-4"]);
}

// Promise 45.
#[test]
fn a_session_about_whose_user_nobody_can_be_asked_is_not_prolonged() {
    let mut security = security();
    let begun = ProviderAnswer::Begun(DeviceBegun {
        grant: DeviceGrant { code: SecretText("device".into()), nonce: "nonce".into() },
        user_code: "ABCD".into(),
        verification_url: "https://op/device".into(),
        complete_url: None,
        interval: Duration::from_secs(5),
        lives_for: Duration::from_secs(600),
        login: [1; 32],
    });
    let address = HOME.parse().unwrap();
    let request = DeviceRequest::Begin { provider: None, machine: "laptop".into() };
    let reply = ask(&mut security, at(0), SecurityRequest::Device { request, address }, Some(begun));
    let SecurityReply::Device(DeviceReply::Begun { login, .. }) = reply else { panic!("{reply:?}") };
    let request = SecurityRequest::Device { request: DeviceRequest::Poll { login }, address };
    let reply = ask(&mut security, at(5), request, Some(user("bob", &[])));
    let SecurityReply::Device(DeviceReply::Done { session: of_campus, .. }) = reply else { panic!("{reply:?}") };
    let of_staff = log_in(&mut security, at(5), "ann", user("ann", &["cn=all"])).unwrap();
    let day = 24 * 3_600;
    for hour in 1..=11 {
        for (who, session) in [("bob.campus", &of_campus), ("ann", &of_staff)] {
            assert!(stands(&mut security, at(hour * 3_600), who, session.credential).is_some(), "{who} {hour}");
        }
    }
    assert_eq!(stands(&mut security, at(day / 2 + 5), "bob.campus", of_campus.credential), None);
    assert!(stands(&mut security, at(day / 2 + 5), "ann", of_staff.credential).is_some());
    assert!(looks(&mut security, at(day / 2 + 5)).iter().all(|(_, user)| user == "ann"));
}

// Promise 43.
#[test]
fn what_a_provider_says_of_a_user_is_fixed_here_but_access_and_addresses_are_not() {
    let mut security = security();
    let ann = name("ann");
    log_in(&mut security, at(0), "ann", user("ann", &["cn=all", "cn=admins"])).unwrap();
    as_root(&mut security, AccountsRequest::AddGroup(AddGroupRequest("geo".into()))).unwrap();
    let refusal = as_root(&mut security, AccountsRequest::RemoveUser(RemoveUserRequest(name("root")))).unwrap_err();
    assert_eq!(refusal.status(), Status::Refused, "one who administers by a provider's word is not enough");
    let new = Password("battery staple".into());
    for request in [
        AccountsRequest::SetPassword(SetPasswordRequest { user: ann.clone(), old: None, new }),
        AccountsRequest::ChangeUser(ChangeUserRequest { user: ann.clone(), change: UserChange::Admin(true) }),
        AccountsRequest::SetMember(SetMemberRequest { group: "geo".into(), user: ann.clone(), member: true }),
    ] {
        let refusal = as_root(&mut security, request).unwrap_err();
        assert!(refusal.status() == Status::Refused && refusal.message.contains("`staff`"), "{refusal}");
    }
    let elsewhere = UserChange::Addresses(vec!["192.0.2.0/24".parse().unwrap()]);
    for (change, word) in [(elsewhere, "10.0.0.1"), (UserChange::Enabled(false), "disabled")] {
        as_root(&mut security, AccountsRequest::ChangeUser(ChangeUserRequest { user: ann.clone(), change })).unwrap();
        let refusal = log_in(&mut security, at(1), "ann", user("ann", &["cn=all"])).unwrap_err();
        assert!(refusal.message.contains(word), "{refusal}");
    }
}
