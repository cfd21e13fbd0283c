//! The room that a gateway sends requests to which are signed as those of S3. It stands on the gateway's port, beside the
//! page. It never sees a request that is not.

use std::{
    convert::Infallible,
    sync::Arc,
    task::Poll,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::body::Body;
use client::{Cloud, Profile};
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use s3s::{
    config::{S3Config, StaticConfigProvider},
    host::SingleDomain,
    service::{S3Service, S3ServiceBuilder},
    validation::NameValidation,
};
use tower_service::Service;

use crate::{key_ring::KeyRing, objects::path::is_bucket_name, operations::Operations};

/// Answers requests of S3. Clones are the same.
#[derive(Clone)]
pub struct S3Room {
    service: S3Service,
    domain: Option<Arc<str>>,
}

impl S3Room {
    /// Over a cloud in which `profile` may learn whose access keys are. With a domain, `BUCKET.DOMAIN` is a bucket's host.
    ///
    /// # Errors
    /// If the domain is none.
    pub fn new(cloud: Cloud, profile: Profile, domain: Option<&str>) -> Result<Self, String> {
        let keys = KeyRing::new(cloud, profile);
        let mut builder = S3ServiceBuilder::new(Operations::new(keys.clone()));
        // Without it nobody would be asked who he is.
        builder.set_auth(keys);
        builder.set_validation(BucketNames);
        let mut config = S3Config::default();
        config.xml_max_body_size = XML_BYTES_MAX;
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        if let Some(domain) = domain {
            builder.set_host(SingleDomain::new(domain).map_err(|error| format!("`{domain}` is no domain: {error}"))?);
        }
        Ok(Self { service: builder.build(), domain: domain.map(Into::into) })
    }

    /// Whether a request is for this room: it is signed as S3 signs, or comes to a host of the domain.
    pub fn takes<B>(&self, request: &Request<B>) -> bool {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| request.uri().host()).unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let is_of_domain = self.domain.as_deref().is_some_and(|domain| {
            host == domain || host.strip_suffix(domain).is_some_and(|bucket| bucket.ends_with('.'))
        });
        is_of_domain || is_for_s3(request.uri(), request.headers())
    }
}

impl Service<Request<Body>> for S3Room {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut service = self.service.clone();
        Box::pin(async move {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            if let Some(why) = unsupported_signature(request.uri(), request.headers(), now) {
                return Ok(plain(StatusCode::BAD_REQUEST, why));
            }
            match Service::call(&mut service, request).await {
                Ok(answer) => {
                    if answer.status().is_server_error() {
                        tracing::info!(status = %answer.status(), "a request of S3 failed");
                    }
                    Ok(answer.map(Body::new))
                }
                Err(error) => {
                    tracing::warn!(?error, "a request of S3 could not be answered");
                    Ok(plain(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be answered"))
                }
            }
        })
    }
}

/// Whether a request is signed as S3 signs, in its headers or its query.
fn is_for_s3(uri: &Uri, headers: &HeaderMap) -> bool {
    let is_signed = headers.get(header::AUTHORIZATION).is_some_and(|given| given.as_bytes().starts_with(b"AWS"));
    let query = uri.query().unwrap_or_default();
    let is_presigned = query.split('&').any(|pair| pair.starts_with("X-Amz-") || pair.starts_with("AWSAccessKeyId="));
    is_signed || is_presigned || headers.keys().any(|name| name.as_str().starts_with("x-amz-"))
}

/// Signatures that are not taken: those of version 2 in headers, and addresses that live for longer than a week. Addresses
/// of version 2 are taken, since boto3 and the AWS command line sign them so unless they are told otherwise.
fn unsupported_signature(uri: &Uri, headers: &HeaderMap, unix_seconds: u64) -> Option<&'static str> {
    if headers.get(header::AUTHORIZATION).is_some_and(|given| given.as_bytes().starts_with(b"AWS ")) {
        return Some("signatures of version 2 are not taken: sign with AWS4-HMAC-SHA256");
    }
    let pairs = || uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let is_old = pairs().any(|(name, _)| name == "AWSAccessKeyId");
    let is_long = pairs().any(|(name, value)| match name {
        "X-Amz-Expires" => value.parse::<u64>().is_ok_and(|life| life > PRESIGNED_SECONDS_MAX),
        // The day at which it ends.
        "Expires" if is_old => {
            value.parse::<u64>().is_ok_and(|ends| ends.saturating_sub(unix_seconds) > PRESIGNED_SECONDS_MAX)
        }
        _ => false,
    });
    is_long.then_some("an address may be signed for a week at most")
}

fn plain(status: StatusCode, why: &'static str) -> Response<Body> {
    let code = if status == StatusCode::BAD_REQUEST { "InvalidRequest" } else { "InternalError" };
    let xml =
        format!(r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{why}</Message></Error>"#);
    let mut answer = Response::new(Body::from(xml));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/xml"));
    answer
}

/// Buckets may have any name that a folder has, which is more than Amazon allows.
struct BucketNames;

impl NameValidation for BucketNames {
    fn validate_bucket_name(&self, name: &str) -> bool {
        is_bucket_name(name)
    }
}

/// Of a request with XML: a thousand keys of a kilobyte, with room.
const XML_BYTES_MAX: usize = 4 << 20;
/// How long a signed address may live.
const PRESIGNED_SECONDS_MAX: u64 = 7 * 86_400;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request(address: &str, header: Option<(&'static str, &str)>) -> Request<()> {
        let builder = Request::builder().uri(address);
        let builder = if let Some((name, value)) = header { builder.header(name, value) } else { builder };
        builder.body(()).unwrap()
    }

    #[test]
    fn requests_are_told_apart_by_their_signature() {
        let takes = |address: &str, header| {
            let request = request(address, header);
            is_for_s3(request.uri(), request.headers())
        };
        assert!(takes("/b/k", Some(("authorization", "AWS4-HMAC-SHA256 Credential=…"))));
        assert!(takes("/b/k", Some(("x-amz-date", "20261127T000000Z"))));
        assert!(takes("/b/k?X-Amz-Signature=00", None));
        assert!(takes("/b/k?AWSAccessKeyId=SK", None));
        for (address, header) in
            [("/", None), ("/api/v1/me", Some(("authorization", "Basic eDp5"))), ("/files?path=/X-Amz-", None)]
        {
            assert!(!takes(address, header), "{address}");
        }
    }

    #[test]
    fn old_signatures_and_addresses_for_ever_are_refused() {
        let refused = |address: &str, header| {
            let request = request(address, header);
            unsupported_signature(request.uri(), request.headers(), 1_000_000).is_some()
        };
        assert!(refused("/b", Some(("authorization", "AWS SK:sig"))));
        assert!(!refused("/b?AWSAccessKeyId=SK&Expires=1604800", None));
        assert!(refused("/b?AWSAccessKeyId=SK&Expires=1604801", None));
        assert!(refused("/b?X-Amz-Expires=604801", None));
        assert!(!refused("/b?X-Amz-Expires=604800", Some(("authorization", "AWS4-HMAC-SHA256 …"))));
    }
}
