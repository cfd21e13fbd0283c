//! From what is made, or from what went wrong, to an answer. It never knows a service.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use client::{ClientError, Reason, Refusal};
use http::{HeaderValue, StatusCode, header};
use vo::Fault;

/// A fault as DALI answers it: text.
pub fn fault(fault: &Fault) -> Response {
    let kind = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
    let mut response = (fault.status(), [kind], fault.to_string()).into_response();
    if fault.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"sector\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Bytes of a type.
pub fn typed(media_type: &'static str, bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], Body::from(bytes)).into_response()
}

/// What the cloud refused.
pub fn of_refusal(Refusal { reason, message }: Refusal) -> Fault {
    of_reason(reason, message)
}

/// What went wrong in the cloud.
pub fn of_client(error: &ClientError) -> Fault {
    of_reason(error.reason(), error.to_string())
}

/// What went wrong for a reason, with a message for people.
pub fn of_reason(reason: Reason, message: String) -> Fault {
    match reason {
        Reason::NotAuthenticated => Fault::NotAuthenticated(message),
        Reason::NoRight | Reason::NotPermitted => Fault::NotAuthorized(message),
        Reason::NotFound => Fault::NotFound(message),
        Reason::Invalid | Reason::IsFolder | Reason::NotFolder => Fault::Usage(message),
        Reason::Unavailable
        | Reason::Rebuilding
        | Reason::NoCopy
        | Reason::Busy
        | Reason::LimitReached
        | Reason::TooManyRequests { .. }
        | Reason::LockedOut { .. } => Fault::Unavailable(message),
        Reason::Failed
        | Reason::Corrupt
        | Reason::Exists
        | Reason::NotEmpty
        | Reason::LeaseHeld { .. }
        | Reason::LeaseEnded
        | Reason::InUse
        | Reason::JobEnded
        | Reason::VersionChanged { .. }
        | Reason::QuotaExceeded
        | Reason::NoSpace => Fault::Failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_login_is_asked_for_one() {
        let asked_for = |reason| {
            let response = fault(&of_reason(reason, "why".into()));
            (response.status(), response.headers().contains_key(header::WWW_AUTHENTICATE))
        };
        assert_eq!(asked_for(Reason::NotAuthenticated), (StatusCode::UNAUTHORIZED, true));
        assert_eq!(asked_for(Reason::NoRight), (StatusCode::FORBIDDEN, false));
        assert_eq!(asked_for(Reason::Busy), (StatusCode::SERVICE_UNAVAILABLE, false));
    }
}
