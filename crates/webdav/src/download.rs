//! The bytes of a file: the whole, a part, or several parts in one answer, as readers of a few columns ask for. A download
//! is of the version that was there when it began, and every byte was verified. It never shows a file as a page of ours.

use std::ops::Range;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use client::{Client, ClientError, FileReader, SectorPath};
use futures_util::{StreamExt, stream};
use gateway::AskedRanges;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{
    digests::{self, Sums, content_of},
    failure::DavFailure,
};

/// Answers `GET` and `HEAD` of a file. With `may_keep` a sum that is computed is kept with it.
pub(crate) async fn download(
    client: &Client,
    may_keep: bool,
    path: &SectorPath,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, DavFailure> {
    let file = client.open(path).await?;
    let content =
        content_of(file.entry()).ok_or_else(|| DavFailure::from(ClientError::IsFolder { path: path.clone() }))?;
    let tag = format!("\"{}\"", digests::tag_of(content));
    let modified = httpdate(file.entry().modified_unix_millis);
    let mut answer = Response::new(Body::empty());
    describe(&mut answer, path, &tag, &modified);
    if let Some(status) = unmet_condition(headers, &tag, file.entry().modified_unix_millis) {
        *answer.status_mut() = status;
        return Ok(answer);
    }
    let mut sums = Sums::new();
    if let Some(kind) = digests::wanted(headers).into_iter().next() {
        sums.insert(kind, digests::of_file(client, &file, kind, may_keep).await?);
        set(&mut answer, HeaderName::from_static("digest"), &digests::digest_header(&sums));
        if let Some(sums) = digests::repr_digest_header(&sums) {
            set(&mut answer, HeaderName::from_static("repr-digest"), &sums);
        }
    }
    // A part of another version is no part of what the client has.
    let is_current = headers
        .get(header::IF_RANGE)
        .is_none_or(|known| [&tag, &modified].iter().any(|now| known.as_bytes() == now.as_bytes()));
    let asked = headers.get(header::RANGE).filter(|_| is_current).and_then(|range| range.to_str().ok());
    let total = file.bytes();
    let parts = match asked.map(|asked| AskedRanges::parse(asked, total)) {
        None | Some(AskedRanges::Ignored) => Vec::new(),
        Some(AskedRanges::Parts(parts)) => parts,
        Some(AskedRanges::Outside) => {
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            set(&mut answer, header::CONTENT_RANGE, &format!("bytes */{total}"));
            return Ok(answer);
        }
    };
    let (length, body) = match &parts[..] {
        [] => (total, stream_of(&file, 0..total)),
        [part] => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(&mut answer, header::CONTENT_RANGE, &content_range(part, total));
            (part.end - part.start, stream_of(&file, part.clone()))
        }
        parts => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            let kind =
                answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let (length, body) = several(&file, parts, kind);
            set(&mut answer, header::CONTENT_TYPE, &format!("multipart/byteranges; boundary={BOUNDARY}"));
            (length, body)
        }
    };
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if method != Method::HEAD {
        *answer.body_mut() = body;
    }
    Ok(answer)
}

/// Several parts in one answer (RFC 9110, 14.6), and its length.
fn several(file: &FileReader, parts: &[Range<u64>], kind: &str) -> (u64, Body) {
    let total = file.bytes();
    let heads = parts.iter().map(|part| {
        format!("\r\n--{BOUNDARY}\r\nContent-Type: {kind}\r\nContent-Range: {}\r\n\r\n", content_range(part, total))
    });
    let heads: Vec<_> = heads.collect();
    let end = format!("\r\n--{BOUNDARY}--\r\n");
    let length = heads.iter().map(String::len).sum::<usize>() + end.len();
    let length = length as u64 + parts.iter().map(|part| part.end - part.start).sum::<u64>();
    let (file, parts) = (file.clone(), parts.to_vec());
    let pieces = stream::iter(heads.into_iter().zip(parts)).flat_map(move |(head, part)| {
        let mut pieces = file.stream(part);
        let bytes = stream::poll_fn(move |context| pieces.poll_next(context).map_ok(Bytes::from));
        stream::iter([Ok(Bytes::from(head))]).chain(bytes)
    });
    (length, Body::from_stream(pieces.chain(stream::iter([Ok(Bytes::from(end))]))))
}

fn stream_of(file: &FileReader, range: Range<u64>) -> Body {
    let mut pieces = file.stream(range);
    Body::from_stream(stream::poll_fn(move |context| pieces.poll_next(context)))
}

fn content_range(part: &Range<u64>, total: u64) -> String {
    format!("bytes {}-{}/{total}", part.start, part.end - 1)
}

/// What does not hold of what the request says (RFC 9110, 13.2.2).
fn unmet_condition(headers: &HeaderMap, tag: &str, modified_unix_millis: u64) -> Option<StatusCode> {
    let names = |name: HeaderName| {
        headers.get(name).and_then(|list| list.to_str().ok()).map(|list| {
            list.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
        })
    };
    let date = |name: HeaderName| headers.get(name).and_then(|date| unix_seconds(date.to_str().ok()?));
    let changed = modified_unix_millis / 1_000;
    match (names(header::IF_MATCH), date(header::IF_UNMODIFIED_SINCE)) {
        (Some(false), _) => return Some(StatusCode::PRECONDITION_FAILED),
        (None, Some(date)) if changed > date => return Some(StatusCode::PRECONDITION_FAILED),
        _ => {}
    }
    match (names(header::IF_NONE_MATCH), date(header::IF_MODIFIED_SINCE)) {
        (Some(true), _) => Some(StatusCode::NOT_MODIFIED),
        (None, Some(date)) if changed <= date => Some(StatusCode::NOT_MODIFIED),
        _ => None,
    }
}

fn describe(answer: &mut Response, path: &SectorPath, tag: &str, modified: &str) {
    let kind = mime_guess::from_path(path.as_str()).first_or_octet_stream();
    set(answer, header::CONTENT_TYPE, kind.essence_str());
    set(answer, header::ETAG, tag);
    set(answer, header::LAST_MODIFIED, modified);
    let headers = answer.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    // A server between may keep it, and must ask whether it is still that one.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
}

/// A date as headers have it.
pub(crate) fn httpdate(unix_millis: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(unix_millis);
    httpdate::fmt_http_date(time)
}

fn unix_seconds(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Sets a header of which every character may stand in one.
fn set(answer: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// Between parts. A part's length is said before it, so that its bytes may hold this too.
const BOUNDARY: &str = "SECTOR_BYTERANGES";
/// A file is nobody's page: no script of it runs, and it has no origin.
pub(crate) const SANDBOX: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn conditions_hold_as_the_standard_says() {
        let unmet = |name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
            unmet_condition(&headers, "\"a\"", 1_000_500)
        };
        assert_eq!(unmet("if-none-match", "\"b\", W/\"a\""), Some(StatusCode::NOT_MODIFIED));
        assert_eq!(unmet("if-none-match", "\"b\""), None);
        assert_eq!(unmet("if-match", "\"b\""), Some(StatusCode::PRECONDITION_FAILED));
        assert_eq!(unmet("if-match", "*"), None);
        assert_eq!(unmet("if-modified-since", &httpdate(1_000_000)), Some(StatusCode::NOT_MODIFIED));
        assert_eq!(unmet("if-modified-since", &httpdate(999_000)), None);
        assert_eq!(unmet("if-unmodified-since", &httpdate(999_000)), Some(StatusCode::PRECONDITION_FAILED));
        assert_eq!(unmet("if-modified-since", "yesterday"), None);
    }
}
