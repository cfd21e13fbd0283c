//! Logins with a browser at a real OpenID Connect provider (`tests/oidc`), over HTTPS with an authority of the test's own;
//! a person's clicks are made by a program that follows the provider's pages.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use daemon::settings::{OidcSettings, UserClaim};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use security::provider::{Answer, DeviceBegun, Failure, oidc::OpenId};
use tempfile::TempDir;

/// The provider; it ends with this.
struct Op {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl Op {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        let key = KeyPair::generate().unwrap();
        fs::write(file("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        fs::write(file("certificate.pem"), server.pem()).unwrap();
        fs::write(file("key.pem"), key.serialize_pem()).unwrap();
        let mut command = node("provider.mjs");
        command.args([file("certificate.pem"), file("key.pem")]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        // It says more, and would end if nobody took it.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Self { folder, port: port.trim().parse().unwrap(), child }
    }

    fn settings(&self, client: &str) -> OidcSettings {
        OidcSettings {
            issuer: format!("https://localhost:{}", self.port),
            client_id: client.into(),
            authority: Some(self.folder.path().join("authority.pem")),
            ..OidcSettings::default()
        }
    }

    /// Lets a person go through the pages.
    fn person(&self, begun: &DeviceBegun, arguments: &[&str]) {
        let mut command = node("person.mjs");
        command.env("NODE_EXTRA_CA_CERTS", self.folder.path().join("authority.pem"));
        let output = command.arg(begun.complete_url.as_ref().unwrap()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn node(script: &str) -> Command {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/oidc");
    assert!(
        folder.join("node_modules").exists(),
        "NOT TESTED: logins with a browser need a real provider, and it is missing; `cargo xtask test install` installs \
         it (`npm ci` in tests/oidc, with Node.js)"
    );
    let mut command = Command::new("node");
    command.arg(folder.join(script));
    command
}

async fn begin(provider: &OpenId) -> DeviceBegun {
    match provider.begin().await {
        Answer::Begun(begun) => begun,
        other => panic!("{other:?}"),
    }
}

fn misconfigured(answer: Answer) -> String {
    match answer {
        Answer::Failed(Failure::Misconfigured(why)) => why,
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
        let provider = OpenId::open(&OidcSettings { client_secret_file, ..op.settings(client) }).unwrap();
        let begun = begin(&provider).await;
        assert!(begun.verification_url.starts_with(&format!("https://localhost:{}", op.port)));
        assert_eq!(provider.poll(begun.grant.clone()).await, Answer::Pending { slow_down: false });
        op.person(&begun, &["alice"]);
        let Answer::User(user) = provider.poll(begun.grant.clone()).await else { panic!("{client}") };
        assert_eq!((user.name.as_str(), user.subject.as_deref()), ("alice", Some("alice")), "{client}");
        assert_eq!(user.groups, ["astronomers", "admins"]);
        // A grant is good for one token.
        assert!(matches!(provider.poll(begun.grant).await, Answer::Refused(_)));
    }
}

#[tokio::test]
async fn a_person_who_denies_or_has_no_verified_address_is_not_let_in() {
    let op = Op::start();
    let by_mail =
        OidcSettings { user_claim: UserClaim::Email, email_domain: Some("example.org".into()), ..op.settings("es256") };
    for (arguments, word) in [(&["alice", "deny"][..], "denied"), (&["mallory"], "verified")] {
        let provider = OpenId::open(&by_mail).unwrap();
        let begun = begin(&provider).await;
        op.person(&begun, arguments);
        let answer = provider.poll(begun.grant).await;
        assert!(matches!(&answer, Answer::Refused(why) if why.contains(word)), "{answer:?}");
    }
    let provider = OpenId::open(&by_mail).unwrap();
    let begun = begin(&provider).await;
    op.person(&begun, &["bob"]);
    assert!(matches!(provider.poll(begun.grant).await, Answer::User(user) if user.name == "bob"));
}

#[tokio::test]
async fn a_provider_that_is_not_as_the_settings_say_or_not_trusted_proves_nobody() {
    let op = Op::start();
    let good = op.settings("es256");
    let unknown_client = OpenId::open(&op.settings("nobody")).unwrap();
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
        assert!(matches!(answer, Answer::Failed(Failure::Unreachable(_))), "{answer:?}");
    }
}
