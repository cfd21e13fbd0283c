//! The sessions of people and programs with this gateway. Each holds one session with the cloud. A secret is kept as its
//! digest alone, so that a copy of this memory's table would log nobody in. A session that nobody uses
//! gives way to the next one. This file never knows what a session may do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use client::{Client, CredentialId, Reason, Refusal};
use http::{HeaderMap, header};

use super::{answer::ApiError, rate::RequestRate, unfinished_uploads::Uploads};

/// What a session is found by: the digest of its secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey([u8; 32]);

impl SessionKey {
    /// Of a cookie's secret.
    pub(crate) fn of_cookie(secret: &str) -> Self {
        Self(blake3::derive_key("sector gateway 2026 cookie", secret.as_bytes()))
    }

    /// Of a user's name with a token.
    pub(crate) fn of_token(text: &str) -> Self {
        Self(blake3::derive_key("sector gateway 2026 token", text.as_bytes()))
    }
}

/// One of them.
pub(crate) struct WebSession {
    client: Client,
    /// The login session at the security server, which ends with it.
    login: Option<CredentialId>,
    /// For how long it may be unused.
    idle_max: Duration,
    used: Mutex<Instant>,
    rate: RequestRate,
    uploads: Uploads,
}

impl WebSession {
    /// Of a person who logged in.
    pub(crate) fn of_login(client: Client, login: Option<CredentialId>) -> Self {
        Self::new(client, login, LOGIN_IDLE_MAX)
    }

    /// Of a program with a token.
    pub(crate) fn of_token(client: Client) -> Self {
        Self::new(client, None, TOKEN_IDLE_MAX)
    }

    fn new(client: Client, login: Option<CredentialId>, idle_max: Duration) -> Self {
        let (used, rate, uploads) = (Mutex::new(Instant::now()), RequestRate::default(), Uploads::default());
        Self { client, login, idle_max, used, rate, uploads }
    }

    /// The session with the cloud.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The login session at the security server.
    pub(crate) fn login(&self) -> Option<CredentialId> {
        self.login
    }

    /// Its unfinished uploads.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// Somebody asks in it; refused if that is too often.
    pub(crate) fn note_use(&self) -> Result<(), ApiError> {
        self.rate.take(self.note_seen())
    }

    /// Somebody asks in it, by a door that counts for itself.
    pub(crate) fn note_seen(&self) -> Instant {
        let now = Instant::now();
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
        now
    }

    fn is_over(&self, now: Instant) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(used) >= self.idle_max && self.uploads.is_empty()
    }
}

/// All of them.
pub(crate) struct Sessions {
    table: Mutex<HashMap<SessionKey, Arc<WebSession>>>,
    most: usize,
}

impl Sessions {
    /// For so many at most.
    pub(crate) fn new(most: usize) -> Self {
        Self { table: Mutex::default(), most }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn get(&self, key: &SessionKey) -> Option<Arc<WebSession>> {
        let session = Arc::clone(self.lock().get(key)?);
        // One that is over stays in the table until there is a new one, and is nobody's by then.
        if session.is_over(Instant::now()) { None } else { Some(session) }
    }

    /// Adds one. Those that are over make room.
    pub(crate) fn add(&self, key: SessionKey, session: WebSession) -> Result<Arc<WebSession>, Refusal> {
        let session = Arc::new(session);
        let mut table = self.lock();
        let now = Instant::now();
        let over: Vec<_> = table.extract_if(|_, session| session.is_over(now)).map(|(_, session)| session).collect();
        let is_full = table.len() >= self.most;
        if !is_full {
            table.insert(key, Arc::clone(&session));
        }
        drop(table);
        over.into_iter().for_each(end);
        if is_full {
            end(session);
            return Err(Refusal::new(
                Reason::LimitReached,
                "as many people are logged in here as can be; try again later",
            ));
        }
        Ok(session)
    }

    /// Ends one.
    pub(crate) fn remove(&self, key: &SessionKey) -> Option<Arc<WebSession>> {
        self.lock().remove(key)
    }

    /// All of them, for the end.
    pub(crate) fn take_all(&self) -> Vec<Client> {
        self.lock().drain().map(|(_, session)| session.client.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Arc<WebSession>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the session with the cloud, beside everything else.
pub(crate) fn end(session: Arc<WebSession>) {
    tokio::spawn(async move { session.client.logout().await });
}

/// The secret of the session in a request's cookies.
pub(crate) fn cookie_in<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, secret)| secret)
}

/// The cookie of a new session; an empty secret removes it.
pub(crate) fn cookie(name: &str, secret: &str) -> String {
    let life = if secret.is_empty() { 0 } else { LOGIN_IDLE_MAX.as_secs() };
    let secure = if name.starts_with(HOST_ONLY) { "; Secure" } else { "" };
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
}

/// The cookie's name at a gateway with this port. Browsers do not tell a host's ports apart: two clouds of one machine
/// would log each other out. With TLS, browsers take it from this very host alone.
pub(crate) fn cookie_name(port: u16, is_tls: bool) -> String {
    format!("{}sector_session_{port}", if is_tls { HOST_ONLY } else { "" })
}

/// Begins the name of a cookie that only this host may set, and only with TLS.
const HOST_ONLY: &str = "__Host-";

/// As long as a login session at the security server.
const LOGIN_IDLE_MAX: Duration = Duration::from_secs(12 * 3_600);
/// A program's next request costs a login after that.
const TOKEN_IDLE_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_cookie_is_found_among_others_and_only_under_its_own_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; sector_session_7080=secret; c=d".parse().unwrap());
        assert_eq!(cookie_in(&headers, &cookie_name(7080, false)), Some("secret"));
        assert_eq!(cookie_in(&headers, &cookie_name(7080, true)), None, "a cookie without TLS is none with it");
        assert_eq!(cookie_in(&headers, &cookie_name(7081, false)), None, "another cloud of this machine");
        let with_tls = cookie(&cookie_name(443, true), "x");
        assert!(with_tls.starts_with("__Host-sector_session_443=x; Path=/; HttpOnly; SameSite=Strict"), "{with_tls}");
        assert!(with_tls.ends_with("; Secure"), "{with_tls}");
        assert!(cookie(&cookie_name(7080, false), "").contains("Max-Age=0"));
    }

    #[test]
    fn a_cookie_and_a_token_with_one_text_are_two_sessions() {
        assert!(SessionKey::of_cookie("x") != SessionKey::of_token("x"));
    }
}
