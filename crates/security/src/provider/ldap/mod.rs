//! Asks an LDAP directory (RFC 4511) at logins with a password. It proves a user by a bind with the user's own
//! password, and reads the user's groups. It never sends a password without TLS unless the settings say `insecure`. It
//! never binds with an empty password, and never puts a name into a filter or a DN unescaped.

mod escaping;

use std::{sync::Arc, time::Duration};

use daemon::settings::LdapSettings;
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, SearchOptions};
use rustls::ClientConfig;
use tokio::{task::AbortHandle, time::timeout};

use super::{GROUPS_MAX, ProviderAnswer, ProviderFailure, ProviderUser, SecretText, secret_file, trust::TrustRoots};
use crate::SecurityError;

/// A directory.
pub struct Directory {
    settings: LdapSettings,
    tls: Arc<ClientConfig>,
    /// The password of the account that searches.
    service_password: Option<SecretText>,
}

impl Directory {
    /// Reads the files that the settings name.
    pub fn open(name: &str, settings: &LdapSettings) -> Result<Self, SecurityError> {
        if settings.insecure {
            tracing::warn!(
                provider = name,
                "INSECURE: this provider is asked without TLS; everyone on the way reads passwords"
            );
        }
        Ok(Self {
            tls: TrustRoots::read(settings.authority.as_deref())?.tls()?,
            service_password: settings.bind_password_file.as_deref().map(secret_file::read).transpose()?,
            settings: settings.clone(),
        })
    }

    /// Whether this is the user's password, and which groups the user has. It asks one server after another until one
    /// answers; a user who is refused by one is not tried at the next.
    pub async fn check(&self, user: &str, password: &SecretText) -> ProviderAnswer {
        // RFC 4513, 5.1.2: a bind with a name and no password is not authenticated and succeeds.
        if password.0.is_empty() || password.0.contains('\0') {
            return ProviderAnswer::WrongSecret;
        }
        self.ask(user, Some(password)).await
    }

    /// Whether this user still exists, and the user's groups, as seen by the service account.
    pub async fn look_up(&self, user: &str) -> ProviderAnswer {
        self.ask(user, None).await
    }

    async fn ask(&self, user: &str, password: Option<&SecretText>) -> ProviderAnswer {
        let mut failed = ProviderFailure::Misconfigured("it has no servers".into());
        for url in self.settings.urls.iter().flatten() {
            let limit = Duration::from_secs(self.settings.timeout_seconds);
            match timeout(limit, self.ask_one(url, user, password)).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(error)) => failed = failure(url, &error),
                Err(_) => {
                    let why = format!("{url} did not answer within {} s", limit.as_secs());
                    failed = ProviderFailure::Unreachable(why);
                }
            }
            // Wrong settings are wrong at every server.
            if matches!(failed, ProviderFailure::Misconfigured(_)) {
                break;
            }
        }
        ProviderAnswer::Failed(failed)
    }

    async fn ask_one(&self, url: &str, user: &str, password: Option<&SecretText>) -> Result<ProviderAnswer, LdapError> {
        let mut connection = self.connect(url).await?;
        let dn = match &self.settings.user_dn {
            Some(template) => escaping::fill_dn(template, user),
            None => match self.find(&mut connection.ldap, user).await? {
                Found::One(dn) => dn,
                Found::None => return Ok(ProviderAnswer::NoSuchUser),
                Found::Several => {
                    let why = "finds several entries for one name; make `user_filter` narrower";
                    return Ok(ProviderAnswer::Failed(ProviderFailure::Misconfigured(why.into())));
                }
            },
        };
        let refused = match password {
            Some(password) => self.bind_as_user(&mut connection.ldap, &dn, password).await?,
            None if self.settings.user_dn.is_some() => self.check_is_there(&mut connection.ldap, &dn).await?,
            None => None,
        };
        if let Some(refused) = refused {
            return Ok(refused);
        }
        let groups = self.groups(&mut connection.ldap, user, &dn).await?;
        Ok(ProviderAnswer::User(ProviderUser { name: user.to_owned(), subject: None, groups }))
    }

    /// Proves the user; gives the answer if that fails.
    async fn bind_as_user(
        &self,
        ldap: &mut Ldap,
        dn: &str,
        password: &SecretText,
    ) -> Result<Option<ProviderAnswer>, LdapError> {
        let bound = ldap.simple_bind(dn, &password.0).await?;
        match bound.rc {
            SUCCESS => Ok(None),
            NO_SUCH_OBJECT | INVALID_DN if self.settings.user_dn.is_some() => Ok(Some(ProviderAnswer::NoSuchUser)),
            // These results also mean that the user is locked, disabled, or may not bind; with a template, also that
            // the user does not exist. The user is only told that the password was wrong. The password is shown to no
            // other directory: it may be right here except for a letter.
            INVALID_CREDENTIALS | NO_SUCH_OBJECT | INAPPROPRIATE_AUTHENTICATION | UNWILLING | CONSTRAINT => {
                Ok(Some(ProviderAnswer::WrongSecret))
            }
            _ => Err(bound.into()),
        }
    }

    /// Looks, as the service account, for an entry whose DN a template gave.
    async fn check_is_there(&self, ldap: &mut Ldap, dn: &str) -> Result<Option<ProviderAnswer>, LdapError> {
        self.bind_as_service(ldap).await?;
        let found = ldap.search(dn, Scope::Base, "(objectClass=*)", [NO_ATTRIBUTES]).await?;
        match (found.0.is_empty(), found.1.rc) {
            (false, SUCCESS) => Ok(None),
            (true, SUCCESS) | (_, NO_SUCH_OBJECT | INVALID_DN) => Ok(Some(ProviderAnswer::NoSuchUser)),
            _ => Err(found.1.into()),
        }
    }

    async fn connect(&self, url: &str) -> Result<Connection, LdapError> {
        let starttls = url.starts_with("ldap://") && !self.settings.insecure;
        let settings = LdapConnSettings::new().set_starttls(starttls).set_config(Arc::clone(&self.tls));
        let (connection, ldap) = LdapConnAsync::with_settings(settings, url).await?;
        // It ends when `ldap` is dropped, and is cut off then whatever the server does.
        let driver = tokio::spawn(async move {
            let _ = connection.drive().await;
        });
        Ok(Connection { ldap, driver: driver.abort_handle() })
    }

    /// The DN of a user, found by the service account.
    async fn find(&self, ldap: &mut Ldap, user: &str) -> Result<Found, LdapError> {
        self.bind_as_service(ldap).await?;
        let base = self.settings.user_base.as_deref().unwrap_or_default();
        let filter = escaping::fill_filter(&self.settings.user_filter, user, "");
        let options = SearchOptions::new().sizelimit(2);
        let found = ldap.with_search_options(options).search(base, Scope::Subtree, &filter, [NO_ATTRIBUTES]).await?;
        // More than two entries end a search with "size limit exceeded", and then two are there.
        let (entries, result) = (found.0, found.1);
        let mut entries = entries.into_iter().filter(|entry| !entry.is_ref() && !entry.is_intermediate());
        match (entries.next(), entries.next(), result.rc) {
            (_, Some(_), _) | (_, _, SIZE_LIMIT) => Ok(Found::Several),
            (Some(entry), None, SUCCESS) => Ok(Found::One(SearchEntry::construct(entry).dn)),
            (None, None, SUCCESS) => Ok(Found::None),
            _ => Err(result.into()),
        }
    }

    /// The DNs of the user's groups, read as the service account if there is one, else as the user.
    async fn groups(&self, ldap: &mut Ldap, user: &str, dn: &str) -> Result<Vec<String>, LdapError> {
        if self.service_password.is_some() {
            self.bind_as_service(ldap).await?;
        }
        let attribute = self.settings.group_attribute.as_str();
        let (base, scope, filter, wanted) = match &self.settings.group_base {
            Some(base) => (
                base.as_str(),
                Scope::Subtree,
                escaping::fill_filter(&self.settings.group_filter, user, dn),
                NO_ATTRIBUTES,
            ),
            None => (dn, Scope::Base, "(objectClass=*)".to_owned(), attribute),
        };
        let limit = i32::try_from(GROUPS_MAX).unwrap_or(i32::MAX);
        let options = SearchOptions::new().sizelimit(limit);
        let (entries, _) = ldap.with_search_options(options).search(base, scope, &filter, [wanted]).await?.success()?;
        let entries = entries.into_iter().filter(|entry| !entry.is_ref()).map(SearchEntry::construct);
        if self.settings.group_base.is_some() {
            return Ok(entries.map(|entry| entry.dn).collect());
        }
        // The server may write the attribute's name in its own way.
        let of_attribute = |entry: SearchEntry| {
            entry.attrs.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case(attribute)).flat_map(|(_, dns)| dns)
        };
        Ok(entries.flat_map(of_attribute).take(GROUPS_MAX).collect())
    }

    async fn bind_as_service(&self, ldap: &mut Ldap) -> Result<(), LdapError> {
        let (Some(dn), Some(password)) = (&self.settings.bind_dn, &self.service_password) else { return Ok(()) };
        ldap.simple_bind(dn, &password.0).await?.success()?;
        Ok(())
    }
}

/// What a search for a user found.
enum Found {
    One(String),
    None,
    Several,
}

/// A connection that ends when it is dropped.
struct Connection {
    ldap: Ldap,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What an error means for the person who logs in. The message holds no name and no password.
fn failure(url: &str, error: &LdapError) -> ProviderFailure {
    match error {
        LdapError::LdapResult { result } if [BUSY, UNAVAILABLE].contains(&result.rc) => {
            ProviderFailure::Unreachable(format!("{url} says that it is busy or unavailable"))
        }
        LdapError::LdapResult { result } => ProviderFailure::Misconfigured(format!(
            "{url} refused with LDAP result {} ({})",
            result.rc,
            escaping::result(result.rc)
        )),
        LdapError::FilterParsing => ProviderFailure::Misconfigured("a filter in its settings is none".into()),
        LdapError::UrlParsing { .. } | LdapError::DNSName { .. } | LdapError::UnknownScheme(_) => {
            ProviderFailure::Misconfigured(format!("{url} is no address of a server"))
        }
        other => ProviderFailure::Unreachable(format!("{url}: {other}")),
    }
}

/// The attribute that stands for "none", RFC 4511, 4.5.1.8.
const NO_ATTRIBUTES: &str = "1.1";
/// LDAP results, RFC 4511, appendix A.
const SUCCESS: u32 = 0;
const SIZE_LIMIT: u32 = 4;
const CONSTRAINT: u32 = 19;
const NO_SUCH_OBJECT: u32 = 32;
const INVALID_DN: u32 = 34;
const INAPPROPRIATE_AUTHENTICATION: u32 = 48;
const INVALID_CREDENTIALS: u32 = 49;
const BUSY: u32 = 51;
const UNAVAILABLE: u32 = 52;
const UNWILLING: u32 = 53;
