//! What went wrong, in the words of S3. One `match` without a wildcard, so that a new reason visits it. It never hides the
//! cloud's own sentence.

use client::{ClientError, Reason};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use s3s::{S3Error, S3ErrorCode};

/// An error of the cloud.
pub(crate) fn of_client(error: &ClientError) -> S3Error {
    let reason = error.reason();
    let mut said = S3Error::with_message(code_of(reason), error.to_string());
    if let Some(status) = status_of(reason) {
        said.set_status_code(status);
    }
    let retry_after = match reason {
        Reason::TooManyRequests { seconds } | Reason::LockedOut { seconds } => Some(seconds),
        _ => None,
    };
    if let Some(seconds) = retry_after {
        said.set_headers(HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from(seconds))]));
    }
    said
}

/// The same of a write.
pub(crate) fn of_write(error: &ClientError) -> S3Error {
    let mut said = of_client(error);
    if error.reason() == Reason::IsFolder {
        said.set_code(S3ErrorCode::Custom("KeyIsFolder".into()));
        said.set_status_code(StatusCode::CONFLICT);
    }
    said
}

/// The same of a bucket.
pub(crate) fn of_bucket(error: &ClientError) -> S3Error {
    let mut said = of_client(error);
    if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) {
        said.set_code(S3ErrorCode::NoSuchBucket);
    }
    said
}

fn code_of(reason: Reason) -> S3ErrorCode {
    match reason {
        Reason::Failed | Reason::Corrupt | Reason::JobEnded => S3ErrorCode::InternalError,
        Reason::Invalid => S3ErrorCode::InvalidArgument,
        // A folder is no object, and below a file there is none.
        Reason::NotFound | Reason::IsFolder => S3ErrorCode::NoSuchKey,
        Reason::NotFolder => S3ErrorCode::Custom("ParentIsObject".into()),
        Reason::NoRight | Reason::NotPermitted | Reason::NotAuthenticated => S3ErrorCode::AccessDenied,
        Reason::Unavailable | Reason::Rebuilding | Reason::NoCopy => S3ErrorCode::ServiceUnavailable,
        Reason::Busy | Reason::TooManyRequests { .. } | Reason::LockedOut { .. } | Reason::LimitReached => {
            S3ErrorCode::SlowDown
        }
        Reason::Exists | Reason::VersionChanged { .. } => S3ErrorCode::PreconditionFailed,
        Reason::NotEmpty => S3ErrorCode::BucketNotEmpty,
        Reason::LeaseHeld { .. } | Reason::LeaseEnded | Reason::InUse => S3ErrorCode::OperationAborted,
        Reason::QuotaExceeded => S3ErrorCode::Custom("QuotaExceeded".into()),
        Reason::NoSpace => S3ErrorCode::Custom("InsufficientStorage".into()),
    }
}

/// The status of codes that Amazon does not have.
fn status_of(reason: Reason) -> Option<StatusCode> {
    match reason {
        Reason::NotFolder => Some(StatusCode::CONFLICT),
        Reason::QuotaExceeded => Some(StatusCode::FORBIDDEN),
        Reason::NoSpace => Some(StatusCode::INSUFFICIENT_STORAGE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use client::Refusal;

    use super::*;

    #[test]
    fn reasons_have_codes_that_clients_know_and_say_when_to_come_back() {
        let said = |reason| of_client(&Refusal::new(reason, "why").into());
        assert_eq!(*said(Reason::NoRight).code(), S3ErrorCode::AccessDenied);
        assert_eq!(*of_bucket(&Refusal::new(Reason::NotFound, "no").into()).code(), S3ErrorCode::NoSuchBucket);
        let slow = said(Reason::TooManyRequests { seconds: 7 });
        assert_eq!(slow.headers().unwrap()[header::RETRY_AFTER], "7");
        assert_eq!(said(Reason::NoSpace).status_code(), Some(StatusCode::INSUFFICIENT_STORAGE));
    }
}
