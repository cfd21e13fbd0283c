//! Settings of identity providers, from which the security server knows users beside its own accounts. They are the
//! tables `[providers.NAME]` in its settings. Relations between keys are checked here, before anyone logs in. Whether a
//! provider can be reached is never checked here.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    InvalidSetting,
    checked::{check_range, make_absolute},
    keys::settings,
};

/// Providers by the names that the operator gives them.
pub type ProviderTables = BTreeMap<String, ProviderSettings>;

/// One identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ProviderSettings {
    /// A directory that is asked with the user's name and password.
    Ldap(LdapSettings),
    /// An OpenID Connect provider, where the user logs in with a browser.
    Oidc(OidcSettings),
}

/// The claim of an id token from which a user's name is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserClaim {
    /// The name that the provider shows.
    PreferredUsername,
    /// The part before the `@` of an address that the provider has verified.
    Email,
    /// The provider's own, never reused id.
    Sub,
}

settings! {
    /// Settings of an LDAP directory (RFC 4511).
    struct LdapSettings of "LDAP provider" {
        /// Its servers, 1 to 8, asked in this order until one answers: `ldaps://HOST` (TLS from the first byte), or
        /// `ldap://HOST` (nothing is sent before StartTLS).
        urls: Option<Vec<String>> = optional(),
        /// Whether `ldap://` is used without TLS. Then everyone on the way can read the users' passwords; the log says
        /// so at every start.
        insecure: bool = default(false),
        /// Certificates of the authorities that the servers' certificates are checked against, PEM; by default those of
        /// the system.
        authority: Option<PathBuf> = optional(),
        /// The DN of a user, with `{user}` where the name goes: `uid={user},ou=people,dc=example,dc=org`. A bind as
        /// that DN proves the user. Either this, or `user_base` to search for the user first.
        user_dn: Option<String> = optional(),
        /// The DN below which users are searched, with `bind_dn` and `bind_password_file`.
        user_base: Option<String> = optional(),
        /// The filter that finds a user, with `{user}` where the name goes. A name that it finds twice is refused.
        user_filter: String = default("(uid={user})"),
        /// The DN of the service account that searches. It only needs the right to read users and groups.
        bind_dn: Option<String> = optional(),
        /// File with the service account's password, which only the security server's own user may read.
        bind_password_file: Option<PathBuf> = optional(),
        /// The attribute of a user's entry that names the DNs of the user's groups. Not used where `group_base` is set.
        group_attribute: String = default("memberOf"),
        /// The DN below which groups are searched; without it `group_attribute` gives the groups.
        group_base: Option<String> = optional(),
        /// The filter that finds the groups of a user, with `{dn}` where the user's DN goes or `{user}` where the name
        /// goes.
        group_filter: String = default("(member={dn})"),
        /// Ending of its users' names in the cloud: with `".staff"`, its `alice` is `alice.staff` here. Only its users'
        /// names end like this. Without it the provider must be in `provider_order`.
        suffix: Option<String> = optional(),
        /// The cloud's groups for the provider's: `"cn=astro,ou=groups,dc=example,dc=org" = "astro"`. Other groups give
        /// nothing.
        groups: Option<BTreeMap<String, String>> = optional(),
        /// The provider's group whose members administer the cloud; without it nobody of this provider does.
        admin_group: Option<String> = optional(),
        /// The provider's groups of which a user must have one to log in; without it every user of the provider may.
        allowed_groups: Option<Vec<String>> = optional(),
        /// How often the directory is asked again about users with a session or a token, 10 to 86400. Unknown users are
        /// logged out, and groups are updated. Only with `bind_dn`.
        recheck_seconds: u64 = default(300),
        /// How long one server may take to connect and to answer, 1 to 10; after that the next is asked.
        timeout_seconds: u64 = default(4),
    }
}

settings! {
    /// Settings of an OpenID Connect provider (device flow, RFC 8628).
    struct OidcSettings of "OpenID Connect provider" {
        /// The issuer's address as in its tokens; `/.well-known/openid-configuration` below it gives the rest.
        issuer: String = required("https://login.example.org"),
        /// The name under which the cloud is registered with the provider, as a client that may use the device flow.
        client_id: String = required("sector"),
        /// File with the client's secret, which only the security server's own user may read; without it the client is
        /// a public one.
        client_secret_file: Option<PathBuf> = optional(),
        /// Certificates of the authorities that the provider's certificate is checked against, PEM; by default those of
        /// the system.
        authority: Option<PathBuf> = optional(),
        /// The scopes that are requested. `openid` must be among them; `profile` and `email` give names, and some
        /// providers have an extra scope for groups.
        scopes: String = default("openid profile email"),
        /// The name of a user: `preferred_username`, `email` (a verified one of `email_domain`, without the domain), or
        /// `sub`.
        user_claim: UserClaim = default("preferred_username"),
        /// The only domain whose addresses are accepted, if `user_claim` is `email`.
        email_domain: Option<String> = optional(),
        /// The claim that lists the user's groups.
        groups_claim: String = default("groups"),
        /// Ending of the names of this provider's users in the cloud, added to the value of `user_claim`.
        suffix: Option<String> = optional(),
        /// The cloud's groups for the provider's: `"astronomers" = "astro"`. Other groups give nothing.
        groups: Option<BTreeMap<String, String>> = optional(),
        /// The provider's group whose members administer the cloud; without it nobody of this provider does.
        admin_group: Option<String> = optional(),
        /// The provider's groups of which a user must have one to log in; without it every user of the provider may.
        allowed_groups: Option<Vec<String>> = optional(),
        /// How far the provider's clock and ours may differ, for the times of a token; up to 300.
        skew_seconds: u64 = default(60),
        /// How long one question to the provider may take, 1 to 10.
        timeout_seconds: u64 = default(8),
    }
}

impl ProviderSettings {
    /// The ending of its users' names in the cloud; empty if it has none.
    pub fn suffix(&self) -> &str {
        let (Self::Ldap(LdapSettings { suffix, .. }) | Self::Oidc(OidcSettings { suffix, .. })) = self;
        suffix.as_deref().unwrap_or_default()
    }

    /// Its groups, each with the cloud's group for it.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &str)> {
        let (Self::Ldap(LdapSettings { groups, .. }) | Self::Oidc(OidcSettings { groups, .. })) = self;
        groups.iter().flatten().map(|(theirs, ours)| (theirs.as_str(), ours.as_str()))
    }

    /// Its group of administrators.
    pub fn admin_group(&self) -> Option<&str> {
        let (Self::Ldap(LdapSettings { admin_group, .. }) | Self::Oidc(OidcSettings { admin_group, .. })) = self;
        admin_group.as_deref()
    }

    /// The groups of which a user must have one; `None`: any user.
    pub fn allowed_groups(&self) -> Option<&[String]> {
        let (Self::Ldap(LdapSettings { allowed_groups, .. }) | Self::Oidc(OidcSettings { allowed_groups, .. })) = self;
        allowed_groups.as_deref()
    }
}

/// Checks all providers with each other, and makes their paths absolute.
pub(super) fn check<'a>(
    providers: impl Iterator<Item = (&'a String, &'a mut ProviderSettings)>,
    order: Option<&[String]>,
    base: &Path,
) -> Result<(), InvalidSetting> {
    let order = order.unwrap_or_default();
    let mut unasked: BTreeSet<&str> = order.iter().map(String::as_str).collect();
    let mut suffixes: Vec<(String, String)> = Vec::new();
    let mut count = 0;
    for (name, provider) in providers {
        count += 1;
        if !is_name(name) {
            return wrong(name, "can be no provider's name; use 1 to 64 letters, digits, `-` and `_`");
        }
        check_groups(name, provider)?;
        let in_order = order.iter().position(|other| other == name);
        match (provider.suffix(), in_order) {
            ("", Some(_)) => {}
            // Its users log in with `sector login --oidc`, where no other provider is asked.
            ("", None) if matches!(provider, ProviderSettings::Oidc(_)) => {}
            ("", None) => {
                return wrong(name, "would never be asked; give it a `suffix`, or name it in `provider_order`");
            }
            (_, Some(_)) => return wrong(name, "has a `suffix` and stands in `provider_order`; choose one of the two"),
            (suffix, None) => check_suffix(name, suffix, &mut suffixes)?,
        }
        match provider {
            ProviderSettings::Ldap(ldap) => {
                let is_last = in_order.is_none_or(|at| at + 1 == order.len());
                check_ldap(name, ldap, is_last, base)?;
            }
            ProviderSettings::Oidc(_) if in_order.is_some() => {
                return wrong(name, "takes no passwords, so it cannot stand in `provider_order`");
            }
            ProviderSettings::Oidc(oidc) => check_oidc(name, oidc, base)?,
        }
        unasked.remove(name.as_str());
        if order.iter().filter(|other| *other == name).count() > 1 {
            return wrong(name, "stands in `provider_order` twice");
        }
    }
    check_range(&["providers"], count, 0, PROVIDERS_MAX)?;
    match unasked.first() {
        Some(name) => {
            let why = format!("there is no table `[providers.{name}]`");
            Err(InvalidSetting { keys: &["provider_order"], why })
        }
        None => Ok(()),
    }
}

fn check_suffix(name: &str, suffix: &str, others: &mut Vec<(String, String)>) -> Result<(), InvalidSetting> {
    if !suffix.starts_with(['.', '-', '_'])
        || suffix.len() < 2
        || suffix.len() > 32
        || !suffix.bytes().all(is_of_a_name)
    {
        let why = "has a `suffix` that no name can end with: `.`, `-` or `_`, then up to 31 lower-case letters, digits, \
                   `-`, `_` and `.`";
        return wrong(name, why);
    }
    // Otherwise a name could belong to two providers.
    if let Some((other, _)) =
        others.iter().find(|(_, known)| known.ends_with(suffix) || suffix.ends_with(known.as_str()))
    {
        return wrong(name, &format!("has a `suffix` that could be that of `{other}` too"));
    }
    others.push((name.to_owned(), suffix.to_owned()));
    Ok(())
}

fn check_groups(name: &str, provider: &ProviderSettings) -> Result<(), InvalidSetting> {
    for (theirs, ours) in provider.groups() {
        if theirs.is_empty() || protocol::UserName::new(ours).is_err() {
            let why = format!("maps `{theirs}` to `{ours}`; a group has 1 to 64 letters, digits, `-`, `_` and `.`");
            return wrong(name, &why);
        }
    }
    if provider.groups().count() > GROUPS_MAX {
        return wrong(name, &format!("maps more than {GROUPS_MAX} groups"));
    }
    if provider.allowed_groups().is_some_and(|groups| groups.is_empty() || groups.iter().any(String::is_empty)) {
        return wrong(name, "has an empty `allowed_groups`, which lets nobody in; leave it out, or name the groups");
    }
    if provider.admin_group() == Some("") {
        return wrong(name, "has an empty `admin_group`; leave it out, or name the group");
    }
    Ok(())
}

fn check_ldap(name: &str, ldap: &mut LdapSettings, is_last: bool, base: &Path) -> Result<(), InvalidSetting> {
    let paths = [&mut ldap.authority, &mut ldap.bind_password_file];
    paths.into_iter().flatten().for_each(|path| make_absolute(path, base));
    let urls = ldap.urls.as_deref().unwrap_or_default();
    if urls.is_empty() || urls.len() > SERVERS_MAX {
        return wrong(name, &format!("needs `urls` of 1 to {SERVERS_MAX} servers"));
    }
    if let Some(url) = urls.iter().find(|url| !is_address(url, &["ldaps://", "ldap://"])) {
        return wrong(
            name,
            &format!("has `{url}` among its `urls`; say `ldaps://HOST[:PORT]` or `ldap://HOST[:PORT]`"),
        );
    }
    let has_service = ldap.bind_dn.as_deref().is_some_and(|dn| !dn.is_empty()) && ldap.bind_password_file.is_some();
    if ldap.bind_dn.is_some() != ldap.bind_password_file.is_some() || ldap.bind_dn.as_deref() == Some("") {
        return wrong(name, "needs both or neither of `bind_dn` and `bind_password_file`");
    }
    match (&ldap.user_dn, &ldap.user_base) {
        // A failed bind does not say whether such a user exists, so no provider after it could be asked.
        (Some(_), None) if !is_last => {
            return wrong(
                name,
                "has `user_dn`, with which it cannot say that it does not know a user; name it last in \
                                `provider_order`, or give it a `suffix`, or use `user_base`",
            );
        }
        (Some(dn), None) if dn.matches("={user}").count() == 1 && dn.matches("{user}").count() == 1 => {}
        (Some(_), None) => return wrong(name, "needs one `={user}` in its `user_dn`, as in `uid={user},ou=people`"),
        (None, Some(_)) if has_service => {}
        (None, Some(_)) => return wrong(name, "needs `bind_dn` and `bind_password_file` to search in `user_base`"),
        _ => return wrong(name, "needs either `user_dn` or `user_base`"),
    }
    if !is_filter(&ldap.user_filter) || !ldap.user_filter.contains("={user}") {
        return wrong(name, "needs `={user}` in its `user_filter`, within parentheses, as in `(uid={user})`");
    }
    let of_user = ldap.group_filter.contains("={dn}") || ldap.group_filter.contains("={user}");
    if !is_filter(&ldap.group_filter) || !of_user {
        return wrong(
            name,
            "needs `={dn}` or `={user}` in its `group_filter`, within parentheses, as in `(member={dn})`",
        );
    }
    limit(name, "recheck_seconds", ldap.recheck_seconds, 10, 86_400)?;
    limit(name, "timeout_seconds", ldap.timeout_seconds, 1, 10)
}

fn check_oidc(name: &str, oidc: &mut OidcSettings, base: &Path) -> Result<(), InvalidSetting> {
    let paths = [&mut oidc.authority, &mut oidc.client_secret_file];
    paths.into_iter().flatten().for_each(|path| make_absolute(path, base));
    if !is_address(&oidc.issuer, &["https://"]) {
        return wrong(name, "needs an `issuer` that begins with `https://`");
    }
    if oidc.client_id.is_empty() {
        return wrong(name, "needs a `client_id`");
    }
    if !oidc.scopes.split(' ').any(|scope| scope == "openid") {
        return wrong(name, "needs `openid` among its `scopes`, or it gets no id token");
    }
    match (oidc.user_claim, oidc.email_domain.as_deref()) {
        (UserClaim::Email, None | Some("")) => {
            return wrong(name, "needs an `email_domain`: the same name may stand before the `@` of several domains");
        }
        (UserClaim::PreferredUsername | UserClaim::Sub, Some(_)) => {
            return wrong(name, "has an `email_domain`, which is for `user_claim = \"email\"` only");
        }
        _ => {}
    }
    limit(name, "skew_seconds", oidc.skew_seconds, 0, 300)?;
    limit(name, "timeout_seconds", oidc.timeout_seconds, 1, 10)
}

/// `SCHEME://` and something of visible characters after it.
fn is_address(text: &str, schemes: &[&str]) -> bool {
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
            && rest.bytes().all(|byte| byte.is_ascii_graphic())
    })
}

fn is_filter(text: &str) -> bool {
    text.starts_with('(') && text.ends_with(')')
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)
}

fn limit(name: &str, key: &str, value: u64, least: u64, most: u64) -> Result<(), InvalidSetting> {
    check_range(&["providers"], value, least, most)
        .map_err(|wrong| InvalidSetting { why: format!("`{key}` of `{name}`: {}", wrong.why), ..wrong })
}

fn wrong(name: &str, why: &str) -> Result<(), InvalidSetting> {
    let name: String = name.chars().take(64).collect();
    Err(InvalidSetting { keys: &["providers"], why: format!("`{name}` {why}") })
}

/// Most providers of a cloud.
const PROVIDERS_MAX: usize = 16;
/// Most servers of one directory.
const SERVERS_MAX: usize = 8;
/// Most groups of one provider that are mapped.
const GROUPS_MAX: usize = 256;

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
