//! What surrounds every request: its number for logs, and the check that a change comes from the page. Headers keep a
//! browser from doing anything unasked. It never looks at a body.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use client::Refusal;
use http::{HeaderName, HeaderValue, header};
use tracing::Instrument;

use super::{Web, answer::ApiError, caller::check_origin, routes, sessions::cookie_in};

/// The layer around everything.
pub(crate) async fn around(State(web): State<Web>, request: Request, next: Next) -> Response {
    let number = format!("{:016x}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let span = tracing::debug_span!("request", id = %number, method = %request.method(), path = request.uri().path());
    let (asked, route) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    let answered = async {
        match check_change(&web, &request) {
            Ok(()) => next.run(request).await,
            Err(error) => ApiError::from(error).into_response(),
        }
    };
    let mut response = answered.instrument(span).await;
    web.counts().count_request(&asked, route.as_ref().map(MatchedPath::as_str), response.status());
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if web.is_tls() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    if let Ok(number) = HeaderValue::from_str(&number) {
        headers.insert(REQUEST_ID, number);
    }
    response
}

/// Changes by the page's interface come from the page. A request to another room acts for nobody unless it brings a
/// cookie: only then may another site's page have made it.
fn check_change(web: &Web, request: &Request) -> Result<(), Refusal> {
    let is_of_the_page = request.uri().path().starts_with(routes::BASE);
    if is_of_the_page || cookie_in(request.headers(), web.cookie_name()).is_some() {
        check_origin(request.method(), request.headers())
    } else {
        Ok(())
    }
}

/// No script, style or image from elsewhere, no page around ours, and nothing that a cache keeps unasked.
const ALWAYS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
         font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];
/// By which logs name a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The next one's number.
static NUMBER: AtomicU64 = AtomicU64::new(1);
