//! Answers go out compressed to browsers that can read it: JSON above a kilobyte, and the live stream, flushed after
//! each event. The length of a compressed answer tells what it holds, to one who may put text beside it again and again
//! (BREACH). So it never compresses an answer with a secret, nor the bytes of a file.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer,
        predicate::{And, Predicate, SizeAbove},
    },
};

/// The layer that compresses.
pub(crate) fn layer() -> CompressionLayer<And<SizeAbove, Judge>> {
    CompressionLayer::new().quality(LEVEL).compress_when(SizeAbove::new(SHORT_MAX).and(may_compress as Judge))
}

/// Marks answers to requests that only read. All secrets are in answers to others.
pub(crate) async fn mark(request: Request, next: Next) -> Response {
    let only_reads = request.method() == Method::GET;
    let mut response = next.run(request).await;
    if only_reads && !response.headers().contains_key(header::SET_COOKIE) {
        response.extensions_mut().insert(WithoutSecret);
    }
    response
}

fn may_compress(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    extensions.get::<WithoutSecret>().is_some() && COMPRESSED.iter().any(|known| kind.starts_with(known))
}

/// Judges an answer by its head.
type Judge = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

/// Of an answer that may be compressed.
#[derive(Clone, Copy)]
struct WithoutSecret;

/// In bytes; compressing less would save no packet.
const SHORT_MAX: u64 = 1_024;
/// Of gzip: a processor of the gateway is worth more than the last tenth.
const LEVEL: CompressionLevel = CompressionLevel::Precise(4);
/// The kinds of content of which more than half is saved. Files are `application/octet-stream`; those of the page are
/// compressed when it is built.
const COMPRESSED: [&[u8]; 3] = [b"application/json", b"text/event-stream", b"text/plain"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{convert::Infallible, io::Write};

    use axum::{
        Router,
        body::Body,
        middleware::from_fn,
        response::sse::{Event, Sse},
        routing::get,
    };
    use flate2::write::GzDecoder;
    use futures_util::{StreamExt, stream};
    use tower_service::Service;

    use super::*;

    fn long() -> axum::Json<Vec<&'static str>> {
        axum::Json(vec!["the same again"; 1_000])
    }

    async fn said(method: Method, path: &str) -> Response {
        let events = || async {
            // One event, and then silence.
            let one = stream::iter([Ok::<_, Infallible>(Event::default().event("overview").data("first"))]);
            Sse::new(one.chain(stream::pending()))
        };
        let with_cookie = || async { ([(header::SET_COOKIE, "a=b")], long()) };
        let file = || async { ([(header::CONTENT_TYPE, "application/octet-stream")], "x".repeat(9_000)) };
        let mut router = Router::new()
            .route("/json", get(|| async { long() }).post(|| async { long() }))
            .route("/short", get(|| async { axum::Json("short") }))
            .route("/login", get(with_cookie))
            .route("/file", get(file))
            .route("/live", get(events))
            .layer(from_fn(mark))
            .layer(layer());
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT_ENCODING, "gzip, br, zstd");
        router.call(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    fn is_compressed(response: &Response) -> bool {
        response.headers().get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip")
    }

    #[tokio::test]
    async fn json_is_compressed_and_neither_files_nor_answers_with_secrets_are() {
        assert!(is_compressed(&said(Method::GET, "/json").await));
        for path in ["/short", "/login", "/file"] {
            assert!(!is_compressed(&said(Method::GET, path).await), "{path}");
        }
        assert!(!is_compressed(&said(Method::POST, "/json").await), "an answer to a change may hold a secret");
    }

    #[tokio::test]
    async fn an_event_is_sent_at_once_although_its_stream_goes_on() {
        let response = said(Method::GET, "/live").await;
        assert!(is_compressed(&response));
        let mut body = response.into_body().into_data_stream();
        let mut decoder = GzDecoder::new(Vec::new());
        // Were the event kept back, there would be no further piece, ever.
        while !decoder.get_ref().ends_with(b"\n\n") {
            decoder.write_all(&body.next().await.unwrap().unwrap()).unwrap();
            decoder.flush().unwrap();
        }
        assert_eq!(decoder.get_ref(), b"event: overview\ndata: first\n\n");
    }
}
