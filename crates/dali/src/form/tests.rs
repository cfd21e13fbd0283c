//! What forms are read, and what is refused. It never opens a socket.

#![allow(clippy::unwrap_used)]

use http::HeaderValue;

use super::*;

const OF_PARTS: &str = "multipart/form-data; boundary=xyz";
const TWO_PARTS: &str = concat!(
    "--xyz\r\nContent-Disposition: form-data; name=\"QUERY\"\r\n\r\nSELECT a+b & c\r\n",
    "--xyz\r\nContent-Disposition: form-data; name=\"mine\"; filename=\"t.xml\"\r\n",
    "Content-Type: application/x-votable+xml\r\n\r\n<V>\r\n--x</V>\r\n--xyz--\r\n"
);
/// What lies in the file of [`TWO_PARTS`].
const FILE: &[u8] = b"<V>\r\n--x</V>";

async fn read_body(kind: Option<&str>, body: impl Into<Bytes>, upload_bytes_max: Option<usize>) -> Result<Form, Fault> {
    let body = body.into();
    // With a length, so that small forms wait for no other test.
    let mut headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from(body.len()))]);
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    }
    read(&headers, Body::from(body), upload_bytes_max).await
}

fn parameters(pairs: &[(&str, &str)]) -> DaliParameters {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn text_parts_are_parameters_and_files_are_uploads() {
    let form = read_body(Some(OF_PARTS), TWO_PARTS, Some(FILE.len())).await.unwrap();
    // Parts are not encoded, as forms in one line are.
    assert_eq!(form.parameters, parameters(&[("QUERY", "SELECT a+b & c")]));
    assert_eq!(form.uploads, [Upload { name: "mine".into(), bytes: Bytes::from_static(FILE) }]);
}

#[tokio::test]
async fn a_form_that_comes_bit_by_bit_is_the_same() {
    let pieces = TWO_PARTS.as_bytes().chunks(3).map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece)));
    let body = Body::from_stream(futures_util::stream::iter(pieces.collect::<Vec<_>>()));
    let form = read_parts(OF_PARTS, body, FILE.len()).await;
    assert_eq!(form, read_body(Some(OF_PARTS), TWO_PARTS, Some(FILE.len())).await);
    assert_eq!(form.unwrap().uploads.len(), 1);
}

#[tokio::test]
async fn files_count_together_and_no_more_than_allowed_is_taken() {
    let too_large = read_body(Some(OF_PARTS), TWO_PARTS, Some(FILE.len() - 1)).await;
    assert!(matches!(too_large, Err(Fault::TooLarge(_))), "{too_large:?}");
    let part = |name: &str| {
        format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\n12345\r\n")
    };
    let two = format!("{}{}--xyz--\r\n", part("a"), part("b"));
    assert_eq!(read_body(Some(OF_PARTS), two.clone(), Some(10)).await.unwrap().uploads.len(), 2);
    let too_large = read_body(Some(OF_PARTS), two, Some(9)).await;
    assert!(matches!(too_large, Err(Fault::TooLarge(_))), "{too_large:?}");
}

#[tokio::test]
async fn parameters_in_parts_have_the_limit_of_forms() {
    let text = |bytes: usize| {
        let head = "--xyz\r\nContent-Disposition: form-data; name=\"TUPLES\"\r\n\r\n";
        format!("{head}{}\r\n--xyz--\r\n", "a".repeat(bytes))
    };
    let allowed = read_parts(OF_PARTS, Body::from(text(FORM_BYTES_MAX)), 1_000).await;
    assert_eq!(allowed.unwrap().parameters.one("TUPLES").unwrap().map(str::len), Some(FORM_BYTES_MAX));
    let too_large = read_parts(OF_PARTS, Body::from(text(FORM_BYTES_MAX + 1)), 1_000).await.unwrap_err();
    assert_eq!(too_large, form_too_large());
    // What lies between parts counts, too.
    let padded = format!("{}--xyz--\r\n", " ".repeat(FORM_BYTES_MAX + 1_000));
    let too_large = read_parts(OF_PARTS, Body::from(padded), 1_000).await;
    assert!(matches!(too_large, Err(Fault::TooLarge(_))), "{too_large:?}");
}

#[tokio::test]
async fn a_form_whose_parts_make_no_sense_is_refused() {
    let nameless = "--xyz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xyz--\r\n";
    for (kind, body) in [
        ("multipart/form-data", TWO_PARTS),
        ("multipart/form-data; boundary=other", TWO_PARTS),
        (OF_PARTS, TWO_PARTS.trim_end_matches("--xyz--\r\n")),
        (OF_PARTS, "--xyz\r\nno header\r\n\r\nx\r\n--xyz--\r\n"),
        (OF_PARTS, nameless),
        (OF_PARTS, ""),
    ] {
        let refused = read_body(Some(kind), body, Some(1_000)).await;
        assert!(matches!(refused, Err(Fault::Usage(_))), "{kind} {body:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_form_of_another_type_is_refused() {
    for kind in ["application/json", "text/plain", OF_PARTS] {
        let refused = read_body(Some(kind), TWO_PARTS, None).await;
        assert!(matches!(refused, Err(Fault::Usage(_))), "{kind}: {refused:?}");
        // Clients name a type where there is no body.
        assert_eq!(read_body(Some(kind), "", None).await, Ok(Form::default()), "{kind}");
    }
    let refused = read_body(Some("application/json"), "{}", Some(1_000)).await;
    assert!(matches!(refused, Err(Fault::Usage(_))), "{refused:?}");
}

#[tokio::test]
async fn a_form_in_one_line_is_read_with_and_without_files_allowed() {
    for allowed in [None, Some(1_000)] {
        for kind in [None, Some("application/x-www-form-urlencoded; charset=utf-8")] {
            let form = read_body(kind, "ID=%2Fa&POS=1+2", allowed).await.unwrap();
            assert_eq!(form.parameters, parameters(&[("ID", "/a"), ("POS", "1 2")]), "{kind:?}");
            assert!(form.uploads.is_empty());
        }
    }
}

#[tokio::test]
async fn few_large_forms_are_read_at_once() {
    let large = |kind: &'static str| {
        HeaderMap::from_iter([
            (header::CONTENT_LENGTH, HeaderValue::from(FORM_BYTES_USUAL + 1)),
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        ])
    };
    let taken = LARGE_FORMS.try_acquire_many(8).unwrap();
    for kind in [FORM, OF_PARTS] {
        let refused = read(&large(kind), Body::from(TWO_PARTS), Some(1_000)).await;
        assert!(matches!(refused, Err(Fault::Unavailable(_))), "{kind}: {refused:?}");
    }
    // Small ones go on.
    assert!(read_body(Some(OF_PARTS), TWO_PARTS, Some(1_000)).await.is_ok());
    drop(taken);
    assert!(read(&large(OF_PARTS), Body::from(TWO_PARTS), Some(1_000)).await.is_ok());
}
