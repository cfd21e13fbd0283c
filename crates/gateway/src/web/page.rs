//! The page: files that were embedded when this crate was built (`build.rs`). Without Node at that time there are none,
//! and a sentence says so. It never reads a file while it serves.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

use super::answer::ApiError;

/// Serves a file of the page, and says of everything else that there is no such thing.
pub(crate) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if path.starts_with("/api/") {
        return not_found(path);
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let name = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return if FILES.is_empty() && path == "/" { without_page() } else { not_found(path) };
    };
    file.answer(&headers)
}

/// Whether the browser reads gzip. One that forbids it (`q=0`) is none that we know, and is obeyed.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|one| {
        one.split_once(';').map_or(one.trim() == "gzip", |(name, weight)| {
            name.trim() == "gzip" && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
        })
    })
}

fn not_found(path: &str) -> Response {
    let refusal = client::Refusal::new(client::Reason::NotFound, format!("there is no `{path}` here"));
    ApiError::from(refusal).into_response()
}

/// What a person sees of a build without the page.
fn without_page() -> Response {
    let text = format!(
        "The page is not in this build of sector, since {MISSING}.\nInstall Node.js 18 or later with npm, and build \
         again. The interface below /api/v1 works, and so do all commands.\n"
    );
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// A file of a page, as browsers get it.
pub struct PageFile {
    name: &'static str,
    bytes: &'static [u8],
    /// The same, compressed, unless that is no shorter.
    packed: Option<&'static [u8]>,
    digest: Cow<'static, str>,
}

impl PageFile {
    /// A file of another room's page. Its name says what kind of file it is.
    pub fn of_room(name: &'static str, bytes: &'static [u8]) -> Self {
        Self { name, bytes, packed: None, digest: Cow::Owned(blake3::hash(bytes).to_hex().to_string()) }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The answer to a browser that asks for it, perhaps with what it has of it already.
    pub fn answer(&self, headers: &HeaderMap) -> Response {
        let packed = self.packed.filter(|_| takes_gzip(headers));
        let etag = format!("\"{}{}\"", self.digest, if packed.is_some() { "-gzip" } else { "" });
        let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
        let mut response = match packed {
            _ if is_known => StatusCode::NOT_MODIFIED.into_response(),
            Some(bytes) => ([(header::CONTENT_ENCODING, "gzip")], bytes).into_response(),
            None => self.bytes.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(self.name)));
        // Asked for again each time, and sent only if it has changed.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(header::ETAG, etag);
        }
        response
    }
}

include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_build_without_the_page_says_what_to_install() {
        let response = without_page();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers()[header::CONTENT_TYPE].to_str().is_ok_and(|kind| kind.starts_with("text/plain")));
    }

    #[tokio::test]
    async fn nothing_but_the_page_is_served_as_a_file() {
        for path in ["/../Cargo.toml", "/api/v1/nothing", "/index.html/x", "/%2e%2e/x"] {
            let response = serve(Method::GET, Uri::from_static(path), HeaderMap::new()).await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        }
        let response = serve(Method::POST, Uri::from_static("/"), HeaderMap::new()).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn a_file_that_a_browser_has_is_not_sent_again() {
        let Some(file) = FILES.first() else { return };
        let headers = [(header::IF_NONE_MATCH, format!("\"{}\"", file.digest).parse().expect("a header"))];
        let uri: Uri = format!("/{}", file.name).parse().expect("an address");
        let response = serve(Method::GET, uri, headers.into_iter().collect()).await;
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    }

    #[tokio::test]
    async fn a_file_goes_out_compressed_to_those_alone_who_take_that() {
        let Some(file) = FILES.iter().find(|file| file.name == "style.css") else { return };
        let sent = async |accepted: &'static str| {
            let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))];
            let response = serve(Method::GET, Uri::from_static("/style.css"), headers.into_iter().collect()).await;
            let is_packed = response.headers().contains_key(header::CONTENT_ENCODING);
            (is_packed, axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body"))
        };
        for plain in ["identity", "br, zstd", "gzip;q=0", ""] {
            assert!(sent(plain).await == (false, file.bytes.into()), "{plain}");
        }
        let (is_packed, bytes) = sent("deflate, gzip;q=0.5, br").await;
        assert!(is_packed && bytes.len() < file.bytes.len() / 2);
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).expect("gzip");
        assert!(text == file.bytes);
    }
}
