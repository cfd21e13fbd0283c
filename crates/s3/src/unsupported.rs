//! What clients ask for and would not get. One place looks at each request, so that it is refused and never half done.

use http::{HeaderMap, HeaderName};
use s3s::{S3Result, s3_error};

/// Refuses a request whose headers ask for encryption of the client's own, locks, rights of others, or another owner.
pub(crate) fn refuse_ignored(headers: &HeaderMap) -> S3Result<()> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_ignored = |name: &&str| match *name {
        "x-amz-acl" => !matches!(value(name), "private" | "bucket-owner-full-control"),
        "x-amz-bucket-object-lock-enabled" => !value(name).eq_ignore_ascii_case("false"),
        name => IGNORED.iter().any(|start| name.starts_with(start)),
    };
    match headers.keys().map(HeaderName::as_str).find(is_ignored) {
        Some(asked) => Err(s3_error!(NotImplemented, "`{asked}` is not supported")),
        None => Ok(()),
    }
}

/// Refuses a version: an object is what it is now.
pub(crate) fn refuse_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "versions of objects are `sector versions`")),
    }
}

/// Refuses a part of an object that is complete, but for the first, which is all of it.
pub(crate) fn refuse_part(number: Option<i32>) -> S3Result<()> {
    match number {
        None | Some(1) => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "an object is one part once it is complete")),
    }
}

/// What such headers begin with.
const IGNORED: [&str; 9] = [
    "expires",
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-object-lock",
    "x-amz-grant",
    "x-amz-write-offset-bytes",
    "x-amz-website-redirect-location",
    "x-amz-expected-bucket-owner",
    "x-amz-source-expected-bucket-owner",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_would_be_ignored_is_refused() {
        let refused = |name: &'static str, value: &str| {
            let headers = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            refuse_ignored(&headers).is_err()
        };
        assert!(refused("x-amz-server-side-encryption-customer-key", "k") && refused("x-amz-grant-read", "id=x"));
        assert!(refused("x-amz-acl", "public-read") && !refused("x-amz-acl", "private"));
        assert!(refused("x-amz-bucket-object-lock-enabled", "true") && refused("expires", "0"));
        assert!(!refused("x-amz-bucket-object-lock-enabled", "False"));
        assert!(!refused("x-amz-meta-lock", "x") && !refused("x-amz-storage-class", "STANDARD"));
        assert!(refuse_version(Some("1")).is_err() && refuse_version(Some("null")).is_ok());
        assert!(refuse_part(Some(2)).is_err() && refuse_part(Some(1)).is_ok());
    }
}
