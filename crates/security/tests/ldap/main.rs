//! Logins that a real directory decides (`slapd`), over TLS from the first byte and over StartTLS. The tests check who
//! is proved and which groups are found. Nothing that a person may type opens somebody else's account.

#![allow(clippy::unwrap_used, missing_docs)]

mod slapd;

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use daemon::settings::LdapSettings;
use security::provider::{ProviderAnswer, ProviderFailure, SecretText, ldap::Directory};
use slapd::Slapd;

/// Searches for the user first, over `ldaps://`.
fn searching(slapd: &Slapd) -> LdapSettings {
    let password = slapd.file("service.password");
    fs::write(&password, "secret of sector\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    LdapSettings {
        urls: Some(vec![format!("ldaps://localhost:{}", slapd.tls_port)]),
        authority: Some(slapd.file("authority.pem")),
        user_base: Some("ou=people,dc=example,dc=org".into()),
        bind_dn: Some("cn=sector,dc=example,dc=org".into()),
        bind_password_file: Some(password),
        ..LdapSettings::default()
    }
}

/// Binds as the user at once, over StartTLS.
fn by_template(slapd: &Slapd) -> LdapSettings {
    LdapSettings {
        urls: Some(vec![format!("ldap://localhost:{}", slapd.plain_port)]),
        authority: Some(slapd.file("authority.pem")),
        user_dn: Some("uid={user},ou=people,dc=example,dc=org".into()),
        ..LdapSettings::default()
    }
}

async fn check(settings: &LdapSettings, user: &str, password: &str) -> ProviderAnswer {
    Directory::open("staff", settings).unwrap().check(user, &SecretText(password.into())).await
}

fn groups(answer: ProviderAnswer) -> Vec<String> {
    match answer {
        ProviderAnswer::User(user) => user.groups,
        other => panic!("{other:?}"),
    }
}

fn unreachable_because(answer: ProviderAnswer) -> String {
    match answer {
        ProviderAnswer::Failed(ProviderFailure::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    }
}

const ASTRO: &str = "cn=astro,ou=groups,dc=example,dc=org";
const ADMINS: &str = "cn=admins,ou=groups,dc=example,dc=org";

#[tokio::test]
async fn a_user_is_proved_by_the_directory_with_the_groups_it_says() {
    let slapd = Slapd::start();
    let search_groups = LdapSettings { group_base: Some("ou=groups,dc=example,dc=org".into()), ..searching(&slapd) };
    for (name, settings) in
        [("memberOf", searching(&slapd)), ("a search", search_groups), ("a template", by_template(&slapd))]
    {
        let mut found = groups(check(&settings, "alice", "secret of alice").await);
        found.sort();
        assert_eq!(found, [ADMINS, ASTRO], "{name}");
        assert_eq!(groups(check(&settings, "bob", "secret of bob").await), [ASTRO], "{name}");
    }
}

#[tokio::test]
async fn nothing_that_a_person_may_type_lets_them_in_without_the_password() {
    let slapd = Slapd::start();
    for settings in [searching(&slapd), by_template(&slapd)] {
        for (user, password) in [
            ("alice", "secret of bob"),
            // RFC 4513: a bind without a password succeeds as an anonymous one.
            ("alice", ""),
            ("alice", "\0"),
            ("nopassword", ""),
            ("nopassword", "x"),
            ("", ""),
            ("", "secret of alice"),
            ("*", "secret of alice"),
            ("al*", "secret of alice"),
            (")(uid=*", "secret of alice"),
            ("*)(uid=alice", "secret of alice"),
            ("alice)(uid=*", "secret of alice"),
            ("alice\0", "secret of alice"),
            ("alice,ou=people,dc=example,dc=org", "secret of alice"),
            ("x+uid=alice", "secret of alice"),
            ("nobody", "secret of alice"),
        ] {
            let answer = check(&settings, user, password).await;
            assert!(
                matches!(answer, ProviderAnswer::WrongSecret | ProviderAnswer::NoSuchUser),
                "{user:?} {password:?}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn unknown_user_and_wrong_password_differ_only_where_the_directory_is_searched() {
    let slapd = Slapd::start();
    let settings = searching(&slapd);
    assert_eq!(check(&settings, "nobody", "x").await, ProviderAnswer::NoSuchUser);
    assert_eq!(check(&settings, "alice", "x").await, ProviderAnswer::WrongSecret);
    // A password that may only be mistyped is shown to no other directory.
    assert_eq!(check(&by_template(&slapd), "alice", "x").await, ProviderAnswer::WrongSecret);
    assert_eq!(check(&by_template(&slapd), "nobody", "x").await, ProviderAnswer::WrongSecret);
    let narrow = LdapSettings { user_filter: "(&(uid={user})(sn=A))".into(), ..settings.clone() };
    assert_eq!(check(&narrow, "bob", "secret of bob").await, ProviderAnswer::NoSuchUser);
    let twins = check(&settings, "twin", "secret of twin").await;
    assert!(matches!(twins, ProviderAnswer::Failed(ProviderFailure::Misconfigured(_))), "{twins:?}");
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_trusted_is_not_told_a_password() {
    let slapd = Slapd::start();
    for good in [searching(&slapd), by_template(&slapd)] {
        let stranger = LdapSettings { authority: Some(slapd.file("stranger.pem")), ..good.clone() };
        unreachable_because(check(&stranger, "alice", "secret of alice").await);
        // The certificate is for `localhost`.
        let urls = good.urls.as_ref().unwrap().iter().map(|url| url.replace("localhost", "127.0.0.1")).collect();
        let other_name = LdapSettings { urls: Some(urls), ..good };
        unreachable_because(check(&other_name, "alice", "secret of alice").await);
    }
}

#[tokio::test]
async fn without_tls_not_a_word_is_said_unless_the_settings_say_insecure() {
    let slapd = Slapd::start();
    let settings = by_template(&slapd);
    // A server without StartTLS sees the request for it, and nothing after that.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = std::thread::spawn(move || {
        use std::io::Read;
        let mut stream = listener.accept().unwrap().0;
        let mut heard = vec![0; 512];
        let length = stream.read(&mut heard).unwrap();
        heard.truncate(length);
        heard
    });
    let deaf = LdapSettings { urls: Some(vec![format!("ldap://localhost:{port}")]), ..settings.clone() };
    unreachable_because(check(&deaf, "alice", "secret of alice").await);
    let heard = String::from_utf8_lossy(&heard.join().unwrap()).into_owned();
    assert!(heard.contains("1.3.6.1.4.1.1466.20037") && !heard.contains("alice"), "{heard:?}");
    let insecure = LdapSettings { insecure: true, authority: None, ..settings };
    assert_eq!(groups(check(&insecure, "bob", "secret of bob").await), [ASTRO]);
}

// Promise 42.
#[tokio::test]
async fn the_next_server_is_asked_when_one_does_not_answer_and_not_when_it_refuses() {
    let slapd = Slapd::start();
    let good = searching(&slapd);
    // This one accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("ldaps://localhost:{}", silent.local_addr().unwrap().port());
    let url = good.urls.clone().unwrap().remove(0);
    let two = LdapSettings { urls: Some(vec![silent.clone(), url]), timeout_seconds: 1, ..good.clone() };
    assert_eq!(groups(check(&two, "bob", "secret of bob").await), [ASTRO]);
    assert_eq!(check(&two, "bob", "x").await, ProviderAnswer::WrongSecret);
    let none = LdapSettings { urls: Some(vec![silent.clone()]), timeout_seconds: 1, ..good };
    assert!(unreachable_because(check(&none, "bob", "secret of bob").await).contains(&silent));
}

#[tokio::test]
async fn settings_the_directory_rejects_are_told_from_a_directory_that_is_unreachable() {
    let slapd = Slapd::start();
    let good = searching(&slapd);
    let wrong_password = slapd.file("wrong.password");
    fs::write(&wrong_password, "nonsense").unwrap();
    fs::set_permissions(&wrong_password, fs::Permissions::from_mode(0o600)).unwrap();
    for settings in [
        LdapSettings { bind_password_file: Some(wrong_password), ..good.clone() },
        LdapSettings { user_base: Some("ou=nowhere,dc=example,dc=org".into()), ..good.clone() },
        LdapSettings { user_filter: "(uid={user}))".into(), ..good.clone() },
        LdapSettings { urls: Some(vec!["ldaps://[".into()]), ..good.clone() },
    ] {
        let answer = check(&settings, "alice", "secret of alice").await;
        assert!(matches!(answer, ProviderAnswer::Failed(ProviderFailure::Misconfigured(_))), "{answer:?}");
        assert!(!format!("{answer:?}").contains("nonsense"), "{answer:?}");
    }
    let open = slapd.file("service.password");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Directory::open("staff", &good).is_err());
}

#[tokio::test]
async fn a_directory_says_by_itself_whether_a_user_still_exists_and_in_which_groups() {
    let mut slapd = Slapd::start();
    let search = searching(&slapd);
    let template = LdapSettings { user_base: None, user_dn: by_template(&slapd).user_dn, ..search.clone() };
    let look =
        async |settings: &LdapSettings, user: &str| Directory::open("staff", settings).unwrap().look_up(user).await;
    for settings in [&search, &template] {
        assert_eq!(groups(look(settings, "bob").await), [ASTRO]);
        assert_eq!(look(settings, "nobody").await, ProviderAnswer::NoSuchUser);
    }
    slapd.remove("bob");
    for settings in [&search, &template] {
        assert_eq!(look(settings, "bob").await, ProviderAnswer::NoSuchUser);
        assert!(matches!(look(settings, "alice").await, ProviderAnswer::User(_)));
    }
    slapd.stop();
    unreachable_because(look(&search, "alice").await);
}
