//! A file that goes elsewhere. What arrived is compared: its length, and its sum where the other side says one. It never says
//! that a copy is whole before the other side has said so.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use client::{Client, FileReader, SectorPath};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, sleep_until};

use super::{
    agent::{ANSWER_MAX, Elsewhere},
    order::Order,
    progress::Moved,
};
use crate::digests::{Announced, Kind, Summing, Sums, WANTED, digest_header};

/// Sends a file.
pub(super) async fn push(
    elsewhere: Elsewhere,
    order: Order,
    client: Client,
    path: SectorPath,
    moved: Moved,
) -> Result<(), String> {
    let file = client.open(&path).await.map_err(|error| error.to_string())?;
    let sending = send(&elsewhere, &order, &file, &moved);
    let sums = tokio::select! {
        sent = sending => sent?,
        () = stalled(&moved) => return Err(format!("`{}` took nothing for two minutes", order.url)),
    };
    compare(&elsewhere, &order, file.bytes(), &sums).await
}

/// Ends when nothing has moved for long.
async fn stalled(moved: &Moved) {
    let mut before = None;
    while before != Some(moved.bytes()) {
        before = Some(moved.bytes());
        sleep_until(Instant::now() + ANSWER_MAX).await;
    }
}

/// Sends all bytes, takes the answer, and gives their sums.
async fn send(elsewhere: &Elsewhere, order: &Order, file: &FileReader, moved: &Moved) -> Result<Sums, String> {
    let bytes = file.bytes();
    let mut headers = order.headers.clone();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
    if !order.may_replace {
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    let summing = Arc::new(Mutex::new(Summing::new(Kind::ALL)));
    let body = || body_of(file, Arc::clone(&summing), moved.clone());
    let answer = elsewhere.ask(&Method::PUT, &order.url, &headers, body).await?;
    let status = answer.head.status;
    let why = answer.read(WHY_BYTES_MAX).await.unwrap_or_default();
    if !status.is_success() {
        let why = String::from_utf8_lossy(&why);
        return Err(format!("`{}` answers with status {} {}", order.url, status.as_u16(), why.trim()));
    }
    let summing = std::mem::replace(&mut *held(&summing), Summing::new([]));
    match summing.bytes() {
        sent if sent == bytes => Ok(summing.finish()),
        sent => Err(format!("`{}` took {sent} of {bytes} bytes", order.url)),
    }
}

/// The bytes of a file, which are summed up and counted from the first as they go.
fn body_of(file: &FileReader, summing: Arc<Mutex<Summing>>, moved: Moved) -> Body {
    *held(&summing) = Summing::new(Kind::ALL);
    moved.begin_anew();
    let mut pieces = file.stream(0..file.bytes());
    Body::from_stream(stream::poll_fn(move |context| {
        let piece = std::task::ready!(pieces.poll_next(context));
        if let Some(Ok(piece)) = &piece {
            held(&summing).add(piece);
            moved.add(piece.len() as u64);
        }
        std::task::Poll::Ready(piece.map(|piece| piece.map(Bytes::from)))
    }))
}

fn held(summing: &Mutex<Summing>) -> std::sync::MutexGuard<'_, Summing> {
    // Nothing panics while it holds them.
    summing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares what the other side says of what arrived, if it says something. One that must say a sum and does not is an error.
async fn compare(elsewhere: &Elsewhere, order: &Order, bytes: u64, sums: &Sums) -> Result<(), String> {
    let mut headers: HeaderMap = order.headers.clone();
    headers.insert("want-digest", HeaderValue::from_static(WANTED));
    let said = match elsewhere.ask(&Method::HEAD, &order.url, &headers, Body::empty).await {
        Ok(answer) if answer.head.status.is_success() => {
            let length = answer.header(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
            if let Some(length) = length.filter(|length| *length != bytes) {
                return Err(format!("`{}` has {length} of {bytes} bytes", order.url));
            }
            Announced::of(&answer.head.headers)?
        }
        Ok(answer) if matches!(answer.head.status, StatusCode::NOT_FOUND | StatusCode::GONE) => {
            return Err(format!("`{}` took all bytes and does not have the file", order.url));
        }
        Ok(_) | Err(_) => Announced::default(),
    };
    if order.needs_sum && said.kinds().next().is_none() {
        return Err(format!("`{}` says no sum to compare", order.url));
    }
    said.check(sums).map_err(|why| format!("{why}; here it is {}", digest_header(sums)))
}

/// Of what a refusal says.
const WHY_BYTES_MAX: usize = 2_000;
