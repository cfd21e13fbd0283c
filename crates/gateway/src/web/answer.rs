//! Answers and errors of the interface. A reason becomes an HTTP status here, once. An error never shows more than its
//! sentence.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use client::{ClientError, Reason, Refusal, SectorPath};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;

/// What a request is answered with.
pub(crate) type Answer = Result<Response, ApiError>;

/// A document.
pub(crate) fn document(value: &impl Serialize) -> Answer {
    Ok(Json(value).into_response())
}

/// Done, and there is nothing to say.
pub(crate) fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    reason: &'static str,
    message: String,
    path: Option<String>,
    /// Of the request, if one field is to blame.
    field: Option<&'static str>,
    retry_after_seconds: Option<u32>,
}

impl ApiError {
    /// A request that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Refusal::new(Reason::Invalid, message).into()
    }

    /// Nobody is logged in.
    pub(crate) fn not_logged_in() -> Self {
        Refusal::new(Reason::NotAuthenticated, "log in first").into()
    }

    /// The same, about this path.
    pub(crate) fn about(self, path: &SectorPath) -> Self {
        Self { path: Some(path.to_string()), ..self }
    }

    /// The same, about this field of the request.
    pub(crate) fn in_field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// Whether the user must log in (again).
    pub(crate) fn is_about_login(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// As events carry it.
    pub(crate) fn view(&self) -> serde_json::Value {
        let mut view = json!({"reason": self.reason, "message": self.message, "path": self.path});
        if let Some(field) = self.field {
            view["field"] = field.into();
        }
        view
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { reason, message } = refusal;
        Self {
            status: status_of(reason),
            reason: reason.as_str(),
            message,
            path: None,
            field: None,
            retry_after_seconds: match reason {
                Reason::LeaseHeld { seconds } | Reason::TooManyRequests { seconds } | Reason::LockedOut { seconds } => {
                    Some(seconds)
                }
                _ => None,
            },
        }
    }
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        let path = match error.cause() {
            ClientError::NoCopy { path, .. } | ClientError::Corrupt { path } | ClientError::IsFolder { path } => {
                Some(path.to_string())
            }
            _ => None,
        };
        Self { path, ..Refusal::new(error.reason(), error.to_string()).into() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"error": self.view()}))).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// One `match` without a wildcard, so that a new reason visits it.
fn status_of(reason: Reason) -> StatusCode {
    match reason {
        Reason::Failed | Reason::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
        Reason::Invalid => StatusCode::BAD_REQUEST,
        Reason::NotFound => StatusCode::NOT_FOUND,
        Reason::NoRight | Reason::NotPermitted => StatusCode::FORBIDDEN,
        Reason::NotAuthenticated => StatusCode::UNAUTHORIZED,
        Reason::Unavailable | Reason::Rebuilding | Reason::NoCopy | Reason::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Reason::Exists
        | Reason::IsFolder
        | Reason::NotFolder
        | Reason::NotEmpty
        | Reason::LeaseHeld { .. }
        | Reason::LeaseEnded
        | Reason::InUse
        | Reason::JobEnded => StatusCode::CONFLICT,
        Reason::VersionChanged { .. } => StatusCode::PRECONDITION_FAILED,
        Reason::QuotaExceeded | Reason::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Reason::LimitReached | Reason::TooManyRequests { .. } | Reason::LockedOut { .. } => {
            StatusCode::TOO_MANY_REQUESTS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttled_request_says_when_to_try_again() {
        let error = ApiError::from(Refusal::throttled("too much", 7));
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    }

    #[test]
    fn a_person_who_must_log_in_is_told_apart_from_one_who_may_not() {
        assert_eq!(status_of(Reason::NotAuthenticated), StatusCode::UNAUTHORIZED);
        assert_eq!(status_of(Reason::NoRight), StatusCode::FORBIDDEN);
    }
}
