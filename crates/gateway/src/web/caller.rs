//! Who asks: the session of a cookie, a name and a token in the header of a login, or a visitor of a public page. Requests that
//! change something must come from the page itself. A visitor never changes anything.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use client::{Client, Profile, Reason, Refusal, UserName};
use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use http::{HeaderMap, Method, header, request::Parts};

use super::{
    Web,
    answer::ApiError,
    sessions::{SessionKey, WebSession, cookie_in},
};

/// The user of a request.
pub(crate) struct Caller {
    pub(crate) client: Client,
    /// `None` for a visitor.
    session: Option<Arc<WebSession>>,
}

impl Caller {
    /// The session, which only a user has.
    pub(crate) fn session(&self) -> Result<&Arc<WebSession>, ApiError> {
        self.session.as_ref().ok_or_else(ApiError::not_logged_in)
    }

    /// Whether it is a visitor.
    pub(crate) fn is_visitor(&self) -> bool {
        self.session.is_none()
    }
}

impl FromRequestParts<Web> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, ApiError> {
        if let Some(session) = session_of(web, &parts.headers).await? {
            session.note_use()?;
            return Ok(Self { client: session.client().clone(), session: Some(session) });
        }
        match web.public_session().await? {
            Some(client) if is_safe(&parts.method) => Ok(Self { client, session: None }),
            _ => Err(ApiError::not_logged_in()),
        }
    }
}

/// The session that a request brings, if any.
pub(crate) async fn session_of(web: &Web, headers: &HeaderMap) -> Result<Option<Arc<WebSession>>, Refusal> {
    match headers.get(header::AUTHORIZATION) {
        Some(given) => by_token(web, given.to_str().unwrap_or_default()).await.map(Some),
        None => Ok(by_cookie(web, headers)),
    }
}

/// Refuses a request that changes something and that another site's page may have made. A browser sends the header only
/// for a script of the page itself, and adds no cookie for other programs.
pub(crate) fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if is_safe(method) || headers.contains_key(header::AUTHORIZATION) {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_of_the_page = text("sec-fetch-site").is_none_or(|site| site == "same-origin");
    if is_of_the_page && text(REQUEST_HEADER) == Some("1") {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::NoRight,
        format!("a request that changes something needs the header `{REQUEST_HEADER}: 1`"),
    ))
}

fn by_cookie(web: &Web, headers: &HeaderMap) -> Option<Arc<WebSession>> {
    let secret = cookie_in(headers, web.cookie_name())?;
    web.sessions().get(&SessionKey::of_cookie(secret))
}

/// The session of a name and a token.
async fn by_token(web: &Web, given: &str) -> Result<Arc<WebSession>, Refusal> {
    let wrong = || {
        let message = "give a user's name and a token by HTTP basic authentication, or as the bearer of `NAME.TOKEN` \
                       (`sector user token add`)";
        Refusal::new(Reason::NotAuthenticated, message)
    };
    let (user, token) = GivenLogin::read(given).ok_or_else(wrong)?.0;
    let key = SessionKey::of_token(&format!("{user}:{}", HEXLOWER.encode(&token)));
    if let Some(session) = web.sessions().get(&key) {
        return Ok(session);
    }
    let settings = web.cloud().settings();
    let profile = Profile::of(settings.address.clone(), user, token, settings.authority.clone());
    let client = web.cloud().log_in(&profile).await.map_err(|error| Refusal::new(error.reason(), error.to_string()))?;
    web.sessions().add(key, WebSession::of_token(client))
}

/// A user's name and token, as a header gives them.
pub struct GivenLogin(pub (UserName, [u8; 32]));

impl GivenLogin {
    /// From the header `Authorization`: `Basic`, or `Bearer NAME.TOKEN` for programs that know bearers alone.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::read(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
    }

    fn read(given: &str) -> Option<Self> {
        let (scheme, given) = given.split_once(' ')?;
        let text = match scheme.to_ascii_lowercase().as_str() {
            "basic" => String::from_utf8(BASE64.decode(given.trim().as_bytes()).ok()?).ok()?,
            "bearer" => {
                let (user, token) = given.trim().rsplit_once('.')?;
                format!("{user}:{token}")
            }
            _ => return None,
        };
        let (user, token) = text.split_once(':')?;
        let token = HEXLOWER_PERMISSIVE.decode(token.as_bytes()).ok()?.try_into().ok()?;
        Some(Self((UserName::new(user).ok()?, token)))
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// No form and no other site can send it.
pub(crate) const REQUEST_HEADER: &str = "x-sector-request";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(method: &Method, headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        check_origin(method, &headers.collect()).is_ok()
    }

    #[test]
    fn a_login_is_a_name_and_a_token_in_either_form() {
        let token = "0a".repeat(32);
        let read = |given: &str| GivenLogin::read(given).map(|login| login.0.0.to_string());
        let basic = format!("Basic {}", BASE64.encode(format!("ann:{token}").as_bytes()));
        assert_eq!(read(&basic).as_deref(), Some("ann"));
        assert_eq!(read(&basic.replace("Basic", "basic")).as_deref(), Some("ann"), "a scheme ignores case");
        assert_eq!(read(&format!("Bearer ann.b.{token}")).as_deref(), Some("ann.b"));
        for wrong in
            ["Basic x", "Bearer x", &format!("Bearer {token}"), &format!("Digest ann.{token}"), "Bearer ann.00"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_the_page_itself_changes_something_with_a_cookie() {
        assert!(check(&Method::GET, &[]));
        assert!(!check(&Method::POST, &[]));
        assert!(check(&Method::POST, &[("x-sector-request", "1")]));
        assert!(!check(&Method::POST, &[("x-sector-request", "1"), ("sec-fetch-site", "cross-site")]));
        assert!(!check(&Method::DELETE, &[("x-sector-request", "1"), ("sec-fetch-site", "same-site")]));
        assert!(check(&Method::PUT, &[("authorization", "Basic eDp5")]));
    }
}
