//! Tests of logins that an identity provider decides, with made-up answers of providers.

#![allow(clippy::unwrap_used)]
use protocol::Status;
use std::path::Path;

use daemon::settings::{Checked, LdapSettings, OidcSettings, ProviderSettings, SecuritySettings};
use protocol::message::{
    join::Secret,
    login::{DeviceLogin, DeviceReply, DeviceRequest},
    master_security::SecurityRequest,
};

use super::*;
use crate::{
    accounts::{Accounts, password_hash::PasswordHash},
    provider::{DeviceBegun, DeviceGrant, SecretText},
    rules::{SecurityCaller, SecurityCompletion},
};

const HOME: &str = "10.0.0.1";

/// Three providers: the directories `first` and `second`, asked in this order, and `campus`, OpenID Connect. The
/// account `root` is this server's own, with a password and the rights of an administrator.
struct World {
    security: Security,
    /// What providers were asked.
    asked: Vec<(String, ProviderQuestion)>,
}

fn world() -> World {
    let directory = LdapSettings {
        urls: Some(vec!["ldaps://ldap".into()]),
        user_base: Some("ou=people".into()),
        bind_dn: Some("cn=sector".into()),
        bind_password_file: Some("password".into()),
        groups: Some([("cn=astro".to_owned(), "astro".to_owned())].into()),
        admin_group: Some("cn=admins".into()),
        ..LdapSettings::default()
    };
    let campus = OidcSettings { suffix: Some(".campus".into()), ..OidcSettings::default() };
    let providers = [
        ("first".to_owned(), ProviderSettings::Ldap(directory.clone())),
        ("second".to_owned(), ProviderSettings::Ldap(directory)),
        ("campus".to_owned(), ProviderSettings::Oidc(campus)),
    ];
    let settings = SecuritySettings {
        provider_order: Some(vec!["first".into(), "second".into()]),
        providers: Some(providers.into()),
        ..SecuritySettings::default()
    };
    let settings = Checked::of(settings, Path::new("/")).unwrap();
    let mut accounts = Accounts::default();
    let root = User { password: Some(PasswordHash::new("correct horse").unwrap()), admin: true, ..User::default() };
    accounts.apply(&accounts::set_user(&name("root"), &root).unwrap()).unwrap();
    World {
        security: Security::new(accounts).unwrap().with_providers(ProviderMapping::new(&settings)),
        asked: Vec::new(),
    }
}

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn at(seconds: u64) -> Now {
    Now::default().after(Duration::from_secs(seconds))
}

fn proved(name: &str, groups: &[&str]) -> ProviderAnswer {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    ProviderAnswer::User(ProviderUser { name: name.into(), subject: None, groups })
}

fn unreachable_because() -> ProviderAnswer {
    ProviderAnswer::Failed(ProviderFailure::Unreachable("ldaps://10.9.8.7 is silent".into()))
}

impl World {
    /// Asks, lets the providers give these answers one after the other, and returns the reply.
    fn ask(&mut self, now: Now, request: SecurityRequest, mut answers: Vec<ProviderAnswer>) -> SecurityReply {
        self.security.handle_message(now, SecurityCaller(1), request);
        let mut unsaved = None;
        loop {
            match self.security.poll_action() {
                Some(SecurityAction::Answer { reply, .. }) => {
                    assert!(unsaved.is_none(), "answered before it was durable");
                    assert!(answers.is_empty(), "nobody was asked for {answers:?}");
                    return reply;
                }
                Some(SecurityAction::AskProvider { check, provider, question }) => {
                    self.asked.push((provider, question));
                    self.security
                        .handle_completion(now, SecurityCompletion::Asked { check, answer: answers.remove(0) });
                }
                Some(SecurityAction::Verify { check, verification }) => {
                    let found = verification.run();
                    self.security.handle_completion(now, SecurityCompletion::Verified { check, found });
                }
                Some(SecurityAction::Save { batch, .. }) => unsaved = Some(batch),
                Some(other) => panic!("{other:?}"),
                None => {
                    let batch = unsaved.take().expect("an answer");
                    self.security.handle_completion(now, SecurityCompletion::Saved { batch });
                }
            }
        }
    }

    fn login(&mut self, now: Now, user: &str, password: &str, answers: Vec<ProviderAnswer>) -> SecurityReply {
        let secret = Secret::Password(password.into());
        self.ask(now, SecurityRequest::CheckUser { user: name(user), secret, address: HOME.parse().unwrap() }, answers)
    }

    fn device(&mut self, now: Now, request: DeviceRequest, answers: Vec<ProviderAnswer>) -> SecurityReply {
        self.ask(now, SecurityRequest::Device { request, address: HOME.parse().unwrap() }, answers)
    }

    fn begin(&mut self, now: Now, number: u8) -> DeviceLogin {
        match self.device(now, DeviceRequest::Begin { provider: None, machine: "laptop".into() }, vec![begun(number)]) {
            SecurityReply::Device(DeviceReply::Begun { login, .. }) => login,
            other => panic!("{other:?}"),
        }
    }

    fn poll(&mut self, now: Now, login: DeviceLogin, answers: Vec<ProviderAnswer>) -> SecurityReply {
        self.device(now, DeviceRequest::Poll { login }, answers)
    }
}

fn begun(number: u8) -> ProviderAnswer {
    ProviderAnswer::Begun(DeviceBegun {
        grant: DeviceGrant { code: SecretText("device".into()), nonce: "nonce".into() },
        user_code: "ABCD".into(),
        verification_url: "https://op/device".into(),
        complete_url: None,
        interval: Duration::from_secs(5),
        lives_for: Duration::from_secs(600),
        login: [number; 32],
    })
}

fn of_campus(name: &str, subject: &str) -> ProviderAnswer {
    ProviderAnswer::User(ProviderUser { name: name.into(), subject: Some(subject.into()), groups: vec![] })
}

fn rights(reply: SecurityReply) -> UserRights {
    match reply {
        SecurityReply::User(known) => known.rights,
        other => panic!("{other:?}"),
    }
}

fn refusal(reply: SecurityReply) -> Refusal {
    match reply {
        SecurityReply::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn wait(reply: SecurityReply) -> u32 {
    match reply {
        SecurityReply::Device(DeviceReply::Pending { interval_seconds }) => interval_seconds,
        other => panic!("{other:?}"),
    }
}

// Promise 43.
#[test]
fn the_first_directory_login_makes_an_account_and_later_ones_update_its_groups() {
    let mut world = world();
    let first = rights(world.login(at(0), "ann", "secret", vec![proved("ann", &["cn=astro", "cn=admins"])]));
    assert_eq!((first.groups, first.admin), (vec!["astro".to_owned()], true));
    let origin = world.security.accounts.origin(&name("ann")).unwrap();
    assert_eq!(origin, &Origin { provider: "first".into(), subject: None, is_disowned: false });
    let second = rights(world.login(at(1), "ann", "secret", vec![proved("ann", &[])]));
    assert_eq!((second.groups, second.admin), (vec![], false));
    let asked = ProviderQuestion::Password { user: "ann".into(), password: SecretText("secret".into()) };
    assert_eq!(world.asked, [("first".to_owned(), asked.clone()), ("first".to_owned(), asked)]);
}

// Promise 41.
#[test]
fn a_provider_cannot_take_over_an_account_of_this_server_or_of_another_provider() {
    let mut world = world();
    assert_eq!(refusal(world.login(at(0), "root", "theirs", vec![])).message, WRONG_LOGIN);
    assert!(world.asked.is_empty(), "nobody is told the password of an account of our own");
    assert!(rights(world.login(at(0), "root", "correct horse", vec![])).admin);
    rights(world.login(at(0), "ann", "secret", vec![ProviderAnswer::NoSuchUser, proved("ann", &[])]));
    // Now `first` has an `ann` too: it is not asked, and could not let her in.
    rights(world.login(at(0), "ann", "secret", vec![proved("ann", &[])]));
    assert_eq!(world.asked.last().unwrap().0, "second");
    let error = world.security.admit_user(at(0), "first", &user("ann"), None, HOME.parse().unwrap()).unwrap_err();
    assert_eq!(error.status(), Status::Refused);
    let error = world.security.admit_user(at(0), "first", &user("root"), None, HOME.parse().unwrap()).unwrap_err();
    assert!(error.message.contains("`root`"), "{error}");
}

fn user(name: &str) -> ProviderUser {
    ProviderUser { name: name.into(), subject: None, groups: vec![] }
}

#[test]
fn a_wrong_password_is_not_tried_at_the_next_provider_and_guessing_is_slowed_down() {
    let mut world = world();
    for _ in 0..5 {
        assert_eq!(refusal(world.login(at(0), "ann", "guess", vec![ProviderAnswer::WrongSecret])).message, WRONG_LOGIN);
    }
    let refused = refusal(world.login(at(0), "ann", "guess", vec![]));
    assert!(refused.message.contains("wait 1 s"), "{refused}");
    for _ in 0..5 {
        let unknown = vec![ProviderAnswer::NoSuchUser, ProviderAnswer::NoSuchUser];
        assert_eq!(refusal(world.login(at(0), "nobody", "guess", unknown)).message, WRONG_LOGIN);
    }
    assert!(refusal(world.login(at(0), "nobody", "guess", vec![])).message.contains("wait 1 s"));
}

#[test]
fn no_provider_is_asked_about_an_empty_password_or_a_name_in_capitals() {
    let mut world = world();
    for (user, password) in [("ann", ""), ("Ann", "secret"), ("ROOT", "secret")] {
        assert_eq!(refusal(world.login(at(0), user, password, vec![])).message, WRONG_LOGIN, "{user}");
    }
}

// Promise 42.
#[test]
fn an_unreachable_provider_is_named_admits_nobody_and_is_left_alone_for_a_moment() {
    let mut world = world();
    let refused = refusal(world.login(at(0), "ann", "secret", vec![unreachable_because()]));
    assert_eq!(refused.status(), Status::Unavailable);
    assert!(refused.message.contains("`first`") && !refused.message.contains("10.9.8.7"), "{refused}");
    assert_eq!(refusal(world.login(at(1), "ann", "secret", vec![])).status(), Status::Unavailable);
    rights(world.login(at(2), "ann", "secret", vec![proved("ann", &[])]));
    let broken = ProviderAnswer::Failed(ProviderFailure::Misconfigured("a secret detail".into()));
    let refused = refusal(world.login(at(2), "bob", "secret", vec![broken]));
    assert_eq!(refused.status(), Status::Failed);
    assert!(refused.message.contains("`first`") && !refused.message.contains("detail"), "{refused}");
    // It was no wrong password.
    assert!(world.security.failed.wait(at(2), &name("bob"), HOME.parse().unwrap()).is_none());
}

// Promise 42.
#[test]
fn questions_to_providers_are_bounded_so_that_others_still_come_in() {
    let mut world = world();
    for number in 0..=QUESTIONS_MAX as u64 {
        let user = name(&format!("ann-{number}"));
        let secret = Secret::Password("secret".into());
        let request = SecurityRequest::CheckUser { user, secret, address: HOME.parse().unwrap() };
        world.security.handle_message(at(0), SecurityCaller(number), request);
    }
    let actions: Vec<_> = std::iter::from_fn(|| world.security.poll_action()).collect();
    assert_eq!(actions.len(), QUESTIONS_MAX + 1);
    match actions.last().unwrap() {
        SecurityAction::Answer { caller, reply: SecurityReply::Refused(refusal) } => {
            assert_eq!((caller.0, refusal.status()), (QUESTIONS_MAX as u64, Status::Unavailable));
        }
        other => panic!("{other:?}"),
    }
    assert!(rights(world_login_root(&mut world)).admin);
}

fn world_login_root(world: &mut World) -> SecurityReply {
    world.login(at(0), "root", "correct horse", vec![])
}

#[test]
fn a_browser_login_ends_with_a_token_and_polls_no_faster_than_the_provider_wants() {
    let mut world = world();
    let login = world.begin(at(0), 1);
    assert_eq!(wait(world.poll(at(1), login, vec![])), 4);
    assert_eq!(wait(world.poll(at(5), login, vec![ProviderAnswer::Pending { slow_down: false }])), 5);
    assert_eq!(wait(world.poll(at(10), login, vec![ProviderAnswer::Pending { slow_down: true }])), 10);
    assert_eq!(wait(world.poll(at(15), login, vec![])), 5);
    assert_eq!(wait(world.poll(at(20), login, vec![unreachable_because()])), 20);
    let done = world.poll(at(40), login, vec![of_campus("Ann", "7")]);
    let SecurityReply::Device(DeviceReply::Done { user, session }) = done else { panic!("{done:?}") };
    assert_eq!(user, name("ann.campus"));
    let known = world.security.accounts.sessions().get(&session.credential).unwrap();
    assert_eq!((known.machine.as_str(), known.until_unix_millis), ("laptop", session.until_unix_millis));
    let (secret, address) = (Secret::Token(session.token), HOME.parse().unwrap());
    let request = SecurityRequest::CheckUser { user: user.clone(), secret, address };
    assert_eq!(rights(world.ask(at(41), request, vec![])).user, user);
    // A grant is good once.
    assert_eq!(refusal(world.poll(at(60), login, vec![])).status(), Status::Refused);
    // The password of such a user is nobody's to check here.
    let refused = refusal(world.login(at(60), "ann.campus", "secret", vec![ProviderAnswer::WrongSecret]));
    assert_eq!(refused.message, WRONG_LOGIN);
}

// Promise 41.
#[test]
fn a_name_that_the_provider_gave_to_another_person_does_not_open_the_account() {
    let mut world = world();
    let login = world.begin(at(0), 1);
    assert!(matches!(world.poll(at(5), login, vec![of_campus("ann", "7")]), SecurityReply::Device(_)));
    let login = world.begin(at(10), 2);
    let refused = refusal(world.poll(at(15), login, vec![of_campus("ann", "8")]));
    assert!(refused.message.contains("`ann.campus`"), "{refused}");
}

#[test]
fn a_login_with_a_browser_that_is_denied_forged_or_forgotten_lets_nobody_in() {
    let mut world = world();
    for (number, answer) in [
        (1, ProviderAnswer::Refused("says no".into())),
        (2, ProviderAnswer::Failed(ProviderFailure::Misconfigured("forged".into()))),
    ] {
        let login = world.begin(at(0), number);
        refusal(world.poll(at(5), login, vec![answer]));
        refusal(world.poll(at(10), login, vec![]));
    }
    let login = world.begin(at(0), 3);
    refusal(world.poll(at(5), DeviceLogin([9; 32]), vec![]));
    assert_eq!(world.security.providers.devices.next_timeout(), Some(Duration::from_secs(600)));
    world.security.handle_timeout(at(600));
    assert_eq!(world.security.providers.devices.next_timeout(), None);
    refusal(world.poll(at(600), login, vec![]));
    let nobody = DeviceRequest::Begin { provider: Some("first".into()), machine: String::new() };
    assert_eq!(refusal(world.device(at(600), nobody, vec![])).status(), Status::Usage);
}

#[test]
fn logins_of_one_address_that_were_begun_are_bounded() {
    let mut world = world();
    let mut number = 0;
    let refused = loop {
        number += 1;
        world.security.handle_message(
            at(0),
            SecurityCaller(1),
            SecurityRequest::Device {
                request: DeviceRequest::Begin { provider: None, machine: "laptop".into() },
                address: HOME.parse().unwrap(),
            },
        );
        match world.security.poll_action().unwrap() {
            SecurityAction::AskProvider { check, .. } => {
                world.security.handle_completion(at(0), SecurityCompletion::Asked { check, answer: begun(number) });
                assert!(matches!(world.security.poll_action(), Some(SecurityAction::Answer { .. })));
            }
            SecurityAction::Answer { reply, .. } => break refusal(reply),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((number, refused.status()), (17, Status::Refused));
}

#[test]
fn concurrent_guesses_lock_nobody_out_at_the_directory_beyond_sequential_ones() {
    let mut world = world();
    for number in 0..16 {
        let secret = Secret::Password(format!("guess {number}"));
        let request = SecurityRequest::CheckUser { user: name("ann"), secret, address: HOME.parse().unwrap() };
        world.security.handle_message(at(0), SecurityCaller(number), request);
    }
    let (mut binds, mut answers) = (0, 0);
    while let Some(action) = world.security.poll_action() {
        match action {
            SecurityAction::AskProvider { check, .. } => {
                binds += 1;
                world
                    .security
                    .handle_completion(at(0), SecurityCompletion::Asked { check, answer: ProviderAnswer::WrongSecret });
            }
            SecurityAction::Answer { reply: SecurityReply::Refused(_), .. } => answers += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((binds, answers), (5, 16));
    // A provider that does not answer leaves no attempt behind that others would wait for.
    for second in [100, 200, 300] {
        world.login(at(second), "ann", "secret", vec![unreachable_because()]);
        world.login(at(second), "ann", "secret", vec![]);
    }
    rights(world.login(at(400), "ann", "secret", vec![proved("ann", &[])]));
}

#[test]
fn logins_begun_from_one_network_count_as_those_of_one_address() {
    let mut world = world();
    let mut begin = |number: u8, address: &str| {
        let request = DeviceRequest::Begin { provider: None, machine: "laptop".into() };
        let answers = if number <= 16 { vec![begun(number)] } else { vec![] };
        world.ask(at(0), SecurityRequest::Device { request, address: address.parse().unwrap() }, answers)
    };
    for number in 1..=16 {
        assert!(matches!(begin(number, &format!("2001:db8::{number}")), SecurityReply::Device(_)));
    }
    assert_eq!(refusal(begin(17, "2001:db8::99")).status(), Status::Refused);
    assert!(matches!(begin(16, "2001:db8:0:1::1"), SecurityReply::Device(_)));
}
