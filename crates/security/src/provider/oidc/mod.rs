//! Asks an OpenID Connect provider by the device flow (RFC 8628), for `sector login --oidc`. It begins a login in a
//! browser, asks whether the person has finished, and checks the id token that comes then. Only this server speaks with
//! the provider. A token never travels further, and is never trusted before it was checked as a whole.

mod claims;
mod keys;
mod token;
mod web;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use daemon::settings::OidcSettings;
use net::identity::random;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::{DeviceBegun, DeviceGrant, ProviderAnswer, ProviderFailure, SecretText, secret_file, trust::TrustRoots};
use crate::SecurityError;
use keys::Keys;
use token::{Expected, TokenError};
use web::{Reply, Web};

/// A provider.
#[derive(Clone)]
pub struct OpenId(Arc<Inner>);

struct Inner {
    settings: OidcSettings,
    secret: Option<SecretText>,
    web: Web,
    started: Instant,
    known: Mutex<Known>,
}

/// The provider's own description.
#[derive(Default)]
struct Known {
    endpoints: Option<(OidcEndpoints, Duration)>,
    keys: Arc<Keys>,
}

/// The provider's endpoints (OpenID Connect Discovery, 3; RFC 8628, 4).
#[derive(Clone, Deserialize)]
struct OidcEndpoints {
    issuer: String,
    token_endpoint: String,
    jwks_uri: String,
    device_authorization_endpoint: Option<String>,
}

impl OpenId {
    /// Reads the files that the settings name.
    pub fn open(settings: &OidcSettings) -> Result<Self, SecurityError> {
        let trust = TrustRoots::read(settings.authority.as_deref())?;
        Ok(Self(Arc::new(Inner {
            secret: settings.client_secret_file.as_deref().map(secret_file::read).transpose()?,
            web: Web::new(&trust, Duration::from_secs(settings.timeout_seconds)),
            settings: settings.clone(),
            started: Instant::now(),
            known: Mutex::default(),
        })))
    }

    /// Begins a login: [`ProviderAnswer::Begun`].
    pub async fn begin(&self) -> ProviderAnswer {
        self.on_a_thread(|inner| inner.begin().map(ProviderAnswer::Begun)).await
    }

    /// Asks whether the person in the browser has finished.
    pub async fn poll(&self, grant: DeviceGrant) -> ProviderAnswer {
        self.on_a_thread(move |inner| inner.poll(&grant)).await
    }

    async fn on_a_thread(
        &self,
        ask: impl FnOnce(&Inner) -> Result<ProviderAnswer, ProviderFailure> + Send + 'static,
    ) -> ProviderAnswer {
        let inner = Arc::clone(&self.0);
        let asked = spawn_blocking(move || ask(&inner)).await;
        let lost = || Err(ProviderFailure::Misconfigured("asking it failed; please report it with the log".into()));
        asked.unwrap_or_else(|_| lost()).unwrap_or_else(ProviderAnswer::Failed)
    }
}

impl Inner {
    fn begin(&self) -> Result<DeviceBegun, ProviderFailure> {
        let places = self.endpoints()?;
        let Some(url) = places.device_authorization_endpoint else {
            return Err(ProviderFailure::Misconfigured("it has no device flow (RFC 8628)".into()));
        };
        let nonce = data_encoding::HEXLOWER.encode(&random::<16>());
        let form =
            [("client_id", self.settings.client_id.as_str()), ("scope", &self.settings.scopes), ("nonce", &nonce)];
        let reply = self.web.post(&url, &form, self.client())?;
        let begun: Begun = match reply.status {
            200 => parse(&url, &reply)?,
            _ => return Err(oauth_failure(&url, &reply)),
        };
        // These are shown in a terminal: a provider that was taken over must not write arbitrary text there.
        let is_plain = |text: &str, most| {
            !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let is_url = |text: &str| text.starts_with("https://") && is_plain(text, URL_BYTES_MAX);
        if !is_plain(&begun.user_code, USER_CODE_BYTES_MAX) || !is_url(&begun.verification_uri) {
            return Err(ProviderFailure::Misconfigured(format!(
                "{url} gave a code or an address that cannot be shown"
            )));
        }
        Ok(DeviceBegun {
            grant: DeviceGrant { code: SecretText(begun.device_code), nonce },
            user_code: begun.user_code,
            verification_url: begun.verification_uri,
            complete_url: begun.verification_uri_complete.filter(|url| is_url(url)),
            interval: Duration::from_secs(begun.interval.unwrap_or(INTERVAL_USUAL_SECONDS))
                .clamp(INTERVAL_MIN, INTERVAL_MAX),
            lives_for: Duration::from_secs(begun.expires_in).min(LIFE_MAX),
            login: random(),
        })
    }

    fn poll(&self, grant: &DeviceGrant) -> Result<ProviderAnswer, ProviderFailure> {
        let url = self.endpoints()?.token_endpoint;
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", grant.code.0.as_str()),
            ("client_id", &self.settings.client_id),
        ];
        let reply = self.web.post(&url, &form, self.client())?;
        if reply.status == 200 {
            let tokens: Tokens = parse(&url, &reply)?;
            return self.verify_token(&tokens.id_token, grant);
        }
        let error: OauthError = parse(&url, &reply)?;
        Ok(match error.error.as_str() {
            "authorization_pending" => ProviderAnswer::Pending { slow_down: false },
            "slow_down" => ProviderAnswer::Pending { slow_down: true },
            "access_denied" => ProviderAnswer::Refused("says that the login was denied in the browser".into()),
            "expired_token" | "invalid_grant" => {
                ProviderAnswer::Refused("says that the code has expired; log in again".into())
            }
            _ => return Err(oauth_failure(&url, &reply)),
        })
    }

    /// Checks the token; if it names an unknown key, the keys are fetched again, but not too often.
    fn verify_token(&self, id_token: &str, grant: &DeviceGrant) -> Result<ProviderAnswer, ProviderFailure> {
        let mut keys = self.keys(Keys::are_old)?;
        let mut checked = self.check(id_token, &keys, grant);
        if checked.as_ref().is_err_and(|wrong| *wrong == TokenError::UnknownKey) && keys.may_be_refetched(self.now()) {
            keys = self.keys(Keys::may_be_refetched)?;
            checked = self.check(id_token, &keys, grant);
        }
        match checked {
            Ok(claims) => Ok(claims::user(&self.settings, claims)),
            Err(wrong) => {
                let why = match wrong {
                    TokenError::UnknownKey => "it names a key that the provider does not show",
                    TokenError::Token(why) => why,
                };
                Err(ProviderFailure::Misconfigured(format!("its id token is not to be trusted: {why}")))
            }
        }
    }

    fn check(&self, id_token: &str, keys: &Keys, grant: &DeviceGrant) -> Result<token::Claims, TokenError> {
        let now_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let expected = Expected {
            issuer: &self.settings.issuer,
            client: &self.settings.client_id,
            nonce: &grant.nonce,
            skew_seconds: self.settings.skew_seconds,
            now_seconds,
        };
        token::check(id_token, keys, expected)
    }

    fn endpoints(&self) -> Result<OidcEndpoints, ProviderFailure> {
        let now = self.now();
        if let Some((places, read)) = &self.known().endpoints
            && now.saturating_sub(*read) < DISCOVERY_AGE_MAX
        {
            return Ok(places.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", self.settings.issuer.trim_end_matches('/'));
        let reply = self.web.get(&url)?;
        let places: OidcEndpoints = parse(&url, &reply)?;
        // Otherwise another provider's document could say where our client's secret goes.
        if places.issuer != self.settings.issuer {
            return Err(ProviderFailure::Misconfigured(format!("{url} is the document of another issuer")));
        }
        self.known().endpoints = Some((places.clone(), now));
        Ok(places)
    }

    /// The keys, fetched first where `must_fetch` says so.
    fn keys(&self, must_fetch: impl Fn(&Keys, Duration) -> bool) -> Result<Arc<Keys>, ProviderFailure> {
        let kept = Arc::clone(&self.known().keys);
        if !must_fetch(&kept, self.now()) {
            return Ok(kept);
        }
        let url = self.endpoints()?.jwks_uri;
        let reply = self.web.get(&url)?;
        if reply.status != 200 {
            return Err(ProviderFailure::Misconfigured(format!("{url} answers with status {}", reply.status)));
        }
        let keys = Keys::parse(&reply.text, self.now()).map_err(ProviderFailure::Misconfigured)?;
        let keys = Arc::new(keys);
        self.known().keys = Arc::clone(&keys);
        Ok(keys)
    }

    fn client(&self) -> Option<(&str, &SecretText)> {
        self.secret.as_ref().map(|secret| (self.settings.client_id.as_str(), secret))
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// No panic can happen under this lock; a poisoned one holds the last known state.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse<T: for<'a> Deserialize<'a>>(url: &str, reply: &Reply) -> Result<T, ProviderFailure> {
    serde_json::from_str(&reply.text).map_err(|_| {
        ProviderFailure::Misconfigured(format!(
            "{url} answers with status {} and nothing that was expected",
            reply.status
        ))
    })
}

/// An error that does not concern the person who logs in.
fn oauth_failure(url: &str, reply: &Reply) -> ProviderFailure {
    let error: Result<OauthError, _> = serde_json::from_str(&reply.text);
    let word: String = error.map(|error| error.error).unwrap_or_default().chars().take(64).collect();
    ProviderFailure::Misconfigured(format!("{url} refused with status {} ({})", reply.status, word.escape_default()))
}

#[derive(Deserialize)]
struct Begun {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

#[derive(Deserialize)]
struct OauthError {
    error: String,
}

/// Time between two polls if the provider names none, RFC 8628, 3.2.
const INTERVAL_USUAL_SECONDS: u64 = 5;
/// Shortest time between two polls, whatever a provider says.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest time between two polls: a person who has finished has to wait for the next one.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Longest life of a login that has begun.
const LIFE_MAX: Duration = Duration::from_secs(900);
/// How long the provider's document is trusted.
const DISCOVERY_AGE_MAX: Duration = Duration::from_secs(3_600);
/// Longest code in bytes; providers give about ten.
const USER_CODE_BYTES_MAX: usize = 64;
/// Longest address in bytes.
const URL_BYTES_MAX: usize = 1_024;
