//! Bodies of requests, within bounds. Small questions in XML are read whole, and refused where they would grow. Deep trees
//! end the stack of whoever builds them, and grammars of their own have entities. An upload that stalls ends. It never
//! parses XML.

use std::{io, time::Duration};

use axum::body::{Body, to_bytes};
use futures_util::{StreamExt, stream};
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::failure::DavFailure;

/// The body of a request, which may be given to who reads it.
pub(crate) async fn check(method: &Method, body: Body) -> Result<Body, DavFailure> {
    let bytes_max = match method.as_str() {
        "PROPFIND" | "PROPPATCH" => QUESTION_BYTES_MAX,
        "LOCK" => LOCK_BYTES_MAX,
        "PUT" => return Ok(unless_stalled(body)),
        _ => return Ok(body),
    };
    let read = timeout(STALL_MAX, to_bytes(body, bytes_max)).await;
    let too_large =
        || DavFailure::new(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {bytes_max} bytes are no question"));
    let bytes = read.map_err(|_| stalled())?.map_err(|_| too_large())?;
    if !is_small(&bytes) {
        return Err(DavFailure::invalid(format!(
            "the body has more than {ELEMENTS_MAX} elements, or a grammar of its own"
        )));
    }
    Ok(Body::from(bytes))
}

/// Whether no tree can grow out of it that has more than so many elements.
pub(crate) fn is_small(xml: &[u8]) -> bool {
    let elements = xml.windows(2).filter(|pair| pair[0] == b'<' && pair[1] != b'/').count();
    let has_grammar = xml.windows(DOCTYPE.len()).any(|piece| piece.eq_ignore_ascii_case(DOCTYPE));
    // Letters of two bytes would hide both.
    let is_one_byte = !xml.contains(&0);
    elements <= ELEMENTS_MAX && !has_grammar && is_one_byte
}

/// A body that ends when nothing comes for long: it holds its path for others meanwhile.
fn unless_stalled(body: Body) -> Body {
    let pieces = stream::unfold(Some(body.into_data_stream()), |pieces| async move {
        let mut pieces = pieces?;
        match timeout(STALL_MAX, pieces.next()).await {
            Ok(piece) => Some((piece?.map_err(io::Error::other), Some(pieces))),
            Err(_) => Some((Err(io::Error::new(io::ErrorKind::TimedOut, stalled().message)), None)),
        }
    });
    Body::from_stream(pieces)
}

fn stalled() -> DavFailure {
    DavFailure::new(StatusCode::REQUEST_TIMEOUT, "nothing came for a minute")
}

const QUESTION_BYTES_MAX: usize = 64 << 10;
/// An owner is a name and an address.
const LOCK_BYTES_MAX: usize = 4 << 10;
/// Of a question; a tree of so many levels is built within a thread's stack.
const ELEMENTS_MAX: usize = 300;
const DOCTYPE: &[u8] = b"<!DOCTYPE";
/// For the next bytes of an upload.
const STALL_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn deep_trees_and_grammars_are_refused_before_a_tree_is_built() {
        let method = Method::from_bytes(b"PROPFIND").unwrap();
        let question = |body: String| check(&method, Body::from(body));
        let deep = format!("<p>{}{}</p>", "<a>".repeat(1_000), "</a>".repeat(1_000));
        assert_eq!(question(deep).await.unwrap_err().status, 400);
        assert!(question(format!("<p>{}</p>", "<a/>".repeat(200))).await.is_ok());
        assert_eq!(question("<!doctype a>".into()).await.unwrap_err().status, 400);
        assert_eq!(question("x".repeat(70_000)).await.unwrap_err().status, 413);
        assert!(!is_small(&"<a>".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_stalls_ends() {
        let pieces = stream::iter([Ok::<_, io::Error>("begin")]).chain(stream::pending());
        let body = check(&Method::PUT, Body::from_stream(pieces)).await.unwrap();
        assert!(to_bytes(body, 1_000).await.is_err());
    }
}
