//! Logins with a browser at a real OpenID Connect provider: whatever signs its tokens, whoever clicks, and whatever the
//! settings get wrong.

#![allow(clippy::unwrap_used, missing_docs)]

mod op;

use std::{fs, os::unix::fs::PermissionsExt};

use daemon::settings::{OidcSettings, UserClaim};
use op::Op;
use security::provider::{DeviceBegun, ProviderAnswer, ProviderFailure, oidc::OpenId};

fn settings(op: &Op, client: &str) -> OidcSettings {
    OidcSettings {
        issuer: op.issuer(),
        client_id: client.into(),
        authority: Some(op.folder.path().join("authority.pem")),
        ..OidcSettings::default()
    }
}

fn person(op: &Op, begun: &DeviceBegun, arguments: &[&str]) {
    op.person(begun.complete_url.as_ref().unwrap(), arguments);
}

async fn begin(provider: &OpenId) -> DeviceBegun {
    match provider.begin().await {
        ProviderAnswer::Begun(begun) => begun,
        other => panic!("{other:?}"),
    }
}

fn misconfigured(answer: ProviderAnswer) -> String {
    match answer {
        ProviderAnswer::Failed(ProviderFailure::Misconfigured(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_person_who_finished_in_the_browser_is_proved_whatever_signs_the_token() {
    let op = Op::start();
    let secret = op.folder.path().join("secret");
    fs::write(&secret, "a secret: with/signs").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for client in ["rs256", "es256", "eddsa", "confidential"] {
        let client_secret_file = (client == "confidential").then(|| secret.clone());
        let provider = OpenId::open(&OidcSettings { client_secret_file, ..settings(&op, client) }).unwrap();
        let begun = begin(&provider).await;
        assert!(begun.verification_url.starts_with(&op.issuer()));
        assert_eq!(provider.poll(begun.grant.clone()).await, ProviderAnswer::Pending { slow_down: false });
        person(&op, &begun, &["alice"]);
        let ProviderAnswer::User(user) = provider.poll(begun.grant.clone()).await else { panic!("{client}") };
        assert_eq!((user.name.as_str(), user.subject.as_deref()), ("alice", Some("alice")), "{client}");
        assert_eq!(user.groups, ["astronomers", "admins"]);
        // A grant is good for one token.
        assert!(matches!(provider.poll(begun.grant).await, ProviderAnswer::Refused(_)));
    }
}

#[tokio::test]
async fn a_person_who_denies_or_has_no_verified_address_is_not_let_in() {
    let op = Op::start();
    let by_mail = OidcSettings {
        user_claim: UserClaim::Email,
        email_domain: Some("example.org".into()),
        ..settings(&op, "es256")
    };
    for (arguments, word) in [(&["alice", "deny"][..], "denied"), (&["mallory"], "verified")] {
        let provider = OpenId::open(&by_mail).unwrap();
        let begun = begin(&provider).await;
        person(&op, &begun, arguments);
        let answer = provider.poll(begun.grant).await;
        assert!(matches!(&answer, ProviderAnswer::Refused(why) if why.contains(word)), "{answer:?}");
    }
    let provider = OpenId::open(&by_mail).unwrap();
    let begun = begin(&provider).await;
    person(&op, &begun, &["bob"]);
    assert!(matches!(provider.poll(begun.grant).await, ProviderAnswer::User(user) if user.name == "bob"));
}

#[tokio::test]
async fn a_provider_that_is_not_as_the_settings_say_or_not_trusted_proves_nobody() {
    let op = Op::start();
    let good = settings(&op, "es256");
    let unknown_client = OpenId::open(&settings(&op, "nobody")).unwrap();
    assert!(misconfigured(unknown_client.begin().await).contains("invalid_client"));
    // The same document, but under a name that the provider does not give itself.
    let other_name = OidcSettings { issuer: format!("{}/", good.issuer), ..good.clone() };
    assert!(misconfigured(OpenId::open(&other_name).unwrap().begin().await).contains("another issuer"));
    for settings in [
        OidcSettings { authority: None, ..good.clone() },
        OidcSettings { issuer: good.issuer.replace("localhost", "127.0.0.1"), ..good.clone() },
        OidcSettings { issuer: "https://localhost:1".into(), ..good },
    ] {
        let answer = OpenId::open(&settings).unwrap().begin().await;
        assert!(matches!(answer, ProviderAnswer::Failed(ProviderFailure::Unreachable(_))), "{answer:?}");
    }
}
