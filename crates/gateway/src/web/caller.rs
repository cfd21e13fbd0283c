//! Who asks: the session of a cookie, a token by HTTP basic authentication, or a visitor of a public page. Requests that
//! change something must come from the page itself. A visitor never changes anything.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use client::{Client, Profile, Reason, Refusal, UserName};
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
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

/// `Basic`, with the user's name and a token.
async fn by_token(web: &Web, given: &str) -> Result<Arc<WebSession>, Refusal> {
    let wrong = || {
        let message = "give a user's name and a token by HTTP basic authentication (`sector user token add`)";
        Refusal::new(Reason::NotAuthenticated, message)
    };
    let text = given.strip_prefix("Basic ").and_then(|text| BASE64.decode(text.trim().as_bytes()).ok());
    let text = text.and_then(|text| String::from_utf8(text).ok()).ok_or_else(wrong)?;
    let key = SessionKey::of_token(&text);
    if let Some(session) = web.sessions().get(&key) {
        return Ok(session);
    }
    let (user, token) = text.split_once(':').ok_or_else(wrong)?;
    let token: [u8; 32] =
        HEXLOWER_PERMISSIVE.decode(token.as_bytes()).ok().and_then(|it| it.try_into().ok()).ok_or_else(wrong)?;
    let user = UserName::new(user).map_err(|_| wrong())?;
    let settings = web.cloud().settings();
    let profile = Profile::of(settings.address.clone(), user, token, settings.authority.clone());
    let client = web.cloud().log_in(&profile).await.map_err(|error| Refusal::new(error.reason(), error.to_string()))?;
    web.sessions().add(key, WebSession::of_token(client))
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
    fn only_the_page_itself_changes_something_with_a_cookie() {
        assert!(check(&Method::GET, &[]));
        assert!(!check(&Method::POST, &[]));
        assert!(check(&Method::POST, &[("x-sector-request", "1")]));
        assert!(!check(&Method::POST, &[("x-sector-request", "1"), ("sec-fetch-site", "cross-site")]));
        assert!(!check(&Method::DELETE, &[("x-sector-request", "1"), ("sec-fetch-site", "same-site")]));
        assert!(check(&Method::PUT, &[("authorization", "Basic eDp5")]));
    }
}
