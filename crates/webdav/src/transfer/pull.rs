//! A file that comes from elsewhere: from a cloud of ours by its own transport, else by HTTP over several connections at
//! once. It appears when it is whole and has the sum that the other side says. It never appears in part.

use std::ops::Range;

use axum::body::Body;
use bytes::Bytes;
use client::{Client, PutOptions, SectorPath};
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{
    agent::{Answer, Elsewhere},
    cloud,
    order::Order,
    progress::Moved,
};
use crate::{
    digests::{Announced, WANTED},
    upload::Incoming,
};

/// What the other side says of a file.
pub(super) struct Source {
    /// Where it really is.
    pub(super) url: Url,
    pub(super) bytes: Option<u64>,
    pub(super) announced: Announced,
    /// Whether it gives parts of a version that is sure to stay the same.
    tag: Option<HeaderValue>,
    /// Where a cloud of ours says how it is reached.
    pub(super) notice: Option<String>,
}

/// Fetches a file.
pub(super) async fn pull(
    elsewhere: Elsewhere,
    order: Order,
    client: Client,
    path: SectorPath,
    moved: Moved,
) -> Result<(), String> {
    let source = look(&elsewhere, &order).await?;
    if order.needs_sum && source.announced.kinds().next().is_none() {
        return Err(format!("`{}` says no sum to compare", order.url));
    }
    let condition = order.condition(&client, &path).await.map_err(|error| error.to_string())?;
    let options = PutOptions { condition, parents: true, bytes_expected: source.bytes, ..PutOptions::default() };
    if let Some(there) = cloud::of(&elsewhere, &order, &source).await {
        return there.copy_to(&client, &path, &options, &moved).await;
    }
    let announced = source.announced.clone();
    let incoming = Incoming::begin(&client, &path, options, announced).await;
    let incoming = incoming.map_err(|error| error.to_string())?;
    let expected = source.bytes;
    match fetch(&elsewhere, &order, &source, incoming, &moved).await {
        Ok(incoming) => incoming.finish(expected).await.map(drop).map_err(|error| error.to_string()),
        Err((incoming, why)) => {
            incoming.discard().await;
            Err(why)
        }
    }
}

/// Asks what there is.
async fn look(elsewhere: &Elsewhere, order: &Order) -> Result<Source, String> {
    let (url, mut headers) = (&order.url, order.headers.clone());
    headers.insert("want-digest", HeaderValue::from_static(WANTED));
    let answer = match elsewhere.ask(&Method::HEAD, url, &headers, Body::empty).await {
        // One that has to sum the file up may take longer than anybody waits.
        Err(why) if !order.needs_sum => {
            tracing::info!(why, "a source is asked again, without a sum");
            elsewhere.ask(&Method::HEAD, url, &order.headers, Body::empty).await?
        }
        asked => asked?,
    };
    let gives_parts = answer.header(header::ACCEPT_RANGES) == Some("bytes");
    let tag = answer.head.headers.get(header::ETAG);
    let source = Source {
        bytes: answer.header(header::CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok()),
        announced: Announced::of(&answer.head.headers)?,
        tag: tag.filter(|tag| gives_parts && tag.as_bytes().starts_with(b"\"")).cloned(),
        notice: answer.header(cloud::NOTICE_HEADER).map(str::to_owned),
        url: answer.url.clone(),
    };
    match answer.head.status {
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            Ok(Source { url: url.clone(), bytes: None, announced: Announced::default(), tag: None, notice: None })
        }
        status if !status.is_success() => Err(format!("`{url}` answers with status {}", status.as_u16())),
        _ => {
            answer.done().await;
            Ok(source)
        }
    }
}

/// Fetches the bytes, in parts at once where that is possible. Gives the upload back in any case.
async fn fetch(
    elsewhere: &Elsewhere,
    order: &Order,
    source: &Source,
    mut incoming: Incoming,
    moved: &Moved,
) -> Result<Incoming, (Incoming, String)> {
    let mut pieces = match (source.bytes, &source.tag) {
        (Some(bytes), Some(tag)) if bytes > PIECE_BYTES && order.streams > 1 => {
            let starts = (0..bytes).step_by(PIECE_BYTES as usize);
            let parts = stream::iter(starts).map(move |from| async move {
                // It is held until the part was written: those before it have theirs already.
                let place = elsewhere.part().await;
                fetch_part(elsewhere, order, tag, from..(from + PIECE_BYTES).min(bytes)).await.map(|part| (part, place))
            });
            parts.buffered(order.streams).boxed()
        }
        _ => {
            let answer = match begin_whole(elsewhere, order, source).await {
                Ok(answer) => answer,
                Err(why) => return Err((incoming, why)),
            };
            incoming.expect(match Announced::of(&answer.head.headers) {
                Ok(announced) => announced,
                Err(why) => return Err((incoming, why)),
            });
            bytes_of(answer).map(|piece| piece.map(|piece| (piece, None))).boxed()
        }
    };
    while let Some(piece) = pieces.next().await {
        let (piece, _place) = match piece {
            Ok(piece) => piece,
            Err(why) => return Err((incoming, why)),
        };
        moved.add(piece.len() as u64);
        if let Err(error) = incoming.write(piece).await {
            return Err((incoming, error.to_string()));
        }
    }
    Ok(incoming)
}

/// One part, once more if its connection breaks.
async fn fetch_part(
    elsewhere: &Elsewhere,
    order: &Order,
    tag: &HeaderValue,
    part: Range<u64>,
) -> Result<Bytes, String> {
    match fetch_part_once(elsewhere, order, tag, &part).await {
        Err(why) => {
            tracing::info!(why, "a part of a copy is fetched once more");
            fetch_part_once(elsewhere, order, tag, &part).await
        }
        fetched => fetched,
    }
}

async fn fetch_part_once(
    elsewhere: &Elsewhere,
    order: &Order,
    tag: &HeaderValue,
    part: &Range<u64>,
) -> Result<Bytes, String> {
    let (url, mut headers) = (&order.url, order.headers.clone());
    let range = HeaderValue::from_str(&format!("bytes={}-{}", part.start, part.end - 1));
    headers.insert(header::RANGE, range.map_err(|error| error.to_string())?);
    headers.insert(header::IF_MATCH, tag.clone());
    let answer = elsewhere.ask(&Method::GET, url, &headers, Body::empty).await?;
    check_encoding(&answer)?;
    let is_part = answer
        .header(header::CONTENT_RANGE)
        .and_then(|said| said.split_once('/'))
        .is_some_and(|(said, _)| said.trim() == format!("bytes {}-{}", part.start, part.end - 1));
    match answer.head.status {
        StatusCode::PARTIAL_CONTENT if !is_part => {
            return Err(format!("`{url}` gives another part than was asked for"));
        }
        StatusCode::PARTIAL_CONTENT if answer.head.headers.get(header::ETAG).is_none_or(|now| now == tag) => {}
        StatusCode::PARTIAL_CONTENT | StatusCode::PRECONDITION_FAILED => {
            return Err(format!("`{url}` was changed during the copy"));
        }
        status => return Err(format!("`{url}` answers a part with status {}", status.as_u16())),
    }
    let length = part.end - part.start;
    let bytes = answer.read(length as usize).await?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(format!("`{url}` gives a part of another length")) }
}

/// Begins to fetch the whole over one connection.
async fn begin_whole(elsewhere: &Elsewhere, order: &Order, source: &Source) -> Result<Answer, String> {
    let (url, mut headers) = (&order.url, order.headers.clone());
    if let Some(tag) = &source.tag {
        headers.insert(header::IF_MATCH, tag.clone());
    }
    headers.insert("want-digest", HeaderValue::from_static(WANTED));
    let answer = elsewhere.ask(&Method::GET, url, &headers, Body::empty).await?;
    check_encoding(&answer)?;
    let is_same = match (&source.tag, answer.head.headers.get(header::ETAG)) {
        (Some(then), Some(now)) => then == now,
        _ => true,
    };
    match answer.head.status {
        StatusCode::OK if !is_same => return Err(format!("`{url}` was changed during the copy")),
        StatusCode::OK => {}
        StatusCode::PRECONDITION_FAILED => return Err(format!("`{url}` was changed during the copy")),
        status => return Err(format!("`{url}` answers with status {}", status.as_u16())),
    }
    let says_end = answer.header(header::CONTENT_LENGTH).is_some()
        || answer.header(header::TRANSFER_ENCODING).is_some()
        || Announced::of(&answer.head.headers)?.kinds().next().is_some()
        || source.announced.kinds().next().is_some();
    // The end of a connection may be that of the bytes, or not.
    if says_end { Ok(answer) } else { Err(format!("`{url}` says neither length nor sum of the file")) }
}

fn check_encoding(answer: &Answer) -> Result<(), String> {
    match answer.header(header::CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        Some(encoding) => Err(format!("`{}` gives the bytes as {encoding}, not as they are", answer.url)),
        None => Ok(()),
    }
}

fn bytes_of(answer: Answer) -> impl Stream<Item = Result<Bytes, String>> + Send {
    stream::unfold(Some(answer), |answer| async move {
        let mut answer = answer?;
        match answer.next().await? {
            Ok(piece) => Some((Ok(piece), Some(answer))),
            Err(why) => Some((Err(why), None)),
        }
    })
}

/// Of a file that is fetched in parts.
const PIECE_BYTES: u64 = 4 << 20;
