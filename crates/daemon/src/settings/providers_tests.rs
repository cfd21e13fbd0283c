//! Tests of the settings of providers: what is taken, and what each mistake is called.

#![allow(clippy::unwrap_used)]
use std::path::Path;

use super::*;
use crate::{
    DaemonError,
    settings::{Checked, SecuritySettings},
};

const LDAP: &str = r#"
provider_order = ["staff"]
[providers.staff]
kind = "ldap"
urls = ["ldaps://ldap.example.org", "ldap://second.example.org:3389"]
user_base = "ou=people,dc=example,dc=org"
bind_dn = "cn=sector,dc=example,dc=org"
bind_password_file = "ldap.password"
[providers.staff.groups]
"cn=astro,ou=groups,dc=example,dc=org" = "astro"
"#;

const OIDC: &str = r#"
[providers.campus]
kind = "oidc"
issuer = "https://login.example.org/realm"
client_id = "sector"
suffix = ".campus"
"#;

fn read(text: &str) -> Result<Checked<SecuritySettings>, DaemonError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("security.toml");
    std::fs::write(&file, text).unwrap();
    Checked::read(&file)
}

#[test]
fn both_kinds_are_read_with_their_defaults_and_written_back_the_same() {
    let checked = read(&format!("{LDAP}{OIDC}")).unwrap();
    let providers = checked.providers.as_ref().unwrap();
    let ProviderSettings::Ldap(ldap) = &providers["staff"] else { panic!("{providers:?}") };
    assert!(!ldap.insecure && ldap.user_filter == "(uid={user})" && ldap.timeout_seconds == 4);
    assert!(ldap.bind_password_file.as_ref().unwrap().is_absolute());
    let ProviderSettings::Oidc(oidc) = &providers["campus"] else { panic!("{providers:?}") };
    assert_eq!((oidc.user_claim, oidc.scopes.as_str()), (UserClaim::PreferredUsername, "openid profile email"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("security.toml");
    std::fs::write(&file, checked.to_toml()).unwrap();
    assert_eq!(Checked::read(&file).unwrap(), checked);
}

#[test]
fn a_wrong_key_of_a_provider_is_named() {
    for (text, word) in [
        (LDAP.replace("user_base", "usr_base"), "usr_base"),
        (LDAP.replace("\"ldap\"", "\"nis\""), "nis"),
        (OIDC.replace("client_id = \"sector\"", ""), "client_id"),
        (OIDC.replace("suffix =", "user_claim = \"nickname\"\nsuffix ="), "nickname"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("line "), "{error}");
    }
}

#[test]
fn each_mistake_is_refused_with_the_provider_and_what_to_do() {
    let staff = |from: &str, to: &str| LDAP.replace(from, to);
    let campus = |from: &str, to: &str| OIDC.replace(from, to);
    let template = "user_dn = \"uid={user},dc=example\"\n";
    let second = "[providers.other]\nkind = \"ldap\"\nurls = [\"ldaps://b\"]\nuser_dn = \"uid={user},dc=b\"\n";
    for (text, word) in [
        (staff("provider_order = [\"staff\"]", ""), "would never be asked"),
        (staff("[\"staff\"]", "[\"staff\", \"other\"]"), "no table `[providers.other]`"),
        (staff("[\"staff\"]", "[\"staff\", \"staff\"]"), "twice"),
        (staff("kind = ", "suffix = \".x\"\nkind = "), "choose one of the two"),
        (staff("ldaps://ldap.example.org", "http://ldap"), "among its `urls`"),
        (staff("ldaps://ldap.example.org", "ldaps://"), "among its `urls`"),
        (staff("urls", "authority = \"x\"\n#"), "needs `urls`"),
        (staff("bind_dn = ", "#"), "both or neither"),
        (staff("bind_dn = \"cn=sector,dc=example,dc=org\"", "bind_dn = \"\""), "both or neither"),
        (staff("user_base = ", "#"), "either `user_dn` or `user_base`"),
        (staff("kind = ", &format!("{template}kind = ")), "either `user_dn` or `user_base`"),
        (staff("kind = ", "user_filter = \"(uid=*)\"\nkind = "), "`user_filter`"),
        (staff("kind = ", "group_filter = \"(member=*)\"\nkind = "), "`group_filter`"),
        (staff("kind = ", "timeout_seconds = 99\nkind = "), "`timeout_seconds` of `staff`"),
        (staff("kind = ", "allowed_groups = []\nkind = "), "allowed_groups"),
        (staff("kind = ", "admin_group = \"\"\nkind = "), "admin_group"),
        (staff("\"astro\"", "\"two words\""), "two words"),
        (format!("{}{second}", staff("[\"staff\"]", "[\"other\", \"staff\"]")), "name it last"),
        (campus("https://", "http://"), "`https://`"),
        (campus("suffix = ", "scopes = \"profile\"\nsuffix = "), "`openid`"),
        (campus("suffix = ", "user_claim = \"email\"\nsuffix = "), "needs an `email_domain`"),
        (campus("suffix = ", "email_domain = \"example.org\"\nsuffix = "), "only"),
        (campus(".campus\"", "@campus\""), "no name can end with"),
        (campus(".campus\"", ".Campus\""), "no name can end with"),
        (format!("{OIDC}{}", OIDC.replace(".campus]", ".other]").replace(".campus", ".x.campus")), "could be that of"),
        (format!("provider_order = [\"campus\"]\n{}", campus("suffix", "#")), "takes no passwords"),
    ] {
        let error = read(&text).map(|_| text).unwrap_err();
        assert_eq!(error.refusal().status(), protocol::Status::Usage, "{error}");
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn every_key_of_a_provider_has_its_text_and_a_default_that_can_be_read() {
    let _ = (LdapSettings::default(), OidcSettings::default());
    let mut ldap = ProviderSettings::Ldap(LdapSettings::default());
    assert!(check([(&"x".to_owned(), &mut ldap)].into_iter(), None, Path::new("/")).is_err());
}
