//! Which provider is asked about a name, and how its users map to users here. Pure. The ending of a name belongs to one
//! provider, and a provider's groups are ours only where the settings say so. It must never give one name to two
//! people.

use std::{collections::BTreeSet, time::Duration};

use daemon::settings::{ProviderSettings, ProviderTables, SecuritySettings};
use protocol::{Reason, Refusal, UserName};

use super::ProviderUser;

/// What the settings say of providers.
#[derive(Clone, Debug, Default)]
pub struct ProviderMapping {
    providers: ProviderTables,
    order: Vec<String>,
}

/// How a provider's user appears here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedUser {
    /// The name.
    pub name: UserName,
    /// Our groups.
    pub groups: Vec<String>,
    /// Whether the user administers the cloud.
    pub admin: bool,
}

impl ProviderMapping {
    /// The mapping of checked settings.
    pub fn new(settings: &SecuritySettings) -> Self {
        let order = settings.provider_order.clone().unwrap_or_default();
        Self { providers: settings.providers.clone().unwrap_or_default(), order }
    }

    /// Whether there is such a provider.
    pub fn knows(&self, provider: &str) -> bool {
        self.providers.contains_key(provider)
    }

    /// How often this provider is asked again about a logged-in user; `None` if it cannot be asked without the user.
    pub fn recheck_interval(&self, provider: &str) -> Option<Duration> {
        match self.providers.get(provider) {
            Some(ProviderSettings::Ldap(ldap)) if ldap.bind_dn.is_some() => {
                Some(Duration::from_secs(ldap.recheck_seconds))
            }
            _ => None,
        }
    }

    /// The providers to ask for the password of a name that has no account yet, in order.
    pub fn candidates(&self, name: &UserName) -> Vec<String> {
        // Directories accept a name in any case. Here each person has one name, so the other spellings belong to
        // nobody.
        if name.as_str().bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Vec::new();
        }
        match self.by_suffix(name.as_str()) {
            Some((provider, _)) => vec![provider.to_owned()],
            None => self.order.clone(),
        }
    }

    /// The provider for a login with a browser: the one of this name, or the only one.
    ///
    /// # Errors
    /// If there is none, or the name is missing.
    pub fn device_provider(&self, name: Option<&str>) -> Result<String, Refusal> {
        let with_browser = self.providers.iter().filter(|(_, settings)| matches!(settings, ProviderSettings::Oidc(_)));
        let names: Vec<&str> = with_browser.map(|(name, _)| name.as_str()).collect();
        let usage = |message: String| Err(Refusal::new(Reason::Invalid, message));
        match (name, names.as_slice()) {
            (Some(name), names) if names.contains(&name) => Ok(name.to_owned()),
            (None, [only]) => Ok((*only).to_owned()),
            (_, []) => usage("this cloud has no OpenID Connect provider; log in with a password".into()),
            (Some(name), names) => {
                let name: String = name.chars().take(64).collect();
                usage(format!("there is no OpenID Connect provider `{name}`; this cloud has {}", names.join(", ")))
            }
            (None, names) => usage(format!("name the provider with `--provider`: {}", names.join(", "))),
        }
    }

    /// The name of this provider's user at the provider.
    pub fn name_at(&self, provider: &str, name: &UserName) -> String {
        let suffix = self.providers.get(provider).map_or("", ProviderSettings::suffix);
        name.as_str().strip_suffix(suffix).unwrap_or(name.as_str()).to_owned()
    }

    /// The user here for a user whom this provider proved.
    ///
    /// # Errors
    /// If the user may not log in, with what to do.
    pub fn admit(&self, provider: &str, user: &ProviderUser) -> Result<MappedUser, Refusal> {
        let refused = |message: String| Err(Refusal::new(Reason::NoRight, message));
        let Some(settings) = self.providers.get(provider) else { return Err(unknown(provider)) };
        let text = user.name.to_ascii_lowercase() + settings.suffix();
        let Ok(name) = UserName::new(&text) else {
            let shown: String = user.name.chars().take(64).collect();
            return refused(format!(
                "`{}` of the provider `{provider}` can be no name here; have it map another claim, or shorten its suffix",
                shown.escape_default()
            ));
        };
        if self.by_suffix(&text).is_some_and(|(owner, _)| owner != provider) {
            return refused(format!("names that end like `{name}` do not belong to the provider `{provider}`"));
        }
        let theirs: BTreeSet<String> = user.groups.iter().map(|group| canonical(settings, group)).collect();
        let has = |group: &str| theirs.contains(&canonical(settings, group));
        if settings.allowed_groups().is_some_and(|allowed| !allowed.iter().any(|group| has(group))) {
            return refused(format!(
                "`{name}` is in no group of the provider `{provider}` that may log in; ask an administrator"
            ));
        }
        let groups: BTreeSet<String> =
            settings.groups().filter(|(theirs, _)| has(theirs)).map(|(_, ours)| ours.to_owned()).collect();
        let admin = settings.admin_group().is_some_and(has);
        Ok(MappedUser { name, groups: groups.into_iter().collect(), admin })
    }

    /// The provider whose users' names end like this one, and the ending. No two endings fit the same name.
    fn by_suffix(&self, name: &str) -> Option<(&str, &str)> {
        let with_suffix = self.providers.iter().map(|(provider, settings)| (provider.as_str(), settings.suffix()));
        with_suffix.filter(|(_, suffix)| !suffix.is_empty()).find(|(_, suffix)| name.ends_with(suffix))
    }
}

/// The refusal if an account belongs to a provider that is not in the settings.
pub(crate) fn unknown(provider: &str) -> Refusal {
    let message = format!("there is no identity provider `{provider}`; add it to the settings of the security server");
    Refusal::new(Reason::NotFound, message)
}

/// A group's name in the form in which it is compared: the groups of a directory are DNs, which may be written in
/// several ways.
fn canonical(settings: &ProviderSettings, group: &str) -> String {
    match settings {
        ProviderSettings::Ldap(_) => {
            let parts = group.split(',').map(|part| match part.split_once('=') {
                Some((key, value)) => format!("{}={}", key.trim(), value.trim()),
                None => part.trim().to_owned(),
            });
            parts.collect::<Vec<_>>().join(",").to_lowercase()
        }
        ProviderSettings::Oidc(_) => group.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;
    use std::path::Path;

    use daemon::settings::{Checked, LdapSettings, OidcSettings};

    use super::*;

    /// `staff` without an ending, `lab` with `.lab`, both directories; `campus`, OpenID Connect, with `.campus`.
    fn plan() -> ProviderMapping {
        let directory = LdapSettings {
            urls: Some(vec!["ldaps://ldap.example.org".into()]),
            user_dn: Some("uid={user},ou=people".into()),
            ..LdapSettings::default()
        };
        let groups = [("cn=astro,ou=groups,dc=org".to_owned(), "astro".to_owned())];
        let staff = LdapSettings {
            groups: Some(groups.into()),
            admin_group: Some("cn=admins,ou=groups,dc=org".into()),
            allowed_groups: Some(vec!["cn=all,ou=groups,dc=org".into()]),
            ..directory.clone()
        };
        let lab = LdapSettings { suffix: Some(".lab".into()), ..directory };
        let campus = OidcSettings {
            suffix: Some(".campus".into()),
            groups: Some([("Astro".to_owned(), "astro".to_owned())].into()),
            ..OidcSettings::default()
        };
        let providers = [
            ("staff".to_owned(), ProviderSettings::Ldap(staff)),
            ("lab".to_owned(), ProviderSettings::Ldap(lab)),
            ("campus".to_owned(), ProviderSettings::Oidc(campus)),
        ];
        let settings = SecuritySettings {
            provider_order: Some(vec!["staff".into()]),
            providers: Some(providers.into()),
            ..SecuritySettings::default()
        };
        ProviderMapping::new(&Checked::of(settings, Path::new("/")).unwrap())
    }

    fn user(name: &str, groups: &[&str]) -> ProviderUser {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        ProviderUser { name: name.into(), subject: None, groups }
    }

    fn name(text: &str) -> UserName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_goes_to_the_provider_of_its_ending_or_to_those_without_one() {
        let plan = plan();
        assert_eq!(plan.candidates(&name("alice")), ["staff"]);
        assert_eq!(plan.candidates(&name("alice.lab")), ["lab"]);
        assert_eq!(plan.name_at("lab", &name("alice.lab")), "alice");
        assert_eq!(plan.name_at("staff", &name("alice")), "alice");
        assert!(plan.candidates(&name("Alice")).is_empty(), "one person, one name");
    }

    #[test]
    fn groups_are_those_of_the_settings_however_their_dn_is_written() {
        let plan = plan();
        let theirs = ["CN=All, OU=groups,dc=org", "cn=astro,ou=groups,dc=org", "cn=astro,ou=evil,dc=org"];
        let mapped = plan.admit("staff", &user("Alice", &theirs)).unwrap();
        assert_eq!(mapped, MappedUser { name: name("alice"), groups: vec!["astro".into()], admin: false });
        let theirs = ["cn=all,ou=groups,dc=org", "cn=admins,ou=groups,dc=org"];
        assert!(plan.admit("staff", &user("alice", &theirs)).unwrap().admin);
        let mapped = plan.admit("campus", &user("alice", &["astro", "Astro"])).unwrap();
        assert_eq!((mapped.name, mapped.groups), (name("alice.campus"), vec!["astro".into()]));
        assert!(plan.admit("campus", &user("alice", &["astro"])).unwrap().groups.is_empty(), "case matters there");
    }

    #[test]
    fn a_user_of_no_allowed_group_does_not_come_in() {
        let error = plan().admit("staff", &user("alice", &["cn=all,ou=others,dc=org"])).unwrap_err();
        assert!(error.status() == Status::Refused && error.message.contains("`staff`"), "{error}");
    }

    #[test]
    fn a_provider_cannot_give_a_name_that_belongs_to_another() {
        let plan = plan();
        for theirs in ["alice.lab", "alice.campus", "../x", "", "a b", &"x".repeat(70)] {
            let user = user(theirs, &["cn=all,ou=groups,dc=org"]);
            assert_eq!(plan.admit("staff", &user).unwrap_err().status(), Status::Refused, "{theirs}");
        }
        assert_eq!(plan.admit("nis", &user("alice", &[])).unwrap_err().status(), Status::NotFound);
    }
}
