//! Logging in and out: with a password, in the browser of an identity provider, or by a link that `sector up` and
//! `sector web` print. The security server decides. A password never stays here.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use client::{BrowserLogin, Profile, Reason, Refusal, UserName};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use super::{
    Web,
    answer::{Answer, ApiError, document, done},
    ask::Document,
    caller::Caller,
    pending_logins::LINK_LIFE,
    secret::new_secret,
    sessions::{self, SessionKey, WebSession, cookie, cookie_in},
};

/// `GET /session`.
pub(crate) async fn session(State(web): State<Web>, caller: Caller) -> Answer {
    let ends_login = caller.session().is_ok_and(|session| session.login().is_some());
    document(&session_view(&web, &caller.client, caller.is_visitor(), ends_login).await?)
}

/// `ends_login`: whether a logout here ends the login at the security server, and with it the jobs that it began.
async fn session_view(
    web: &Web,
    client: &client::Client,
    is_visitor: bool,
    ends_login: bool,
) -> Result<serde_json::Value, ApiError> {
    let you = client.who_am_i().await?;
    Ok(json!({
        "user": you.rights.user.to_string(),
        "groups": you.rights.groups,
        "admin": you.rights.admin,
        "cloud": web.cloud().settings().address.to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "read_only": is_visitor,
        "logout_ends_jobs": ends_login,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordLogin {
    user: String,
    password: String,
}

/// `POST /login`.
pub(crate) async fn with_password(
    State(web): State<Web>,
    headers: HeaderMap,
    Document(given): Document<PasswordLogin>,
) -> Answer {
    // As for a wrong password: whether there can be such a user is nobody's business.
    let unknown = |_| Refusal::new(Reason::NotAuthenticated, "wrong user or password");
    let user = UserName::new(given.user).map_err(unknown)?;
    let profile = client::login(&web.target(), &user, given.password).await?;
    begin(&web, &headers, profile).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkLogin {
    code: String,
}

/// `POST /login/link`.
pub(crate) async fn with_link(
    State(web): State<Web>,
    headers: HeaderMap,
    Document(given): Document<LinkLogin>,
) -> Answer {
    let used = || {
        let message = "this link was used already, or is too old; `sector web` prints a new one";
        Refusal::new(Reason::NotAuthenticated, message)
    };
    let profile = web.logins().take_link(&given.code).ok_or_else(used)?;
    begin(&web, &headers, web.at_this_cloud(profile)).await
}

/// `POST /login/links`: a link for the user who asks with a token. It logs in with that token.
pub(crate) async fn new_link(State(web): State<Web>, caller: Caller) -> Answer {
    let session = caller.session()?;
    let profile = session.client().profile().clone();
    document(&json!({"code": web.make_link(profile), "seconds": LINK_LIFE.as_secs()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrowserLoginRequest {
    provider: Option<String>,
}

/// `POST /login/browser`.
pub(crate) async fn in_browser(State(web): State<Web>, Document(asked): Document<BrowserLoginRequest>) -> Answer {
    let login = BrowserLogin::begin(web.target(), asked.provider.as_deref()).await?;
    let (id, outcome) = (new_secret(), Arc::default());
    let view = json!({
        "id": id,
        "url": login.complete_url().unwrap_or_else(|| login.url()),
        "user_code": login.user_code(),
    });
    web.logins().begin_in_browser(id, Arc::clone(&outcome))?;
    tokio::spawn(async move {
        let profile = login.finish().await;
        *outcome.lock().await = Some(profile);
    });
    document(&view)
}

/// `GET /login/browser/ID`: 202 as long as the person has not finished.
pub(crate) async fn browser_outcome(State(web): State<Web>, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    let gone = || Refusal::new(Reason::NotFound, "there is no such login (any more); log in again");
    let outcome = web.logins().in_browser(&id).ok_or_else(gone)?;
    let Some(profile) = outcome.lock().await.take() else {
        return Ok((StatusCode::ACCEPTED, Json(json!({"state": "waiting"}))).into_response());
    };
    web.logins().end_in_browser(&id);
    begin(&web, &headers, web.at_this_cloud(profile?)).await
}

/// `POST /logout`.
pub(crate) async fn logout(State(web): State<Web>, headers: HeaderMap) -> Answer {
    end_current(&web, &headers).await;
    Ok(with_cookie(done()?, &cookie(web.cookie_name(), "")))
}

/// Begins a session with a cookie of its own, whatever cookie the browser brought: a secret that someone else has put
/// there is worth nothing.
async fn begin(web: &Web, headers: &HeaderMap, profile: Profile) -> Answer {
    let client = web.cloud().log_in(&profile).await?;
    let view = session_view(web, &client, false, profile.session.is_some()).await?;
    end_current(web, headers).await;
    let secret = new_secret();
    web.sessions().add(SessionKey::of_cookie(&secret), WebSession::of_login(client, profile.session))?;
    Ok(with_cookie(document(&view)?, &cookie(web.cookie_name(), &secret)))
}

/// Ends the session of the browser's cookie, also at the security server if it was begun with a password.
async fn end_current(web: &Web, headers: &HeaderMap) {
    let Some(secret) = cookie_in(headers, web.cookie_name()) else { return };
    let Some(session) = web.sessions().remove(&SessionKey::of_cookie(secret)) else { return };
    if let Some(login) = session.login()
        && let Err(error) = session.client().revoke_session(login).await
    {
        tracing::info!(%error, "a login session ends by itself later");
    }
    sessions::end(session);
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
