//! What went wrong, as WebDAV says it. One `match` without a wildcard, so that a new reason visits it. It never hides the
//! cloud's own sentence.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use client::{ClientError, Reason, Refusal};
use dav_server::fs::FsError;
use http::{HeaderValue, StatusCode, header};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DavFailure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) retry_after_seconds: Option<u32>,
}

impl DavFailure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after_seconds: None }
    }

    /// A request that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// As many of these are under way as may be.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, message, retry_after_seconds: Some(BUSY_SECONDS) }
    }
}

impl From<Refusal> for DavFailure {
    fn from(Refusal { reason, message }: Refusal) -> Self {
        let retry_after_seconds = match reason {
            Reason::LeaseHeld { seconds } | Reason::TooManyRequests { seconds } | Reason::LockedOut { seconds } => {
                Some(seconds)
            }
            Reason::Unavailable | Reason::Rebuilding | Reason::NoCopy | Reason::Busy => Some(BUSY_SECONDS),
            _ => None,
        };
        Self { status: status_of(reason), message, retry_after_seconds }
    }
}

impl From<&ClientError> for DavFailure {
    fn from(error: &ClientError) -> Self {
        Refusal::new(error.reason(), error.to_string()).into()
    }
}

impl From<ClientError> for DavFailure {
    fn from(error: ClientError) -> Self {
        (&error).into()
    }
}

impl IntoResponse for DavFailure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.message + "\n"));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"sector\""));
        }
        response
    }
}

fn status_of(reason: Reason) -> StatusCode {
    match reason {
        Reason::Failed | Reason::Corrupt | Reason::JobEnded => StatusCode::INTERNAL_SERVER_ERROR,
        Reason::Invalid => StatusCode::BAD_REQUEST,
        Reason::NotFound => StatusCode::NOT_FOUND,
        Reason::NoRight | Reason::NotPermitted => StatusCode::FORBIDDEN,
        Reason::NotAuthenticated => StatusCode::UNAUTHORIZED,
        Reason::Unavailable | Reason::Rebuilding | Reason::NoCopy | Reason::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Reason::IsFolder => StatusCode::METHOD_NOT_ALLOWED,
        Reason::NotFolder | Reason::NotEmpty | Reason::LimitReached => StatusCode::CONFLICT,
        Reason::Exists | Reason::VersionChanged { .. } => StatusCode::PRECONDITION_FAILED,
        Reason::LeaseHeld { .. } | Reason::LeaseEnded | Reason::InUse => StatusCode::LOCKED,
        Reason::QuotaExceeded | Reason::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Reason::TooManyRequests { .. } | Reason::LockedOut { .. } => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// What the protocol's crate must know of it, to go on as the standard says.
pub(crate) fn flow(reason: Reason) -> FsError {
    match reason {
        // Below a file there is nothing, as below a folder that is missing.
        Reason::NotFound | Reason::NotFolder => FsError::NotFound,
        Reason::Exists | Reason::NotEmpty | Reason::VersionChanged { .. } => FsError::Exists,
        Reason::NoRight
        | Reason::NotPermitted
        | Reason::NotAuthenticated
        | Reason::IsFolder
        | Reason::LeaseHeld { .. }
        | Reason::LeaseEnded
        | Reason::InUse => FsError::Forbidden,
        Reason::QuotaExceeded | Reason::NoSpace => FsError::InsufficientStorage,
        Reason::Failed
        | Reason::Invalid
        | Reason::Unavailable
        | Reason::Corrupt
        | Reason::LimitReached
        | Reason::Busy
        | Reason::TooManyRequests { .. }
        | Reason::LockedOut { .. }
        | Reason::JobEnded
        | Reason::Rebuilding
        | Reason::NoCopy => FsError::GeneralFailure,
    }
}

/// When to try again what cannot be done now.
const BUSY_SECONDS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_who_is_asked_for_a_login_and_when_to_come_back() {
        let said = |reason| DavFailure::from(Refusal::new(reason, "why")).into_response();
        assert!(said(Reason::NotAuthenticated).headers().contains_key(header::WWW_AUTHENTICATE));
        assert_eq!(said(Reason::LeaseHeld { seconds: 9 }).status(), StatusCode::LOCKED);
        assert_eq!(said(Reason::LeaseHeld { seconds: 9 }).headers()[header::RETRY_AFTER], "9");
        assert_eq!(said(Reason::QuotaExceeded).status(), StatusCode::INSUFFICIENT_STORAGE);
        assert!(!said(Reason::NoRight).headers().contains_key(header::WWW_AUTHENTICATE));
    }
}
