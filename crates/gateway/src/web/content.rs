//! The bytes of a file: downloads with ranges, and whole uploads in one request. A download is of the version that was
//! there when it began, and every byte was verified. A file is never shown by the browser as a page of ours: it is
//! always something to save.

use std::ops::Range;

use axum::{
    body::Body,
    extract::{Path, Request},
    response::{IntoResponse, Response},
};
use client::{Condition, EntryKind, FileReader, PutOptions, Reason, Refusal, SectorPath, views::EntryView};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    answer::{Answer, ApiError, document},
    ask::cloud_path,
    caller::Caller,
};
use crate::byte_ranges::AskedRanges;

/// `GET` and `HEAD`.
pub(crate) async fn download(caller: Caller, Path(path): Path<String>, method: Method, headers: HeaderMap) -> Answer {
    let path = cloud_path(&format!("/{path}"))?;
    let file = caller.client.open(&path).await.map_err(|error| ApiError::from(error).about(&path))?;
    let EntryKind::File(content) = &file.entry().kind else {
        return Err(client::ClientError::IsFolder { path }.into());
    };
    let etag = format!("\"{}\"", content.digest);
    if matches(&headers, header::IF_NONE_MATCH, &etag) {
        return Ok(with_file_headers(StatusCode::NOT_MODIFIED.into_response(), &path, &etag));
    }
    // A part of another version is no part of what the client has.
    let is_current = headers.get(header::IF_RANGE).is_none_or(|known| known.as_bytes() == etag.as_bytes());
    let asked = headers.get(header::RANGE).filter(|_| is_current).and_then(|range| range.to_str().ok());
    let all = 0..file.bytes();
    let (status, range) = match asked.map(|asked| AskedRanges::parse(asked, file.bytes())) {
        Some(AskedRanges::Parts(parts)) if parts.len() == 1 => (StatusCode::PARTIAL_CONTENT, parts[0].clone()),
        None | Some(AskedRanges::Ignored | AskedRanges::Parts(_)) => (StatusCode::OK, all),
        Some(AskedRanges::Outside) => {
            let error = Refusal::new(Reason::Invalid, format!("`{path}` has {} bytes", file.bytes()));
            let mut response = ApiError::from(error).about(&path).into_response();
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            set(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{}", file.bytes()));
            return Ok(response);
        }
    };
    let (length, total) = (range.end - range.start, file.bytes());
    let part =
        (status == StatusCode::PARTIAL_CONTENT).then(|| format!("bytes {}-{}/{total}", range.start, range.end - 1));
    let body = if method == Method::HEAD { Body::empty() } else { stream_of(&file, range) };
    let mut response = with_file_headers((status, body).into_response(), &path, &etag);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(part) = part {
        set(headers, header::CONTENT_RANGE, &part);
    }
    Ok(response)
}

/// `PUT`: the whole file in one request. `If-None-Match: *` replaces nothing.
pub(crate) async fn upload(caller: Caller, Path(path): Path<String>, request: Request) -> Answer {
    caller.session()?;
    let path = cloud_path(&format!("/{path}"))?;
    let is_new = request.headers().get(header::IF_NONE_MATCH).is_some_and(|value| value == "*");
    let condition = if is_new { Condition::Absent } else { Condition::default() };
    let about = |error: client::ClientError| ApiError::from(error).about(&path);
    let mut file = caller
        .client
        .open_writer(&path, PutOptions { condition, ..PutOptions::default() }, false)
        .await
        .map_err(about)?;
    let mut body = request.into_body().into_data_stream();
    while let Some(piece) = body.next().await {
        match piece {
            Ok(piece) => file.write(piece).await.map_err(about)?,
            Err(error) => {
                file.discard().await;
                return Err(ApiError::invalid(format!("the upload of `{path}` broke off: {error}")));
            }
        }
    }
    let entry = file.finish().await.map_err(about)?;
    document(&EntryView::from(&entry))
}

/// The bytes in order.
fn stream_of(file: &FileReader, range: Range<u64>) -> Body {
    let mut pieces = file.stream(range);
    Body::from_stream(stream::poll_fn(move |context| pieces.poll_next(context)))
}

fn with_file_headers(mut response: Response, path: &SectorPath, etag: &str) -> Response {
    let headers = response.headers_mut();
    let name = utf8_percent_encode(path.name().unwrap_or_default(), NAME_ESCAPES);
    set(headers, header::CONTENT_DISPOSITION, &format!("attachment; filename*=UTF-8''{name}"));
    set(headers, header::ETAG, etag);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    response
}

fn matches(headers: &HeaderMap, name: header::HeaderName, etag: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| matches!(value.trim(), "*") || value.trim() == etag)
}

/// Sets a header of which every character may stand in one.
fn set(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// All but what RFC 8187 lets stand.
const NAME_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');
